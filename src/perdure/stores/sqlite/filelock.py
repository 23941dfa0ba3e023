"""The lock among processes (and among handles of one process): `flock` on a side file, held around each commit.

SQLite's own lock backs off without fairness; under this one it is never contended. Lies beside the database because
opening and closing the database itself would drop SQLite's locks. Called by `writer.py` and `database.py`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Generator
from typing import Final

from perdure.errors import StoreBusy

# How long a waiter sleeps between two tries: a fifth of a commit at first, for fairness; little in a long wait.
_PAUSES_S: Final = ((0.02, 0.0001), (0.2, 0.001), (float("inf"), 0.01))
_MARK_BYTES: Final = 16


class FileLock:
    """One handle on the lock; not re-entrant, and used by one thread at a time."""

    def __init__(self, path: str, place: str) -> None:
        self._place = place
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._mark = b"%d" % os.getpid()
        self._mark = self._mark.ljust(_MARK_BYTES)

    def try_take(self) -> bool:
        """Take the lock if it is free; return whether it was."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        try:
            if os.pread(self._file, _MARK_BYTES, 0) != self._mark:
                os.pwrite(self._file, self._mark, 0)
        except OSError:  # a full or broken device: then a waiter names another holder, no more
            return True
        return True

    def take(self, wait_s: float) -> None:
        """Take the lock; raise StoreBusy, naming the holder, when it is not free within `wait_s`."""
        began = time.monotonic()
        while not self.try_take():
            waited = time.monotonic() - began
            if waited >= wait_s:
                raise StoreBusy(self._place, self.holder(), waited)
            time.sleep(next(pause for limit, pause in _PAUSES_S if waited < limit))

    def give(self) -> None:
        """Give the lock back."""
        fcntl.flock(self._file, fcntl.LOCK_UN)

    @contextlib.contextmanager
    def held(self, wait_s: float) -> Generator[None]:
        """Hold the lock for a block."""
        self.take(wait_s)
        try:
            yield
        finally:
            self.give()

    def holder(self) -> int | None:
        """Return the pid of who took it last, None where that is not known."""
        try:
            mark = os.pread(self._file, _MARK_BYTES, 0).strip()
        except OSError:
            return None
        return int(mark) if mark.isdigit() else None

    def close(self) -> None:
        """Free the file; a lock still held is given back."""
        os.close(self._file)
