"""Who holds which task here: opens tasks under a lease, and gives each back whatever happens. Calls no program.

Opening a task is: find or create, claim the lease, load the fold, write the claim, finish a rollback that was under
way. `visiting.py` and `runtime.py` stand on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Self

import msgspec

from perdure.codec import leaves
from perdure.codec.leaves import LeafWriter
from perdure.codec.redact import redact
from perdure.core.fold import Fold
from perdure.core.recovery import Rules
from perdure.engine import beat, crashpoints, leases
from perdure.engine.budgeting import put_budget
from perdure.engine.driving import Drivable
from perdure.engine.ending import obey_stop, refuse_crash_loop
from perdure.engine.forking import refuse_half
from perdure.engine.leases import Presence
from perdure.engine.loading import load_fold
from perdure.engine.mailbox import Mailbox, still_asked
from perdure.engine.matching import taken_over
from perdure.engine.providers import providers_for
from perdure.engine.rollback import finish_rollback
from perdure.engine.scribe import Scribe
from perdure.engine.sequencer import Sequencer
from perdure.engine.session import Session, World, deliver_last
from perdure.engine.snapshotting import Snapshotter
from perdure.engine.takeover import refuse_taken, refuse_under_way
from perdure.engine.ticker import Ticker
from perdure.errors import Fenced, StopRequested, StoreError, TaskAmbiguous, TaskBusy, TaskFinished, TaskUnknown
from perdure.limits import INBOX_POLL_S, LEASE_BEATS_PER_TTL, LEASE_TTL_S, LOG_BEAT_S, TICK_S
from perdure.model import entry as e
from perdure.model.budget import NO_BUDGET, Budget
from perdure.model.ids import Holder, check_name
from perdure.model.status import TaskSummary
from perdure.ports import Clock, Hook, Ids, Lease, Store

_THREADS_MAX: Final = 32
_ATTENDED: Final = Rules()


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """How a task is opened, and what for."""

    by_hand: bool = True  # a person has asked for it
    program: Drivable | None = None  # in whose module the tools of a rollback are looked for first
    finish: bool = True  # a rollback that was under way
    drives: bool = False  # a program goes on with it: not while a person has it
    acts: bool = False  # on its effects: not while one may be under way elsewhere
    robs: bool = False  # even a holder who lives


class Holding:
    """The tasks that one runtime holds."""

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
            providers=providers_for(clock),
        )
        self._sessions: dict[str, Session] = {}
        self._opening: set[str] = set()  # tasks whose lease is being claimed
        self._stop_later: tuple[str, str] | None = None  # what every task that is opened is asked for, and by whom
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
        await deliver_last(self._world.hooks)

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

    async def _start(self, started: e.TaskStarted, state: dict[str, Any], budget: Budget = NO_BUDGET) -> Session:
        world = self._world
        fold = Fold(world.ids.task_id())
        now = world.clock.now()
        summary = TaskSummary(
            task=fold.task, name=started.name, goal=started.goal, status="running", started_at=now, changed_at=now
        )
        writer, state = LeafWriter(), redact(state)
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
            put_budget(session, budget)
            await session.commit()
        except BaseException:
            await self._release(session)
            raise
        session.tell("task_started", name=started.name, goal=started.goal)
        return session

    async def _claim(self, summary: TaskSummary, how: Claim) -> Session:
        """Take the lease of a task."""
        task = summary.task
        if (task in self._sessions and not how.robs) or task in self._opening:
            raise TaskBusy(task, f"this process ({os.getpid()})", summary.name)
        self._opening.add(task)
        try:
            return await self._claim_alone(task, how)
        except TaskBusy as busy:
            raise TaskBusy(task, busy.holder, summary.name) from busy
        except Fenced as fenced:
            raise TaskBusy(task, f"another process (epoch {fenced.current}), which was faster") from fenced
        finally:
            self._opening.discard(task)

    async def _claim_alone(self, task: str, how: Claim) -> Session:
        crashpoints.reach("during_recovery")
        last = await self.store.lease(task)
        lease, crashed, robbed = await self._lease_of(task, how)
        crashpoints.reach("during_recovery")
        try:
            fold = await load_fold(self.store, task)
            await refuse_half(self.store, fold)
            if how.drives:
                refuse_taken(fold)
            if how.drives or how.acts:
                refuse_under_way(self.store, fold, self._world.clock.now(), is_resume=how.drives)
        except BaseException:
            await self.store.release(task, lease.epoch)  # a damaged journal must not look busy
            raise
        session = self._open_session(fold, lease.epoch)
        try:
            holder, at_once = self._presence.holder, self._world.rules.skips_waits
            session.put(e.LeaseClaimed(holder=holder, by_hand=how.by_hand, after_crash=crashed, at_once=at_once))
            session.after_crash, session.robbed = fold.ledger.unmended, robbed
            session.left_at = 0 if robbed is not None else last.until
            await session.commit()
            crashpoints.reach("during_recovery")
            session.module = getattr(getattr(how.program, "fn", None), "__module__", "")
            if how.finish:
                await finish_rollback(session)
            session.stop = session.stop or still_asked(session, by_hand=how.by_hand)
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

    async def _lease_of(self, task: str, how: Claim) -> tuple[Lease, bool, Holder | None]:
        """Take the lease; return it, whether its last holder was dead, and who was robbed of it."""
        ttl_s, present = self._world.lease_ttl_s, self._sessions.get(task)
        if not how.robs:
            return *await leases.claim(self.store, task, self._presence, self._world.clock, ttl_s), None
        taken = await leases.rob(self.store, task, self._presence, ttl_s)
        if present is not None:
            lost = Fenced(task, present.epoch, taken[0].epoch)
            present.sequencer.dead = present.sequencer.dead or lost
        return taken

    def _session_of(self, fold: Fold) -> Session:
        return Session(self._world, Sequencer(fold, self.store, self._world.clock, self._world.ids, fold.epoch))

    def _open_session(self, fold: Fold, epoch: int) -> Session:
        world = self._world
        session = Session(world, Sequencer(fold, self.store, world.clock, world.ids, epoch))
        if self._stop_later is not None:
            session.stop = StopRequested(fold.task, *self._stop_later)
        self._sessions[fold.task] = session
        self._snapshotter.watch(session)
        return session

    # --- holding and ending -----------------------------------------------------------------------------------------
    @contextlib.asynccontextmanager
    async def _held(self, session: Session) -> AsyncGenerator[None]:
        """Whatever happens, the lease is given back."""
        try:
            yield
        except Fenced as fenced:
            raise await taken_over(session, fenced) from fenced
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
