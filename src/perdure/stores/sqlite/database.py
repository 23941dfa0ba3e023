"""The file: looking at it, making it, migrating it, opening connections with the right settings, naming its errors.

Nothing but SQLite ever opens the database, its -wal or its -shm: closing any descriptor of them would drop SQLite's own
locks. A plain start truncates and repairs nothing. Called by the other modules of this package.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import stat
from collections.abc import Generator
from typing import Final
from urllib.parse import quote

from perdure.errors import StoreBroken, StoreBusy, StoreError, StoreFull, StoreTooNew, StoreUnreadable
from perdure.limits import MIB, STORE_BUSY_S
from perdure.stores.sqlite.filelock import FileLock
from perdure.stores.sqlite.queries import load_migrations

LIES_STILL: Final = "ro&immutable=1"  # a mode: nobody else has the file open
APPLICATION_ID: Final = 0x70657264  # "perd"
_MIGRATIONS: Final = load_migrations()
SCHEMA_VERSION: Final = len(_MIGRATIONS)
_PAGE_BYTES: Final = 8192
_WAL_BYTES: Final = 4 * MIB  # from this size on the write-ahead log is carried over into the database
_FULL_SYNC: Final = 2  # what `PRAGMA synchronous` answers for FULL
_SQLITE_BYTES_MIN: Final = 512  # of the smallest page there is
_PROBE_BYTES: Final = 64 * 1024


def prepare(path: str) -> FileLock:
    """See to it that a database of today's schema lies at `path`; return its lock.

    Raises StoreUnreadable, StoreTooNew, StoreBusy, StoreFull, StoreBroken, with the file as it was.
    """
    version = _look(path) if _check_file(path) else None
    if version is not None and version > SCHEMA_VERSION:
        raise StoreTooNew(path, version, SCHEMA_VERSION)
    try:
        if version is None:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        lock = FileLock(f"{path}.lock", path)
    except OSError as error:
        raise _not_usable(path, error) from error
    try:
        if version != SCHEMA_VERSION:
            with lock.held(STORE_BUSY_S):
                _make_or_migrate(path)
    except BaseException:
        lock.close()
        raise
    return lock


def connect_writer(path: str) -> sqlite3.Connection:
    """Return a connection that writes durably; raise StoreUnreadable where its settings, read back, do not hold."""
    with translated(path):
        connection = _connect(path, "rw", timeout_s=0)
        try:
            _set_durable(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def check_to_look(path: str) -> str:
    """Return the mode in which a database of today's schema at `path` is read without leaving a trace.

    Where nobody has it open it is read as it lies: SQLite would else make a -wal and an -shm beside it, for which a
    folder of copies may have no room. Raises StoreUnreadable, StoreTooNew.
    """
    if not _check_file(path, to_write=False):
        raise StoreUnreadable(path, "there is no such file")
    mode = "ro" if os.path.lexists(f"{path}-wal") else LIES_STILL
    version = _look(path, mode)
    if version > SCHEMA_VERSION:
        raise StoreTooNew(path, version, SCHEMA_VERSION)
    if version < SCHEMA_VERSION:
        raise StoreUnreadable(path, "it is of an earlier version, which is brought up when it is opened for work")
    return mode


def connect_reader(path: str, mode: str = "ro") -> sqlite3.Connection:
    """Return a connection that only reads; `mode` is "ro" or what `check_to_look` says."""
    with translated(path):
        connection = _connect(path, mode, timeout_s=STORE_BUSY_S)
        connection.execute("PRAGMA query_only = 1")
    return connection


@contextlib.contextmanager
def translated(place: str) -> Generator[None]:
    """Raise what SQLite raises in the block as an error of ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate(error, place) from error
    except UnicodeDecodeError as error:
        raise StoreBroken(place, f"it holds what is no text where SQLite keeps text: {error}") from error


def translate(error: sqlite3.Error, place: str) -> StoreError:
    """Return the error of ours that says the same as SQLite's."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    reason = f"{error} ({getattr(error, 'sqlite_errorname', type(error).__name__)})"
    match code & 0xFF:
        case sqlite3.SQLITE_FULL:
            return StoreFull(place)
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreBusy(place, None, STORE_BUSY_S)
        case sqlite3.SQLITE_IOERR if code in _NO_ROOM_PERHAPS and _is_out_of_room(place):
            return StoreFull(place)
        case sqlite3.SQLITE_PERM | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_AUTH:
            return StoreUnreadable(place, _why_closed(place) or reason)
        case _:
            return StoreBroken(place, reason)


def is_busy(error: sqlite3.Error) -> bool:
    """Whether the same call may succeed a moment later, nothing having been done."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


# SQLite calls a used-up quota an error of input and output; a write elsewhere in the folder tells the two apart.
# A failed sync is never among them: after it nothing is certain.
_NO_ROOM_PERHAPS: Final = frozenset(
    {
        sqlite3.SQLITE_IOERR_WRITE,
        sqlite3.SQLITE_IOERR_SHMSIZE,
        sqlite3.SQLITE_IOERR_SHMOPEN,
        sqlite3.SQLITE_IOERR_TRUNCATE,
    }
)


