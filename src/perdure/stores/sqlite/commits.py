"""Turns batches of appends, and other work, into transactions on the one writing connection. Does not decide when.

A batch is one multi-row INSERT in autocommit, checked by the schema's trigger, because each further statement gives
up the interpreter lock. A batch that cannot go that way, or is refused, is written append by append under savepoints.
Called by `writer.py`, which holds the lock of the connection and the lock of the file.
"""

from __future__ import annotations

import sqlite3
from asyncio import AbstractEventLoop, Future
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from perdure.errors import BlobMissing, Conflict, Fenced, NameTaken, PerdureError, StoreBroken, TaskUnknown
from perdure.limits import MIB, STAGE_BLOBS_FROM_BYTES
from perdure.model.status import TaskSummary
from perdure.ports import Append
from perdure.stores.answers import Promised
from perdure.stores.checks import SEQ_MAX
from perdure.stores.sqlite.contents import Pack, name_blob, pack_blob, put_blob, stage_blob
from perdure.stores.sqlite.database import connect_writer, is_busy, translate
from perdure.stores.sqlite.health import another
from perdure.stores.sqlite.queries import SQL
from perdure.stores.sqlite.rows import SEQ_BITS, summary_columns, task_number

T = TypeVar("T")
Answer = Exception | None
_NUMBERS_MAX: Final = 4096
_COLUMNS: Final = 6


class Pending(Promised):
    """An append on its way, and what is awaited of it."""

    __slots__ = ("append", "blob_bytes", "is_plain", "task", "until")

    def __init__(self, task: str, append: Append, until: int = 0) -> None:
        super().__init__()
        self.task = task
        self.until = until  # when the lease shall end that it renews
        self.append = append
        self.blob_bytes = sum(len(raw) for _, raw in append.blobs) if append.blobs else 0
        self.is_plain = (
            not (append.blobs or append.names or append.consumed or append.lease_s) and append.summary is None
        )

    @property
    def is_large(self) -> bool:
        """Whether its blobs go ahead of it."""
        return self.blob_bytes > STAGE_BLOBS_FROM_BYTES

    @property
    def size(self) -> int:
        """What it adds to a batch, in bytes."""
        return len(self.append.frames) + self.blob_bytes


class Job:
    """Work other than an append: one transaction, and its result."""

    __slots__ = ("future", "task", "work")

    def __init__(self, task: str, work: Callable[[sqlite3.Connection], Any], loop: AbstractEventLoop) -> None:
        self.task = task
        self.work = work
        self.future: Future[Any] = loop.create_future()

    def answer(self, answer: Any) -> None:  # noqa: ANN401 - what the work returns, or an Exception
        """Tell the result. A cancelled wait has not taken the work back; it is told nothing."""
        if self.future.done():
            return
        if isinstance(answer, Exception):
            self.future.set_exception(answer)
        else:
            self.future.set_result(answer)


