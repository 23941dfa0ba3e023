"""The verb `replay`: runs a task's program again on its record, or asks today's recovery about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli import exits
from perdure.cli.options import TaskOptions, looked_for_in, refuse_absent, taking
from perdure.cli.terminal import complain, say, say_json
from perdure.errors import UsageError

if TYPE_CHECKING:
    from perdure.config import Config
    from perdure.engine.replay.comparing import Divergence
    from perdure.engine.replay.playing import Replayed
    from perdure.engine.replay.record import Record
    from perdure.engine.replay.rejudging import Rejudgement


class ReplayOptions(TaskOptions, frozen=True, kw_only=True):
    """Of `replay`."""

    until: Annotated[int, typer.Option(metavar="SEQ", min=0, help="Only up to this entry.", show_default=False)] = 0
    tolerant: Annotated[bool, typer.Option("--tolerant", help="Only actions, final state and result must agree.")] = (
        False
    )
    recovery: Annotated[
        bool, typer.Option("--recovery", help="Run nothing: list what would be decided otherwise today.")
    ] = False
    app: Annotated[
        str | None,
        typer.Option("--app", metavar="PROGRAM", help="Instead of the recorded program.", show_default=False),
    ] = None


@taking(ReplayOptions)
def replay(options: ReplayOptions) -> None:
    """Run a task's program again on its record. No tool is called, nothing is written."""
    import asyncio

    from perdure import operations

    if options.recovery and (options.tolerant or options.app):
        raise UsageError("--recovery runs no program: leave out --tolerant and --app")
    config = options.config(app=options.app)
    record = asyncio.run(_load(options, config))
    if options.recovery:
        _say_rejudgement(operations.rejudge(record), as_json=options.as_json)
        return
    replayed = operations.replay(record, "tolerant" if options.tolerant else "strict", config.text("app"))
    if options.as_json:
        say_json(replayed)
    else:
        _say_replayed(replayed, is_cut=record.is_cut)
    if not replayed.is_equal:
        raise typer.Exit(exits.FAILED)


async def _load(options: ReplayOptions, config: Config) -> Record:
    from perdure import operations
    from perdure.clock import SystemClock
    from perdure.stores.opening import open_to_look

    place = config.text("store")
    refuse_absent(place, options.name)
    store = await open_to_look(place, SystemClock())
    try:
        with looked_for_in(place):
            return await operations.recall_journal(store, options.name, options.until or None)
    finally:
        await store.close()


def _say_replayed(replayed: Replayed, *, is_cut: bool) -> None:
    for remark in replayed.remarks:
        complain(f"  let pass: {remark}")
    if replayed.divergence is not None:
        _say_divergence(replayed, replayed.divergence)
        return
    so_far = f", up to entry {replayed.until}" if is_cut else ""
    compared = f"{replayed.entries} entries, {replayed.actions} actions compared{so_far}"
    say(f"equal: task {replayed.name} ({replayed.task}), {compared}")


def _say_divergence(replayed: Replayed, divergence: Divergence) -> None:
    say(f"diverged at entry {divergence.seq} of task {replayed.name} ({replayed.task})")
    say(f"  expected  {divergence.expected}")
    say(f"  came      {divergence.came}")
    for one in divergence.differences:
        say(f"  {one.field}")
        say(f"    - {one.expected}")
        say(f"    + {one.came}")
    say(f"  {replayed.entries} entries and {replayed.actions} actions before it are equal; no tool was called")


def _say_rejudgement(rejudged: Rejudgement, *, as_json: bool) -> None:
    if as_json:
        say_json(rejudged)
    else:
        for one in rejudged.changed:
            say(f"entry {one.seq}: {one.failure or 'the program had returned'}")
            say(f"  recorded  {one.recorded}")
            say(f"  today     {one.today}")
        same = rejudged.decisions - len(rejudged.changed)
        say(f"{rejudged.decisions} decisions of task {rejudged.name} asked for anew: {same} are the same")
    if rejudged.changed:
        raise typer.Exit(exits.FAILED)
