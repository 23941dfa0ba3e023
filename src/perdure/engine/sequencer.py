"""Puts entries in order: the one place that gives out seq, prev and digest, and hands appends to the store.

Synchronous: between `put` and `flush` nothing is awaited, so the order in memory is the order in the journal. An entry
that was put is never taken back; if the store refuses it, the sequencer is dead and so is the task's handle.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Awaitable
from typing import Final

from perdure.codec.entries import pack
from perdure.codec.redact import redact_payload
from perdure.core.fold import Fold
from perdure.errors import ForkedRuntime, PerdureError
from perdure.limits import APPEND_BYTES_AIM
from perdure.model import entry as e
from perdure.model.entry import Header
from perdure.model.money import text_of
from perdure.model.patch import Op
from perdure.model.status import TaskSummary
from perdure.ports import Append, Clock, Ids, Store

_CHANGES_SUMMARY: Final = frozenset({
    e.TaskStarted, e.TaskResumed, e.ProgramCalled, e.TaskPausedEntry, e.TaskParkedEntry, e.QuestionAsked,
    e.QuestionAnswered, e.TaskTakenOver, e.TaskHandedBack, e.TaskSucceeded, e.TaskFailedEntry, e.TaskCancelledEntry,
    e.RolledBackEntry,
})  # fmt: skip


class Sequencer:
    """Orders the entries of one task under one lease."""

    def __init__(self, fold: Fold, store: Store, clock: Clock, ids: Ids, epoch: int) -> None:
        self.fold = fold
        self.dead: PerdureError | None = None  # why nothing more is written: what the store said, or ForkedRuntime
        self.lease_s = 0.0  # for so long the lease shall stand from the next append on; 0: as it does
        self.pending_since: float | None = None  # monotonic; of the oldest entry not yet handed to the store
        self._store = store
        self._clock = clock
        self._ids = ids
        self.epoch = epoch
        self._frames: list[bytes] = []
        self._frame_bytes = 0
        self._blobs: dict[bytes, bytes] = {}
        self._summary_due = False
        self._last: Awaitable[None] = _DONE  # the answer to the newest append; stores let it be awaited again
        self._before = (fold.seq, fold.digest)
        _all.add(self)

    def put(
        self,
        payload: e.Payload,
        *,
        operations: tuple[Op, ...] = (),
        blobs: dict[bytes, bytes] | None = None,
    ) -> int:
        """Give `payload` its place and return its seq; it reaches the store with the next `flush`.

        `operations` are those of its patch, already written to the state by the views. Raises the error that killed
        this sequencer.
        """
        if self.dead is not None:
            raise self.dead
        payload = redact_payload(payload)
        place, digest, size = self._pack(payload, self.fold.branch)
        if blobs:
            self._blobs.update(blobs)
        self.fold.note(place, payload, operations, digest=digest, size=size)
        return place.seq

    def jump(self, payload: e.RolledBackEntry, earlier: Fold) -> int:
        """Put a RolledBack entry: the document becomes that of `earlier`, on the next branch."""
        place, digest, size = self._pack(payload, self.fold.branch + 1)
        self.fold.jump(e.Entry(place, payload, digest, size), earlier)
        return place.seq

    def begin_fork(self, payload: e.LeaseClaimed) -> int:
        """Put the claim with which a fork begins its own life behind its parent's entries: on the next branch."""
        place, digest, size = self._pack(payload, self.fold.branch + 1)
        self.renew_summary()
        self.fold.note(place, payload, (), digest=digest, size=size)
        return place.seq

    def flush(self, consumed: tuple[str, ...] = ()) -> Awaitable[None]:
        """Hand all that was put to the store as one append; await the result to know that it is durable.

        Who awaits it marks the sequencer dead where the store refuses (`Session.commit`).
        """
        if self.dead is not None:
            raise self.dead
        if self._frames:
            self._submit(consumed)
        return _shielded(self._last)  # without frames: they may be on their way in somebody else's append

    def summary(self) -> TaskSummary:
        """Return what `list` shall show of the task as it stands."""
        fold, ledger = self.fold, self.fold.ledger
        driver = ledger.driver
        return TaskSummary(
            task=fold.task,
            name=ledger.name,
            goal=ledger.goal,
            status=ledger.status,
            reason=ledger.reason,
            attempt=max(ledger.attempt, 1),
            branch=fold.branch,
            driver=f"{driver.kind} {driver.target}".strip() if driver else "",
            workspace=ledger.workspace,
            started_at=ledger.started_at,
            changed_at=fold.at,
            until=ledger.until,
            taken_at=ledger.takeover.at if ledger.takeover is not None else 0,
            tokens_in=ledger.tokens_in,
            tokens_out=ledger.tokens_out,
            money=text_of(ledger.money),
        )

    def renew_summary(self) -> None:
        """Have the append of the next entry renew what `list` shows: it is of no kind that always does."""
        self._summary_due = True

    def _submit(self, consumed: tuple[str, ...] = ()) -> None:
        fold, (expected_seq, prev_digest) = self.fold, self._before
        append = Append(
            expected_seq=expected_seq,
            epoch=self.epoch,
            frames=b"".join(self._frames),
            last_seq=fold.seq,
            last_digest=fold.digest,
            prev_digest=prev_digest,
            blobs=tuple(self._blobs.items()),
            consumed=consumed,
            summary=self.summary() if self._summary_due else None,
            lease_s=self.lease_s,
        )
        self.lease_s = 0.0
        self._frames, self._frame_bytes, self._blobs = [], 0, {}
        self._summary_due, self.pending_since = False, None
        self._before = (fold.seq, fold.digest)
        self._last = self._store.append(fold.task, append)

    def _pack(self, payload: e.Payload, branch: int) -> tuple[Header, bytes, int]:
        fold = self.fold
        place = Header(fold.task, fold.seq + 1, self.epoch, self._clock.now(), branch, 0, 0, 0, 0, fold.digest, b"")
        frame, digest = pack(payload, place, self._ids.salt())
        size = len(frame)
        if self._frames and self._frame_bytes + size > APPEND_BYTES_AIM:
            is_due = self._summary_due
            self._submit()  # many large intents at once: an append must stay below the store's maximum
            self._summary_due = is_due  # for this entry, which it does not know yet
        if not self._frames:
            self.pending_since = self._clock.monotonic()
        self._frames.append(frame)
        self._frame_bytes += size
        if type(payload) in _CHANGES_SUMMARY:
            self._summary_due = True
        return place, digest, size


def _shielded(answer: Awaitable[None]) -> Awaitable[None]:
    """Several may wait for one answer: who is cancelled must not take it from the others."""
    return asyncio.shield(answer) if isinstance(answer, asyncio.Future) else answer


_all: Final[weakref.WeakSet[Sequencer]] = weakref.WeakSet()
_process: Final = [os.getpid()]


def _end_in_child() -> None:
    """In a forked child all are dead: two processes that write under one lease would be the end of the journal."""
    parent, _process[0] = _process[0], os.getpid()
    for sequencer in list(_all):
        sequencer.dead = ForkedRuntime(parent, os.getpid())


os.register_at_fork(after_in_child=_end_in_child)


class _Done:
    """An awaitable that is done: nothing was to be written."""

    def __await__(self):  # type: ignore[no-untyped-def]  # noqa: ANN204 - a generator that yields nothing
        return
        yield


_DONE: Final[Awaitable[None]] = _Done()
