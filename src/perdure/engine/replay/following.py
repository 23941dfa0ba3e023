"""Holds all that a program does against the record of one lease, and says who may go on next.

Stands where the engine has its sequencer: what is put is compared instead of written. The program's coroutines wait
here before each step that makes an entry; when all of them wait, the one goes on whose step is the next on record. So
steps that once ran side by side come in the order in which they are recorded, whatever that order hung on. Where the
record of the lease ends (a kill, a pause, the last entry), the run ends. Called by `playing` and `feeding`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Final, Literal

import msgspec

from perdure.core.fold import Fold
from perdure.engine.marking import is_of_milestone
from perdure.engine.replay.comparing import describe, differences, shape_of
from perdure.engine.replay.draws import Draws
from perdure.engine.replay.walking import HARD, Walk, is_cancelled, merged
from perdure.engine.sequencer import Sequencer
from perdure.engine.session import Session
from perdure.errors import StopRequested, StoreBroken
from perdure.model import entry as e
from perdure.model.entry import Entry
from perdure.model.outcome import Outcome
from perdure.model.patch import Op
from perdure.ports import Clock, Ids, Store

Mode = Literal["strict", "tolerant"]
JUMPS_MAX: Final = 200_000  # of time without an entry: a program that polls for something which will not come
_CANCELS_MAX: Final = 100  # a program that swallows so many cancellations is left alone


class _Waiting(msgspec.Struct, eq=False):
    """A coroutine before its next step."""

    fits: Callable[[], bool]  # whether that step is the next on record
    is_act: bool  # it makes an entry for sure, which its being let go by mistake would not undo
    turn: asyncio.Future[None]


class Follower(Sequencer):
    """Compares one lease. `session` and `keeper` are set right after it is made."""

    session: Session
    keeper: asyncio.Task[None]  # the replay's own, which waits for the program

    def __init__(self, walk: Walk, draws: Draws, mode: Mode, world: tuple[Store, Clock, Ids]) -> None:
        super().__init__(walk.fold, *world, walk.fold.epoch)
        self.walk = walk
        self.draws = draws
        self.is_strict = mode == "strict"
        self.in_flight: set[str] = set()  # actions that wait for their answer
        self._waiting: list[_Waiting] = []
        self._provoked: set[int] = set()  # seqs of entries whose cause from outside was played
        self._outcome_of: dict[str, Callable[[e.ActionSettled], Outcome]] = {}  # of calls whose threads outlived them
        self._is_past_draws = False
        self._cancels = 0
        self._jumps = 0  # of time, in which the program has made no entry
        self._stood = 0

    # --- the sequencer's part ---------------------------------------------------------------------------------------
    def put(
        self, payload: e.Payload, *, operations: tuple[Op, ...] = (), blobs: dict[bytes, bytes] | None = None
    ) -> int:
        """Compare `payload` with the record; return the seq of its entry. Raises what ended the replay."""
        entry = self._match(payload, blobs or {})
        if entry is None:
            return self.walk.meet_extra(payload, operations)
        recorded = entry.payload
        if isinstance(recorded, e.ActionSettled) and isinstance(payload, e.ActionSettled):
            payload = merged(recorded, payload)
        is_told = self.is_strict or isinstance(payload, e.DecisionTaken | e.FailureObserved)
        self.walk.meet(entry, operations, recorded if is_told else payload)
        return entry.header.seq

    def jump(self, payload: e.RolledBackEntry, earlier: Fold) -> int:
        """Compare the end of a rollback."""
        entry = self._match(payload, {})
        if entry is None:
            raise self._end()
        self.walk.meet_jump(entry, earlier)
        return entry.header.seq

    def flush(self, consumed: tuple[str, ...] = ()) -> Awaitable[None]:
        """Wait until nobody else is to come first: so long did the commit take, for all that the record can tell."""
        del consumed
        if self.dead is not None:
            raise self.dead
        return self._commit()

    # --- turns ------------------------------------------------------------------------------------------------------
    def head(self) -> Entry | None:
        """Return the entry that comes next, None where the record of this lease ends.

        What nobody makes again (messages from outside, snapshots, draws that were made) is taken in on the way.
        """
        while (entry := self.walk.next) is not None and self._is_taken_in(entry.payload):
            self.walk.take_in(entry)
            self.walk.entries += isinstance(entry.payload, e.ValuesDrawn)  # the program's own, given one by one
        if self._is_past_draws and entry is not None and isinstance(entry.payload, e.ValuesDrawn):
            return next(itertools.islice(self.walk.ahead(), 1, None), None)
        return entry

    async def turn(self, fits: Callable[[], bool], *, is_act: bool, at_once: bool = True) -> None:
        """Wait until the caller's next step is the next on record (`fits`), or nobody has a better claim."""
        if self.dead is not None or (at_once and fits()):
            return
        waiting = _Waiting(fits, is_act, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        try:
            await waiting.turn
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)

    async def answer(self, action: str) -> e.ActionSettled:
        """Wait until it is the turn of the recorded outcome of `action`, and return it.

        Who is cancelled meanwhile waits all the same: the record says whether the outcome or the cancellation came
        first. Raises what ended the replay.
        """
        self.in_flight.add(action)
        try:
            is_cut_short = await self._wait_for_outcome(action)
        finally:
            self.in_flight.discard(action)
        if self.dead is not None:
            raise self.dead
        settled = self.settled(action)
        if settled is None or (self.is_strict and not self._past_draws(lambda: self._is_settling(action))):
            raise self._stray(f"an outcome of action {action}, which has none here")
        if is_cancelled(settled):
            raise asyncio.CancelledError
        runner = asyncio.current_task()
        if is_cut_short and runner is not None:
            runner.uncancel()
            runner.cancel()  # it comes with the next await
        return settled

    def expect_late(self, action: str, outcome_of: Callable[[e.ActionSettled], Outcome]) -> None:
        """Where the thread of `action` outlived its call, let another call wait for what it comes to, as it did."""
        if action not in self.walk.late:
            return
        settled = (entry.payload for entry in self.walk.ahead() if isinstance(entry.payload, e.ActionSettled))
        if any(one.action == action and one.by == "late" for one in settled):
            self.session.late[action] = asyncio.get_running_loop().create_future()
            self._outcome_of[action] = outcome_of

    def settled(self, action: str) -> e.ActionSettled | None:
        """Return the next recorded outcome of `action` in this lease."""
        for entry in self.walk.ahead():
            if isinstance(entry.payload, e.ActionSettled) and entry.payload.action == action:
                return entry.payload
        return None

    def intent(self, came: e.ActionIntended, *, same_action: bool) -> e.ActionIntended | None:
        """Return the recorded intent that a call would make now, None where none is (next) on record."""
        if self.is_strict:
            head = self.head()
            return _same_call(head.payload, came, same_action=same_action, by_digest=True) if head else None
        found = (
            _same_call(entry.payload, came, same_action=same_action, by_digest=False) for entry in self.walk.ahead()
        )
        return next(filter(None, found), None)

    def draw(self, what: str, kind: type) -> object:
        """Return what the record says was drawn here. In a strict replay raises where nothing was."""
        if self.dead is not None:
            raise self.dead
        drawn = self.draws.take(self.walk, what, kind, side_by_side=bool(self._waiting))
        if drawn is not None:
            return drawn
        if self.head() is None:
            return self.draws.invent(what)
        if self.is_strict:
            raise self._stray(f"task.{what}(), which was not called here")
        self.walk.remark(f"before entry {self.walk.place + 1}: task.{what}() is called once more than on record")
        return self.draws.invent(what)

    # --- nobody can go on by himself --------------------------------------------------------------------------------
    def idle(self) -> bool:
        """Let the next one go on; return whether there was one."""
        if self.dead is not None:
            return self._cancel_all()
        head = self.head()
        if self._let_go(_fits) or self._stop_before_others(head) or self._let_go(lambda waiting: not waiting.is_act):
            return True
        if head is None:
            self._end()
            return True
        return self._come_late(head) or self._provoke(head) or self._past_draws(lambda: self._let_go(_fits))

    def stuck(self, *, has_timers: bool) -> bool:
        """Nobody can go on; return whether that was changed, False to let the next timer come.

        A call that is not the next on record shows what is different, if neither an answer nor time can put another
        before it.
        """
        if self.dead is not None:
            return self._cancel_all()
        is_beside_others = bool(self.in_flight) or not self.is_strict
        if has_timers and (is_beside_others or not any(waiting.is_act for waiting in self._waiting)):
            self._jumps = self._jumps + 1 if self._stood == self.walk.entries else 0
            self._stood = self.walk.entries
            if self._jumps < JUMPS_MAX:
                return False
        head = None if self.is_strict else self.head()
        if head is not None and not isinstance(head.payload, HARD):
            self.walk.leave_out(head)
        elif not self._let_go(lambda _: True):
            self._stray("nothing: the program waits for something that is not on record")
        return True

    def refuse(self, came: e.ActionIntended) -> StoreBroken:
        """Note that a call is not the one on record; return what is to be raised."""
        head = self.head()
        if self.dead is not None or (head is None and self.is_strict):
            return self._end()
        if not self.is_strict:
            lane = (one for one in self.walk.ahead() if _is_in_lane(one.payload, came))
            head = next(lane, head)
        if head is not None and isinstance(head.payload, e.ActionIntended):  # what is only known when it is made
            known = {name: getattr(head.payload, name) for name in ("effect_key", "attempt", "strategy")}
            came = msgspec.structs.replace(came, **known)
        blobs = self.walk.record.blobs
        self.walk.diverge(head, describe(came, blobs), differences(head.payload, came, blobs) if head else ())
        return self._die()

    def close(self, how: str) -> None:
        """The program has ended, `how`: note what it should have done still."""
        head = self.head()
        if self.dead is not None or head is None:
            return
        if not self.is_strict:
            head = next((entry for entry in self.walk.ahead() if isinstance(entry.payload, HARD)), None)
        if head is not None:
            self.walk.diverge(head, how)

    # --- below ------------------------------------------------------------------------------------------------------
    def _match(self, payload: e.Payload, blobs: dict[bytes, bytes]) -> Entry | None:
        """Return the entry that `payload` is, None for one too many that is let pass. Raises what ends the replay."""
        if self.dead is not None:
            raise self.dead
        head = self.head()
        while head is not None and self._come_late(head):
            head = self.head()
        blobs = self.walk.record.blobs | blobs if blobs else self.walk.record.blobs
        if self.is_strict:
            if head is None:
                raise self._end()
            how = differences(head.payload, payload, blobs)
            if how:
                self.walk.diverge(head, describe(payload, blobs), how)
                raise self._die()
            return head
        entry = next((one for one in self.walk.ahead() if self._is_alike(one.payload, payload)), None)
        if entry is not None:
            return entry
        if not any(isinstance(one.payload, HARD) for one in self.walk.ahead()):
            raise self._end()
        if isinstance(payload, HARD) and not self._is_harmless(payload):
            lane = next((one for one in self.walk.ahead() if type(one.payload) is type(payload)), head)
            how = differences(lane.payload, payload, blobs) if lane is not None else ()
            self.walk.diverge(lane, describe(payload, blobs), how)
            raise self._die()
        self.walk.remark(f"before entry {self.walk.place + 1}, not on record: {describe(payload, blobs)}")
        return None

    def _is_alike(self, recorded: e.Payload, came: e.Payload) -> bool:
        """Whether a tolerant replay takes one for the other."""
        match recorded, came:
            case e.ActionIntended(), e.ActionIntended():
                return _same_call(recorded, came, same_action=True, by_digest=False) is not None
            case e.ActionSettled(), e.ActionSettled():
                return (recorded.action, recorded.outcome, recorded.by) == (came.action, came.outcome, came.by)
            case e.RolledBackEntry(), e.RolledBackEntry():
                return recorded.checkpoint == came.checkpoint
            case _:
                return not differences(recorded, came, {})

    def _is_harmless(self, payload: e.Payload) -> bool:
        """Whether it belongs to a call without effects that is not on record."""
        if isinstance(payload, e.ActionIntended):
            return payload.effect.is_free
        if isinstance(payload, e.ActionSettled):
            action = self.fold.ledger.open.get(payload.action)
            return action is not None and action.effect.is_free and self.settled(payload.action) is None
        return False

    def _is_taken_in(self, payload: e.Payload) -> bool:
        match payload:
            case e.MessageReceived() | e.QuestionAnswered() | e.SnapshotTaken() | e.TaskResumed():
                return True
            case e.FilesCaptured() | e.WorkspaceRestored() | e.HealthChanged() | e.WaitBegan():
                return True  # what the world did; the program makes none of it
            case e.BudgetSet():
                return True
            case e.TaskTakenOver() | e.TaskHandedBack():
                return True
            case e.StateEdited(by=person) | e.PlanAdopted(by=person) if person:
                return True
            case e.CheckpointMarked(reason="milestone" | "person"):
                return True
            case e.NoteWritten() if is_of_milestone(payload):
                return True
            case e.ValuesDrawn():
                return self.draws.is_done(self.walk)
            case _:
                return False

    def _is_settling(self, action: str) -> bool:
        """Whether the outcome of `action` is next: on record, or (tolerant) among those in flight."""
        if self.is_strict:
            head = self.head()
            return head is not None and isinstance(head.payload, e.ActionSettled) and head.payload.action == action
        for entry in self.walk.ahead():
            if isinstance(entry.payload, e.ActionSettled) and entry.payload.action in self.in_flight:
                return entry.payload.action == action
        return False

    async def until_late(self) -> None:
        """The program is over: wait for what its threads came to before that, if it is next on record."""

        def fits() -> bool:
            head = self.head()
            return head is None or not (isinstance(head.payload, e.ActionSettled) and head.payload.by == "late")

        await self.turn(fits, is_act=True)

    async def _commit(self) -> None:
        """Wait; a call that went out all the same, on record, is cancelled a moment later, as it was."""
        try:
            await self.turn(lambda: False, is_act=False)
        except asyncio.CancelledError:
            runner = asyncio.current_task()
            mine = next((action for action, task in self.session.running.items() if task is runner), "")
            settled = self.settled(mine) if mine else None
            if self.dead is not None or runner is None or settled is None or not settled.started_at:
                raise
            runner.uncancel()
            runner.cancel()

    def _come_late(self, head: Entry) -> bool:
        """Take in what a thread came to that had outlived its call; return whether that is next on record."""
        settled = head.payload
        if not isinstance(settled, e.ActionSettled) or settled.by != "late":
            return False
        self.walk.take_in(head)
        promised = self.session.late.get(settled.action)
        if promised is not None and not promised.done():
            promised.set_result(self._outcome_of[settled.action](settled))
        return True

    async def _wait_for_outcome(self, action: str) -> bool:
        """Wait until `action` is to be answered; return whether it was cancelled meanwhile."""
        is_cut_short = False
        while True:
            try:
                fits = self._when_settling(action, is_cut_short=is_cut_short)
                await self.turn(fits, is_act=True, at_once=self.is_strict)
            except asyncio.CancelledError:
                if self.dead is not None or self.settled(action) is None:
                    raise
                is_cut_short = True
            else:
                return is_cut_short

    def _when_settling(self, action: str, *, is_cut_short: bool) -> Callable[[], bool]:
        """Return what tells whether it is the turn of `action`; a cancelled call waits for its cancellation, too."""

        def fits() -> bool:
            return self._is_settling(action) and (is_cut_short or not is_cancelled(self.settled(action)))

        return fits

    def _past_draws(self, look: Callable[[], bool]) -> bool:
        """Look behind values that are still to be drawn: a reducer may draw them once its outcome is there."""
        self._is_past_draws = True
        try:
            return look()
        finally:
            self._is_past_draws = False

    def _let_go(self, is_wanted: Callable[[_Waiting], bool]) -> bool:
        for waiting in self._waiting:
            if not waiting.turn.done() and is_wanted(waiting):
                self._waiting.remove(waiting)
                waiting.turn.set_result(None)
                return True
        return False

    def _provoke(self, head: Entry) -> bool:
        """Play what came from outside, by what followed on record: a request to stop, a signal, a cancellation."""
        if head.header.seq in self._provoked:
            return False
        after = next((one.payload for one in self.walk.ahead() if not is_cancelled(one.payload)), None)
        match after:
            case e.TaskPausedEntry(by=by, reason=reason):
                is_cancellation = reason == "cancelled"
                stop = StopRequested(self.session.task, "pause", by)
            case e.TaskCancelledEntry(by=by):
                is_cancellation, stop = False, StopRequested(self.session.task, "cancel", by)
            case e.TaskParkedEntry(until=until, reason=reason):
                is_cancellation, stop = False, StopRequested(self.session.task, "park", reason, str(until))
            case e.QuestionAsked(question=text, budget=budget) | e.TaskFailedEntry(reason=text, budget=budget) if (
                budget
            ):
                is_cancellation, stop = False, StopRequested(self.session.task, "limit", text, budget)
            case _:
                return False
        if after is not head.payload and not is_cancelled(head.payload):
            return False
        self._provoked.add(head.header.seq)
        if not is_cancellation and self.session.stop is None:
            self.session.stop = stop
        if is_cancellation or is_cancelled(head.payload):
            self._cancel_runner()
        return True

    def _stop_before_others(self, head: Entry | None) -> bool:
        """Where a stop is next on record, ask for it before a step goes on that may make an entry or none."""
        match head.payload if head is not None else None:
            case e.TaskPausedEntry(reason=reason) if reason == "cancelled":
                return False  # it came to somebody who waits, and not to a step
            case e.TaskPausedEntry() | e.TaskCancelledEntry() | e.TaskParkedEntry():
                return head is not None and self._provoke(head)
            case _:
                return False

    def _cancel_runner(self) -> None:
        if self.session.runner is not None:
            self.session.runner.cancel()

    def _stray(self, came: str) -> StoreBroken:
        self.walk.diverge(self.head(), came)
        return self._die()

    def _end(self) -> StoreBroken:
        """The record ends here, and with it this run."""
        return self._die()

    def _die(self) -> StoreBroken:
        dead = StoreBroken("the record", "it ends here, or says something else")
        self.dead = self.dead or dead
        return dead

    def _cancel_all(self) -> bool:
        """End the program's coroutines; return whether any was there to be ended."""
        self._cancels += 1
        if self._cancels > _CANCELS_MAX:
            raise RuntimeError("the program goes on although it was cancelled again and again")
        tasks = [task for task in asyncio.all_tasks(self.keeper.get_loop()) if task is not self.keeper]
        for task in tasks:
            task.cancel()
        return bool(tasks)


def _fits(waiting: _Waiting) -> bool:
    """Whether it is the turn of a coroutine that waits."""
    return waiting.fits()


def _is_in_lane(recorded: e.Payload, came: e.ActionIntended) -> bool:
    """Whether a recorded call and one that came have the same tool and key."""
    return isinstance(recorded, e.ActionIntended) and (recorded.tool, recorded.key) == (came.tool, came.key)


def _same_call(
    recorded: e.Payload,
    came: e.ActionIntended,
    *,
    same_action: bool,
    by_digest: bool,
) -> e.ActionIntended | None:
    """Return the recorded intent if it is of the same call."""
    if not isinstance(recorded, e.ActionIntended):
        return None
    if (recorded.tool, recorded.key, recorded.loop) != (came.tool, came.key, came.loop):
        return None
    if same_action and recorded.action != came.action:
        return None
    if by_digest:
        return recorded if recorded.digest == came.digest else None
    is_same = recorded.digest == came.digest or shape_of(recorded.arguments) == shape_of(came.arguments)
    return recorded if is_same else None
