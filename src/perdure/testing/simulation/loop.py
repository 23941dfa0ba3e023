"""An event loop in virtual time, of several processes at once, each of which can be killed between any two steps.

Nothing here waits: when nobody is ready, the clock jumps to the next timer. Whose step comes next may be drawn. Not a
loop for sockets, files or real threads: what would run in a thread runs as a step. Called by `simulate` and by
`FakeClock.run`.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import math
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final, TypeVar, TypeVarTuple

from perdure.engine.boundary import Boundary
from perdure.errors import Alarmed, RolledBack, StopRequested
from perdure.testing.clock import FakeClock
from perdure.testing.points import Killed

R = TypeVar("R")
_Ts = TypeVarTuple("_Ts")

_UNWINDING: Final = (
    Killed, asyncio.CancelledError, GeneratorExit, Alarmed, RolledBack, StopRequested, BaseExceptionGroup,
)  # fmt: skip
_CLOSINGS_MAX: Final = 8  # how often a killed coroutine may go on waiting while it is closed


class Process:
    """All that dies together: the tasks, callbacks and timers that were made in its context."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.steps = 0
        self.dies_at = 0  # the number of the step before which it dies; 0: never
        self.context = copy_context()
        self.tasks: list[asyncio.Task[Any]] = []
        self.at_death: Callable[[], None] | None = None
        self.context.run(_process.set, self)


_process: Final[ContextVar[Process | None]] = ContextVar("perdure_simulated_process", default=None)


class _Task(asyncio.Task[Any]):
    """A task whose place in a set is the same in every run."""

    process: Process | None = None

    def __init__(self, number: int, coro: Coroutine[Any, Any, Any], loop: VirtualLoop, context: Context) -> None:
        self._number = number
        super().__init__(coro, loop=loop, context=context)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


