"""What the operator of a store asks of it: how big it is, and a copy of it, made beside those who write.

The copy is SQLite's own backup, in steps, of the state at its beginning: a read transaction holds that fast, so no
commit of others makes it begin again. Until it ends the write-ahead log grows; nobody waits.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import threading
from typing import Final

from perdure.errors import StoreFull, StoreUnreadable, UsageError
from perdure.ports import Copied, StoreStatus
from perdure.stores.sqlite.database import translate
from perdure.stores.sqlite.queries import SQL
from perdure.stores.sqlite.rung import Rung

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_PART: Final = ".part"
_STEP_PAGES: Final = 512  # of 8 KiB: about ten milliseconds


class UpkeepRung(Rung):
    """`ports.Upkeep`."""

    async def status(self) -> StoreStatus:
        """See `ports.Upkeep.status`."""
        return await self._readers.fetch(lambda connection: _status(connection, self.place))

    async def backup(self, file: str, copied: Copied | None = None) -> None:
        """See `ports.Upkeep.backup`."""
        given_up = threading.Event()
        try:
            await self._readers.fetch(lambda connection: _backup(connection, file, copied, given_up))
        finally:
            given_up.set()  # a cancelled caller: the thread stops at its next step


class _GivenUp(Exception):
    """Nobody waits for the copy any more."""


def _status(connection: sqlite3.Connection, place: str) -> StoreStatus:
    def number(sql: str) -> int:
        return int(connection.execute(sql).fetchone()[0])

    page_bytes = number("PRAGMA page_size")
    blobs, blob_bytes = connection.execute(SQL["count_blobs"]).fetchone()
    snapshots, snapshot_bytes = connection.execute(SQL["count_snapshots"]).fetchone()
    return StoreStatus(
        schema=number("PRAGMA user_version"),
        size_bytes=number("PRAGMA page_count") * page_bytes,
        free_bytes=number("PRAGMA freelist_count") * page_bytes,
        log_bytes=_size_of(f"{place}-wal"),
        blobs=blobs,
        blob_bytes=blob_bytes,
        snapshots=snapshots,
        snapshot_bytes=snapshot_bytes,
    )


def _size_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _backup(source: sqlite3.Connection, file: str, copied: Copied | None, given_up: threading.Event) -> None:
    part = f"{file}{_PART}"
    _refuse_existing(file)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        try:
            _copy(source, part, copied, given_up)
            _sync(part)
            _refuse_existing(file)
            os.rename(part, file)
            _sync(os.path.dirname(os.path.abspath(file)))
        finally:
            _clear_away(part)
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise StoreFull(file) from error
        raise StoreUnreadable(file, error.strerror or str(error)) from error


def _clear_away(part: str) -> None:
    for remains in (part, f"{part}-wal", f"{part}-shm", f"{part}-journal"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(remains)


def _copy(source: sqlite3.Connection, part: str, copied: Copied | None, given_up: threading.Event) -> None:
    def step(_status: int, remaining: int, total: int) -> None:
        if given_up.is_set():
            raise _GivenUp
        if copied is not None:
            copied(total - remaining, total)

    source.execute("BEGIN")
    try:
        source.execute("SELECT count(*) FROM sqlite_master").fetchone()  # from here on this state is what is read
        with contextlib.closing(sqlite3.connect(part)) as target:
            source.backup(target, pages=_STEP_PAGES, progress=step)
    except sqlite3.Error as error:
        raise translate(error, part) from error
    finally:
        source.execute("ROLLBACK")


def _refuse_existing(file: str) -> None:
    if os.path.lexists(file):
        raise UsageError(f"{file!r} exists already; name another file, nothing is written over")


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
