"""`perdure.sync`: the same API without `await`, for plain functions and threads.

    with perdure.sync.open() as runtime:
        print(runtime.run(report, "report-42", args={"urls": urls}))

A portal leads into an event loop that runs in a thread of its own; what is called here is done there and waited for, so
no logic is copied. A plain program, and the body of an `edit`, run in the thread that called `run`; reducers (`then=`)
and coroutine tools run in the portal's. Written by users; `perdure resume` and the asynchronous runtime run plain
programs as well, in a thread that they get for it.
"""
# ruff: noqa: ANN401 - acts pass on a tool's own parameters and results, programs return what they like

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import os
import threading
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar, copy_context
from typing import Any, Concatenate, Final, Never, ParamSpec, Protocol, TypeVar, Unpack, assert_never, cast, overload

from perdure.engine import programs
from perdure.engine import runtime as engine
from perdure.engine import task as handles
from perdure.engine.boundary import Boundary
from perdure.engine.driving import Drivable
from perdure.engine.forking import ForkPlan
from perdure.engine.loops import Each, Place, current_place
from perdure.engine.opening import open_runtime
from perdure.engine.portal import Desk, Portal, new_portal
from perdure.engine.programs import Program, ProgramOptions
from perdure.engine.report import ReportRow
from perdure.engine.session import editing
from perdure.errors import StopRequested, UsageError
from perdure.limits import THREAD_LEAVE_S
from perdure.model.advice import Advice
from perdure.model.budget import Budget, BudgetState, Cost
from perdure.model.effect import Effect
from perdure.model.outcome import Outcome
from perdure.model.strategy import Strategy
from perdure.tools import Tool

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Reducer = Callable[[Any, R], object]  # (writable state, result); runs in the portal's thread

_END: Final = object()  # of a loop
_desk: Final[ContextVar[Desk | None]] = ContextVar("perdure_desk", default=None)  # of the thread that waits in `run`

__all__ = ["Runtime", "Task", "Using", "open", "program"]


@contextlib.contextmanager
def open(store: str | os.PathLike[str] | None = None, **options: Any) -> Generator[Runtime]:  # noqa: A001 - the public name
    """Open a store and a runtime on it, as `perdure.open`: `with perdure.sync.open() as runtime:`.

    Leaving the block waits for calls of other threads; where it is left by an exception, their tasks are paused first.
    """
    with new_portal() as door, door.hold(open_runtime, store, **options) as inner:
        portal = door.do(Portal.here)  # another into the same loop, with calls of its own
        runtime = Runtime(portal, inner)
        try:
            yield runtime
        except BaseException:
            runtime.request_stop("pause")
            raise
        finally:
            portal.wait_for_calls()


class DeclareProgram(Protocol):
    """What `program(...)` returns: makes a program of a plain function."""

    def __call__(self, fn: Callable[Concatenate[Any, P], R], /) -> Program[P, R]:
        """Make the program."""
        ...


