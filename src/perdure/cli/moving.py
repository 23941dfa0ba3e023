"""The verbs by which a person changes a task: pause, cancel, settle, checkpoint, rollback."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
import typer
from typer.core import TyperCommand

from perdure.cli.options import TaskOptions, looked_for_in, opened, refuse_absent, taking, wait_for
from perdure.cli.terminal import say, say_json
from perdure.errors import UsageError

if TYPE_CHECKING:
    from perdure.engine.runtime import Runtime
    from perdure.model.outcome import Outcome
    from perdure.ports import Store

_DASHED_ID: Final = re.compile(r"-[A-Za-z0-9_-]{21}\Z")  # one of 64 ids is such a one
_OBEYED_WITHIN_S: Final = 2.0
_LOOK_EVERY_S: Final = 0.1


class SettleOptions(TaskOptions, frozen=True, kw_only=True):
    """Of `settle`."""

    action: Annotated[str, typer.Argument(metavar="ACTION", help="Its id, or the beginning of it (`perdure show`).")]
    happened: Annotated[bool, typer.Option("--happened", help="The effect is in the world.")] = False
    did_not_happen: Annotated[bool, typer.Option("--did-not-happen", help="It is not; it may be sent again.")] = False
    keep: Annotated[bool, typer.Option("--keep", help="Its outcome stays a fact that no call will claim.")] = False
    result: Annotated[str, typer.Option(metavar="JSON", help="With --happened: what the tool has returned.")] = ""


class CheckpointOptions(TaskOptions, frozen=True, kw_only=True):
    """Of `checkpoint`."""

    checkpoint: Annotated[str, typer.Argument(metavar="NAME", help="What to call it.")]


class RollbackOptions(TaskOptions, frozen=True, kw_only=True):
    """Of `rollback`."""

    to: Annotated[
        str, typer.Option("--to", metavar="NAME", help="A checkpoint: NAME, NAME#2, SEQ, effect, or start.")
    ] = ""
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change; do nothing.")] = False
    carry: Annotated[
        bool, typer.Option("--carry", help="What cannot be taken back stays, and the program is told of it.")
    ] = False
    force: Annotated[bool, typer.Option("--force", help="What cannot be taken back stays, untold.")] = False
    abandon: Annotated[bool, typer.Option("--abandon", help="Give up a rollback before its first undo.")] = False
    app: Annotated[str, typer.Option(metavar="PKG.MOD:NAME", help="The program whose module has the tools.")] = ""


class SettleCommand(TyperCommand):
    """`settle`, which takes action ids that begin with a dash for what they are."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - click's own type
        """Put such an id to the end, behind `--`."""
        ids = [arg for arg in args if _DASHED_ID.match(arg)]
        return super().parse_args(ctx, [arg for arg in args if arg not in ids] + (["--", *ids] if ids else []))


@taking(TaskOptions)
def pause(options: TaskOptions) -> None:
    """Stop a task until it is resumed. It stops at the end of its running action."""
    wait_for(_stop(options, "pause", "paused"))


@taking(TaskOptions)
def cancel(options: TaskOptions) -> None:
    """End a task for good. It ends with its running action; what it did stays done and on record."""
    wait_for(_stop(options, "cancel", "cancelled"))


@taking(SettleOptions)
def settle(options: SettleOptions) -> None:
    """Say what became of an action whose outcome is not known."""
    if [options.happened, options.did_not_happen, options.keep].count(True) != 1:
        raise UsageError("say one of --happened, --did-not-happen, --keep")
    if options.result and not options.happened:
        raise UsageError("--result goes with --happened")
    wait_for(_settle(options, _outcome(options)))


@taking(CheckpointOptions)
def checkpoint(options: CheckpointOptions) -> None:
    """Mark a checkpoint of a task that nobody works on. A rollback can come back to it."""
    wait_for(_checkpoint(options))


@taking(RollbackOptions)
def rollback(options: RollbackOptions) -> None:
    """Put a task back to a checkpoint: state, effects, files. Its journal keeps what happened since."""
    if options.abandon and options.to:
        raise UsageError("--to and --abandon exclude each other: go back, or give up going back")
    if not (options.abandon or options.to):
        raise UsageError("say --to NAME, or --abandon to give up a rollback that was interrupted")
    if options.abandon:
        wait_for(_abandon(options))
    else:
        wait_for(_foresee(options) if options.dry_run else _rollback(options))


