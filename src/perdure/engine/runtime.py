"""`Runtime`: lets programs drive tasks, and ends them in order.

A runtime belongs to one event loop of one process. How tasks are opened stands in `holding.py`, what people do to them
in `visiting.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import msgspec

from perdure.codec import values
from perdure.codec.redact import redact
from perdure.core.allowance import read_budget
from perdure.core.fold import Fold
from perdure.core.strategies import learned
from perdure.engine.budgeting import set_budget
from perdure.engine.driving import Drivable, drive, finish, obeyed, ungrouped
from perdure.engine.ending import hand_back_line, hand_over, refuse_parked
from perdure.engine.files import mend_files
from perdure.engine.forking import ForkPlan, make_fork, plan_fork, refuse_half
from perdure.engine.holding import Claim
from perdure.engine.loading import load_fold, recorded_result
from perdure.engine.matching import (
    checked_arguments,
    placed,
    recorded_arguments,
    refuse_ended,
    refuse_other,
    refuse_other_place,
    started_by,
    taken_over,
)
from perdure.engine.migrations import prepare
from perdure.engine.report import ReportRow, report
from perdure.engine.session import Session
from perdure.engine.task import Task
from perdure.engine.visiting import Visits
from perdure.errors import Fenced, NeedsHuman, RolledBack, StopRequested, UsageError
from perdure.limits import SNAPSHOTS_KEPT
from perdure.model import entry as e
from perdure.model.budget import NO_BUDGET, Budget
from perdure.model.ids import check_name, check_text
from perdure.model.status import TaskSummary


class Runtime(Visits):
    """Runs tasks of one store in one event loop; made by `perdure.open`."""

    # --- programs ---------------------------------------------------------------------------------------------------
    async def run(  # noqa: PLR0913 - what a task is started with, a keyword each
        self,
        program: Drivable,
        name: str,
        *,
        goal: str = "",
        args: Mapping[str, Any] | None = None,
        new: bool = False,
        workspace: str = "",
        budget: Budget | str | None = None,
    ) -> Any:  # noqa: ANN401 - the program's result
        """Start the task `name`, go on with it where it is unfinished, or return the recorded result.

        Raises TaskPaused, TaskParked, NeedsHuman, TaskFailed, TaskCancelled, TaskBusy, each with the id and the line to
        type; TaskMismatch where it is recorded with another goal, state, args or (where one is given) workspace; what
        the store raises. `new`: a new task under the same name when the last is finished.
        """
        name, goal = redact(name), redact(goal)
        if not callable(getattr(program, "driver", None)):
            called = getattr(program, "__name__", repr(program))
            raise UsageError(f"{called} is no program; write `@perdure.program` over it")
        arguments = checked_arguments(program, args or {})
        allowed = NO_BUDGET if budget is None else read_budget(budget)
        started = started_by(self._presence.holder, program, name, goal, arguments, workspace)
        started = msgspec.structs.replace(started, prior=self._world.rules.prior)
        found = await self._find(name)
        if found is None or (new and found.is_finished):
            session = await self._opened(self._start(started, program.state, allowed))
            return await self._drive(session, program, arguments)
        await refuse_other(self.store, found, started, program)
        if found.status == "needs_human":
            show = f"perdure show {shlex.quote(found.name)} --handover"
            line = hand_back_line(found.name) if found.taken_at else show
            raise NeedsHuman(found.task, found.reason, line, found.name)
        refuse_parked(found, self._world.clock, self._world.rules)
        return await self._go_on(found, program, by_hand=False)

    async def resume(
        self,
        task: str,
        program: Drivable,
        *,
        again: bool = False,
        accept: Sequence[str] = (),
        budget: Budget | str | None = None,
    ) -> Any:  # noqa: ANN401
        """Go on with an unfinished task, by hand; return its result. `again` opens a failed one.

        `accept` names rows of the report whose stop is passed over. `budget` takes the place of the task's own; as text
        it changes the limits that it names ("10 USD", "+5 USD", "tokens=none"). What is spent stays spent. Raises as
        `run`.
        """
        if budget is not None:
            read_budget(budget, None)  # what cannot be read is refused before anything is done
        found = await self.store.find(task)
        return await self._go_on(found, program, by_hand=True, again=again, accept=accept, budget=budget)

    async def _go_on(
        self,
        summary: TaskSummary,
        program: Drivable,
        *,
        by_hand: bool,
        again: bool = False,
        accept: Sequence[str] = (),
        budget: Budget | str | None = None,
    ) -> Any:  # noqa: ANN401
        if summary.is_finished and not (again and summary.status == "failed"):
            refuse_ended(summary)
            return await self.result(summary.task)
        session = await self._opened(self._claim(summary, Claim(by_hand=by_hand, program=program, drives=True)))
        if session.stop is not None:
            return await self._drive(session, program, {})
        try:
            await self._mailbox.look({session.task: session})  # an answer may have come too late for the last holder
            prepare(session, program)
            if budget is not None:
                await set_budget(session, budget, "person")
            rows = report(session.fold, program)
            stops = [row for row in rows if row.verdict == "stop" and row.name not in accept]
            if stops:
                await hand_over(session, stops[0].text)
            ledger = session.fold.ledger
            is_question = ledger.reason.startswith("question:")  # only its answer is one
            if ledger.status in {"needs_human", "failed"} and not is_question:
                answer = msgspec.Raw(values.encode("resumed by hand"))
                session.put(e.QuestionAnswered(answer=answer, by="person"))
            await mend_files(session)
            session.put(e.TaskResumed(report=tuple(str(row) for row in rows)))
            session.tell("task_resumed", report=[str(row) for row in rows])
            arguments = recorded_arguments(session)
        except Fenced as fenced:
            await self._release(session)
            raise await taken_over(session, fenced) from fenced
        except BaseException:
            await self._release(session)
            raise
        return await self._drive(session, program, arguments)

    async def report(self, task: str, program: Drivable | None = None) -> tuple[ReportRow, ...]:
        """Return what a resume would find; writes nothing and needs no lease."""
        summary = await self.store.find(task)
        fold = await load_fold(self.store, summary.task)
        await refuse_half(self.store, fold)
        return report(fold, program)

    # --- inline -----------------------------------------------------------------------------------------------------
    @contextlib.asynccontextmanager
    async def task(
        self,
        name: str,
        *,
        goal: str = "",
        state: Mapping[str, Any] | None = None,
        workspace: str = "",
        new: bool = False,
        budget: Budget | str | None = None,
    ) -> AsyncGenerator[Task]:
        """Hold a task in a `with` block, for scripts; the script itself is run again to resume.

        Leaving the block = success; an exception leaves the task unfinished. A finished task comes back read-only.
        Raises as `run`; after a rollback the block is left with RolledBack.
        """
        name, goal = redact(name), redact(goal)
        allowed = NO_BUDGET if budget is None else read_budget(budget)
        first = values.copy(dict(state or {}))
        driver = e.Driver(kind="inline")
        started = e.TaskStarted(
            name=check_name(name), goal=check_text(goal, "goal"), driver=driver, holder=self._presence.holder,
            state=e.NOTHING, workspace=placed(workspace), relative_digests=bool(workspace),
        )  # fmt: skip
        found = await self._find(name)
        if found is not None and not (new and found.is_finished):
            refuse_other_place(found, started)
            if found.is_finished:
                yield Task(self._session_of(await load_fold(self.store, found.task)))
                return
            refuse_parked(found, self._world.clock, self._world.rules)
            session = await self._opened(self._claim(found, Claim(by_hand=False, drives=True)))
        else:
            session = await self._opened(self._start(started, first, allowed))
        async with self._held(session), obeyed(session):
            await mend_files(session)
            if found is not None and session.task == found.task:
                session.put(e.TaskResumed())
            session.begin_call()
            with ungrouped():
                yield Task(session)
            await finish(session, None)
            await self._clear(session)

    # --- from outside -----------------------------------------------------------------------------------------------
    async def fork(self, task: str, at: int | str = "", *, into: str, name: str = "") -> ForkPlan:
        """Make an independent task of a moment of `task`, its files in the new folder `into`; return what was made.

        `at`: the number of an entry, or a checkpoint; the newest where none is given. The fork does not know what
        happened behind that moment; `task` is not changed, whoever works on it. Raises ForkRefused, CheckpointUnknown,
        UsageError, TaskBusy while another makes a fork of that name.
        """
        plan = await plan_fork(self.store, task, at, into, redact(name))
        fork = self._world.ids.task_id()
        self._opening.add(fork)
        try:
            await make_fork(self._world, self._presence, plan, fork, self._opening)
        finally:
            self._opening.discard(fork)
        return msgspec.structs.replace(plan, task=fork)

    def request_stop(self, what: str = "pause", *, by: str = "signal", later: bool = False) -> None:
        """Let every task of this runtime stop at its next action; asked a second time, now.

        With `later` also each that is opened from now on, before it does anything.
        """
        if later:
            self._stop_later = what, by
        for session in self._sessions.values():
            if session.stop is None:
                session.stop = StopRequested(session.task, what, by)
            elif session.runner is not None:
                session.runner.cancel()

    def fold_of(self, task: str) -> Fold | None:
        """Return the live fold of a task held here, for those who compare it with the journal; None where it is not."""
        session = self._sessions.get(task)
        return session.fold if session else None

    async def learned(self, *tasks: str) -> tuple[tuple[str, int, int], ...]:
        """Return (strategy, progress, failures) as those tasks have made of each: `prior=` of `Rules` for new ones.

        Reads only; a task may be at work, or ended. Raises TaskUnknown, TaskAmbiguous.
        """
        folds = [await load_fold(self.store, (await self.store.find(task)).task) for task in tasks]
        return tuple((name, *record) for name, record in learned(fold.ledger for fold in folds).items())

    async def result(self, task: str) -> Any:  # noqa: ANN401
        """Return the recorded result of a succeeded task; None where there is none."""
        return await recorded_result(self.store, task)

    # --- below ------------------------------------------------------------------------------------------------------
    async def _drive(self, session: Session, program: Drivable, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401
        session.runner = asyncio.current_task()
        async with self._held(session):
            prepare(session, program)
            result = await drive(session, program, arguments)
            await self._clear(session)
            return result

    async def _clear(self, session: Session) -> None:
        """Success clears temporary state: all snapshots but the last. Journal and result stay."""
        heads = await self.store.snapshots(session.task)
        await self.store.forget_snapshots(session.task, [head.seq for head in heads[: SNAPSHOTS_KEPT - 1]])


__all__ = ["RolledBack", "Runtime"]
