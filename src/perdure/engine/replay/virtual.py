"""An event loop whose time passes at once: sleeping costs nothing, and it says when everybody waits.

Made for a replay, where nobody answers from outside: whenever nothing is ready the loop asks `on_idle` to let somebody
go on; only if that has nobody, it jumps to the next timer. Work in threads and on sockets of the program's own is
waited for in real time, and so is a plain program's thread until it waits for this loop. Not a simulator: nothing here
is random, and the order of callbacks is asyncio's own.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Any, Final

from perdure.engine.portal import callers

_OWN_FILES: Final = 1  # the loop's own pipe, by which other threads wake it
_LOOK_S: Final = 0.1  # of real time, while work goes on elsewhere
_PATIENCE_S: Final = 2.0  # of real time, with a program's threads of which one may wait for the other


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop.

    `on_idle()` returns whether it has let somebody go on. `on_stuck(has_timers)`, asked where it has not and no work
    goes on elsewhere, may return False where there are timers: then the next one comes.
    """

    def __init__(self, on_idle: Callable[[], bool], on_stuck: Callable[[bool], bool]) -> None:
        self._skipped_s = 0.0
        self._elsewhere = 0  # calls in threads that have not ended
        self._moves = (0, 0.0)  # calls from threads so far, and when (in real time) another was seen
        self._on_idle = on_idle
        self._on_stuck = on_stuck
        self._files = _Files(self)
        super().__init__(self._files)

    def time(self) -> float:
        """Seconds: the real ones, and those that were skipped."""
        return super().time() + self._skipped_s

    def run_in_executor(  # type: ignore[override]  # asyncio's own signature cannot be said under 3.11
        self,
        executor: Any,  # noqa: ANN401
        func: Any,  # noqa: ANN401
        *args: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        """As asyncio's, counted."""
        done = super().run_in_executor(executor, func, *args)
        self._elsewhere += 1
        done.add_done_callback(self._has_come_back)
        return done

    def rest(self, timeout: float | None) -> float | None:
        """Nothing is ready, and the next timer is due after `timeout` seconds: return how long to really wait."""
        if self._on_idle():
            return 0.0
        if self._elsewhere or len(self._files.get_map()) > _OWN_FILES or self._is_to_be_called():
            return _LOOK_S if timeout is None else min(timeout, _LOOK_S)
        if not self._on_stuck(timeout is not None) and timeout is not None:
            self._skipped_s += timeout
        return 0.0

    def _is_to_be_called(self) -> bool:
        """Whether a thread of a plain program may still make the call that comes next on record.

        One that is alone is waited for as long as it takes. Where others wait for this loop it may be waiting for them,
        which nobody can see: then for a while after the last call.
        """
        found, now = callers(self), super().time()
        if found.calls != self._moves[0]:
            self._moves = (found.calls, now)
        return found.is_one_on_its_way or (found.outside > 0 and now - self._moves[1] < _PATIENCE_S)

    def _has_come_back(self, _done: object) -> None:
        self._elsewhere -= 1


class _Files(selectors.DefaultSelector):
    """The loop's selector, which is where asyncio waits."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """See selectors.BaseSelector."""
        found = super().select(0)
        if found or (timeout is not None and timeout <= 0):
            return found
        return super().select(self._loop.rest(timeout))
