"""`perdure.sync.Task`: what a plain program holds. Each call is done by the `perdure.Task` on the portal's loop."""
# ruff: noqa: ANN401 - acts pass on a tool's own parameters and results, programs return what they like

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Never, ParamSpec, TypeVar, assert_never, cast, overload

from perdure.engine import task as handles
from perdure.engine.boundary import Boundary
from perdure.engine.handle import Change
from perdure.engine.loops import Each, Place, current_place
from perdure.engine.portal import Portal
from perdure.engine.session import editing
from perdure.model.advice import Advice
from perdure.model.budget import BudgetState, Cost
from perdure.model.effect import Effect
from perdure.model.outcome import Outcome
from perdure.model.strategy import Strategy
from perdure.tools import Tool

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Reducer = Callable[[Any, R], object]  # (writable state, result); runs in the portal's thread

_END: Final = object()  # of a loop


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

    @property
    def facts(self) -> list[str]:
        """As `perdure.Task.facts`."""
        return self._inner.facts

    @property
    def answers(self) -> dict[str, str]:
        """As `perdure.Task.answers`."""
        return self._portal.do(lambda: self._inner.answers)

    @property
    def checks(self) -> dict[str, int]:
        """As `perdure.Task.checks`."""
        return self._portal.do(lambda: self._inner.checks)

    @property
    def plan(self) -> list[str]:
        """As `perdure.Task.plan`."""
        return self._portal.do(lambda: self._inner.plan)

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

    def adopt(self, steps: Sequence[str], *, then: Change | None = None) -> None:
        """As `perdure.Task.adopt`. `then=` runs in the portal's thread."""
        self._portal.call(self._inner.adopt, steps, then=then)

    def begin_step(self, name: str, *, then: Change | None = None) -> None:
        """As `perdure.Task.begin_step`. `then=` runs in the portal's thread."""
        self._portal.call(self._inner.begin_step, name, then=then)

    def note(self, text: str, *, then: Change | None = None, **fields: Any) -> None:
        """As `perdure.Task.note`. `then=` runs in the portal's thread."""
        self._portal.call(self._inner.note, text, then=then, **fields)

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

    def checkpoint(self, name: str, *, then: Change | None = None) -> None:
        """As `perdure.Task.checkpoint`. `then=` runs in the portal's thread."""
        self._portal.call(self._inner.checkpoint, name, then=then)

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
        then: Change | None = None,
    ) -> None:
        """As `perdure.Task.check`; a function is called here, in this thread, and `then=` in the portal's."""
        judged = _judged(verdict) if callable(verdict) else verdict
        self._portal.call(self._inner.check, name, judged, failure_class=failure_class, reason=reason, then=then)

    def settle(self, action_id: str, outcome: Outcome | None, *, by: str = "program") -> None:
        """As `perdure.Task.settle`."""
        self._portal.call(self._inner.settle, action_id, outcome, by=by)


class Using:
    """A task with settings for one call; made by `Task.using`."""

    def __init__(self, portal: Portal, inner: handles.Using) -> None:
        self._portal = portal
        self._inner = inner

    def asked_by(self, tool: str, key: str) -> Using:
        """As of `perdure.Task.using`."""
        return Using(self._portal, self._inner.asked_by(tool, key))

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
