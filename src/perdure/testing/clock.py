"""A clock for tests: it stands still until it is moved, or runs a coroutine in virtual time: sleeping costs nothing.

Not for production (`perdure.clock`). Called by tests, and by the simulation as the time of its event loop.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final, TypeVar

R = TypeVar("R")

_BEGIN_US: Final = 1_800_000_000_000_000  # January 2027


class FakeClock:
    """`ports.Clock` that moves only when it is told to, or by `step_us` at each look at `now()`."""

    def __init__(self, at_us: int = _BEGIN_US, step_us: int = 0) -> None:
        self.at_us = at_us
        self.step_us = step_us
        self._begin_us = at_us

    def now(self) -> int:
        """UTC in microseconds since 1970."""
        self.at_us += self.step_us
        return self.at_us

    def monotonic(self) -> float:
        """Seconds since the clock was made; the same clock."""
        return (self.at_us - self._begin_us) / 1_000_000

    def advance(self, seconds: float) -> None:
        """Move on. Raises ValueError for a step back."""
        if seconds < 0:
            raise ValueError(f"a clock does not go back, not even by {-seconds} s")
        self.at_us += round(seconds * 1_000_000)

    def run(self, main: Coroutine[Any, Any, R]) -> R:
        """Run `main` to its end in an event loop whose time is this clock, and return its result.

        Who sleeps lets the clock jump: an hour of a waiting agent takes about a second. Plain-function tools run on the
        loop. Only for what needs nothing but time: stores in memory, fake tools. Raises RuntimeError when everything
        waits for something that is not time (a socket, a thread).
        """
        from perdure.testing.simulation.loop import VirtualLoop

        result: R = VirtualLoop(self).run_until_complete(main)
        return result
