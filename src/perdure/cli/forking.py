"""The verb `fork`: an independent task from any moment of another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.cli.moving import open_for, say_done
from perdure.cli.options import TaskOptions, opened, taking, wait_for

if TYPE_CHECKING:
    from perdure.engine.forking import ForkPlan
    from perdure.model.status import TaskSummary


class ForkOptions(TaskOptions, frozen=True, kw_only=True):
    """Of `fork`."""

    into: Annotated[str, typer.Option("--into", metavar="DIR", help="Its workspace: empty, or not there yet.")]
    at: Annotated[
        str, typer.Option(metavar="NAME|SEQ", help="A checkpoint or an entry; default: the newest checkpoint.")
    ] = ""
    as_name: Annotated[str, typer.Option("--name", metavar="NEW", help="Its name; default: TASK-fork.")] = ""
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would be.")] = False


@taking(ForkOptions)
def fork(options: ForkOptions) -> None:
    """Make an independent task from a moment of another. That one stays as it is, and may be running."""
    wait_for(_foresee(options) if options.dry_run else _fork(options))


async def _foresee(options: ForkOptions) -> None:
    from perdure import operations

    async with opened(options.place) as store:
        plan = await operations.foresee_fork(store, options.name, options.at, options.into, options.as_name)
    say_done(options, _fields(plan), "\n".join(["nothing was done; it would be:", *_lines(plan)]))


async def _fork(options: ForkOptions) -> None:
    async with open_for(options) as runtime:
        plan = await runtime.fork(options.name, options.at, into=options.into, name=options.as_name)
        summary = await runtime.store.find(plan.task)
    say_done(options, _fields(plan), "\n".join([*_lines(plan), f"next: {_next(summary)}"]))


def _next(summary: TaskSummary) -> str:
    from perdure.views.listing import INTERRUPTED, Row
    from perdure.views.showing import next_command

    return next_command(Row(summary=summary, standing=INTERRUPTED))


def _fields(plan: ForkPlan) -> dict[str, Any]:
    return {
        "task": plan.task,
        "name": plan.name,
        "parent": plan.parent,
        "at": plan.at,
        "checkpoint": plan.checkpoint,
        "workspace": plan.into,
        "files": plan.files,
        "file_bytes": plan.file_bytes,
        "later_effects": [
            {"action": one.action, "tool": one.tool, "seq": one.seq, "certain": one.is_certain} for one in plan.later
        ],
    }


def _lines(plan: ForkPlan) -> list[str]:
    moment = f"checkpoint {plan.checkpoint!r} (entry {plan.at})" if plan.checkpoint else f"entry {plan.at}"
    lines = [
        f"task {plan.name}: a fork of {plan.parent_name} from {moment}",
        f"  {plan.at} entries, {plan.files} file(s) of {plan.file_bytes:,} bytes in {plan.into}",
    ]
    if plan.later:
        lines.append(
            f"  not known to it are {len(plan.later)} effect(s) that {plan.parent_name} had behind that moment;"
        )
        lines.append("  the fork makes these again if its program asks for them:")
    for one in plan.later:
        perhaps = "" if one.is_certain else ", whose outcome is not known"
        lines.append(f"    {one.tool} ({one.action}), entry {one.seq}{perhaps}")
    return lines
