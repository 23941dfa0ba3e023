"""When and on which thread a commit is made: a queue with a thread behind it (group commit), and the short way inline.

The loop's thread puts work into the queue and is told the answers, once per batch. A lonely append is committed by the
loop's thread itself, which saves two thread hops. What a commit is, `commits.py` knows. Called by the rungs.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import sqlite3
import threading
import time
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from perdure.errors import PerdureError, StoreBroken, StoreBusy, StoreError, StoreFull
from perdure.limits import (
    BATCH_APPENDS_MAX,
    BATCH_BYTES_MAX,
    INLINE_COMMIT_MAX_S,
    KIB,
    STORE_BUSY_S,
    WRITER_QUEUE_MAX,
)
from perdure.stores.answers import DONE, Refused
from perdure.stores.sqlite.commits import Answer, Commits, Job, Pending
from perdure.stores.sqlite.database import is_busy
from perdure.stores.sqlite.filelock import FileLock
from perdure.stores.sqlite.health import Health, another
from perdure.stores.sqlite.keeping import Keeping

T = TypeVar("T")
_LONELY_FROM: Final = 4  # so many appends in a row that met no other make the next one go inline
_PROBE_EVERY: Final = 128  # of lonely appends, one goes through the queue, to see whether another would meet it there
_INLINE_BLOB_BYTES_MAX: Final = 64 * KIB  # compressing more would hold up the loop
_MEDIAN_STEP_S: Final = INLINE_COMMIT_MAX_S / 32
_ROOM_POLL_S: Final = 0.05
_BUSY_PAUSE_S: Final = 0.002
_LAST_WAIT_S: Final = 0.5  # for the lock, at the end, when there is nothing left that must be written


class Writer:
    """The one writer of a store handle. Its public methods are called on the thread of the loop it was made on."""

    def __init__(self, place: str, lock: FileLock, health: Health, keeping: Keeping) -> None:
        self._place = place
        self._keeping = keeping
        self._health = health
        self._lock = lock  # among processes
        self._gate = threading.Lock()  # among our two threads; guards connection and file lock
        self._commits = Commits(place)
        self._loop = asyncio.get_running_loop()
        self._queue: deque[Pending | Job] = deque()
        self._wake = threading.Event()
        self._room = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_stopping = False
        self._unanswered = 0  # of what was put into the queue; loop's thread only
        self._lonely = 0  # appends in a row that met no other; loop's thread only
        self._median_s = 0.0  # of commits of one append, running

    # --- loop's thread ------------------------------------------------------------------------------------------
    def append(self, pending: Pending) -> Awaitable[None]:
        """Take a place in the order; the await is the acknowledgement."""
        if self._health.end is not None:
            return Refused(another(self._health.end))
        if self._unanswered:
            self._lonely = 0
        else:
            self._lonely += 1
            if self._is_for_inline(pending):
                answer = self._append_inline(pending)
                if answer is not None:
                    return answer
        self._put(pending)
        return pending

    def do(self, task: str, work: Callable[[sqlite3.Connection], T], *, is_urgent: bool = False) -> asyncio.Future[T]:
        """Have `work` done in a transaction of its own, after what was queued before it; if urgent, before that.

        The future has its result, or the PerdureError it raised: then nothing is written.
        """
        job = Job(task, work, self._loop)
        if self._health.end is not None:
            job.future.set_exception(another(self._health.end))
        else:
            self._put(job, is_urgent=is_urgent)
        return job.future

    def keep(self, task: str, epoch: int, ttl_s: float) -> None:
        """Renew a lease from now on; called after the job that has granted it."""
        self._keeping.keep(task, epoch, ttl_s)
        self._wake.set()  # the thread looks again how long it may sleep

    def refuse_more(self) -> None:
        """Accept nothing more; what is queued is still written."""
        self._health.close()

    def _is_for_inline(self, pending: Pending) -> bool:
        return (
            self._lonely > _LONELY_FROM
            and self._lonely % _PROBE_EVERY != 0
            and self._median_s < INLINE_COMMIT_MAX_S
            and pending.blob_bytes <= _INLINE_BLOB_BYTES_MAX
        )

    def _append_inline(self, pending: Pending) -> Awaitable[None] | None:
        """Commit on this thread if both locks are free; return None where it has to go through the queue."""
        if not self._gate.acquire(blocking=False):
            return None
        try:
            if not self._lock.try_take():
                return None
            try:
                (answer,) = self._write([pending])
            finally:
                self._lock.give()
        except sqlite3.Error as error:
            if is_busy(error):
                return None
            answer = self._break(error)
        except StoreError as error:
            answer = self._break(error)
        finally:
            self._gate.release()
        return DONE if answer is None else Refused(answer)

    def _put(self, entry: Pending | Job, *, is_urgent: bool = False) -> None:
        while len(self._queue) >= WRITER_QUEUE_MAX:  # who calls and never awaits is held here: memory has an end
            self._room.clear()
            self._room.wait(_ROOM_POLL_S)
        self._unanswered += 1
        if is_urgent:
            self._queue.appendleft(entry)
        else:
            self._queue.append(entry)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="perdure-writer", daemon=True)
            self._thread.start()
            _running.add(self)
        if not self._wake.is_set():
            self._wake.set()

    def _answer(self, entries: Sequence[Pending | Job], answers: Sequence[Any]) -> None:
        """Tell the waiters."""
        self._unanswered -= len(entries)
        for entry, answer in zip(entries, answers, strict=True):
            entry.answer(answer)

    # --- any thread -----------------------------------------------------------------------------------------------
    def stop(self) -> None:
        """Write what is queued and free everything. Blocks; called in a worker thread, or as the interpreter ends."""
        if self._is_stopping:
            return
        self._is_stopping = True
        self._health.close()
        _running.discard(self)
        if self._thread is not None:
            self._wake.set()
            self._thread.join(2 * STORE_BUSY_S)
        # What cannot be carried over now stays in the log, which the next start reads.
        with contextlib.suppress(sqlite3.Error, StoreBusy), self._gate, self._lock.held(_LAST_WAIT_S):
            self._commits.close()
        self._lock.close()

    def _write(self, batch: Sequence[Pending]) -> list[Answer]:
        """Write appends, holding both locks. Raises StoreError (StoreBroken …) and SQLite's errors of being busy."""
        began = time.perf_counter()
        try:
            answers = self._commits.write_batch(batch)
        except sqlite3.Error as error:
            if is_busy(error):
                raise
            return self._commits.settle(batch, error)
        if len(batch) == 1:
            took = time.perf_counter() - began
            self._median_s += _MEDIAN_STEP_S if took > self._median_s else -_MEDIAN_STEP_S
        return answers

    def _break(self, error: Exception) -> StoreError:
        """Return the error to answer with, having noted it."""
        if not isinstance(error, StoreError):
            error = StoreBroken(self._place, f"{type(error).__name__}: {error}")
        return self._health.note(error)

    # --- writer's thread ------------------------------------------------------------------------------------------
    def _run(self) -> None:
        while True:
            self._wake.clear()
            self._renew_leases()
            if self._queue:
                self._serve(self._take())
            elif self._is_stopping:
                return
            else:
                self._wake.wait(self._keeping.wait_s())

    def _renew_leases(self) -> None:
        """Renew the leases that are due, ahead of whatever is queued. Of a loss the owner hears at his next word."""
        due = self._keeping.take_due()
        if due:
            self._perform([], lambda: [self._commits.do(lambda connection: self._keeping.renew(connection, due))])

    def _take(self) -> list[Pending] | Job:
        """Take appends up to a batch's limits from the queue, or one large append, or one job."""
        first = self._queue.popleft()
        if isinstance(first, Job):
            return first
        batch, size = [first], first.size
        while not first.is_large and self._queue and len(batch) < BATCH_APPENDS_MAX and size < BATCH_BYTES_MAX:
            entry = self._queue.popleft()
            if isinstance(entry, Job) or entry.is_large:
                self._queue.appendleft(entry)
                break
            batch.append(entry)
            size += entry.size
        return batch

    def _take_others(self, task: str) -> list[Pending]:
        """Take from the queue small appends that need not wait for what is before them: those of other tasks."""
        blocked = {task}
        batch: list[Pending] = []
        passed: list[Pending | Job] = []
        while self._queue and len(batch) < BATCH_APPENDS_MAX:
            entry = self._queue.popleft()
            if isinstance(entry, Job) or entry.is_large or entry.task in blocked:
                blocked.add(entry.task)
                passed.append(entry)
            else:
                batch.append(entry)
        self._queue.extendleft(reversed(passed))
        return batch

    def _serve(self, work: list[Pending] | Job) -> None:
        self._room.set()
        if isinstance(work, Job):
            self._tell([work], self._perform([work], lambda: [self._commits.do(work.work)]))
        elif work[0].is_large:
            self._commit_large(work[0])
        else:
            self._commit(work)

    def _commit(self, batch: Sequence[Pending]) -> None:
        self._conclude(batch, self._perform(batch, lambda: self._write(batch)))

    def _commit_large(self, pending: Pending) -> None:
        """Bring the blobs ahead, letting others through between two pieces; then the append, which adopts them."""
        pieces: list[Callable[[], Answer]] = []

        def prepare() -> list[Answer]:
            pieces.extend(self._commits.pieces(pending))
            return [None]

        (refusal,) = self._guard([pending], prepare)
        for piece in pieces:
            (refusal,) = self._perform([pending], partial(self._stage, pending, piece))
            if refusal is not None:
                break
            self._renew_leases()
            others = self._take_others(pending.task)
            if others:
                self._commit(others)
        if refusal is None:
            self._commit([pending])
        else:
            self._conclude([pending], [refusal])

    def _stage(self, pending: Pending, piece: Callable[[], Answer]) -> list[Answer]:
        try:
            return [piece()]
        except sqlite3.Error as error:
            if is_busy(error):
                raise
            return self._commits.settle([pending], error)

    def _conclude(self, batch: Sequence[Pending], answers: Sequence[Answer]) -> None:
        """Tell the answers; what follows in the queue on an append that found no room is told the same."""
        self._tell(batch, answers)
        full = {
            pending.task: answer
            for pending, answer in zip(batch, answers, strict=True)
            if isinstance(answer, StoreFull)
        }
        for task, answer in full.items():
            self._refuse(answer, task)

    def _perform(self, entries: Sequence[Pending | Job], work: Callable[[], list[Any]]) -> list[Any]:
        """Do `work`, holding both locks, and return its answers, one per entry."""
        return self._guard(entries, lambda: self._patiently(work))

    def _guard(self, entries: Sequence[Pending | Job], work: Callable[[], list[Any]]) -> list[Any]:
        """Do `work` and return its answers, one per entry; whatever it raises is the answer to all of them."""
        if self._health.broken is not None:
            return [another(self._health.broken) for _ in entries]
        try:
            return work()
        except PerdureError as refusal:
            error = self._break(refusal) if isinstance(refusal, StoreError) else refusal
        except Exception as failure:  # a store answers every waiter, and never goes on after what it does not know
            error = self._break(failure)
            error.__cause__ = failure
        if isinstance(error, StoreBusy):
            self._refuse(error)  # all would wait as long again for the same lock
        return [another(error) for _ in entries]

    def _patiently(self, work: Callable[[], T]) -> T:
        """Do `work` holding both locks; again and again while another program keeps SQLite's own lock."""
        began = time.monotonic()
        while True:
            try:
                with self._gate, self._lock.held(STORE_BUSY_S):
                    return work()
            except sqlite3.Error as error:
                waited = time.monotonic() - began
                if not is_busy(error):
                    raise
                if waited > STORE_BUSY_S:
                    raise StoreBusy(self._place, None, waited) from error
            time.sleep(_BUSY_PAUSE_S)

    def _refuse(self, error: Exception, task: str | None = None) -> None:
        """Answer with `error` all that is queued, or the appends of one task."""
        refused: list[Pending | Job] = []
        kept: list[Pending | Job] = []
        for entry in [self._queue.popleft() for _ in range(len(self._queue))]:
            concerned = task is None or (entry.task == task and isinstance(entry, Pending))
            (refused if concerned else kept).append(entry)
        self._queue.extendleft(reversed(kept))  # before what was queued meanwhile
        self._tell(refused, [another(error) for _ in refused])

    def _tell(self, entries: Sequence[Pending | Job], answers: Sequence[Any]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._answer, entries, answers)


_running: Final[weakref.WeakSet[Writer]] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    """A program that ends without closing its store has what it queued written all the same."""
    for writer in list(_running):
        writer.stop()


os.register_at_fork(after_in_child=_running.clear)  # threads and connections are the parent's
