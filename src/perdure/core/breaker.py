"""Whether one provider may be called now: its breaker, and how many calls at once it bears. Pure: time is an argument.

    closed ── 5 passing faults in a row, or bad health ──▶ open ── its time is over ──▶ one call tries
       ▲                                                    ▲                              │
       └────────────── it succeeds ─────────────────────────┼──────────────────────────────┤
                                                            └── it fails: open for longer ─┘

| after | follows |
|---|---|
| a fault that says when to come back | nobody calls before that |
| class `throttled` | half as many calls at once as ran, one at least; more again with each success |
| any answer, a refusal too | the row of faults is over |

An open breaker only lengthens a wait: what a call fails with, and how often a task tries, is not its business. Times
are seconds of a clock that never goes back. Not thread-safe. Held by `engine/providers.py`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from perdure.limits import (
    BREAKER_BASE_S,
    BREAKER_CEILING_S,
    BREAKER_FAULTS_MAX,
    PARALLEL_ACTIONS_MAX,
    TOLD_WAIT_MAX_S,
)
from perdure.model.failure import PASSING, ErrorRecord

_DOUBLINGS_MAX: Final = 20


class Turn(msgspec.Struct, eq=False):
    """One call under way."""

    began: float
    is_trial: bool = False  # it tries whether the provider is back


class Hold(msgspec.Struct, frozen=True):
    """Why a call may not go out now, and until when; 0: until another call has ended."""

    reason: str
    until: float = 0.0


class Breaker:
    """What this process knows of one provider."""

    def __init__(self) -> None:
        self.is_open = False  # until a call that tries has succeeded
        self.faults = 0  # passing ones, in a row
        self.calls_max = float(PARALLEL_ACTIONS_MAX)  # at once
        self._openings = 0  # in a row
        self._until = 0.0
        self._reason = ""
        self._calls = 0
        self._halved_at = -1.0
        self._trial: Turn | None = None

    @property
    def is_idle(self) -> bool:
        """Whether it would be the same if it were new."""
        return not (self.is_open or self._calls or self.faults)

    def ask(self, now: float) -> Turn | Hold:
        """Return a place for one call, to be given back by `leave`, or why there is none."""
        if now < self._until:
            return Hold(self._reason, self._until)
        if self.is_open and self._trial is not None:
            return Hold("another call tries whether it is back")
        if self._calls >= int(self.calls_max):
            return Hold(f"it bears {int(self.calls_max)} call(s) at once")
        turn = Turn(now, self.is_open)
        if self.is_open:
            self._trial = turn
        self._calls += 1
        return turn

    def leave(self, turn: Turn) -> None:
        """A call is over, whatever came of it."""
        self._calls -= 1
        if self._trial is turn:
            self._trial = None

    def note(self, turn: Turn, error: ErrorRecord | None, now: float, chance: float) -> None:
        """Take in how a call ended; `chance` in [0, 1) spreads what follows."""
        if error is not None and error.failure_class == "cancelled":
            return
        if error is None or error.failure_class not in PASSING:
            self._note_answer(turn)
            return
        self.faults += 1
        self._reason = f"{error.type}: {error.message}"
        if error.failure_class == "throttled" and turn.began > self._halved_at:  # once for those that ran together
            running = min(self.calls_max, max(1, self._calls))
            self.calls_max, self._halved_at = max(1.0, running / 2), now
        if error.wait_s > 0:
            self.hold(now + min(error.wait_s, TOLD_WAIT_MAX_S), self._reason)
        if turn.is_trial or self.faults >= BREAKER_FAULTS_MAX:
            self.open(self._reason, now, chance, again=turn.is_trial)

    def hold(self, until: float, reason: str) -> None:
        """Let nobody call before `until`."""
        if until > self._until:
            self._until, self._reason = until, reason

    def open(self, reason: str, now: float, chance: float, *, again: bool = False) -> None:
        """Let nobody call for a while, longer each time in a row, and then one; open already, only `again`."""
        if self.is_open and not again:
            return
        span_s = min(BREAKER_BASE_S * 2 ** min(self._openings, _DOUBLINGS_MAX), BREAKER_CEILING_S)
        self.is_open = True
        self._openings += 1
        self.hold(now + (0.5 + chance / 2) * span_s, reason)

    def _note_answer(self, turn: Turn) -> None:
        self.faults = 0
        self.calls_max = min(self.calls_max + 1 / self.calls_max, float(PARALLEL_ACTIONS_MAX))
        if turn.is_trial:
            self.is_open, self._openings = False, 0
