"""Is this the task that is on record? A name given again with another order is refused, and not gone on with."""

from __future__ import annotations

from perdure.codec import values
from perdure.errors import TaskMismatch
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