def _check_file(path: str, *, to_write: bool = True) -> bool:
    """Return whether a file is at `path`; raise StoreUnreadable where it cannot be one of ours."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        if os.path.lexists(f"{path}-wal"):
            raise StoreUnreadable(path, "it is missing, but its -wal file is there: move both back together") from None
        return False
    except (OSError, ValueError) as error:
        raise _not_usable(path, error) from error
    if stat.S_ISDIR(found.st_mode):
        raise StoreUnreadable(path, "it is a directory; name a file in it")
    if not stat.S_ISREG(found.st_mode):
        raise StoreUnreadable(path, "it is not a regular file")
    if found.st_size == 0:
        raise StoreUnreadable(path, "it is empty, and perdure never leaves an empty file; remove it or restore a copy")
    if found.st_size < _SQLITE_BYTES_MIN:  # SQLite would take it for a new database
        raise StoreUnreadable(path, f"it is not an SQLite database, only {found.st_size} bytes")
    closed = _why_closed(path, to_write=to_write)
    if closed:
        raise StoreUnreadable(path, closed)
    return True


def _look(path: str, mode: str = "ro") -> int:
    """Return the schema's number, having only read; raise StoreUnreadable where the file is not ours."""
    try:
        with contextlib.closing(_connect(path, mode, timeout_s=STORE_BUSY_S)) as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_NOTADB:
            raise StoreUnreadable(path, "it is not an SQLite database") from error
        raise translate(error, path) from error
    if application != APPLICATION_ID:
        raise StoreUnreadable(path, "it is an SQLite database of another program")
    return int(version)


def _make_or_migrate(path: str) -> None:
    """Under the lock: look again, for another process may have been here in between."""
    if not _check_file(path):
        _make(path)
    version = _look(path)
    if version < SCHEMA_VERSION:
        with translated(path), contextlib.closing(connect_writer(path)) as connection:
            _migrate(connection, version)


def _make(path: str) -> None:
    """Make the database under another name, whole and synced, then rename it: a kill never leaves half of one."""
    draft = f"{path}.new"
    try:
        for remains in (draft, f"{draft}-wal", f"{draft}-shm", f"{draft}-journal"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(remains)
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        with translated(path), contextlib.closing(_connect(draft, "rw", timeout_s=0)) as connection:
            connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            _set_durable(connection, path)
            _migrate(connection, 0)
            _empty_log(connection, path)
        os.rename(draft, path)
        _sync_folder(os.path.dirname(path))
    except OSError as error:
        raise _not_usable(path, error) from error


def _empty_log(connection: sqlite3.Connection, place: str) -> None:
    """Carry all over into the database, which is to be renamed without its log. Closing would do it silently."""
    is_busy, left, carried = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if is_busy or left != carried:
        raise StoreBroken(place, f"only {carried} of {left} pages of its log could be carried over")


def _migrate(connection: sqlite3.Connection, version: int) -> None:
    """Bring the schema from `version` to today's, one transaction per step."""
    for number, sql in enumerate(_MIGRATIONS[version:], version + 1):
        try:
            connection.executescript(f"BEGIN IMMEDIATE;\n{sql}\nPRAGMA user_version = {number};\nCOMMIT;")
        except sqlite3.Error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _connect(path: str, mode: str, *, timeout_s: float) -> sqlite3.Connection:
    """Open an existing file. Connections pass between threads; who uses one holds a lock for it."""
    return sqlite3.connect(
        f"file:{quote(os.fsencode(path))}?mode={mode}",
        uri=True,
        timeout=timeout_s,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=512,  # a batch has a statement of its own for each number of rows
    )


def _set_durable(connection: sqlite3.Connection, place: str) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()  # fails silently: the answer tells
    if mode != "wal":
        raise StoreUnreadable(place, f"SQLite keeps it in {mode!r} mode, not WAL; put it on a local disk")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = 1")  # macOS: through the drive's cache as well
    connection.execute("PRAGMA checkpoint_fullfsync = 1")
    (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
    if synchronous != _FULL_SYNC:
        raise StoreUnreadable(place, f"SQLite answers synchronous = {synchronous} instead of {_FULL_SYNC} (FULL)")
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    connection.execute(f"PRAGMA wal_autocheckpoint = {_WAL_BYTES // page_bytes}")
    connection.execute("PRAGMA temp_store = MEMORY")


def _why_closed(path: str, *, to_write: bool = True) -> str:
    """Return which permission is missing, "" where none is."""
    if not os.access(path, os.R_OK):
        return "no permission to read it"
    if not to_write:
        return ""
    if not os.access(path, os.W_OK):
        return "no permission to write it"
    if not os.access(os.path.dirname(path), os.W_OK | os.X_OK):
        return "no permission to write in its folder, where SQLite keeps its -wal file"
    return ""


def _not_usable(path: str, error: OSError | ValueError) -> StoreError:
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        return StoreFull(path)
    return StoreUnreadable(path, getattr(error, "strerror", None) or str(error))


def _is_out_of_room(place: str) -> bool:
    """Whether a small file in the same folder cannot be written either, for want of room."""
    probe = f"{place}.room"
    try:
        file = os.open(probe, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, bytes(_PROBE_BYTES))
            os.fsync(file)
        finally:
            os.close(file)
            os.unlink(probe)
    except OSError as error:
        return error.errno in _NO_ROOM
    return False


_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def _sync_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
