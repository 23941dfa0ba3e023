"""Is this the task that is on record? A name given again with another order is refused, and not gone on with."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Mapping
from typing import Any, cast

from perdure.codec import leaves, values
from perdure.codec.redact import redact
from perdure.engine.driving import Drivable
from perdure.engine.ending import hand_back_line
from perdure.engine.loading import blobs_of, read_entry
from perdure.engine.migrations import is_same_start
from perdure.engine.programs import Program, plain_args
from perdure.engine.session import Session
from perdure.errors import Fenced, StoreError, TaskBusy, TaskCancelled, TaskFailed, TaskMismatch, UsageError
from perdure.model import entry as e
from perdure.model.ids import Holder, check_name, check_text
from perdure.model.status import TAKEOVER, TaskSummary
from perdure.ports import Store


def started_by(
    holder: Holder, program: Drivable, name: str, goal: str, arguments: dict[str, Any], workspace: str
) -> e.TaskStarted:
    """Return what is written where `holder` starts that program as a new task; the state is still to be put in."""
    return e.TaskStarted(
        name=check_name(name),
        goal=check_text(goal, "goal"),
        driver=program.driver(arguments),
        holder=holder,
        state=e.NOTHING,
        state_version=program.state_version,
        strategies=program.strategies,
        failures_max=program.failures_max,
        workspace=placed(workspace),
        relative_digests=bool(workspace),
    )


def refuse_other_place(found: TaskSummary, started: e.TaskStarted) -> None:
    """Raise TaskMismatch where `found` has another goal, or another workspace than the one that is given now."""
    if found.goal != started.goal:
        raise TaskMismatch(found.name, "goal")
    if started.workspace and found.workspace != started.workspace:
        raise TaskMismatch(found.name, f"workspace ({found.workspace or 'none'})")


async def refuse_other(store: Store, found: TaskSummary, started: e.TaskStarted, program: Drivable) -> None:
    """Raise TaskMismatch where `found` was started with another goal, workspace, state or arguments."""
    refuse_other_place(found, started)
    recorded = e.start_of((await read_entry(store, found.task, 1)).payload)
    if recorded is None:
        raise UsageError(f"entry 1 of task {found.task!r} is not its start")
    if canonical_arguments(recorded.driver.arguments) != canonical_arguments(started.driver.arguments):
        raise TaskMismatch(found.name, "args")
    state = leaves.decode(bytes(recorded.state), await blobs_of(store, found.task, 1, recorded.state))
    if not is_same_start(program, cast("dict[str, Any]", state), recorded.state_version):
        raise TaskMismatch(found.name, "initial state")


def placed(workspace: str) -> str:
    """Return the workspace so that it means the same folder wherever the task is resumed; "" stays none."""
    return os.path.abspath(workspace) if workspace else ""


def canonical_arguments(arguments: e.Raw) -> bytes:
    """The order in which arguments were given means nothing."""
    return values.canonical(values.decode(bytes(arguments))) if bytes(arguments) else b""


def checked_arguments(program: Drivable, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of `args`, checked against the signature where there is one, as it will be recorded."""
    given = plain_args(cast("Program[..., Any]", program), args) if isinstance(program, Program) else dict(args)
    return cast("dict[str, Any]", redact(given))


def recorded_arguments(session: Session) -> dict[str, Any]:
    """Return the arguments that the program is called with."""
    driver = session.fold.ledger.driver
    raw = bytes(driver.arguments) if driver else b""
    decoded: Any = values.decode(raw) if raw else {}
    return dict(decoded)


def refuse_ended(summary: TaskSummary) -> None:
    """Raise TaskFailed or TaskCancelled where a task has ended so."""
    show = f"perdure show {shlex.quote(summary.name)}"
    if summary.status == "failed":
        raise TaskFailed(summary.task, f"task {summary.name!r} failed: {summary.reason}", show)
    if summary.status == "cancelled":
        raise TaskCancelled(summary.task, f"task {summary.name!r} was cancelled {summary.reason}", show)


async def taken_over(session: Session, fenced: Fenced) -> TaskBusy:
    """Return what the caller of a run is told when another process, or a person, has taken the task."""
    name, holder = session.fold.ledger.name, f"another process (epoch {fenced.current}); this one stops"
    with contextlib.suppress(StoreError):
        summary = await session.world.store.find(session.task)
        if summary.taken_at:
            by = summary.reason.removeprefix(TAKEOVER)
            return TaskBusy(session.task, holder, name, by, hand_back_line(name))
    return TaskBusy(session.task, holder, name)
