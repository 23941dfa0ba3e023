"""Who holds a task, and whether he still lives. The store compares and swaps; the judgement is made here.

Each runtime keeps an OS lock on a small file of its own, `holders/TOKEN` beside the store, for as long as it lives. The
kernel frees it with the process, so "dead" is known at once and never guessed from a process number. Nothing here ever
opens the database's own files: closing a descriptor of those would drop SQLite's locks.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path
from typing import Final

from perdure.errors import TaskBusy
from perdure.limits import LEASE_TTL_S
from perdure.model.ids import Holder
from perdure.ports import Clock, Ids, Lease, Store

_here: Final[set[str]] = set()  # tokens of this process's runtimes, for stores that have no folder


class Presence:
    """This runtime's sign of life."""

    def __init__(self, store: Store, ids: Ids) -> None:
        self.holder = this_process(ids.task_id())
        self._descriptor: int | None = None
        self._file: Path | None = None
        folder = holders_folder(store)
        if folder is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = folder / self.holder.token
            self._descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(self._descriptor, f"{self.holder.pid}\n".encode())
        _here.add(self.holder.token)

    def end(self) -> None:
        """Take the sign away; leases still held count as dead from here on."""
        lose_sight(self.holder.token)
        if self._file is not None:
            self._file.unlink(missing_ok=True)
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def this_process(token: str) -> Holder:
    """Return this process as the holder of leases."""
    return Holder(
        boot=_read("/proc/sys/kernel/random/boot_id"),
        pid_namespace=_namespace(),
        pid=os.getpid(),
        started=_started(),
        token=token,
    )


def lose_sight(token: str) -> None:
    """Let the runtime of `token` count as dead where its store has no folder, whether it goes on or not."""
    _here.discard(token)


def holders_folder(store: Store) -> Path | None:
    """Return the folder of the signs of life, None for a store without one."""
    return Path(store.folder) / "holders" if store.folder else None


def is_alive(holder: Holder, store: Store) -> bool | None:
    """Return whether `holder` lives; None where that cannot be known from here (another machine)."""
    if holder.token in _here:
        return True
    folder = holders_folder(store)
    if folder is None:
        return False
    return _is_locked(folder / holder.token, holder)


async def claim(store: Store, task: str, presence: Presence, clock: Clock) -> tuple[Lease, bool]:
    """Take the lease of `task`; return it, and whether its last holder was found dead (a crash).

    A lease of our own runtime, whose work here has ended, is taken again. One of whose holder nothing can be known is
    watched for a whole time-to-live on our own clock: if its beats stand still, he counts as dead. Raises TaskBusy
    naming a living holder.
    """
    lease = await store.lease(task)
    crashed = lease.holder is not None
    if lease.holder is not None and lease.holder.token != presence.holder.token:
        alive = is_alive(lease.holder, store)
        if alive is None:
            alive = not await _stands_still(store, task, lease, clock)
        if alive:
            raise TaskBusy(task, str(lease.holder))
    return await store.claim(task, presence.holder, over=lease.epoch), crashed


async def _stands_still(store: Store, task: str, lease: Lease, clock: Clock) -> bool:
    end = clock.monotonic() + LEASE_TTL_S
    while clock.monotonic() < end:
        await asyncio.sleep(1.0)
        now = await store.lease(task)
        if (now.epoch, now.beats) != (lease.epoch, lease.beats):
            return False
    return True


def _is_locked(path: Path, holder: Holder) -> bool | None:
    """Locked: alive. Unlocked, or gone while the holder was of this boot: dead. Gone, of another boot: unknown."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False if holder.boot == _read("/proc/sys/kernel/random/boot_id") else None
    except PermissionError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    path.unlink(missing_ok=True)  # nobody will ever lock it again: a token is drawn once
    return False


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _namespace() -> int:
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def _started() -> int:
    """Start time of this process in kernel ticks: the 22nd field of stat, counted behind the name's closing bracket."""
    fields = _read("/proc/self/stat").rpartition(")")[2].split()
    return int(fields[19]) if len(fields) > 19 else 0  # noqa: PLR2004 - field numbers of proc(5)
