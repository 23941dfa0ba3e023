"""One beat per runtime, every 50 ms: time-outs, lazy intents, the inbox, lease renewals.

One coroutine instead of a timer and a cancel scope per action: those cost more than the action itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from perdure.limits import TICK_S
from perdure.ports import Clock


class Deadline:
    """A time-out of one asyncio task's current action."""

    __slots__ = ("_before", "_runner", "at", "has_fired")

    def __init__(self, at: float) -> None:
        runner = asyncio.current_task()
        if runner is None:
            raise RuntimeError("an action runs inside an asyncio task")
        self.at = at
        self.has_fired = False
        self._runner = runner
        self._before = runner.cancelling()

    def fire(self) -> None:
        """Cancel the action; `caught` tells its cancellation from any other."""
        self.has_fired = True
        self._runner.cancel()

    def caught(self) -> bool:
        """Whether the CancelledError just caught is this time-out's alone; takes that cancellation back if so."""
        return self.has_fired and self._runner.uncancel() <= self._before


class Ticker:
    """Calls what is due, again and again, until stopped."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._deadlines: set[Deadline] = set()
        self._every: list[tuple[float, Callable[[], Awaitable[None]], list[float]]] = []
        self._runner: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to beat."""
        self._runner = asyncio.create_task(self._beat(), name="perdure ticker")

    async def stop(self) -> None:
        """Stop, after the beat under way."""
        if self._runner is not None:
            self._runner.cancel()
            await asyncio.gather(self._runner, return_exceptions=True)
            self._runner = None

    def arm(self, timeout_s: float) -> Deadline:
        """Return a deadline for the calling asyncio task, at most one beat late."""
        deadline = Deadline(self._clock.monotonic() + timeout_s)
        self._deadlines.add(deadline)
        return deadline

    def disarm(self, deadline: Deadline) -> None:
        """Forget a deadline."""
        self._deadlines.discard(deadline)

    def every(self, period_s: float, call: Callable[[], Awaitable[None]]) -> None:
        """Call `call` about every `period_s` seconds. What it raises is logged with its name and ends nothing else."""
        self._every.append((period_s, call, [self._clock.monotonic() + period_s]))

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            now = self._clock.monotonic()
            for deadline in [d for d in self._deadlines if d.at <= now]:
                self._deadlines.discard(deadline)
                deadline.fire()
            for period_s, call, next_at in self._every:
                if now >= next_at[0]:
                    next_at[0] = now + period_s
                    await call()
