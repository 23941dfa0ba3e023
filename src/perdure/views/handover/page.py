"""A handover as a page of Markdown, for a person who sees nothing else of the task.

Texts of tasks, tools and models stand in code spans and code blocks, with line ends taken out of the spans: whatever
they hold, they make no heading, no link and no line to type. Called by `perdure show --handover`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from perdure.views.handover.package import Evidence, Files, Handover, Passed, Step, Tried

_TITLES: Final = {
    "needs_human": "needs a person",
    "parked": "is parked",
    "paused": "is paused",
    "interrupted": "was interrupted",
    "running": "is running",
    "succeeded": "has succeeded",
    "failed": "has failed",
    "cancelled": "was cancelled",
}
_TICKS: Final = re.compile("`+")
_SPACE: Final = re.compile(r"\s+")


def to_markdown(handover: Handover) -> str:
    """Return the page; it ends with a line end."""
    parts = [part for part in _parts(handover) if part]
    return "\n\n".join(parts) + "\n"


def _parts(one: Handover) -> Iterator[str]:
    yield f"# Task {_code(one.name)} {_TITLES.get(one.status, one.status)}"
    yield _facts(one)
    if one.goal:
        yield f"## The goal\n\n{_block(one.goal)}"
    if one.question:
        yield f"## What is asked ({one.need})\n\n{_block(one.question)}"
    yield _section("How to go on", [f"- {_code(way.command)}: {way.does}" for way in one.ways])
    yield from _standing(one)
    yield from _tried(one)
    yield from _known(one)
    yield from _world(one)


def _facts(one: Handover) -> str:
    rows = (
        ("id", one.task),
        ("why", "" if one.question else one.why),
        ("until", one.until),
        ("with", one.person or one.holder),
        ("driven by", one.driver),
        ("workspace", one.workspace),
        ("started", one.started_at),
        ("changed", one.changed_at),
        ("result", one.result),
        ("spent", _spent(one)),
        *(("budget", limit.text) for limit in one.budget),
    )
    lines = [f"- {title}: {_code(text)}" for title, text in rows if text]
    lines.append(
        f"- {one.entries} entries, attempt {one.attempt}, branch {one.branch}; {one.actions} actions settled, "
        f"{one.failed_actions} of them failed; {one.failures_counted} of {one.failures_max} failures counted"
    )
    return "\n".join(lines)


def _spent(one: Handover) -> str:
    tokens = f"{one.tokens_in} tokens in, {one.tokens_out} out" if one.tokens_in or one.tokens_out else ""
    return ", ".join(filter(None, (" + ".join(one.money), tokens)))


# --- where it stands ------------------------------------------------------------------------------------------------
def _standing(one: Handover) -> Iterator[str]:
    yield _section("Plan and progress", map(_step, one.plan), _left_out(one, "plan"))
    if one.step and all(step.name != one.step for step in one.plan):
        yield f"It is in step {_code(one.step)}."
    checks = (f"- {_passed(check)}" for check in one.checks)
    yield _section("Checks that have passed", checks, _left_out(one, "checks"))
    state = [f"- {_code(key)}: {_code(value)}" for key, value in one.state.items()]
    yield _section("State", state, _left_out(one, "state"))
    places = [
        f"- {_code(place.name)} (entry {place.entry})"
        + (f", {place.verdict}" if place.verdict else "")
        + ("" if place.is_open else ", behind which lies an effect that stays or a person's change")
        for place in one.checkpoints
    ]
    yield _section("Checkpoints", places, _left_out(one, "checkpoints"))
    if one.files is not None:
        yield _section("Files", _files(one.files))


def _step(step: Step) -> str:
    proofs = f"; proven by {', '.join(map(_passed, step.proven_by))}" if step.proven_by else ""
    return f"- [{'x' if step.is_done else ' '}] {_code(step.name)}{' (under way)' if step.is_begun else ''}{proofs}"


def _passed(passed: Passed) -> str:
    return f"check {_code(passed.check)} at entry {passed.entry}"


def _files(files: Files) -> list[str]:
    since = f"since checkpoint {_code(files.since)} (entry {files.entry})" if files.entry > 1 else "since the start"
    lines = [f"- {files.added} added, {files.changed} changed, {files.removed} removed {since}"]
    lines += [f"- {_code(path)}" for path in files.paths]
    more = files.added + files.changed + files.removed - len(files.paths)
    return [*lines, f"- … and {more} more"] if more else lines


# --- what was tried -------------------------------------------------------------------------------------------------
def _tried(one: Handover) -> Iterator[str]:
    yield _section("Strategies that were tried", map(_strategy, one.strategies))
    yield _section("What did not work", [f"- {_code(lesson)}" for lesson in one.lessons], _left_out(one, "lessons"))
    yield _section("Failures", map(_failure, one.failures), _left_out(one, "failures"))
    decisions = (
        f"- entry {each.entry}, {each.at}: {_code(each.decision)} (row {_code(each.row)}: {each.when})"
        for each in one.decisions
    )
    yield _section("Decisions", decisions, _left_out(one, "decisions"))
    backs = (
        f"- entry {each.entry}, {each.at}: from there back to {_code(each.checkpoint)} (entry {each.to_entry}), "
        f"{each.ended}"
        + (f", then strategy {_code(each.strategy)}" if each.strategy else "")
        + (f"; {_code(each.why)}" if each.why else "")
        for each in one.rollbacks
    )
    yield _section("Rollbacks", backs, _left_out(one, "rollbacks"))
    circles = (
        f"- entry {each.entry}, {each.at}: {_code(each.text)} (rule {each.rule}, entries "
        f"{', '.join(map(str, each.entries))})"
        for each in one.circles
    )
    yield _section("Circles that were noticed", circles, _left_out(one, "circles"))


def _strategy(tried: Tried) -> str:
    changes = f"; changes {', '.join(tried.changes)}" if tried.changes else ""
    now = ", followed now" if tried.is_followed else ""
    return (
        f"- {_code(tried.strategy)}{now}: {tried.rounds} round(s), {tried.failures} failure(s), "
        f"{tried.progress} check(s) passed, {tried.actions} action(s){changes}"
    )


def _failure(failure: Evidence) -> str:
    counted = "counted" if failure.is_counted else "not counted"
    strategy = f", strategy {_code(failure.strategy)}" if failure.strategy else ""
    head = (
        f"- entry {failure.entry}, {failure.at}: {failure.failure_class} ({counted}{strategy}): {_code(failure.error)}"
    )
    if not failure.tool:
        return head
    entries = f", entries {' and '.join(map(str, failure.entries))}" if failure.entries else ""
    given = f" with {_code(failure.arguments)}" if failure.arguments else ""
    return f"{head}\n  - of {_code(failure.tool)} ({failure.action}){given}{entries}"


# --- what is known, and what is in the world ------------------------------------------------------------------------
def _known(one: Handover) -> Iterator[str]:
    yield _section("What is known", [f"- {_code(fact)}" for fact in one.facts], _left_out(one, "facts"))
    asked = (
        f"- entry {each.entry}, {each.at} ({each.need}): {_code(each.question)}"
        + (f" Answer: {_code(each.answer)}" if each.answer else " No answer yet.")
        for each in one.asked
    )
    yield _section("What people were asked", asked, _left_out(one, "asked"))
    said = [f"- {_code(message)}" for message in one.messages]
    yield _section("What people have said", said, _left_out(one, "messages"))


def _world(one: Handover) -> Iterator[str]:
    pending = (
        f"- {_code(each.tool)} ({each.action}) is {each.standing} since {each.since}"
        + (f": {_code(each.settle)}" if each.settle else "")
        for each in one.pending
    )
    yield _section("Actions that are not over", pending, _left_out(one, "pending"))
    effects = (
        f"- entry {each.entry}: {_code(each.tool)} with {_code(each.arguments)}; undo: {each.undo}"
        + (", of a branch that was left" if each.is_of_left_branch else "")
        for each in one.effects
    )
    yield _section("Effects that are in the world", effects, _left_out(one, "effects"))


# --- text -----------------------------------------------------------------------------------------------------------
def _section(title: str, lines: Iterable[str], more: Iterable[str] = ()) -> str:
    body = "\n".join([*more, *lines])
    return f"## {title}\n\n{body}" if body else ""


def _left_out(one: Handover, field: str) -> list[str]:
    number = one.left_out.get(field, 0)
    return [f"- … {number} more, older or further on: `perdure log` has them"] if number else []


def _code(text: str) -> str:
    """Return a text as a code span in one line, whatever it holds."""
    line = _SPACE.sub(" ", text).strip() or " "
    longest = max((len(found) for found in _TICKS.findall(line)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {line} {fence}" if longest else f"`{line}`"


def _block(text: str) -> str:
    """Return a text as a code block."""
    longest = max((len(found) for found in _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"
