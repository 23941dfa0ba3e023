"""The verb `explain`: why a task went on as it did, and the whole table of decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli.options import StoreOptions, opened, taking, wait_for
from perdure.cli.terminal import say, say_json, say_table
from perdure.errors import UsageError

if TYPE_CHECKING:
    from perdure.views.explaining import Counts, Explained


class ExplainOptions(StoreOptions, frozen=True, kw_only=True):
    """Of `explain`."""

    name: Annotated[str, typer.Argument(metavar="TASK", help="Name or id of a task, or the beginning.")] = ""
    table: Annotated[bool, typer.Option("--table", help="Show all that recovery may decide, and when.")] = False


@taking(ExplainOptions)
def explain(options: ExplainOptions) -> None:
    """Show what was decided about a task's failures, by which rule, newest last."""
    if bool(options.name) == options.table:
        raise UsageError("say either which task, `perdure explain TASK`, or `perdure explain --table`")
    if options.table:
        _say_rules(as_json=options.as_json)
    else:
        wait_for(_explain(options))


def _say_rules(*, as_json: bool) -> None:
    from perdure.core.recovery import TABLE

    if as_json:
        say_json(list(TABLE))
    else:
        say_table(("ROW", "WHEN", "DECISION"), [(row.name, row.when, row.then) for row in TABLE])


async def _explain(options: ExplainOptions) -> None:
    from perdure.views.explaining import explain as look

    async with opened(options.place) as store:
        explained = await look(store, options.name)
    if options.as_json:
        say_json(explained)
        return
    if not explained.decisions:
        say(f"task {explained.name!r} ({explained.task}): nothing was to be decided so far")
    for one in explained.decisions:
        _say_decision(one)


def _say_decision(one: Explained) -> None:
    of = f"{one.tool}: " if one.tool else ""
    facts = (
        (
            "failure",
            f"{of}{one.error} ({one.failure_class})" if one.failure_class else "none: the program had returned",
        ),
        ("rule", f"{one.when}: {one.then}" if one.when else "this version has no such row"),
        ("counts", _counts_text(one.counts)),
        ("strategy", one.strategy),
        ("decided", one.decision + (", still to be done" if one.is_open else "")),
        ("lesson", one.lesson),
    )
    say(f"entry {one.entry}  {one.at[:19].replace('T', ' ')}  {one.row}")
    for title, text in facts:
        if text:
            say(f"  {title:<9} {text}")


def _counts_text(counts: Counts) -> str:
    parts = [f"{counts.failures} of {counts.failures_max} failures"]
    parts += [f"{counts.same} equal in a row"] if counts.same > 1 else []
    parts += [f"{counts.retries} passing in a row"] if counts.retries else []
    parts += [f"{counts.rollbacks} rollback(s) without progress"] if counts.rollbacks else []
    if counts.rounds:
        parts.append("rounds: " + ", ".join(f"{name} {rounds}" for name, rounds in counts.rounds.items()))
    return "; ".join(parts)
