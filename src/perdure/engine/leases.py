"""Who holds a task, whether he still lives, and how long he may be sure of it. The store compares and swaps.

Each runtime keeps an OS lock on a small file of its own, `holders/TOKEN` beside the store, for as long as it lives. The
kernel frees it with the process, so "dead" is known at once and never guessed from a process number. Nothing here ever
opens the database's own files: closing a descriptor of those would drop SQLite's locks.

A holder that lives and does nothing (stopped, or hung with the interpreter's lock) is known by his beats, which stand
still. Called by `runtime.py` and `session.py`; explained in docs/explanation/leases.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import weakref
from collections.abc import Container
from pathlib import Path
from typing import Final

from perdure.errors import NameTaken, StoreFull, StoreUnreadable, TaskBusy
from perdure.limits import LEASE_CALL_MARGIN_S, LEASE_LOOKS_PER_TTL, LEASE_TTL_S
from perdure.model.ids import Holder
from perdure.model.status import TaskSummary
from perdure.ports import Clock, Ids, Lease, Store

_ROB_TRIES_MAX: Final = 10
_here: Final[set[str]] = set()  # tokens of this process's runtimes, for stores that have no folder


class Presence:
    """This runtime's sign of life. Making it raises StoreFull, StoreUnreadable."""

    def __init__(self, store: Store, ids: Ids) -> None:
        self.holder = this_process(ids.task_id())
        self._descriptor: int | None = None
        self._file: Path | None = None
        folder = holders_folder(store)
        if folder is not None:
            try:
                self._show(folder)
            except OSError as error:
                self._hide()
                if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                    raise StoreFull(store.place) from error
                raise StoreUnreadable(str(folder), f"{error.strerror}; who works on a task is shown there") from error
        _here.add(self.holder.token)
        _presences.add(self)

    def end(self) -> None:
        """Take the sign away; leases still held count as dead from here on."""
        lose_sight(self.holder.token)
        self._hide()

    def leave_to_parent(self) -> None:
        """In a forked child: a lock that the child held as well would outlive its parent."""
        self._file = None
        self._let_go()

    def _show(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = folder / self.holder.token
        self._descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with contextlib.suppress(OSError):  # for people only; on a full device one must still be able to look
            os.write(self._descriptor, f"{self.holder.pid}\n".encode())

    def _hide(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.unlink(missing_ok=True)
            self._file = None
        self._let_go()

    def _let_go(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


_presences: Final[weakref.WeakSet[Presence]] = weakref.WeakSet()


def _leave_all_to_parent() -> None:
    _here.clear()
    for presence in list(_presences):
        presence.leave_to_parent()


os.register_at_fork(after_in_child=_leave_all_to_parent)


class Tenure:
    """How sure one session may be of its lease, on the clocks of its own process.

    A call that may not be made twice goes out only under a lease that outlives the call's time-out, so that nobody else
    takes the task over while it is under way. The longer term rides in the append of its intent, the shorter one in
    that of its outcome. Both clocks are asked for how much time has passed: one counts the time that the machine
    sleeps, the other does not jump.
    """

    def __init__(self, clock: Clock, ttl_s: float = LEASE_TTL_S) -> None:
        self.ttl_s = ttl_s
        self._clock = clock
        self._ends: dict[str, float] = {}  # of calls under way, by action: when the lease may end; monotonic
        self._asked = (0.0, 0)  # when the present term was asked for: monotonic, UTC
        self._term_s = 0.0

    def extend(self, action: str, timeout_s: float) -> float:
        """Note that a call is to go out; return the term in seconds to be asked for now."""
        self._asked = (self._clock.monotonic(), self._clock.now())
        self._ends[action] = self._asked[0] + timeout_s + LEASE_CALL_MARGIN_S
        self._term_s = self.term_s()
        return self._term_s

    def shorten(self, action: str) -> float:
        """Note that a call is over; return the term in seconds to be asked for now, 0 where it stays as it is."""
        return self.term_s() if self._ends.pop(action, 0.0) and not self._ends else 0.0

    def term_s(self) -> float:
        """Return for how many seconds the lease has to stand from now on."""
        return max((self.ttl_s, *(end - self._clock.monotonic() for end in self._ends.values())))

    def is_sure(self, timeout_s: float) -> bool:
        """Whether a call of at most `timeout_s` that goes out now ends under the term asked for last."""
        monotonic, utc = self._asked
        passed_s = max(self._clock.monotonic() - monotonic, (self._clock.now() - utc) / 1_000_000)
        return passed_s + timeout_s <= self._term_s


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


async def claim(
    store: Store, task: str, presence: Presence, clock: Clock, ttl_s: float = LEASE_TTL_S
) -> tuple[Lease, bool]:
    """Take the lease of `task`; return it, and whether its last holder was found dead (a crash).

    A lease of our own runtime, whose work here has ended, is taken again. A holder who lives, and whose lease has not
    ended by the clock on the wall, is believed. One who lives and has let his lease end (stopped, perhaps), and one of
    whom nothing can be known, is watched for a whole time-to-live: he counts as dead if his beats stand still. Raises
    TaskBusy naming a living holder.
    """
    lease = await store.lease(task)
    if lease.holder is None or lease.holder.token == presence.holder.token:
        granted = await store.claim(task, presence.holder, over=lease.epoch, ttl_s=ttl_s)
        return granted, lease.holder is not None
    alive = is_alive(lease.holder, store)
    is_believed = alive and (lease.holder.token in _here or lease.until > clock.now())
    if is_believed or (alive is not False and not await _stands_still(store, task, lease, ttl_s)):
        raise TaskBusy(task, str(lease.holder))
    beats = None if alive is False else lease.beats
    return await store.claim(task, presence.holder, over=lease.epoch, beats=beats, ttl_s=ttl_s), True


async def rob(
    store: Store, task: str, presence: Presence, ttl_s: float = LEASE_TTL_S
) -> tuple[Lease, bool, Holder | None]:
    """Take the lease of `task` from whoever has it, for a person who takes the task over.

    Return it, whether its last holder was found dead, and the holder who lives, or of whom nothing can be known. He
    finds out at his next append: `Fenced`. Raises TaskBusy where others are faster time after time.
    """
    for _ in range(_ROB_TRIES_MAX):
        lease = await store.lease(task)
        try:
            granted = await store.claim(task, presence.holder, over=lease.epoch, ttl_s=ttl_s)
        except TaskBusy:
            continue
        is_dead = lease.holder is not None and is_alive(lease.holder, store) is False
        return granted, is_dead, None if is_dead else lease.holder
    raise TaskBusy(task, "others, who are faster time after time")


async def create(
    store: Store,
    summary: TaskSummary,
    presence: Presence,
    at_work: Container[str],
    ttl_s: float = LEASE_TTL_S,
    epoch: int = 1,
) -> Lease:
    """Create a task and take its lease, of `epoch`.

    One of that name that came to nothing before its first entry makes room: one whose maker is dead, and one of our own
    that is none of `at_work` (an answer of the store was lost). Raises NameTaken for any other.
    """
    try:
        return await store.create(summary, presence.holder, ttl_s, epoch=epoch)
    except NameTaken as taken:
        lease = await store.lease(taken.task)
        is_left = lease.holder is None or (lease.holder == presence.holder and taken.task not in at_work)
        if not is_left and (lease.holder is None or is_alive(lease.holder, store) is not False):
            raise
        if not await store.forget_empty(taken.task, over=lease.epoch):
            raise
    return await store.create(summary, presence.holder, ttl_s, epoch=epoch)


async def _stands_still(store: Store, task: str, lease: Lease, ttl_s: float) -> bool:
    """Watch for a whole time-to-live, counted in our own sleeps: time in which the machine slept is no evidence."""
    for _ in range(LEASE_LOOKS_PER_TTL):
        await asyncio.sleep(ttl_s / LEASE_LOOKS_PER_TTL)
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