async def _stop(options: TaskOptions, what: Literal["pause", "cancel"], done: str) -> None:
    from perdure import operations
    from perdure.ids_source import SystemIds
    from perdure.views.showing import word_for

    async with open_for(options) as runtime:
        store, name = runtime.store, options.name
        summary = await (operations.find_exactly(store, name) if what == "cancel" else store.find(name))
        at_once = await operations.stop(runtime, summary.task, what, SystemIds().short_id())
        is_over = at_once or await _is_no_longer_running(store, summary.task)
    word = word_for(summary)
    text = f"task {word} is {done}" if is_over else f"task {word} was asked to; it is {done} when its action ends"
    standing = done if is_over else "asked"
    say_done(options, {"task": summary.task, "name": summary.name, "status": standing}, text)


async def _is_no_longer_running(store: Store, task: str) -> bool:
    import asyncio

    loop = asyncio.get_running_loop()
    end = loop.time() + _OBEYED_WITHIN_S
    while loop.time() < end:
        if (await store.find(task)).status != "running":
            return True
        await asyncio.sleep(_LOOK_EVERY_S)
    return False


async def _settle(options: SettleOptions, outcome: Outcome | None) -> None:
    from perdure import operations
    from perdure.views.showing import going_on

    async with open_for(options) as runtime:
        summary = await operations.find_exactly(runtime.store, options.name)
        action = await operations.settle(runtime, summary.task, options.action, outcome)
    text = f"action {action} is settled; next: {going_on(summary)}"
    say_done(options, {"task": summary.task, "name": summary.name, "action": action}, text)


async def _checkpoint(options: CheckpointOptions) -> None:
    from perdure import operations
    from perdure.views.showing import word_for

    async with open_for(options) as runtime:
        summary = await operations.find_exactly(runtime.store, options.name)
        seq = await runtime.checkpoint(summary.task, options.checkpoint)
    text = f"checkpoint {options.checkpoint!r} of task {word_for(summary)} is entry {seq}"
    fields = {"task": summary.task, "name": summary.name, "checkpoint": options.checkpoint, "seq": seq}
    say_done(options, fields, text)


async def _rollback(options: RollbackOptions) -> None:
    from perdure import operations
    from perdure.views.showing import going_on

    async with open_for(options) as runtime:
        way = operations.Back(carry=options.carry, force=options.force, app=options.app)
        summary = await operations.rollback(runtime, options.name, options.to, way)
    text = f"task {summary.name} is back at {options.to!r}; next: {going_on(summary)}"
    fields = {"task": summary.task, "name": summary.name, "checkpoint": options.to, "branch": summary.branch}
    say_done(options, fields, text)


async def _abandon(options: RollbackOptions) -> None:
    from perdure import operations
    from perdure.views.showing import going_on

    async with open_for(options) as runtime:
        summary = await operations.abandon_rollback(runtime, options.name)
    text = f"the rollback of task {summary.name} is given up; next: {going_on(summary)}"
    say_done(options, {"task": summary.task, "name": summary.name, "branch": summary.branch}, text)


async def _foresee(options: RollbackOptions) -> None:
    from perdure.views.going_back import foresee_rollback

    async with opened(options.place) as store:
        going = await foresee_rollback(store, options.name, options.to)
    if options.as_json:
        say_json(going)
        return
    say(f"task {going.name}, back to {going.checkpoint!r} (entry {going.seq}); nothing is done")
    for change in going.state:
        say(f"  state    {change.path}: {change.now!r} becomes {change.then!r}")
    if going.more_state:
        say(f"  state    and {going.more_state} more")
    for effect in going.effects:
        doubt = " (whether it happened is not known)" if effect.in_doubt else ""
        say(f"  effect   {effect.tool} (action {effect.action}): {effect.fate}{doubt}")
    for line in going.files:
        say(f"  file     {line}")
    if going.stays:
        say(f"{going.stays} effect(s) cannot be taken back: say --carry (the program is told of them) or --force")


@asynccontextmanager
async def open_for(options: TaskOptions) -> AsyncGenerator[Runtime]:
    """Open a runtime for a command on one task; where its store is not there, TaskUnknown and none is made."""
    from perdure.engine.opening import open_runtime

    place = options.place
    refuse_absent(place, options.name)
    async with open_runtime(place) as runtime:
        with looked_for_in(place):
            yield runtime


def _outcome(options: SettleOptions) -> Outcome | None:
    from perdure.model.failure import ErrorRecord
    from perdure.model.outcome import Failed, Succeeded

    if options.keep:
        return None
    if options.did_not_happen:
        return Failed(ErrorRecord(type="DidNotHappen", message="a person has looked: it did not happen"))
    try:
        return Succeeded(msgspec.json.decode(options.result) if options.result else None)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise UsageError(f"--result {options.result!r} is not JSON: {error}") from error


def say_done(options: TaskOptions, fields: dict[str, Any], text: str) -> None:
    """Print what was done: `text` to people, `fields` as JSON."""
    if options.as_json:
        say_json(fields)
    else:
        say(text)
