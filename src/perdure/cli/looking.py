"""The verbs that only look: list, show, checkpoints; `log` is in `logs`, `state` and `plan` are in `handing`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli.options import StoreOptions, TaskOptions, opened, taking, wait_for
from perdure.cli.terminal import say, say_json, say_markdown, say_table
from perdure.model.status import TAKEOVER

if TYPE_CHECKING:
    from perdure.views.checkpoints import Listed, Price
    from perdure.views.listing import Row
    from perdure.views.showing import Show

_ID_SHOWN = 8
_REASON_SHOWN = 60
_INDENTED = "\n" + " " * 15  # a further line of a field


class ListOptions(StoreOptions, frozen=True, kw_only=True):
    """Of `list`."""

    everything: Annotated[bool, typer.Option("--all", "-a", help="Finished tasks too.")] = False


class ShowOptions(TaskOptions, frozen=True, kw_only=True):
    """Of `show`."""

    handover: Annotated[bool, typer.Option("--handover", help="All that somebody needs who takes it on.")] = False


@taking(ListOptions)
def list_(options: ListOptions) -> None:
    """Show the unfinished tasks, newest first."""
    wait_for(_list(options))


@taking(ShowOptions)
def show(options: ShowOptions) -> None:
    """Show where a task stands, and what to type next."""
    wait_for(_hand_over(options) if options.handover else _show(options))


@taking(TaskOptions)
def checkpoints(options: TaskOptions) -> None:
    """Show a task's checkpoints, and what it costs to go back. Those of the present branch, oldest first."""
    wait_for(_checkpoints(options))


def say_rows(rows: list[Row]) -> None:
    """Print tasks as a table; what they have cost where any of them has cost something."""
    costs = [_spent(row) for row in rows]
    headings = ("NAME", "ID", "STATUS", "TRY", "CHANGED", *(["SPENT"] if any(costs) else []), "GOAL")
    cells = [
        (
            row.summary.name,
            row.summary.task[:_ID_SHOWN],
            row.standing + _about(row),
            str(row.summary.attempt),
            _minute(row.summary.changed_at),
            *([spent] if any(costs) else []),
            row.summary.goal,
        )
        for row, spent in zip(rows, costs, strict=True)
    ]
    say_table(headings, cells)


async def _list(options: ListOptions) -> None:
    from perdure.views.listing import list_tasks

    async with opened(options.place) as store:
        rows = await list_tasks(store, finished=options.everything)
    if options.as_json:
        say_json([_row_fields(row) for row in rows])
    elif rows:
        say_rows(rows)
    else:
        say(f"no {'' if options.everything else 'unfinished '}tasks in {options.place}")


async def _show(options: TaskOptions) -> None:
    from perdure.views.showing import show as look

    async with opened(options.place) as store:
        shown = await look(store, options.name)
    if options.as_json:
        say_json(shown)
    else:
        _say_show(shown)


async def _hand_over(options: TaskOptions) -> None:
    from perdure.views.handover import handover, to_markdown

    async with opened(options.place) as store:
        package = await handover(store, options.name)
    if options.as_json:
        say_json(package)
    else:
        say_markdown(to_markdown(package))


async def _checkpoints(options: TaskOptions) -> None:
    from perdure.views.checkpoints import list_checkpoints

    async with opened(options.place) as store:
        listed = await list_checkpoints(store, options.name)
    if options.as_json:
        say_json(list(listed))
    elif listed:
        headings = ("NAME", "ENTRY", "WHEN", "WHY", "JUDGED BY", "VERDICT", "BY ITSELF", "TO GO BACK COSTS")
        say_table(headings, [_checkpoint_cells(one) for one in listed])
    else:
        say(f"task {options.name!r} has no checkpoints yet; its start is one: `perdure state {options.name} --at 1`")


def _checkpoint_cells(one: Listed) -> tuple[str, ...]:
    when = one.at[:19].replace("T", " ")
    by_itself = "yes" if one.admissible else "no"
    why = f"{one.reason} ({one.about})" if one.about else one.reason
    return (one.name, str(one.seq), when, why, one.verifier, one.verdict, by_itself, _price_text(one.price))


def _price_text(price: Price) -> str:
    """Return what a rollback would give up, in words; what is nothing is left out."""
    parts = (
        (price.actions, f"{price.actions} action(s)"),
        (price.tokens_in + price.tokens_out, f"{price.tokens_in + price.tokens_out} tokens"),
        (price.money, " + ".join(price.money)),
        (price.seconds, f"{price.seconds:.0f} s"),
        (price.to_undo, f"{price.to_undo} effect(s) to undo"),
        (price.staying, f"{price.staying} effect(s) that stay"),
        (price.files, f"{price.files} file(s)"),
    )
    return ", ".join(text for amount, text in parts if amount)


def _minute(at: int) -> str:
    from perdure.logs.plain import moment

    return moment(at)[:16].replace("T", " ")


