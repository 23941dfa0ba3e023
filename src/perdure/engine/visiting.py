"""What people do to a task that no program drives at the moment: each visit claims it, writes, and gives it back.

Called through `Runtime` by operations and user code; the work itself is done by the module of each matter.
"""

from __future__ import annotations

from perdure.engine.asking import take_word
from perdure.engine.driving import Drivable
from perdure.engine.ending import obey_stop
from perdure.engine.holding import Claim, Holding
from perdure.engine.marking import mark_by_hand
from perdure.engine.rollback import abandon_rollback, roll_back
from perdure.engine.settling import settle
from perdure.errors import StopRequested
from perdure.model import entry as e
from perdure.model.outcome import Outcome
from perdure.ports import Message


class Visits(Holding):
    """The half of a runtime that calls no program."""

    async def settle(self, task: str, action: str, outcome: Outcome | None, *, by: str = "person") -> None:
        """Say how an open or doubtful action of a task that nobody holds ended; None keeps it as a fact."""
        session = await self._opened(self._claim(await self.store.find(task), Claim(finish=False)))
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
        session = await self._opened(self._claim(await self._unfinished(task), Claim(program=program)))
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
        session = await self._opened(self._claim(await self._unfinished(task), Claim()))
        async with self._held(session):
            return await mark_by_hand(session, name, by)

    async def stop_task(self, task: str, what: str, *, by: str = "person") -> None:
        """Pause or cancel a task that nobody holds; raises TaskBusy where somebody does (leave a message then)."""
        session = await self._opened(self._claim(await self._unfinished(task), Claim(finish=False)))
        async with self._held(session):
            session.put(e.TaskCancelledEntry(by=by) if what == "cancel" else e.TaskPausedEntry(by="person"))
            await session.commit()

    async def say(self, task: str, message: Message) -> str:
        """Tell or answer a task that nobody holds; return what was answered. Raises TaskBusy, NothingAsked."""
        session = await self._opened(self._claim(await self._unfinished(task), Claim(finish=False)))
        async with self._held(session):
            return await take_word(session, message)
