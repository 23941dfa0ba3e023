"""Makes snapshots beside the action's path: loads the task as an opener would, saves that, names it in the journal."""

from __future__ import annotations

import asyncio

from perdure.core import snapshots
from perdure.core.fold import FOLD_VERSION
from perdure.engine.boundary import Boundary
from perdure.engine.loading import load_fold
from perdure.engine.session import Session, log
from perdure.limits import SNAPSHOTS_KEPT
from perdure.model import entry as e
from perdure.ports import SnapshotHead


class Snapshotter:
    """The snapshot policy of one runtime: one snapshot at a time."""

    def __init__(self) -> None:
        self._making: asyncio.Task[None] | None = None

    def watch(self, session: Session) -> None:
        """Look after `session` from now on."""
        session.after_commit = lambda: self._look(session)

    async def stop(self) -> None:
        """Give up the one under way; it is no loss."""
        if self._making is not None:
            self._making.cancel()
            await asyncio.gather(self._making, return_exceptions=True)

    def _look(self, session: Session) -> None:
        if snapshots.is_due(session.fold) and (self._making is None or self._making.done()):
            session.fold.bytes_since_snapshot = 0
            self._making = asyncio.create_task(self._make(session, session.fold.seq), name="perdure snapshot")

    async def _make(self, session: Session, seq: int) -> None:
        with Boundary() as caught:  # a snapshot that fails costs time at the next opening and nothing else
            await make_snapshot(session, seq)
        if caught.error is not None:
            log.warning("snapshot_failed task=%s seq=%d error=%s", session.task, seq, caught.error)


async def make_snapshot(session: Session, seq: int) -> None:
    """Save the fold of entry `seq` and let the next append name it.

    Works on a fold of its own, read from the store: the live one goes on changing meanwhile. Encoding is done in a
    thread, so that other tasks of the loop get their turn.
    """
    store = session.world.store
    shadow = await load_fold(store, session.task, seq)
    if shadow.seq != seq:
        return
    raw = await asyncio.to_thread(snapshots.encode_fold, shadow)
    if _is_over(session):
        return
    digest = snapshots.digest_of(raw)
    head = SnapshotHead(seq=seq, branch=shadow.branch, fold_version=FOLD_VERSION, digest=digest, size=len(raw))
    await store.save_snapshot(session.task, head, snapshots.parts_of(raw))
    if _is_over(session):
        return
    session.fold.snapshot_size = len(raw)
    session.put(e.SnapshotTaken(at_seq=seq, digest=digest))
    confirmed = [taken for taken in (await store.snapshots(session.task)) if taken.seq <= seq]
    await store.forget_snapshots(session.task, [taken.seq for taken in confirmed[: SNAPSHOTS_KEPT + 1]])


def _is_over(session: Session) -> bool:
    """Whether the session writes no more: what is saved for it now would never be confirmed."""
    return session.is_closed or session.sequencer.dead is not None
