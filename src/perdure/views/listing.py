"""All tasks of a store, from their summaries alone: no journal is read.

Called by `perdure list`, `resume` and `doctor`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from perdure.engine.leases import is_alive
from perdure.model.status import UNFINISHED, TaskSummary
from perdure.ports import Store

INTERRUPTED: Final = "interrupted"
FORKING: Final = "forking"
HALF_FORK: Final = "half fork"
_BY_A_PERSON: Final = "by person"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One task as listed."""

    summary: TaskSummary
    standing: str  # the status; "interrupted" = running, but whoever ran it is dead; see `look_at`
    holder: str = ""  # who works on it now
    has_answer: bool = False  # it waits for a person, and an answer lies in its inbox: left for a holder who died

    @property
    def is_unfinished(self) -> bool:
        """Whether the task can still go on."""
        return self.summary.status in UNFINISHED

    def is_due(self, now: int) -> bool:
        """Whether `resume --all --due` takes it: interrupted, its time has come, answered, paused but by no person.

        Its time: `now` in microseconds since 1970.
        """
        match self.standing:
            case "interrupted":
                return True
            case "paused":
                return not self.summary.reason.startswith(_BY_A_PERSON)
            case "parked":
                return self.summary.until <= now
            case "needs_human":
                return self.has_answer
            case _:
                return False


async def list_tasks(store: Store, *, finished: bool = False) -> list[Row]:
    """Return the unfinished tasks, newest first; all of them where `finished` is set."""
    summaries = await store.tasks()
    return [await look_at(store, one) for one in summaries if finished or not one.is_finished]


async def look_at(store: Store, summary: TaskSummary) -> Row:
    """Return the row of one task; a running one costs a look at its lease, and so does a fork that is being made.

    Such a fork stands as "forking", or, where whoever made it is dead, as "half fork".
    """
    if summary.status == "needs_human":
        left = (await store.messages([summary.task])).get(summary.task, [])
        has_answer = any(message.what == "answer" for message in left)
        return Row(summary=summary, standing=summary.status, has_answer=has_answer)
    if summary.status != "running" and not summary.is_half_fork:
        return Row(summary=summary, standing=summary.status)
    lease = await store.lease(summary.task)
    alive = lease.holder is not None and is_alive(lease.holder, store) is not False
    living, dead = (FORKING, HALF_FORK) if summary.is_half_fork else ("running", INTERRUPTED)
    return Row(summary=summary, standing=living if alive else dead, holder=str(lease.holder) if alive else "")
