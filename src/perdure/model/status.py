"""Where a task stands, and the short form of it that stores keep beside the journal for listing."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

Status = Literal["running", "paused", "parked", "needs_human", "succeeded", "failed", "cancelled"]
FORKING: Final = "fork under way"  # why a fork is paused that does not have all of its parent's entries yet
TAKEOVER: Final = "takeover: by "  # how the reason begins where a person has the task; what follows is who
UNFINISHED: Final = frozenset({"running", "paused", "parked", "needs_human"})


class TaskSummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What `list` shows without reading the journal. Derived: the journal decides, this is a copy.

    Written in the same append as the entry that changes it.
    """

    task: str  # id
    name: str
    goal: str
    status: Status
    reason: str = ""  # who paused it, what is asked, why it failed
    attempt: int = 1
    branch: int = 0
    driver: str = ""  # "program pkg.mod:fn", "agent offline", "inline"
    workspace: str = ""
    started_at: int = 0  # UTC, microseconds since 1970
    changed_at: int = 0
    until: int = 0  # parked: when it goes on
    taken_at: int = 0  # since when a person has it
    tokens_in: int = 0  # spent
    tokens_out: int = 0
    money: str = ""  # spent: "0.42 USD"; several currencies side by side (`model/money.py`)

    @property
    def is_half_fork(self) -> bool:
        """Whether it is a fork that is being made, or whose maker was killed: it cannot be resumed."""
        return self.status == "paused" and self.reason == FORKING

    @property
    def is_finished(self) -> bool:
        """Whether the task takes no more actions."""
        return self.status not in UNFINISHED
