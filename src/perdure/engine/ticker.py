"""One beat per runtime, every 50 ms: time-outs, lazy intents, the inbox, lease renewals.

One coroutine instead of a timer and a cancel scope per action: those cost more than the action itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from perdure.engine.boundary import Boundary
from perdure.limits import TICK_S
from perdure.ports import Clock

log: Final = logging.getLogger("perdure")


class Deadline:
    """A time-out of one asyncio task's current action."""

    __slots__ = ("_before", "_runner", "at", "has_fired")

    def __init__(self, at: float, runner: asyncio.Task[Any]) -> None:
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
        if not self.has_fired:
            return False
        self.has_fired = False
        return self._runner.uncancel() <= self._before


class _Job:
    """Something to be done about every `period_s` seconds, never twice at once."""

    def __init__(self, period_s: float, call: Callable[[], Coroutine[Any, Any, None]], first_at: float) -> None:
        self.next_at = first_at
        self._period_s = period_s
        self._call = call
        self._running: asyncio.Task[None] | None = None

    def start(self, now: float) -> None:
        """Begin it in a task of its own: a store that hangs must not keep time-outs from firing."""
        self.next_at = now + self._period_s
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run(), name="perdure beat")

    async def stop(self) -> None:
        """Wait for it to end, cancelled."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def _run(self) -> None:
        with Boundary() as caught:
            await self._call()
        if caught.error is not None:
            log.warning("beat_failed error=%r", caught.error)


class Ticker:
    """Calls what is due, again and again, until stopped."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._deadlines: dict[Deadline, None] = {}  # in the order in which they were armed
        self._jobs: list[_Job] = []
        self._runner: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to beat."""
        self._runner = asyncio.create_task(self._beat(), name="perdure ticker")

    async def stop(self) -> None:
        """Stop, and end what is under way."""
        if self._runner is not None:
            self._runner.cancel()
            await asyncio.gather(self._runner, return_exceptions=True)
            self._runner = None
        for job in self._jobs:
            await job.stop()

    def arm(self, timeout_s: float, runner: asyncio.Task[Any]) -> Deadline:
        """Return a deadline for `runner`, the calling asyncio task; it comes at most one beat late."""
        deadline = Deadline(self._clock.monotonic() + timeout_s, runner)
        self._deadlines[deadline] = None
        return deadline

    def disarm(self, deadline: Deadline) -> None:
        """Forget a deadline. A cancellation that it has sent and the tool has swallowed is taken back."""
        self._deadlines.pop(deadline, None)
        deadline.caught()

    def every(self, period_s: float, call: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Call `call` about every `period_s` seconds; what it raises is logged."""
        self._jobs.append(_Job(period_s, call, self._clock.monotonic() + period_s))

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            now = self._clock.monotonic()
            for deadline in [d for d in self._deadlines if d.at <= now]:
                del self._deadlines[deadline]
                deadline.fire()
            for job in self._jobs:
                if now >= job.next_at:
                    job.start(now)