def _about(row: Row) -> str:
    """Return what a person must know beside the status."""
    reason = row.summary.reason
    if row.summary.taken_at:
        return f" (taken over by {reason.removeprefix(TAKEOVER)}, {_minute(row.summary.taken_at)})"
    if row.standing == "parked":
        return f" until {_minute(row.summary.until)}"
    if row.standing == "needs_human":
        return f" ({reason if len(reason) <= _REASON_SHOWN else reason[:_REASON_SHOWN] + '…'})" if reason else ""
    return f" ({reason.partition(':')[0]})" if reason and row.standing in {"paused", "failed"} else ""


def _spent(row: Row) -> str:
    """Return what a task has cost, in words; nothing where it has cost nothing."""
    tokens = row.summary.tokens_in + row.summary.tokens_out
    return ", ".join(filter(None, (row.summary.money, f"{tokens} tokens" if tokens else "")))


def _row_fields(row: Row) -> dict[str, object]:
    from perdure.logs.plain import moment
    from perdure.model.money import recorded_amounts, text_of

    one = row.summary
    fields: dict[str, object] = {
        "task": one.task,
        "name": one.name,
        "status": row.standing,
        "why": one.reason,
        "goal": one.goal,
        "driver": one.driver,
        "attempt": one.attempt,
        "branch": one.branch,
        "workspace": one.workspace,
        "holder": row.holder,
        "started_at": moment(one.started_at),
        "changed_at": moment(one.changed_at),
        "until": moment(one.until) if one.until else "",
        "taken_at": moment(one.taken_at) if one.taken_at else "",
        "tokens_in": one.tokens_in or "",
        "tokens_out": one.tokens_out or "",
        "money": [text_of({currency: amount}) for currency, amount in recorded_amounts(one.money).items()] or "",
    }
    return {key: value for key, value in fields.items() if value not in ("", None)}


def _rounds(shown: Show) -> str:
    return "rounds: " + ", ".join(f"{name} {rounds}" for name, rounds in shown.rounds.items())


def _say_show(shown: Show) -> None:
    goal = f"  {shown.goal}" if shown.goal else ""
    say(f"{shown.name} ({shown.task}){goal}")
    status = shown.status + (f", {shown.why}" if shown.why else "") + (f", until {shown.until}" if shown.until else "")
    facts = (
        ("status", status),
        ("person", f"{shown.person}, who has it since {shown.taken_at}" if shown.person else ""),
        ("holder", shown.holder),
        ("driver", shown.driver),
        ("workspace", shown.workspace),
        ("files", f"{shown.files} on record; left aside: {', '.join(shown.left_aside)}" if shown.files else ""),
        ("not covered", ", ".join(shown.uncovered)),
        ("changed", f"{shown.changed_at}, {shown.entries} entries, attempt {shown.attempt}, branch {shown.branch}"),
        ("plan", " > ".join(shown.plan)),
        ("step", shown.step),
        ("strategy", shown.strategy + (f" ({_rounds(shown)})" if shown.rounds else "")),
        ("distrusted", ", ".join(shown.quarantined)),
        ("lessons", "; ".join(shown.lessons)),
        ("advice", shown.advice),
        ("alarm", shown.alarm),
        ("actions", f"{shown.actions} settled, {shown.failed_actions} of them failed"),
        ("failures", f"{shown.failures} of {shown.failures_max} counted, {shown.rollbacks} rollbacks"),
        ("health", "; ".join(map(str, shown.health))),
        ("waits for", ", ".join(shown.waits)),
        ("last error", shown.last_error),
        ("checkpoints", ", ".join(mark.name for mark in shown.checkpoints)),
        ("spent", " + ".join(shown.money)),
        ("tokens", f"{shown.tokens_in} in, {shown.tokens_out} out" if shown.tokens_in or shown.tokens_out else ""),
        ("budget", "; ".join(limit.text for limit in shown.budget)),
    )
    for title, text in facts:
        if text:
            say(f"  {title:<12} {text}")
    for question in shown.questions:
        say(f"  {f'question {question.number}':<12} {_INDENTED.join(question.text.splitlines())}")
        if len(shown.questions) > 1:
            say(f"  {'':<12} perdure answer {shlex.quote(shown.name)} TEXT --question {shlex.quote(question.name)}")
    for pending in shown.pending:
        again = f", attempt {pending.attempt}" if pending.attempt > 1 else ""
        say(f"  {pending.standing:<12} {pending.tool} ({pending.action}) since {pending.since}{again}")
        if pending.settle:
            say(f"  {'':<12} {pending.settle}")
    for living in shown.processes:
        say(f"  {'process':<12} {living.pid} {living.command} (started by {living.action})")
    if shown.status == "needs_human":
        say(f"  {'handover':<12} perdure show {shlex.quote(shown.name)} --handover")
    if shown.next_command:
        say(f"  {'next':<12} {shown.next_command}")
