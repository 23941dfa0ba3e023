"""Commands: what changes a task, said once for the CLI and every later face. Queries are in `views`.

A command on a task that somebody works on leaves a message in its inbox; on any other it claims the task, writes and
lets go. Nothing here prints.
"""

from __future__ import annotations

from perdure.operations.finding import find_exactly
from perdure.operations.keeping import back_up, delete, rebuild_log, store_status
from perdure.operations.orders import (
    Known,
    Order,
    default_workspace,
    names_of,
    recall,
    refuse_program,
    refuse_store_inside,
    refuse_workspace,
    start_goal,
    start_program,
)
from perdure.operations.replaying import recall_journal, rejudge, replay
from perdure.operations.steering import (
    Answered,
    Back,
    Edit,
    Way,
    abandon_rollback,
    answer,
    edit_state,
    foresee,
    foresee_fork,
    resume,
    rollback,
    settle,
    stop,
    tell,
)

__all__ = [
    "Answered",
    "Back",
    "Edit",
    "Known",
    "Order",
    "Way",
    "abandon_rollback",
    "answer",
    "back_up",
    "default_workspace",
    "delete",
    "edit_state",
    "find_exactly",
    "foresee",
    "foresee_fork",
    "names_of",
    "rebuild_log",
    "recall",
    "recall_journal",
    "refuse_program",
    "refuse_store_inside",
    "refuse_workspace",
    "rejudge",
    "replay",
    "resume",
    "rollback",
    "settle",
    "start_goal",
    "start_program",
    "stop",
    "store_status",
    "tell",
]
