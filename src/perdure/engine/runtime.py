"""`Runtime`: opens tasks under a lease, lets programs drive them, and ends them in order.

A runtime belongs to one event loop of one process. Opening a task is: find or create, claim the lease, load the fold,
write the claim, finish a rollback that was under way, report.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Self

import msgspec

from perdure.codec import leaves, values
from perdure.codec.leaves import LeafWriter
from perdure.core.fold import Fold
from perdure.core.recovery import Rules
from perdure.engine import beat, crashpoints, leases
from perdure.engine.asking import take_word
from perdure.engine.driving import Drivable, drive, finish, obeyed, ungrouped
from perdure.engine.ending import hand_over, obey_stop, refuse_crash_loop
from perdure.engine.files import mend_files
from perdure.engine.forking import ForkPlan, make_fork, plan_fork, refuse_half
from perdure.engine.leases import Presence
from perdure.engine.loading import load_fold, recorded_result
from perdure.engine.mailbox import Mailbox, still_asked
from perdure.engine.marking import mark_by_hand
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
from perdure.engine.rollback import abandon_rollback, finish_rollback, roll_back
from perdure.engine.scribe import Scribe
from perdure.engine.sequencer import Sequencer
from perdure.engine.session import Session, World
from perdure.engine.settling import settle
from perdure.engine.snapshotting import Snapshotter
from perdure.engine.task import Task
from perdure.engine.ticker import Ticker
from perdure.errors import (
    Fenced,
    NeedsHuman,
    RolledBack,
    StopRequested,
    StoreError,
    TaskAmbiguous,
    TaskBusy,
    TaskFinished,
    TaskUnknown,
    UsageError,
)
from perdure.limits import (
    INBOX_POLL_S,
    LEASE_BEATS_PER_TTL,
    LEASE_TTL_S,
    LOG_BEAT_S,
    SNAPSHOTS_KEPT,
    TICK_S,
)
from perdure.model import entry as e
from perdure.model.ids import check_name
from perdure.model.outcome import Outcome
from perdure.model.status import TaskSummary
from perdure.ports import Clock, Hook, Ids, Message, Store

_THREADS_MAX: Final = 32
_ATTENDED: Final = Rules()


class Runtime:
    """Runs tasks of one store in one event loop; made by `perdure.open`."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: Ids,
        *,
        hooks: tuple[Hook, ...] = (),
        rules: Rules = _ATTENDED,
        lease_ttl_s: float = LEASE_TTL_S,
    ) -> None:
        self.store = store
        self._presence = Presence(store, ids)
        self._ticker = Ticker(clock)
        self._world = World(
            store=store,
            clock=clock,
            ids=ids,
            ticker=self._ticker,
            threads=ThreadPoolExecutor(_THREADS_MAX, thread_name_prefix="perdure-tool"),
            rules=rules,
            lease_ttl_s=lease_ttl_s,
            hooks=hooks,
        )
        self._sessions: dict[str, Session] = {}
        self._opening: set[str] = set()  # tasks whose lease is being claimed
        self._snapshotter = Snapshotter()
        self._mailbox = Mailbox(store)
        self.scribe = Scribe(store, clock, None)

    async def __aenter__(self) -> Self:
        self._ticker.every(TICK_S, lambda: beat.flush_lazy(self._sessions, self._world.clock))
        self._ticker.every(INBOX_POLL_S, lambda: self._mailbox.look(self._sessions))
        self._ticker.every(self._world.lease_ttl_s / LEASE_BEATS_PER_TTL, lambda: beat.renew(self._sessions))
        if not self.scribe.is_idle:
            self._ticker.every(LOG_BEAT_S, lambda: self.scribe.look(self._sessions))
        self._ticker.start()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self._ticker.stop()
        await self._snapshotter.stop()
        await self.scribe.close()
        self._presence.end()
        self._world.threads.shutdown(wait=False, cancel_futures=True)

    # --- programs ---------------------------------------------------------------------------------------------------
    async def run(
        self,
        program: Drivable,
        name: str,
        *,
        goal: str = "",
        args: Mapping[str, Any] | None = None,
        new: bool = False,
        workspace: str = "",
    ) -> Any:  # noqa: ANN401 - the program's result
        """Start the task `name`, go on with it where it is unfinished, or return the recorded result.

        Raises TaskPaused, NeedsHuman, TaskFailed, TaskCancelled, TaskBusy, each with the id and the line to type;
        TaskMismatch where it is recorded with another goal, state, args or (where one is given) workspace; what the
        store raises. `new`: a new task under the same name when the last is finished.
        """
        if not callable(getattr(program, "driver", None)):
            called = getattr(program, "__name__", repr(program))
            raise UsageError(f"{called} is no program; write `@perdure.program` over it")
        arguments = checked_arguments(program, args or {})
        started = started_by(self._presence.holder, program, name, goal, arguments, workspace)
        found = await self._find(name)
        if found is None or (new and found.is_finished):
            session = await self._opened(self._start(started, program.state))
            return await self._drive(session, program, arguments)
        await refuse_other(self.store, found, started, program)
        if found.status == "needs_human":
            raise NeedsHuman(found.task, found.reason, f"perdure show {shlex.quote(found.name)}", found.name)
        return await self._go_on(found, program, by_hand=False)

    async def resume(self, task: str, program: Drivable, *, again: bool = False, accept: Sequence[str] = ()) -> Any:  # noqa: ANN401
        """Go on with an unfinished task, by hand; return its result. `again` opens a failed one.

        `accept` names rows of the report whose stop is passed over. Raises as `run`.
        """
        return await self._go_on(await self.store.find(task), program, by_hand=True, again=again, accept=accept)

    async def _go_on(
        self, summary: TaskSummary, program: Drivable, *, by_hand: bool, again: bool = False, accept: Sequence[str] = ()
    ) -> Any:  # noqa: ANN401
        if summary.is_finished and not (again and summary.status == "failed"):
            refuse_ended(summary)
            return await self.result(summary.task)
        session = await self._opened(self._claim(summary, by_hand=by_hand, program=program))
        if session.stop is not None:
            return await self._drive(session, program, {})
        try:
            await self._mailbox.look({session.task: session})  # an answer may have come too late for the last holder
            prepare(session, program)
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
            raise taken_over(session, fenced) from fenced
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
    ) -> AsyncGenerator[Task]:
        """Hold a task in a `with` block, for scripts; the script itself is run again to resume.

        Leaving the block = success; an exception leaves the task unfinished. A finished task comes back read-only.
        Raises as `run`; after a rollback the block is left with RolledBack.
        """
        first = values.copy(dict(state or {}))
        driver = e.Driver(kind="inline")
        started = e.TaskStarted(
            name=check_name(name), goal=goal, driver=driver, holder=self._presence.holder, state=e.NOTHING,
            workspace=placed(workspace), relative_digests=bool(workspace),
        )  # fmt: skip
        found = await self._find(name)
        if found is not None and not (new and found.is_finished):
            refuse_other_place(found, started)
            if found.is_finished:
                yield Task(self._session_of(await load_fold(self.store, found.task)))
                return
            session = await self._opened(self._claim(found, by_hand=False))
        else:
            session = await self._opened(self._start(started, first))
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
    async def settle(self, task: str, action: str, outcome: Outcome | None, *, by: str = "person") -> None:
        """Say how an open or doubtful action of a task that nobody holds ended; None keeps it as a fact."""
        session = await self._opened(self._claim(await self.store.find(task), by_hand=True, finish=False))
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
        session = await self._opened(self._claim(await self._unfinished(task), by_hand=True, program=program))
        async with self._held(session):
            try:
                await roll_back(session, checkpoint, reason=f"asked for by a {by}", carry=carry, force=force)
            except StopRequested as stop:
                raise await obey_stop(session, stop) from None

    async def abandon_rollback(self, task: str, *, by: str = "person") -> None:
        """Give up a rollback that was interrupted: the task goes on where it was.

        Possible until its first undo is sent. Raises RollbackUnderWay; UsageError where none is under way.
        """
        session = await self._opened(self._claim(await self._unfinished(task), by_hand=True, finish=False))
        async with self._held(session):
            await abandon_rollback(session, f"given up by a {by}")

    async def checkpoint(self, task: str, name: str, *, by: str = "person") -> int:
        """Mark a task that nobody holds; return the entry. Raises TaskBusy, TaskFinished, ActionsInFlight."""
        session = await self._opened(self._claim(await self._unfinished(task), by_hand=True))
        async with self._held(session):
            return await mark_by_hand(session, name, by)

    async def fork(self, task: str, at: int | str = "", *, into: str, name: str = "") -> ForkPlan:
        """Make an independent task of a moment of `task`, its files in the new folder `into`; return what was made.

        `at`: the number of an entry, or a checkpoint; the newest where none is given. The fork does not know what
        happened behind that moment; `task` is not changed, whoever works on it. Raises ForkRefused, CheckpointUnknown,
        UsageError, TaskBusy while another makes a fork of that name.
        """
        plan = await plan_fork(self.store, task, at, into, name)
        fork = self._world.ids.task_id()
        self._opening.add(fork)
        try:
            await make_fork(self._world, self._presence, plan, fork, self._opening)
        finally:
            self._opening.discard(fork)
        return msgspec.structs.replace(plan, task=fork)

    async def stop_task(self, task: str, what: str, *, by: str = "person") -> None:
        """Pause or cancel a task that nobody holds; raises TaskBusy where somebody does (leave a message then)."""
        session = await self._opened(self._claim(await self._unfinished(task), by_hand=True, finish=False))
        async with self._held(session):
            session.put(e.TaskCancelledEntry(by=by) if what == "cancel" else e.TaskPausedEntry(by="person"))
            await session.commit()

    async def say(self, task: str, message: Message) -> str:
        """Tell or answer a task that nobody holds; return the question answered. Raises TaskBusy, NothingAsked."""
        session = await self._opened(self._claim(await self._unfinished(task), by_hand=True, finish=False))
        async with self._held(session):
            return await take_word(session, message)

    def request_stop(self, what: str = "pause", *, by: str = "signal") -> None:
        """Let every task of this runtime stop at its next action; asked a second time, now."""
        for session in self._sessions.values():
            if session.stop is None:
                session.stop = StopRequested(session.task, what, by)
            elif session.runner is not None:
                session.runner.cancel()

    def fold_of(self, task: str) -> Fold | None:
        """Return the live fold of a task held here, for those who compare it with the journal; None where it is not."""
        session = self._sessions.get(task)
        return session.fold if session else None

    # --- opening ----------------------------------------------------------------------------------------------------
    async def _find(self, name: str) -> TaskSummary | None:
        """Return the newest task of exactly that name or id."""
        try:
            found = await self.store.find(check_name(name))
        except (TaskUnknown, TaskAmbiguous):  # an exact name is never ambiguous
            return None
        return found if name in {found.name, found.task} else None

    async def _unfinished(self, task: str) -> TaskSummary:
        summary = await self.store.find(task)
        if summary.is_finished:
            raise TaskFinished(summary.name, summary.status)
        return summary

    async def _opened(self, opening: Coroutine[Any, Any, Session]) -> Session:
        """Open a task to the end even when cancelled meanwhile, and then give it back: nothing stays half open."""
        work = asyncio.ensure_future(opening)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            while not work.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([work])
            if not work.cancelled() and work.exception() is None:
                await self._release(work.result())
            raise

    async def _start(self, started: e.TaskStarted, state: dict[str, Any]) -> Session:
        world = self._world
        fold = Fold(world.ids.task_id())
        now = world.clock.now()
        summary = TaskSummary(
            task=fold.task, name=started.name, goal=started.goal, status="running", started_at=now, changed_at=now
        )
        writer = LeafWriter()
        raw = msgspec.Raw(leaves.encode(state, writer))
        fold.tree.root.update(state)
        self._opening.add(fold.task)
        try:
            at_work = {*self._opening, *self._sessions}
            lease = await leases.create(self.store, summary, self._presence, at_work, world.lease_ttl_s)
            session = self._open_session(fold, lease.epoch)
        finally:
            self._opening.discard(fold.task)
        session.put(msgspec.structs.replace(started, state=raw), blobs=writer.blobs)
        try:
            await session.commit()
        except BaseException:
            await self._release(session)
            raise
        session.tell("task_started", name=started.name, goal=started.goal)
        return session

    async def _claim(
        self, summary: TaskSummary, *, by_hand: bool, program: Drivable | None = None, finish: bool = True
    ) -> Session:
        """Take the lease of a task; `finish` a rollback that was under way, with the tools of `program`."""
        task = summary.task
        if task in self._sessions or task in self._opening:
            raise TaskBusy(task, f"this process ({os.getpid()})", summary.name)
        self._opening.add(task)
        try:
            return await self._claim_alone(task, program, by_hand=by_hand, finish=finish)
        except TaskBusy as busy:
            raise TaskBusy(task, busy.holder, summary.name) from busy
        except Fenced as fenced:
            raise TaskBusy(task, f"another process (epoch {fenced.current}), which was faster") from fenced
        finally:
            self._opening.discard(task)

    async def _claim_alone(self, task: str, program: Drivable | None, *, by_hand: bool, finish: bool) -> Session:
        crashpoints.reach("during_recovery")
        last = await self.store.lease(task)
        lease, crashed = await leases.claim(
            self.store, task, self._presence, self._world.clock, self._world.lease_ttl_s
        )
        crashpoints.reach("during_recovery")
        try:
            fold = await load_fold(self.store, task)
            await refuse_half(self.store, fold)
        except BaseException:
            await self.store.release(task, lease.epoch)  # a damaged journal must not look busy
            raise
        session = self._open_session(fold, lease.epoch)
        try:
            session.put(e.LeaseClaimed(holder=self._presence.holder, by_hand=by_hand, after_crash=crashed))
            session.after_crash, session.left_at = fold.ledger.unmended, last.until
            await session.commit()
            crashpoints.reach("during_recovery")
            session.module = getattr(getattr(program, "fn", None), "__module__", "")
            if finish:
                await finish_rollback(session)
            session.stop = still_asked(session, by_hand=by_hand)
            if session.stop is None:
                await refuse_crash_loop(session)
        except StopRequested as stop:  # an undo has failed
            ended = await obey_stop(session, stop)
            await self._release(session)
            raise ended from None
        except BaseException:
            await self._release(session)
            raise
        return session

    def _session_of(self, fold: Fold) -> Session:
        return Session(self._world, Sequencer(fold, self.store, self._world.clock, self._world.ids, fold.epoch))

    def _open_session(self, fold: Fold, epoch: int) -> Session:
        world = self._world
        session = Session(world, Sequencer(fold, self.store, world.clock, world.ids, epoch))
        self._sessions[fold.task] = session
        self._snapshotter.watch(session)
        return session

    # --- holding and ending -----------------------------------------------------------------------------------------
    async def _drive(self, session: Session, program: Drivable, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401
        session.runner = asyncio.current_task()
        async with self._held(session):
            prepare(session, program)
            result = await drive(session, program, arguments)
            await self._clear(session)
            return result

    @contextlib.asynccontextmanager
    async def _held(self, session: Session) -> AsyncGenerator[None]:
        """Whatever happens, the lease is given back."""
        try:
            yield
        except Fenced as fenced:
            raise taken_over(session, fenced) from fenced
        finally:
            await self._release(session)

    async def _release(self, session: Session) -> None:
        """Write what is still pending and free the lease; of a dead session only the lease, if that can be done."""
        dead = session.sequencer.dead
        try:
            await session.drain(now=True)  # nothing goes out, and nothing is written, without the lease
            if dead is None:
                await session.commit()
            with contextlib.suppress(StoreError) if dead else contextlib.nullcontext():
                await self.store.release(session.task, session.sequencer.epoch)
        finally:
            session.is_closed = True
            if session.files is not None:
                session.files.close()
            if self._sessions.get(session.task) is session:
                del self._sessions[session.task]
        await self.scribe.finish(session)

    async def _clear(self, session: Session) -> None:
        """Success clears temporary state: all snapshots but the last. Journal and result stay."""
        heads = await self.store.snapshots(session.task)
        await self.store.forget_snapshots(session.task, [head.seq for head in heads[: SNAPSHOTS_KEPT - 1]])

    async def result(self, task: str) -> Any:  # noqa: ANN401
        """Return the recorded result of a succeeded task; None where there is none."""
        return await recorded_result(self.store, task)


__all__ = ["RolledBack", "Runtime"]
