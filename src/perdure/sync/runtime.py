"""`perdure.sync.Runtime`: runs tasks, and does what a person does to one, each call waited for."""
# ruff: noqa: ANN401 - acts pass on a tool's own parameters and results, programs return what they like

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from typing import Any

from perdure.engine import runtime as engine
from perdure.engine.driving import Drivable
from perdure.engine.forking import ForkPlan
from perdure.engine.portal import Desk, Portal
from perdure.engine.report import ReportRow
from perdure.model.budget import Budget
from perdure.model.outcome import Outcome
from perdure.ports import Message
from perdure.sync.bodies import desk_of_caller
from perdure.sync.task import Task


class _Visits:
    """What a person does to a task; the half of `Runtime` that runs no program."""

    def __init__(self, portal: Portal, inner: engine.Runtime) -> None:
        self._portal = portal
        self._inner = inner

    def settle(self, task: str, action: str, outcome: Outcome | None, *, by: str = "person") -> None:
        """As `perdure.Runtime.settle`."""
        self._portal.call(self._inner.settle, task, action, outcome, by=by)

    def rollback(
        self,
        task: str,
        checkpoint: str,
        *,
        by: str = "person",
        carry: bool = False,
        force: bool = False,
        program: Drivable | None = None,
    ) -> None:
        """As `perdure.Runtime.rollback`."""
        way = functools.partial(self._inner.rollback, by=by, carry=carry, force=force, program=program)
        self._portal.call(way, task, checkpoint)

    def abandon_rollback(self, task: str, *, by: str = "person") -> None:
        """As `perdure.Runtime.abandon_rollback`."""
        self._portal.call(self._inner.abandon_rollback, task, by=by)

    def checkpoint(self, task: str, name: str, *, by: str = "person") -> int:
        """As `perdure.Runtime.checkpoint`."""
        return self._portal.call(self._inner.checkpoint, task, name, by=by)

    def fork(self, task: str, at: int | str = "", *, into: str, name: str = "") -> ForkPlan:
        """As `perdure.Runtime.fork`."""
        return self._portal.call(self._inner.fork, task, at, into=into, name=name)

    def set_budget(self, task: str, budget: Budget | str, *, by: str = "person") -> None:
        """As `perdure.Runtime.set_budget`."""
        self._portal.call(self._inner.set_budget, task, budget, by=by)

    def say(self, task: str, message: Message) -> str:
        """As `perdure.Runtime.say`."""
        return self._portal.call(self._inner.say, task, message)

    def leave(self, task: str, message: Message) -> None:
        """As `perdure.Runtime.leave`."""
        self._portal.call(self._inner.leave, task, message)

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

    def request_stop(self, what: str = "pause", *, by: str = "signal", later: bool = False) -> None:
        """As `perdure.Runtime.request_stop`: let every task stop at its next action; asked a second time, now."""
        self._portal.do(self._inner.request_stop, what, by=by, later=later)

    def _at_desk(self, make: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Run a program; a plain one comes back to this thread, which waits here."""
        desk = Desk()

        async def run() -> Any:
            desk_of_caller.set(desk)
            return await make()

        return desk.serve(self._portal.begin(run))
