"""Virtual time with a real store: an event loop on a `FakeClock` that waits for threads and jumps over everything else.

`FakeClock.run` has no threads, so it takes stores in memory only. Here a call of the store is waited for in real time,
during which the clock stands still; sleeping costs nothing. Called by tests only, also from processes of their own.
"""

from __future__ import annotations

import asyncio
import inspect
import selectors
from collections.abc import AsyncIterator, Awaitable, Coroutine
from typing import Any

from perdure.testing import FakeClock

_LOOK_S = 0.05  # of real time, while a thread is at work


class WatchedStore:
    """A store, and how many of its calls are under way."""

    def __init__(self, store: Any) -> None:
        self.under_way = 0
        self._store = store

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name == "append":  # which may be awaited again
            return lambda *args: asyncio.ensure_future(self._counted(found(*args)))
        if inspect.iscoroutinefunction(found):
            return lambda *args, **kwargs: self._counted(found(*args, **kwargs))
        return (lambda *args, **kwargs: self._each(found(*args, **kwargs))) if name == "read" else found

    async def _counted(self, call: Awaitable[Any]) -> Any:
        self.under_way += 1
        try:
            return await call
        finally:
            self.under_way -= 1

    async def _each(self, appends: AsyncIterator[Any]) -> AsyncIterator[Any]:
        while True:
            try:
                yield await self._counted(anext(appends))
            except StopAsyncIteration:
                return


class _Files(selectors.DefaultSelector):
    def __init__(self, loop: TimedLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(0)
        if found or (timeout is not None and timeout <= 0):
            return found
        if timeout is None or self._loop.is_busy:
            return super().select(_LOOK_S)
        self._loop.clock.advance(timeout + 1e-6)
        return found


class TimedLoop(asyncio.SelectorEventLoop):
    """The loop; set `store` once there is one."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.store: WatchedStore | None = None
        self._elsewhere = 0
        super().__init__(_Files(self))

    @property
    def is_busy(self) -> bool:
        """Whether a thread is at work, for which time stands still."""
        return bool(self._elsewhere or (self.store is not None and self.store.under_way))

    def time(self) -> float:
        """Seconds of the clock."""
        return self.clock.monotonic()

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        """As asyncio's, counted."""
        done = super().run_in_executor(executor, func, *args)
        self._elsewhere += 1
        done.add_done_callback(self._has_come_back)
        return done

    def _has_come_back(self, _done: object) -> None:
        self._elsewhere -= 1


def run_timed(clock: FakeClock, main: Coroutine[Any, Any, Any]) -> Any:
    """Run `main` in virtual time; it may set the running loop's `store`."""
    loop = TimedLoop(clock)
    try:
        return loop.run_until_complete(main)
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
