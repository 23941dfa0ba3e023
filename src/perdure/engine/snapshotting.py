"""Makes snapshots beside the action's path: an image of the task, encoded in a thread, saved, named in the journal."""

from __future__ import annotations

import asyncio
from functools import partial

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
        session.after_commit = partial(self._look, session)

    async def stop(self) -> None:
        """Give up the one under way; it is no loss."""
        if self._making is not None:
            self._making.cancel()
            await asyncio.gather(self._making, return_exceptions=True)

    def _look(self, session: Session) -> None:
        if snapshots.is_due(session.fold) and (self._making is None or self._making.done()):
            session.fold.bytes_since_snapshot = 0
            self._making = asyncio.create_task(self._make(session), name="perdure snapshot")

    async def _make(self, session: Session) -> None:
        seq = session.fold.seq
        with Boundary() as caught:  # a snapshot that fails costs time at the next opening and nothing else
            await make_snapshot(session, seq)
        if caught.error is not None:
            log.warning("snapshot_failed task=%s seq=%d error=%s", session.task, seq, caught.error)


async def make_snapshot(session: Session, seq: int) -> None:
    """Save the fold of entry `seq` and let the next append name it.

    Works on an image of the live fold, which goes on changing meanwhile; where that cannot be had, on a fold of its
    own, read from the store. Encoding is done in a thread, so that other tasks of the loop get their turn.
    """
    store = session.world.store
    image = await _image_of_live(session, seq) or await _image_of_stored(session, seq)
    if image is None:
        return
    raw = await asyncio.to_thread(image.encode)
    if _is_over(session):
        return
    digest = snapshots.digest_of(raw)
    head = SnapshotHead(seq=seq, branch=image.branch, fold_version=FOLD_VERSION, digest=digest, size=len(raw))
    await store.save_snapshot(session.task, head, snapshots.parts_of(raw))
    if _is_over(session):
        return
    session.fold.snapshot_size = len(raw)
    session.put(e.SnapshotTaken(at_seq=seq, digest=digest))
    confirmed = [taken for taken in (await store.snapshots(session.task)) if taken.seq <= seq]
    await store.forget_snapshots(session.task, [taken.seq for taken in confirmed[: SNAPSHOTS_KEPT + 1]])


async def _image_of_live(session: Session, seq: int) -> snapshots.Image | None:
    """Return an image of the live fold if it stands at `seq`, no edit is open, and it is not too large."""
    fold = session.fold
    if fold.seq != seq or fold.tree.is_open or not session.edit_closed.is_set():
        return None
    image = snapshots.take_image(fold)
    if image is not None:
        await session.commit()  # the store must have all that the image shows before it has the image
    return image


async def _image_of_stored(session: Session, seq: int) -> snapshots.Image | None:
    """Return an image of a fold read from the store, which nobody else changes; None if `seq` is not there."""
    shadow = await load_fold(session.world.store, session.task, seq)
    return snapshots.Image(shadow, shadow.tree.root) if shadow.seq == seq else None


def _is_over(session: Session) -> bool:
    """Whether the session writes no more: what is saved for it now would never be confirmed."""
    return session.is_closed or session.sequencer.dead is not None
