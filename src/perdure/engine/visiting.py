"""What people do to a task that no program drives at the moment: each visit claims it, writes, and gives it back.

Called through `Runtime` by operations and user code; the work itself is done by the module of each matter.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence

import msgspec

from perdure.codec import values
from perdure.core.allowance import read_budget
from perdure.engine import takeover
from perdure.engine.asking import take_word
from perdure.engine.budgeting import put_budget
from perdure.engine.driving import Drivable
from perdure.engine.ending import obey_stop
from perdure.engine.holding import Claim, Holding
from perdure.engine.marking import mark_by_hand
from perdure.engine.rollback import abandon_rollback, roll_back
from perdure.engine.session import Session
from perdure.engine.settling import settle
from perdure.engine.takeover import refuse_taken
from perdure.errors import StopRequested, TaskBusy
from perdure.limits import TICK_S, VISIT_LOOKS_MAX
from perdure.model import entry as e
from perdure.model.budget import Budget
from perdure.model.outcome import Outcome
from perdure.ports import Message


class Visits(Holding):
    """The half of a runtime that calls no program."""

    async def settle(self, task: str, action: str, outcome: Outcome | None, *, by: str = "person") -> None:
        """Say how an open or doubtful action of a task that nobody holds ended; None keeps it as a fact."""
        session = await self._opened(self._claim(await self.store.find(task), Claim(finish=False, acts=True)))
        async with self._held(session):
            await settle(session, action, outcome, by=by)

    async def rollback(
        self,
        task: str,
        checkpoint: str,
        *,
        by: str = "person",
        carry: bool = False,
        force: bool = False,
        program: Drivable | None = None,
    ) -> None:
        """Roll a task that nobody holds back to `checkpoint`: state, effects and files.

        What a tool has done is taken back by its `undo=`, looked for first in the module of `program`. Effects that
        cannot be taken back stop it, unless they are to stay: `carry` tells the new branch of each by a fact, `force`
        does not. Raises CheckpointUnknown, RollbackRefused, ToolNotFound, TaskFinished, TaskBusy; NeedsHuman where an
        undo fails.
        """
        session = await self._opened(self._claim(await self._unfinished(task), Claim(program=program, acts=True)))
        async with self._held(session):
            try:
                await roll_back(session, checkpoint, reason=f"asked for by a {by}", carry=carry, force=force)
            except StopRequested as stop:
                raise await obey_stop(session, stop) from None

    async def abandon_rollback(self, task: str, *, by: str = "person") -> None:
        """Give up a rollback that was interrupted: the task goes on where it was.

        Possible until its first undo is sent. Raises RollbackUnderWay; UsageError where none is under way.
        """
        session = await self._opened(self._claim(await self._unfinished(task), Claim(finish=False)))
        async with self._held(session):
            await abandon_rollback(session, f"given up by a {by}")

    async def checkpoint(self, task: str, name: str, *, by: str = "person") -> int:
        """Mark a task that nobody holds; return the entry. Raises TaskBusy, TaskFinished, ActionsInFlight."""
        session = await self._opened(self._claim(await self._unfinished(task), Claim(acts=True)))
        async with self._held(session):
            return await mark_by_hand(session, name, by)

    async def set_budget(self, task: str, budget: Budget | str, *, by: str = "person") -> None:
        """Set what a task that nobody holds may cost, as `resume` does, without going on with it.

        Where it has stopped at its budget it no longer waits for a person. Raises CostInvalid, CurrencyMismatch,
        TaskBusy, TaskFinished.
        """
        read_budget(budget, None)
        session = await self._opened(self._claim(await self._unfinished(task), Claim(finish=False)))
        async with self._held(session):
            put_budget(session, budget, by)
            if session.fold.ledger.budget_asked:
                session.put(e.QuestionAnswered(answer=msgspec.Raw(values.encode("the budget is set")), by=by))
            await session.commit()

    async def stop_task(self, task: str, what: str, *, by: str = "person") -> None:
        """Pause or cancel a task that nobody holds; raises TaskBusy where somebody does (leave a message then)."""
        session = await self._opened(self._claim(await self._unfinished(task), Claim(finish=False)))
        async with self._held(session):
            if what != "cancel":
                refuse_taken(session.fold)
            session.put(e.TaskCancelledEntry(by=by) if what == "cancel" else e.TaskPausedEntry(by="person"))
            await session.commit()

    async def say(self, task: str, message: Message) -> str:
        """Tell or answer a task that nobody holds; return what was answered. Raises TaskBusy, NothingAsked."""
        session = await self._opened(self._claim(await self._unfinished(task), Claim(finish=False)))
        async with self._held(session):
            return await take_word(session, message)

    async def leave(self, task: str, message: Message) -> None:
        """Leave a message for whoever holds the task; where that was only a visit, it is taken in when it is over.

        Raises TaskUnknown, TaskFinished where the task ended before it was taken in.
        """
        await self.store.post(task, message)
        for _ in range(VISIT_LOOKS_MAX):
            waiting = (await self.store.messages([task])).get(task, [])
            if all(one.id != message.id for one in waiting):
                return
            if (await self.store.lease(task)).holder is None:
                await self._take_in(task)
            await asyncio.sleep(TICK_S)

    async def _take_in(self, task: str) -> None:
        with contextlib.suppress(TaskBusy):  # then another has come, and looks
            session = await self._opened(self._claim(await self._unfinished(task), Claim(finish=False)))
            async with self._held(session):
                await self._mailbox.look({session.task: session})

    # --- in the hands of a person -----------------------------------------------------------------------------------
    async def take_over(self, task: str, *, by: str = "person") -> None:
        """Give the task to a person, even from a living process: nobody goes on with it until `hand_back`.

        That process is fenced off: what it appends from now on is refused, and its run ends with TaskBusy. An action
        that runs there at this moment stays open. Raises TaskFinished, UsageError.
        """
        session = await self._opened(self._claim(await self._unfinished(task), Claim(finish=False, robs=True)))
        async with self._held(session):
            await takeover.take_over(session, by)

    async def hand_back(self, task: str, *, say: str = "", by: str = "") -> tuple[str, ...]:
        """Give a task that was taken over back to its program; return what was changed, a line for each kind.

        The program finds it in `task.advice` and `task.brief()`, with what the person has to `say`. The task is paused
        until somebody resumes it. Raises NotTakenOver, TaskBusy, TaskFinished.
        """
        async with self._by_hand(task) as session:
            return await takeover.hand_back(session, by, say)

    async def edit_state(
        self,
        task: str,
        assign: Sequence[tuple[str, object]],
        remove: Sequence[str] = (),
        *,
        program: Drivable | None = None,
    ) -> bool:
        """Change the state of a task that was taken over: put each (place, value), then remove; all of it or nothing.

        A place is written as `orders[0].price`. What is put there is checked by the `state_type=` of `program`, where
        one is given. Returns whether anything changed. Raises NotTakenOver, StatePathInvalid, StateInvalid, Unstorable.
        """
        async with self._by_hand(task) as session:
            return await takeover.edit_state(session, assign, remove, program)

    async def adopt_plan(self, task: str, steps: Sequence[str]) -> bool:
        """Write another plan for a task that was taken over; return whether it is another. Raises as `edit_state`."""
        async with self._by_hand(task) as session:
            return await takeover.adopt_plan(session, steps)

    @contextlib.asynccontextmanager
    async def _by_hand(self, task: str) -> AsyncGenerator[Session]:
        session = await self._opened(self._claim(await self._unfinished(task), Claim(finish=False)))
        async with self._held(session):
            yield session
