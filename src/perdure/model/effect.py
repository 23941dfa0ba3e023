"""What a tool does to the world: two independent answers (may it be sent again? can it be taken back?).

Resume reads `retry` only, rollback reads `undo` only. Background: docs/decisions/0003.
"""

from __future__ import annotations

from typing import Final, Literal, NewType

import msgspec

Retry = Literal["free", "keyed", "probe", "restore", "never"]
Undo = Literal["nothing", "function", "workspace", "impossible"]

EffectKey = NewType("EffectKey", str)
"""Annotates the parameter through which a keyed tool receives its key (a random text, the same over all attempts)."""


class Effect(msgspec.Struct, frozen=True, kw_only=True, gc=False):  # texts: part of no cycle
    """The two answers of one tool."""

    retry: Retry
    undo: Undo

    @property
    def is_free(self) -> bool:
        """Whether running it again, or never knowing whether it ran, does no harm."""
        return self.retry == "free"

    def __str__(self) -> str:
        return f"{self.retry}/{self.undo}"


class Standing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An effect that a branch which is left has put into the world, and that is not (yet) taken back."""

    action: str
    tool: str
    digest: bytes  # of the arguments by content: a view of the state counts as what it showed
    settled: int  # seq of the outcome, 0 where it is in doubt
    undo: Undo
    used: bool = False  # an equal call of the present branch was answered by it, or a person lets no call claim it


PRESETS: Final[dict[str, Effect]] = {
    "pure": Effect(retry="free", undo="nothing"),
    "idempotent": Effect(retry="keyed", undo="impossible"),
    "verifiable": Effect(retry="probe", undo="impossible"),
    "compensable": Effect(retry="never", undo="function"),
    "irreversible": Effect(retry="never", undo="impossible"),
    "workspace": Effect(retry="restore", undo="workspace"),
}
