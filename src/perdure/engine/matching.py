"""Is this the task that is on record? A name given again with another order is refused, and not gone on with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from perdure.codec import values
from perdure.engine.driving import Drivable
from perdure.engine.programs import Program, plain_args
from perdure.engine.session import Session
from perdure.errors import Fenced, TaskBusy, TaskMismatch
from perdure.model import entry as e
from perdure.model.status import TaskSummary


def refuse_other_place(found: TaskSummary, started: e.TaskStarted) -> None:
    """Raise TaskMismatch where `found` has another goal, or another workspace than the one that is given now."""
    if found.goal != started.goal:
        raise TaskMismatch(found.name, "goal")
    if started.workspace and found.workspace != started.workspace:
        raise TaskMismatch(found.name, f"workspace ({found.workspace or 'none'})")


def canonical_arguments(arguments: e.Raw) -> bytes:
    """The order in which arguments were given means nothing."""
    return values.canonical(values.decode(bytes(arguments))) if bytes(arguments) else b""


def checked_arguments(program: Drivable, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of `args`, checked against the signature where there is one."""
    return plain_args(cast("Program[..., Any]", program), args) if isinstance(program, Program) else dict(args)


def taken_over(session: Session, fenced: Fenced) -> TaskBusy:
    """Return what the caller of a run is told when another process has taken the task."""
    holder = f"another process (epoch {fenced.current}); this one stops"
    return TaskBusy(session.task, holder, session.fold.ledger.name)