@overload
def program(fn: Callable[Concatenate[Any, P], R], /) -> Program[P, R]: ...
@overload
def program(**options: Unpack[ProgramOptions]) -> DeclareProgram: ...
def program(fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Declare a plain function as a program: `@perdure.sync.program`, with the options of `perdure.program`.

    The function gets a `perdure.sync.Task`. It is found again by its import path as any program. Raises as
    `perdure.program`; UsageError for a coroutine function.
    """

    def declare(fn: Callable[..., Any], /) -> Program[..., Any]:
        if inspect.iscoroutinefunction(fn):
            raise UsageError(f"{fn.__name__!r} is a coroutine function; declare it by `@perdure.program`")

        @functools.wraps(fn)
        async def bridge(task: handles.Task, /, **arguments: Any) -> Any:
            return await _run_body(fn, task, arguments)

        return programs.program(**options)(bridge)

    return declare if fn is None else declare(fn)


class _Visits:
    """What a person does to a task; the half of `Runtime` that runs no program."""

    def __init__(self, portal: Portal, inner: engine.Runtime) -> None:
        self._portal = portal
        self._inner = inner

    def settle(self, task: str, action: str, outcome: Outcome | None, *, by: str = "person") -> None:
        """As `perdure.Runtime.settle`."""
        self._portal.call(self._inner.settle, task, action, outcome, by=by)

    def rollback(
        self, task: str, checkpoint: str, *, by: str = "person", carry: bool = False, force: bool = False
    ) -> None:
        """As `perdure.Runtime.rollback`."""
        self._portal.call(self._inner.rollback, task, checkpoint, by=by, carry=carry, force=force)

    def checkpoint(self, task: str, name: str, *, by: str = "person") -> int:
        """As `perdure.Runtime.checkpoint`."""
        return self._portal.call(self._inner.checkpoint, task, name, by=by)

    def fork(self, task: str, at: int | str = "", *, into: str, name: str = "") -> ForkPlan:
        """As `perdure.Runtime.fork`."""
        return self._portal.call(self._inner.fork, task, at, into=into, name=name)

    def set_budget(self, task: str, budget: Budget | str, *, by: str = "person") -> None:
        """As `perdure.Runtime.set_budget`."""
        self._portal.call(self._inner.set_budget, task, budget, by=by)

    def stop_task(self, task: str, what: str, *, by: str = "person") -> None:
        """As `perdure.Runtime.stop_task`."""
        self._portal.call(self._inner.stop_task, task, what, by=by)

    def take_over(self, task: str, *, by: str = "person") -> None:
        """As `perdure.Runtime.take_over`."""
        self._portal.call(self._inner.take_over, task, by=by)

    def hand_back(self, task: str, *, say: str = "", by: str = "") -> tuple[str, ...]:
        """As `perdure.Runtime.hand_back`."""
        return self._portal.call(self._inner.hand_back, task, say=say, by=by)

    def edit_state(
        self,
        task: str,
        assign: Sequence[tuple[str, object]],
        remove: Sequence[str] = (),
        *,
        program: Drivable | None = None,
    ) -> bool:
        """As `perdure.Runtime.edit_state`."""
        return self._portal.call(self._inner.edit_state, task, assign, remove, program=program)

    def adopt_plan(self, task: str, steps: Sequence[str]) -> bool:
        """As `perdure.Runtime.adopt_plan`."""
        return self._portal.call(self._inner.adopt_plan, task, steps)


class Runtime(_Visits):
    """Runs tasks of one store for plain code; made by `perdure.sync.open`. Any thread may call it."""

    def run(  # noqa: PLR0913 - as `perdure.Runtime.run`
        self,
        program: Drivable,
        name: str,
        *,
        goal: str = "",
        args: Mapping[str, Any] | None = None,
        new: bool = False,
        workspace: str = "",
        budget: Budget | str | None = None,
    ) -> Any:
        """As `perdure.Runtime.run`. A plain program runs in this thread; Ctrl-C in it pauses the task and is raised."""
        make = functools.partial(self._inner.run, program, name, goal=goal, args=args, new=new, workspace=workspace)
        return self._at_desk(functools.partial(make, budget=budget))

    def resume(
        self,
        task: str,
        program: Drivable,
        *,
        again: bool = False,
        accept: Sequence[str] = (),
        budget: Budget | str | None = None,
    ) -> Any:
        """As `perdure.Runtime.resume`."""
        return self._at_desk(lambda: self._inner.resume(task, program, again=again, accept=accept, budget=budget))

    @contextlib.contextmanager
    def task(
        self,
        name: str,
        *,
        goal: str = "",
        state: Mapping[str, Any] | None = None,
        workspace: str = "",
        new: bool = False,
        budget: Budget | str | None = None,
    ) -> Generator[Task]:
        """As `perdure.Runtime.task`: hold a task in a `with` block, for scripts."""
        enter = functools.partial(self._inner.task, name, goal=goal, state=state, workspace=workspace, new=new)
        with self._portal.hold(enter, budget=budget) as inner:
            yield Task(self._portal, inner)

    def report(self, task: str, program: Drivable | None = None) -> tuple[ReportRow, ...]:
        """As `perdure.Runtime.report`."""
        return self._portal.call(self._inner.report, task, program)

    def learned(self, *tasks: str) -> tuple[tuple[str, int, int], ...]:
        """As `perdure.Runtime.learned`."""
        return self._portal.call(self._inner.learned, *tasks)

    def result(self, task: str) -> Any:
        """As `perdure.Runtime.result`."""
        return self._portal.call(self._inner.result, task)

    def request_stop(self, what: str = "pause", *, by: str = "signal") -> None:
        """As `perdure.Runtime.request_stop`: let every task stop at its next action; asked a second time, now."""
        self._portal.do(self._inner.request_stop, what, by=by)

    def _at_desk(self, make: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Run a program; a plain one comes back to this thread, which waits here."""
        desk = Desk()

        async def run() -> Any:
            _desk.set(desk)
            return await make()

        return desk.serve(self._portal.begin(run))


class _Handle:
    """The quiet half of `Task`: what the task is, and what its program says of itself."""

    def __init__(self, portal: Portal, inner: handles.Task) -> None:
        self._portal = portal
        self._inner = inner

    @property
    def id(self) -> str:
        """The task's id."""
        return self._inner.id

    @property
    def name(self) -> str:
        """The task's name."""
        return self._inner.name

    @property
    def goal(self) -> str:
        """What is wanted."""
        return self._inner.goal

    @property
    def workspace(self) -> str:
        """Folder of the task's files."""
        return self._inner.workspace

    @property
    def attempt(self) -> int:
        """1 at the first call of the program, one more at each new call."""
        return self._inner.attempt

    @property
    def status(self) -> str:
        """Where the task stands."""
        return self._inner.status

    @property
    def budget(self) -> BudgetState:
        """What the task has spent, and how that stands to its budget."""
        return self._portal.do(lambda: self._inner.budget)

    @property
    def strategy(self) -> Strategy:
        """The strategy to follow."""
        return self._inner.strategy

    @property
    def counts(self) -> dict[str, int]:
        """As `perdure.Task.counts`."""
        return self._portal.do(lambda: self._inner.counts)

    @property
    def lessons(self) -> list[str]:
        """What abandoned branches taught."""
        return self._inner.lessons

    @property
    def advice(self) -> Advice:
        """As `perdure.Task.advice`."""
        return self._inner.advice

    def brief(self) -> str:
        """As `perdure.Task.brief`."""
        return self._inner.brief()

    @property
    def state(self) -> Any:
        """The state, read-only."""
        return self._inner.state

    @property
    def messages(self) -> list[str]:
        """What people have told the task."""
        return self._inner.messages

    def adopt(self, steps: Sequence[str]) -> None:
        """As `perdure.Task.adopt`."""
        self._portal.call(self._inner.adopt, steps)

    def begin_step(self, name: str) -> None:
        """As `perdure.Task.begin_step`."""
        self._portal.call(self._inner.begin_step, name)

    def note(self, text: str, **fields: Any) -> None:
        """As `perdure.Task.note`."""
        self._portal.call(self._inner.note, text, **fields)

    def fact(self, text: str, *, source: str = "") -> None:
        """As `perdure.Task.fact`."""
        self._portal.call(self._inner.fact, text, source=source)

    def ask(self, question: str, *, key: str = "", wait_s: float = 0.0) -> str:
        """As `perdure.Task.ask`."""
        return self._portal.call(self._inner.ask, question, key=key, wait_s=wait_s)

    def ask_all(self, questions: Mapping[str, str], *, wait_s: float = 0.0) -> dict[str, str]:
        """As `perdure.Task.ask_all`."""
        return self._portal.call(self._inner.ask_all, questions, wait_s=wait_s)

    def fail(self, reason: str) -> Never:
        """As `perdure.Task.fail`."""
        assert_never(self._portal.call(self._inner.fail, reason))

    def now(self) -> int:
        """As `perdure.Task.now`."""
        return self._portal.do(self._inner.now)

    def random(self) -> float:
        """As `perdure.Task.random`."""
        return self._portal.do(self._inner.random)

    def new_id(self) -> str:
        """As `perdure.Task.new_id`."""
        return self._portal.do(self._inner.new_id)


class Task(_Handle):
    """One task in the hands of plain code."""

    @overload
    def act(self, tool: Tool[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def act(self, tool: Tool[..., R], /, *args: Any, then: Reducer[R], **kwargs: Any) -> R: ...
    def act(self, tool: Any, /, *args: Any, **kwargs: Any) -> Any:
        """As `perdure.Task.act`. `then=` runs in the portal's thread and may not call the task."""
        return self._portal.call(self._inner.act, tool, *args, **kwargs)

    def act_outcome(self, tool: Tool[..., R], /, *args: Any, then: Reducer[R] | None = None, **kwargs: Any) -> Outcome:
        """As `perdure.Task.act_outcome`."""
        return self._portal.call(self._inner.act_outcome, tool, *args, then=then, **kwargs)

    def using(  # noqa: PLR0913 - as `perdure.Task.using`
        self,
        *,
        key: str = "",
        timeout_s: float | None = None,
        fresh: bool = False,
        result_type: Any = None,
        effect: Effect | None = None,
        name: str = "",
        reserve: Cost | None = None,
    ) -> Using:
        """As `perdure.Task.using`."""
        make = functools.partial(self._inner.using, key=key, timeout_s=timeout_s, fresh=fresh, name=name)
        return Using(self._portal, make(result_type=result_type, effect=effect, reserve=reserve))

    def each(self, name: str, items: Iterable[T]) -> Iterator[T]:
        """As `perdure.Task.each`: `for item in task.each("name", items):`. The items are made a list first."""
        return self._walk(self._portal.do(self._inner.each, name, list(items)))

    def _walk(self, loop: Each[T]) -> Iterator[T]:
        outer = current_place.get()
        try:
            while True:
                item, place = self._portal.call(_next_of, loop)
                current_place.set(place)  # a call takes the context of the thread that makes it
                if item is _END:
                    return
                yield cast("T", item)
        finally:
            current_place.set(outer)

    def map(self, name: str, tool: Tool[[T], R], items: Sequence[T], *, concurrency: int = 8) -> list[R]:
        """As `perdure.Task.map`."""
        return self._portal.call(self._inner.map, name, tool, items, concurrency=concurrency)

    @contextlib.contextmanager
    def edit(self, *, count: Mapping[str, int] | None = None) -> Generator[Any]:
        """As `perdure.Task.edit`: `with task.edit() as state:`; the block runs in this thread."""
        with self._portal.hold(self._inner.edit, count=count) as state:
            token = editing.set(self.id)
            try:
                yield state
            finally:
                editing.reset(token)

    def checkpoint(self, name: str) -> None:
        """As `perdure.Task.checkpoint`."""
        self._portal.call(self._inner.checkpoint, name)

    def rollback(self, name: str, *, reason: str = "", carry: bool = False, force: bool = False) -> Never:
        """As `perdure.Task.rollback`."""
        assert_never(self._portal.call(self._inner.rollback, name, reason=reason, carry=carry, force=force))

    def check(
        self,
        name: str,
        verdict: bool | Callable[[], object],  # noqa: FBT001 - it is the point of the call
        *,
        failure_class: handles.CheckClass = "output",
        reason: str = "",
    ) -> None:
        """As `perdure.Task.check`; a function is called here, in this thread."""
        judged = _judged(verdict) if callable(verdict) else verdict
        self._portal.call(self._inner.check, name, judged, failure_class=failure_class, reason=reason)

    def settle(self, action_id: str, outcome: Outcome | None, *, by: str = "program") -> None:
        """As `perdure.Task.settle`."""
        self._portal.call(self._inner.settle, action_id, outcome, by=by)


class Using:
    """A task with settings for one call; made by `Task.using`."""

    def __init__(self, portal: Portal, inner: handles.Using) -> None:
        self._portal = portal
        self._inner = inner

    @overload
    def act(self, tool: Tool[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def act(self, tool: Tool[..., R], /, *args: Any, then: Reducer[R], **kwargs: Any) -> R: ...
    def act(self, tool: Any, /, *args: Any, **kwargs: Any) -> Any:
        """As `Task.act`."""
        return self._portal.call(self._inner.act, tool, *args, **kwargs)

    def act_outcome(self, tool: Tool[..., R], /, *args: Any, then: Reducer[R] | None = None, **kwargs: Any) -> Outcome:
        """As `Task.act_outcome`."""
        return self._portal.call(self._inner.act_outcome, tool, *args, then=then, **kwargs)


async def _run_body(fn: Callable[..., Any], task: handles.Task, arguments: Mapping[str, Any]) -> Any:
    """Call a plain program in the thread that waits for it, or in one of its own; on the loop, as its program."""
    portal = Portal.here()
    desk = _desk.get() or _new_desk(task.name)
    job, done = portal.serve(desk, lambda: _called(fn, Task(portal, task), arguments), copy_context())
    done.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # perhaps nobody waits any more
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        if job.cancelled():  # by Ctrl-C in its thread
            raise StopRequested(task.id, "pause", "signal") from None
        portal.close()
        await asyncio.wait({done}, timeout=THREAD_LEAVE_S)
        raise


def _called(fn: Callable[..., Any], task: Task, arguments: Mapping[str, Any]) -> Any:
    try:
        return fn(task, **arguments)
    except StopIteration as stopped:  # no future can carry it
        raise RuntimeError("the program raised StopIteration") from stopped


def _new_desk(name: str) -> Desk:
    """Return a thread for one plain program; it does not keep the process alive."""
    desk = Desk()
    threading.Thread(target=desk.attend, name=f"perdure-program {name}", daemon=True).start()
    return desk


async def _next_of(loop: Each[T]) -> tuple[T | object, Place | None]:
    """Return the next item, and the place in the loop that goes with it."""
    try:
        return await anext(loop), current_place.get()
    except StopAsyncIteration:
        return _END, current_place.get()


def _judged(verdict: Callable[[], object]) -> Callable[[], object]:
    """Call `verdict` now, and return what gives or raises the same."""
    holds = False
    with Boundary() as caught:
        holds = bool(verdict())

    def judge() -> object:
        if caught.error is not None:
            raise caught.error
        return holds

    return judge