_Step = tuple[asyncio.Handle, Context, Callable[..., object], tuple[Any, ...], Process | None]


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop on a `FakeClock`.

    `choose(n)` picks the next of n ready steps (default: the one that is ready longest); `thread_s()` says how long a
    thread takes (default: no time).
    """

    def __init__(
        self,
        clock: FakeClock,
        choose: Callable[[int], int] | None = None,
        thread_s: Callable[[], float] | None = None,
    ) -> None:
        self._is_running = False
        super().__init__()
        self._clock = clock
        self._choose = choose
        self._thread_s = thread_s
        self._steps: deque[_Step] = deque()
        self._timers: list[tuple[float, int, _Step]] = []
        self._made = 0  # timers and tasks so far
        self._dying: list[Process] = []
        self.steps = 0

    # --- running ----------------------------------------------------------------------------------------------------
    def run_until_complete(self, future: Any) -> Any:
        """Run a coroutine to its end and return its result.

        Raises RuntimeError when it waits for something that no step and no timer will bring.
        """
        if events._get_running_loop() is not None:  # pyright: ignore[reportPrivateUsage] # noqa: SLF001 - the door for makers of loops
            raise RuntimeError("a virtual loop cannot run inside another loop")
        events._set_running_loop(self)  # pyright: ignore[reportPrivateUsage] # noqa: SLF001 - as above
        self._is_running = True
        try:
            task = self.create_task(future)
            while not task.done():
                self._step()
            return task.result()
        finally:
            self._leave_nothing()
            self._is_running = False
            events._set_running_loop(None)  # pyright: ignore[reportPrivateUsage] # noqa: SLF001 - as above

    def spawn(self, process: Process, coro: Coroutine[Any, Any, R]) -> asyncio.Task[R]:
        """Begin `coro` as part of `process`."""
        return self.create_task(coro, context=process.context)

    def kill(self, process: Process) -> None:
        """End `process` here: no step of it is made any more, and nothing of its memory is left."""
        if process.is_dead:
            return
        process.is_dead = True
        self._dying.append(process)

    def _step(self) -> None:
        handle, context, callback, args, process = self._next()
        if handle.cancelled() or (process is not None and process.is_dead):
            return
        self.steps += 1
        if process is not None:
            process.steps += 1
            if process.steps == process.dies_at:
                self.kill(process)
                self._bury()
                return
        with contextlib.suppress(Killed):  # the process says so itself
            context.run(callback, *args)
        if self._dying:
            self._bury()

    def _next(self) -> _Step:
        ready = self._steps
        if ready:
            if self._choose is not None and len(ready) > 1:
                place = self._choose(len(ready))
                ready.rotate(-place)
                step = ready.popleft()
                ready.rotate(place)
                return step
            return ready.popleft()
        while self._timers:
            at, _, step = heapq.heappop(self._timers)
            if step[0].cancelled() or (step[4] is not None and step[4].is_dead):
                continue
            self._clock.advance(max(0.0, math.ceil((at - self.time()) * 1_000_000 - 0.001) / 1_000_000))
            return step
        raise RuntimeError("everything waits, and for nothing that time will bring")

    def _bury(self) -> None:
        """Close what the dead have left, in their own context: a coroutine must not be closed by chance, later."""
        while self._dying:
            process = self._dying.pop()
            for task in process.tasks:
                if not task.done():
                    process.context.run(_close, task)
            process.tasks.clear()
            if process.at_death is not None:
                process.at_death()

    def _leave_nothing(self) -> None:
        """Take apart what still waits when the main coroutine has ended."""
        left = sorted((task for task in asyncio.all_tasks(self) if isinstance(task, _Task)), key=hash)
        for process in [task.process for task in left if task.process is not None]:
            process.at_death = None
            self.kill(process)
        self._bury()
        for task in left:
            _close(task)

    # --- what asyncio asks for --------------------------------------------------------------------------------------
    def time(self) -> float:
        """Seconds of the clock."""
        return self._clock.monotonic()

    def call_soon(
        self, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """See asyncio."""
        context = context if context is not None else copy_context()
        handle = asyncio.Handle(callback, args, self, context)
        self._steps.append((handle, context, callback, args, context.get(_process)))
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """As `call_soon`: there are no threads."""
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """See asyncio."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """See asyncio."""
        context = context if context is not None else copy_context()
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._made += 1
        heapq.heappush(self._timers, (when, self._made, (handle, context, callback, args, context.get(_process))))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        """See asyncio."""
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Any, *, name: object = None, context: Context | None = None, **_options: Any
    ) -> asyncio.Task[Any]:
        """See asyncio."""
        context = context if context is not None else copy_context()
        self._made += 1
        task = _Task(self._made, coro, self, context)
        if name is not None:
            task.set_name(name)
        task.process = context.get(_process)
        if task.process is not None:
            task.process.tasks.append(task)
        return task

    def run_in_executor(self, executor: Any, func: Callable[[*_Ts], R], *args: *_Ts) -> asyncio.Future[R]:
        """Call `func` in a step of its own, and answer when a thread would have ended."""
        answer: asyncio.Future[R] = self.create_future()
        waits_s = self._thread_s() if executor is None and self._thread_s is not None else 0.0  # for a thread
        self.call_later(waits_s, self._work, answer, func, args)
        return answer

    def _work(self, answer: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]) -> None:
        value: object = None
        with Boundary() as caught:
            value = func(*args)
        lasts_s = self._thread_s() if self._thread_s is not None else 0.0
        self.call_later(lasts_s, _answer, answer, caught.error, value)

    def get_debug(self) -> bool:
        """See asyncio."""
        return False

    def is_running(self) -> bool:
        """See asyncio."""
        return self._is_running

    def is_closed(self) -> bool:
        """Whenever it does not run: there is nothing to close."""
        return not self._is_running

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Say nothing: killed tasks are no news here."""

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Timers that were cancelled are passed over when their time comes."""


def _answer(answer: asyncio.Future[Any], error: Exception | None, value: object) -> None:
    if answer.done():
        return
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(value)


def _close(task: asyncio.Task[Any]) -> None:
    """Take a killed task's coroutine apart. Whatever it tries to wait for or to write, it gets no more."""
    coro = task.get_coro()
    for _ in range(_CLOSINGS_MAX):
        with contextlib.suppress(*_UNWINDING), Boundary() as caught:
            coro.close()
            return
        if not isinstance(caught.error, RuntimeError):  # it is when the coroutine waits for something once more
            return
