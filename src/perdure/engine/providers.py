"""The breakers of all providers that this process calls: shared by its tasks, kept in memory, gone with the process.

What a task has waited for, and may try, stands in its own journal. The breakers of the system's clock are those of the
process; a runtime on another clock, as in a test, has its own. Not the rules (`core/breaker.py`), not the waiting
(`waiting.py`). Called by `waiting`, `outcomes` and `holding`.
"""

from __future__ import annotations

import threading
from typing import Final

from perdure.clock import SystemClock
from perdure.core.breaker import Breaker, Hold, Turn
from perdure.model.failure import ErrorRecord
from perdure.ports import Clock, Ids

_PROVIDERS_MAX: Final = 1_024  # whose breakers are kept


class Providers:
    """Breakers by provider. Safe for several event loops in threads of their own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._breakers: dict[str, Breaker] = {}

    def ask(self, provider: str, now: float) -> Turn | Hold:
        """Return a place for one call, or why there is none."""
        with self._lock:
            return self._of(provider).ask(now)

    def leave(self, provider: str, turn: Turn) -> None:
        """A call is over."""
        with self._lock:
            self._of(provider).leave(turn)

    def note(self, provider: str, turn: Turn, error: ErrorRecord | None, clock: Clock, ids: Ids) -> None:
        """Take in how a call ended."""
        with self._lock:
            self._of(provider).note(turn, error, clock.monotonic(), ids.random() if error is not None else 0.0)

    def open(self, provider: str, reason: str, clock: Clock, ids: Ids) -> None:
        """Let nobody call a provider for a while."""
        with self._lock:
            self._of(provider).open(reason, clock.monotonic(), ids.random())

    def hold(self, provider: str, until: float, reason: str) -> None:
        """Let nobody call a provider before `until`, in seconds of the clock that never goes back."""
        with self._lock:
            self._of(provider).hold(until, reason)

    def _of(self, provider: str) -> Breaker:
        breaker = self._breakers.get(provider)
        if breaker is None:
            if len(self._breakers) >= _PROVIDERS_MAX:
                self._forget_one()
            breaker = self._breakers[provider] = Breaker()
        return breaker

    def _forget_one(self) -> None:
        """Forget the oldest that nobody is kept from calling."""
        idle = next((name for name, one in self._breakers.items() if one.is_idle), None)
        if idle is not None:
            del self._breakers[idle]


_OF_THE_PROCESS: Final = Providers()


def providers_for(clock: Clock) -> Providers:
    """Return the breakers for a runtime on `clock`."""
    return _OF_THE_PROCESS if isinstance(clock, SystemClock) else Providers()