class Commits:
    """The writing connection and what is done with it."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._connection = connect_writer(place)
        self._cursor = self._connection.cursor()
        self._numbers: dict[str, int] = {}

    def close(self) -> None:
        """Carry what the log holds over into the database, without waiting for readers, and close."""
        self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        self._connection.close()

    def write_batch(self, batch: Sequence[Pending]) -> list[Answer]:
        """Write the appends and return for each None or why it was refused. Raises sqlite3.Error: see `settle`."""
        if self._insert_all(batch):
            return [None] * len(batch)
        return self._transact(lambda: [self._write_alone(pending) for pending in batch])

    def do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do other work in one transaction and return its result. Raises SQLite's errors of being busy, StoreError."""
        try:
            return self._transact(lambda: work(self._connection))
        except sqlite3.Error as error:
            if is_busy(error):
                raise
            meaning = translate(error, self._place)
            if not isinstance(meaning, StoreBroken):
                self.renew_connection()
            raise meaning from error

    def pieces(self, pending: Pending) -> Iterator[Callable[[], Answer]]:
        """Yield the transactions that bring the blobs of a large append ahead of it, each of about 1 MiB at most.

        Each returns None or why the append is refused.
        """
        parts: list[tuple[Pack, int]] = []  # a blob, and where its part begins
        size = 0
        for digest, raw in pending.append.blobs:
            packed = pack_blob(digest, raw)
            for start in range(0, max(len(packed.stored), 1), MIB):
                part = min(MIB, len(packed.stored) - start)
                if parts and size + part > MIB:
                    yield partial(self._transact, partial(self._stage, pending, parts))
                    parts, size = [], 0
                parts.append((packed, start))
                size += part
        if parts:
            yield partial(self._transact, partial(self._stage, pending, parts))

    def settle(self, batch: Sequence[Pending], error: sqlite3.Error) -> list[Answer]:
        """After an error that SQLite raised: look on a new connection for what is there, answer for each append.

        Raises StoreBroken where the error leaves no trust in what is read.
        """
        meaning = translate(error, self._place)
        if isinstance(meaning, StoreBroken):
            raise meaning from error
        self.renew_connection()
        return [None if self._is_there(pending) else another(meaning, error) for pending in batch]

    def renew_connection(self) -> None:
        """Replace the connection; what the old one left open is undone."""
        fresh = connect_writer(self._place)
        self._connection.close()
        self._connection = fresh
        self._cursor = fresh.cursor()

    def _insert_all(self, batch: Sequence[Pending]) -> bool:
        """Write appends by one statement; return False, nothing being written, where one is not plain or refused."""
        values: list[int | bytes] = []
        for pending in batch:
            if not pending.is_plain:
                return False
            number = self._numbers.get(pending.task) or self._look_up(pending.task)
            if number is None:
                return False
            append = pending.append
            values += (
                number << SEQ_BITS | append.expected_seq + 1,
                append.last_seq,
                append.epoch,
                append.prev_digest,
                append.last_digest,
                append.frames,
            )
        try:
            self._cursor.execute(_insert_statement(len(batch)), values)
        except sqlite3.IntegrityError:
            return False
        return True

    def _transact(self, work: Callable[[], T]) -> T:
        self._cursor.execute("BEGIN IMMEDIATE")
        try:
            result = work()
            self._cursor.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._cursor.execute("ROLLBACK")
            raise
        return result

    def _write_alone(self, pending: Pending) -> Answer:
        """Write one append inside the open transaction, all of it or nothing."""
        self._cursor.execute("SAVEPOINT alone")
        try:
            number = self._judge(pending)
            if number is not None:
                self._write(number, pending)
        except PerdureError as refusal:
            self._cursor.execute("ROLLBACK TO alone")
            return refusal
        finally:
            if self._connection.in_transaction:
                self._cursor.execute("RELEASE alone")
        return None

    def _judge(self, pending: Pending) -> int | None:
        """Return the task's number if the append is due, None if it is there already; raise why it is neither."""
        append = pending.append
        if self._is_there(pending):
            return None
        number = self._look_up(pending.task)
        if number is None:
            raise TaskUnknown(pending.task)
        self._check_epoch(pending, number)
        first = number << SEQ_BITS
        _, seq, digest = self._connection.execute(SQL["newest"], (first, first | SEQ_MAX)).fetchone()
        if (append.expected_seq, append.prev_digest) != (seq, digest):
            raise Conflict(pending.task, append.expected_seq, seq)
        return number

    def _check_epoch(self, pending: Pending, number: int) -> None:
        (epoch,) = self._connection.execute(SQL["lease_epoch"], (number,)).fetchone()
        if epoch != pending.append.epoch:
            raise Fenced(pending.task, pending.append.epoch, epoch)

    def _is_there(self, pending: Pending) -> bool:
        """Whether an append that ends with the same entry lies there."""
        number = self._look_up(pending.task)
        if number is None:
            return False
        first = number << SEQ_BITS
        found = self._connection.execute(SQL["newest"], (first, first | pending.append.last_seq)).fetchone()
        return found is not None and found[1:] == (pending.append.last_seq, pending.append.last_digest)

    def _write(self, number: int, pending: Pending) -> None:
        append = pending.append
        execute = self._connection.execute
        for digest, raw in append.blobs:
            put_blob(self._connection, number, append.epoch, digest, raw)
        for digest in append.names:
            if not name_blob(self._connection, number, digest):
                raise BlobMissing(pending.task, digest.hex())
        key = number << SEQ_BITS | append.expected_seq + 1
        columns = (append.last_seq, append.epoch, append.prev_digest, append.last_digest, append.frames)
        execute(SQL["insert_append"], (key, *columns))
        for message in append.consumed:
            execute(SQL["consume_message"], (number, message))
        if append.lease_s:
            execute(SQL["renew_lease"], (pending.until, number, append.epoch))
        if append.summary is not None:
            self._write_summary(number, append.summary)

    def _write_summary(self, number: int, summary: TaskSummary) -> None:
        try:
            self._connection.execute(SQL["update_task"], (*summary_columns(summary), number))
        except sqlite3.IntegrityError as error:
            found = self._connection.execute(SQL["unfinished_of_name"], (summary.name,)).fetchone()
            if found is None:
                raise
            raise NameTaken(summary.name, found[0]) from error

    def _stage(self, pending: Pending, parts: Sequence[tuple[Pack, int]]) -> Answer:
        number = self._look_up(pending.task)
        if number is None:
            return TaskUnknown(pending.task)
        if self._is_there(pending):
            return None
        try:
            self._check_epoch(pending, number)
        except Fenced as refusal:
            return refusal
        for pack, start in parts:
            stage_blob(self._connection, (number, pending.append.epoch), pack, start)
        return None

    def _look_up(self, task: str) -> int | None:
        number = task_number(self._connection, task)
        if number is None:
            self._numbers.pop(task, None)
            return None
        if len(self._numbers) >= _NUMBERS_MAX:
            self._numbers.clear()
        self._numbers[task] = number
        return number


def _insert_statement(rows: int) -> str:
    statement = _statements.get(rows)
    if statement is None:
        head, _, _ = SQL["insert_append"].partition("VALUES")
        row = f"({', '.join('?' * _COLUMNS)})"
        statement = _statements[rows] = f"{head}VALUES {', '.join([row] * rows)}"
    return statement


_statements: Final[dict[int, str]] = {}  # at most one per batch size
