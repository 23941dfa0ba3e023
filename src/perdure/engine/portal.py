"""Doors into an event loop from other threads, and back: what `perdure.sync` is made of. Knows nothing of tasks.

A `Portal` does a call on its loop while the calling thread waits; a `Desk` is a thread that does, while it waits for
such a call, what code on the loop asks it to. Neither decides anything; both carry results and exceptions as they are.
A loop that must not run ahead of threads that may call it asks `callers` which of them do not wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import queue
import threading
import weakref
from collections.abc import Callable, Coroutine, Generator
from concurrent import futures
from contextlib import AbstractAsyncContextManager
from contextvars import Context
from types import TracebackType
from typing import Any, Final, Generic, NamedTuple, ParamSpec, TypeVar

from perdure.errors import LoopBlocked

P = ParamSpec("P")
T = TypeVar("T")

_INTERRUPTS: Final = (KeyboardInterrupt, SystemExit)  # an event loop does not survive them: they stay in their thread
_used: Final[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, set[Portal]]] = weakref.WeakKeyDictionary()


class Callers(NamedTuple):
    """The threads that may call a loop."""

    is_one_on_its_way: bool  # a job's thread computes, and no other may be what it waits for
    outside: int  # threads that have called and do not wait for the loop now; they may wait for each other
    calls: int  # so far, begun and ended: whether anything has moved


def callers(loop: asyncio.AbstractEventLoop) -> Callers:
    """Return what is to be expected of the threads that do jobs for `loop` (`Portal.serve`); on the loop."""
    portals = _used.get(loop, ())
    outside = [portal.outside for portal in portals]
    is_alone = any(portal.is_alone for portal in portals)
    return Callers(is_alone, sum(outside), sum(portal.moves for portal in portals))


class Portal:
    """A door into one event loop; any other thread may use it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, thread: int) -> None:
        self._loop = loop
        self._thread = thread  # of the loop
        self._calls: set[_Call[Any]] = set()
        self._threads: weakref.WeakSet[threading.Thread] = (
            weakref.WeakSet()
        )  # that have called, and the one that does the job
        self._is_closed = False
        self.moves = 0  # how often a call has begun, or its thread gone on

    @classmethod
    def here(cls) -> Portal:
        """Return a portal into the running loop."""
        return cls(asyncio.get_running_loop(), threading.get_ident())

    def call(self, fn: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Await `fn(…)` on the loop, in a copy of this thread's context; return or raise what it does.

        Ctrl-C in this thread cancels it, waits for its end, and is raised. Raises LoopBlocked in the loop's own thread.
        """
        return self.begin(functools.partial(fn, *args, **kwargs)).wait()

    def do(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """As `call`, for a plain function."""

        async def run() -> T:
            return fn(*args, **kwargs)

        return self.call(run)

    def post(self, fn: Callable[[], object]) -> None:
        """Let the loop call `fn` soon, and do not wait for it."""
        self._loop.call_soon_threadsafe(fn)

    @contextlib.contextmanager
    def hold(
        self, fn: Callable[P, AbstractAsyncContextManager[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Generator[T]:
        """Enter `fn(…)` on the loop, run the block here, leave it on the loop, all in one asyncio task."""
        entered: futures.Future[T] = futures.Future()
        block = _Block()
        call = self.begin(lambda: _hold(fn(*args, **kwargs), entered, block), block)
        call.done.add_done_callback(lambda _: entered.cancel())
        try:
            value = entered.result()
        except futures.CancelledError:  # it was not entered
            call.wait()
            raise RuntimeError("entered, and not known to be") from None
        except _INTERRUPTS:
            call.cancel_and_wait()
            raise
        with _Door(self._loop, call, block):
            yield value

    def serve(self, desk: Desk, fn: Callable[[], T], context: Context) -> tuple[futures.Future[T], asyncio.Future[T]]:
        """Let the desk's thread call `fn`, which may use this portal; on the loop. Return its end, for both sides."""

        def run() -> T:
            self.post(functools.partial(self._threads.add, threading.current_thread()))
            return fn()

        _used.setdefault(self._loop, set()).add(self)
        job = desk.do(run, context)
        done = asyncio.wrap_future(job, loop=self._loop)
        done.add_done_callback(lambda _: self._forget())
        return job, done

    @property
    def is_alone(self) -> bool:
        """Whether nobody waits for the loop: the thread of the job is on its way to its next call, or its end."""
        return not any(call.is_waited_for for call in tuple(self._calls))

    @property
    def outside(self) -> int:
        """How many threads could make a call now."""
        inside = {call.thread for call in tuple(self._calls) if call.is_waited_for}
        return sum(thread.is_alive() and thread not in inside for thread in tuple(self._threads))

    def begin(self, make: Callable[[], Coroutine[Any, Any, T]], block: _Block | None = None) -> _Call[T]:
        """Begin a call on the loop and return it, to be waited for (except while `block` runs)."""
        if threading.get_ident() == self._thread:
            raise LoopBlocked
        if self._is_closed:
            raise asyncio.CancelledError
        call = _Call(self._loop, make, block)
        self._calls.add(call)
        call.done.add_done_callback(lambda _: self._end(call))
        self._loop.call_soon_threadsafe(self._start, call)
        return call

    def wait_for_calls(self) -> None:
        """Wait until all that was begun here has ended."""
        futures.wait([call.done for call in list(self._calls)])

    def close(self) -> None:
        """Cancel the calls under way and refuse new ones; from the loop's thread."""
        self._is_closed = True
        self._forget()
        for call in list(self._calls):
            call.cancel()

    def _start(self, call: _Call[Any]) -> None:
        if self._is_closed:
            call.cancel()
        self._threads.add(call.thread)
        self.moves += 1
        call.start()

    def _end(self, call: _Call[Any]) -> None:
        self._calls.discard(call)
        self.moves += 1

    def _forget(self) -> None:
        _used.get(self._loop, set()).discard(self)


class Desk:
    """A thread that waits for a call on a loop, and meanwhile does what the loop asks for."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.interrupt: BaseException | None = None  # Ctrl-C or exit that ended a job

    def do(self, fn: Callable[[], T], context: Context) -> futures.Future[T]:
        """Let the desk's thread call `fn` in `context`; Ctrl-C in it is kept, and cancels the future."""
        done: futures.Future[T] = futures.Future()
        self._jobs.put(lambda: self._run(fn, context, done))
        return done

    def serve(self, call: _Call[T]) -> T:
        """Do jobs in this thread until `call` is done; return or raise what it does, or the Ctrl-C of a job."""
        call.done.add_done_callback(lambda _: self._jobs.put(None))
        try:
            while (job := self._jobs.get()) is not None:
                job()
        except _INTERRUPTS:  # between two jobs
            call.cancel_and_wait()
            raise
        if self.interrupt is not None:
            raise self.interrupt
        return call.wait()

    def attend(self) -> None:
        """Be a thread of one's own for one job."""
        job = self._jobs.get()
        if job is not None:
            job()

    def _run(self, fn: Callable[[], T], context: Context, done: futures.Future[T]) -> None:
        with _Carrier(self, done):
            done.set_result(context.run(fn))


@contextlib.contextmanager
def new_portal() -> Generator[Portal]:
    """Run an event loop in a thread of its own while the block runs; leaving it waits for the thread."""
    ready: futures.Future[tuple[Portal, asyncio.Event]] = futures.Future()

    async def serve() -> None:
        over = asyncio.Event()
        ready.set_result((Portal.here(), over))
        await over.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), name="perdure-portal", daemon=True)
    thread.start()
    portal, over = ready.result()
    try:
        yield portal
    finally:
        portal.post(over.set)
        thread.join()


