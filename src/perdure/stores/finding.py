"""Which task a person means by a name, an id or the beginning of either: one rule for all stores. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.errors import TaskAmbiguous, TaskUnknown
from perdure.model.status import TaskSummary


def pick_task(name: str, newest_first: Sequence[TaskSummary]) -> TaskSummary:
    """Return the task with that id, else the newest with that name, else the only one whose name or id begins so.

    Several tasks of one name count as one, the newest. Raises TaskUnknown, TaskAmbiguous.
    """
    exact = [task for task in newest_first if task.task == name] or [task for task in newest_first if task.name == name]
    if exact:
        return exact[0]
    fitting = _begin_so(name, newest_first) if name else {}
    if not fitting:
        raise TaskUnknown(name)
    if len(fitting) > 1:
        raise TaskAmbiguous(name, tuple(sorted(fitting.values())))
    (only,) = fitting
    return next(task for task in newest_first if task.task == only)


def _begin_so(prefix: str, newest_first: Sequence[TaskSummary]) -> dict[str, str]:
    """Return {task id: the name or id by which it fits}."""
    by_name: dict[str, str] = {}
    for task in newest_first:
        if task.name.startswith(prefix):
            by_name.setdefault(task.name, task.task)
    fitting = {task: name for name, task in by_name.items()}
    for task in newest_first:
        if task.task.startswith(prefix):
            fitting.setdefault(task.task, task.task)
    return fitting