class _Call(Generic[T]):
    """A coroutine on its way on a loop, seen from another thread."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, make: Callable[[], Coroutine[Any, Any, T]], block: _Block | None
    ) -> None:
        self.done: futures.Future[T] = futures.Future()
        self.thread = threading.current_thread()
        self._loop = loop
        self._make = make
        self._block = block
        self._task: asyncio.Task[T] | None = None
        self._is_cancelled = False

    def start(self) -> None:
        """On the loop: begin."""
        if self._is_cancelled:
            self.done.set_exception(asyncio.CancelledError())
            return
        self._task = self._loop.create_task(self._make())
        self._task.add_done_callback(self._finish)

    @property
    def is_waited_for(self) -> bool:
        """On the loop: whether its thread can do nothing before the loop does."""
        is_inside = self._block is None or not self._block.runs
        return self._task is not None and is_inside and not self.done.done()

    def cancel(self) -> None:
        """On the loop: cancel it."""
        self._is_cancelled = True
        if self._task is not None:
            self._task.cancel()

    def wait(self) -> T:
        """Return or raise what it does; Ctrl-C cancels it first."""
        try:
            return self.done.result()
        except _INTERRUPTS:
            self.cancel_and_wait()
            raise

    def cancel_and_wait(self) -> None:
        """Cancel it and wait for its end, however it ends."""
        self._loop.call_soon_threadsafe(self.cancel)
        self.done.exception()

    def _finish(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.done.set_exception(asyncio.CancelledError())
        elif (error := task.exception()) is not None:
            self.done.set_exception(error)
        else:
            self.done.set_result(task.result())


class _Carrier:
    """Carries whatever a job raises to who waits for it; Ctrl-C stays with the desk, and cancels the wait."""

    def __init__(self, desk: Desk, done: futures.Future[Any]) -> None:
        self._desk = desk
        self._done = done

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> bool:
        if isinstance(error, _INTERRUPTS):
            self._desk.interrupt = error
            self._done.cancel()
        elif error is not None:
            self._done.set_exception(error)
        return True


class _Door:
    """The end of a held block: what leaves it goes through the context manager on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, call: _Call[None], block: _Block) -> None:
        self._loop = loop
        self._call = call
        self._block = block

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> bool:
        """Return whether the exception was swallowed; raise where another one came of it."""
        carried = asyncio.CancelledError() if isinstance(error, _INTERRUPTS) else error
        self._loop.call_soon_threadsafe(self._block.leave, carried)
        try:
            self._call.wait()
        except BaseException as after:
            if after is carried or isinstance(error, _INTERRUPTS):
                return False
            raise
        return True


class _Block:
    """A held block: whether it runs, how and when it is left."""

    def __init__(self) -> None:
        self.runs = False  # in its thread
        self._event = asyncio.Event()
        self._error: BaseException | None = None

    def leave(self, error: BaseException | None) -> None:
        """On the loop: let it be left, by `error` if it is one."""
        self._error = error
        self.runs = False
        self._event.set()

    async def wait(self) -> None:
        """Wait for that."""
        await self._event.wait()
        if self._error is not None:
            raise self._error


async def _hold(manager: AbstractAsyncContextManager[T], entered: futures.Future[T], block: _Block) -> None:
    async with manager as value:
        block.runs = True
        entered.set_result(value)
        await block.wait()
