"""The store in memory: the readable specification of every rung of `ports.Store`, and the store of quick tests.

Not durable and not shared by processes. Several `MemoryStore` handles on one `MemoryWorld` stand for several processes
on one store. Every call does its work at once, on the thread of the one event loop that may use the world.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import Final

import msgspec

from perdure.errors import BlobMissing, Conflict, Fenced, NameTaken, PerdureError, StoreBroken, TaskBusy, TaskUnknown
from perdure.limits import LEASE_TTL_S
from perdure.model.ids import Holder
from perdure.model.status import TaskSummary
from perdure.ports import Append, Clock, Lease, Message, SnapshotHead, StoredAppend
from perdure.stores.answers import DONE, Refused
from perdure.stores.checks import check_append, check_parts, check_summary, storable_message
from perdure.stores.finding import pick_task
from perdure.stores.forks import Origin

_GENESIS: Final = bytes(32)


class _Task:
    """All that is stored of one task."""

    def __init__(self, summary: TaskSummary, lease: Lease) -> None:
        self.summary = summary
        self.lease = lease
        self.appends: list[StoredAppend] = []
        self.digests: dict[int, bytes] = {0: _GENESIS}  # of the last entry of each append, by its seq
        self.blobs: set[bytes] = set()  # digests that its appends name
        self.snapshots: dict[int, tuple[SnapshotHead, bytes]] = {}
        self.messages: dict[str, Message | None] = {}  # None: consumed, so that posting it again does nothing

    @property
    def head(self) -> tuple[int, bytes]:
        seq = self.appends[-1].last_seq if self.appends else 0
        return seq, self.digests[seq]


class MemoryWorld:
    """What the handles on one store share."""

    def __init__(self) -> None:
        self.tasks: dict[str, _Task] = {}  # oldest first
        self.blobs: dict[bytes, bytes] = {}


class _Rung:
    """What all rungs stand on."""

    def __init__(self, world: MemoryWorld, clock: Clock, place: str = "memory://") -> None:
        self.place = place
        self.folder: str | None = None
        self.capabilities = frozenset({"sweep", "delete"})
        self._world = world
        self._clock = clock
        self._origin = Origin()
        self._is_closed = False

    async def close(self) -> None:
        """Refuse all further calls; the world stays for other handles."""
        self._is_closed = True

    def _task(self, task: str) -> _Task:
        found = self._open_world().tasks.get(task)
        if found is None:
            raise TaskUnknown(task)
        return found

    def _until(self, ttl_s: float) -> int:
        return self._clock.now() + round(ttl_s * 1_000_000)

    def _open_world(self) -> MemoryWorld:
        self._origin.check()
        if self._is_closed:
            raise StoreBroken(self.place, "this handle was closed")
        return self._world


class _Journal(_Rung):
    def append(self, task: str, append: Append) -> Awaitable[None]:
        """See `ports.Journal.append`."""
        try:
            check_append(append)
            stored = self._task(task)
            if not self._is_there(stored, append):
                self._judge(task, stored, append)
                self._write(stored, append)
        except PerdureError as refusal:
            return Refused(refusal)
        return DONE

    @staticmethod
    def _is_there(stored: _Task, append: Append) -> bool:
        return stored.digests.get(append.last_seq) == append.last_digest

    def _judge(self, task: str, stored: _Task, append: Append) -> None:
        if append.epoch != stored.lease.epoch:
            raise Fenced(task, append.epoch, stored.lease.epoch)
        if (append.expected_seq, append.prev_digest) != stored.head:
            raise Conflict(task, append.expected_seq, stored.head[0])
        brought = {digest for digest, _ in append.blobs}
        for digest in append.names:
            if digest not in self._world.blobs and digest not in brought:
                raise BlobMissing(task, digest.hex())
        if append.summary is not None:
            _check_free(self._world, append.summary)

    def _write(self, stored: _Task, append: Append) -> None:
        first_seq = append.expected_seq + 1
        stored.appends.append(StoredAppend(first_seq, append.last_seq, append.frames, append.last_digest))
        stored.digests[append.last_seq] = append.last_digest
        stored.blobs.update(digest for digest, _ in append.blobs)
        stored.blobs.update(append.names)
        self._world.blobs.update(append.blobs)
        stored.messages.update(dict.fromkeys(stored.messages.keys() & set(append.consumed)))
        stored.summary = append.summary or stored.summary
        if append.lease_s:
            stored.lease = _renewed(stored.lease, self._until(append.lease_s))

    async def read(self, task: str, after: int = 0) -> AsyncIterator[StoredAppend]:
        """See `ports.Journal.read`."""
        for stored in tuple(self._task(task).appends):
            if stored.last_seq > after:
                yield stored

    async def head(self, task: str) -> tuple[int, bytes]:
        """See `ports.Journal.head`."""
        return self._task(task).head


class _Snapshots(_Rung):
    async def save_snapshot(self, task: str, head: SnapshotHead, parts: Sequence[bytes]) -> None:
        """See `ports.Snapshots.save_snapshot`."""
        check_parts(list(map(len, parts)))
        self._task(task).snapshots[head.seq] = head, b"".join(parts)

    async def snapshots(self, task: str) -> list[SnapshotHead]:
        """See `ports.Snapshots.snapshots`."""
        kept = self._task(task).snapshots
        return [kept[seq][0] for seq in sorted(kept, reverse=True)]

    async def load_snapshot(self, task: str, seq: int) -> bytes | None:
        """See `ports.Snapshots.load_snapshot`."""
        found = self._task(task).snapshots.get(seq)
        return found[1] if found else None

    async def forget_snapshots(self, task: str, keep: Sequence[int]) -> int:
        """See `ports.Snapshots.forget_snapshots`."""
        kept = self._task(task).snapshots
        gone = kept.keys() - set(keep)
        for seq in gone:
            del kept[seq]
        return len(gone)


class _Leases(_Rung):
    async def lease(self, task: str) -> Lease:
        """See `ports.Leases.lease`."""
        return self._task(task).lease

    async def claim(
        self, task: str, holder: Holder, *, over: int, beats: int | None = None, ttl_s: float = LEASE_TTL_S
    ) -> Lease:
        """See `ports.Leases.claim`."""
        stored = self._task(task)
        if stored.lease.epoch != over or beats not in {None, stored.lease.beats}:
            raise TaskBusy(task, str(stored.lease.holder or "nobody any more"))
        stored.lease = Lease(epoch=over + 1, holder=holder, beats=0, until=self._until(ttl_s))
        return stored.lease

    async def renew(self, task: str, epoch: int, ttl_s: float = LEASE_TTL_S) -> None:
        """See `ports.Leases.renew`."""
        stored = self._task(task)
        if stored.lease.epoch != epoch:
            raise Fenced(task, epoch, stored.lease.epoch)
        stored.lease = _renewed(stored.lease, self._until(ttl_s))

    async def release(self, task: str, epoch: int) -> None:
        """See `ports.Leases.release`."""
        stored = self._open_world().tasks.get(task)
        if stored is not None and stored.lease.epoch == epoch:
            stored.lease = msgspec.structs.replace(stored.lease, holder=None)


class _Catalogue(_Leases):
    async def create(
        self, summary: TaskSummary, holder: Holder, ttl_s: float = LEASE_TTL_S, *, epoch: int = 1
    ) -> Lease:
        """See `ports.Catalogue.create`."""
        world = self._open_world()
        check_summary(summary)
        if summary.task in world.tasks:
            raise NameTaken(summary.name, summary.task)
        _check_free(world, summary)
        lease = Lease(epoch=epoch, holder=holder, beats=0, until=self._until(ttl_s))
        world.tasks[summary.task] = _Task(summary, lease)
        return lease

    async def tasks(self) -> list[TaskSummary]:
        """See `ports.Catalogue.tasks`."""
        return [stored.summary for stored in reversed(self._open_world().tasks.values()) if stored.appends]

    async def find(self, name: str) -> TaskSummary:
        """See `ports.Catalogue.find`."""
        return pick_task(name, await self.tasks())

    async def delete(self, task: str) -> None:
        """See `ports.Catalogue.delete`."""
        self._task(task)
        del self._world.tasks[task]

    async def forget_empty(self, task: str, *, over: int) -> bool:
        """See `ports.Catalogue.forget_empty`."""
        stored = self._open_world().tasks.get(task)
        if stored is None or stored.appends or stored.lease.epoch != over:
            return False
        del self._world.tasks[task]
        return True


class _Blobs(_Rung):
    async def blobs(self, digests: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """See `ports.Blobs.blobs`."""
        found: dict[bytes, bytes] = {}
        for digest in digests:
            blob = self._open_world().blobs.get(digest)
            if blob is None:
                raise KeyError(digest.hex())
            if hashlib.sha256(blob).digest() != digest:
                raise StoreBroken(self.place, f"blob {digest.hex()} does not match its digest")
            found[digest] = blob
        return found

    async def sweep(self) -> int:
        """See `ports.Blobs.sweep`."""
        world = self._open_world()
        gone = world.blobs.keys() - {digest for task in world.tasks.values() for digest in task.blobs}
        for digest in gone:
            del world.blobs[digest]
        return len(gone)


class _Inbox(_Rung):
    async def post(self, task: str, message: Message) -> None:
        """See `ports.Inbox.post`."""
        stored = storable_message(message)
        self._task(task).messages.setdefault(stored.id, stored)

    async def messages(self, tasks: Sequence[str]) -> Mapping[str, list[Message]]:
        """See `ports.Inbox.messages`."""
        known = {task: self._open_world().tasks[task] for task in tasks if task in self._open_world().tasks}
        waiting = {task: [one for one in stored.messages.values() if one] for task, stored in known.items()}
        return {task: messages for task, messages in waiting.items() if messages}


class MemoryStore(_Journal, _Snapshots, _Catalogue, _Blobs, _Inbox):
    """`ports.Store` on a `MemoryWorld`."""


def _renewed(lease: Lease, until: int) -> Lease:
    return msgspec.structs.replace(lease, beats=lease.beats + 1, until=until)


def _check_free(world: MemoryWorld, summary: TaskSummary) -> None:
    """Raise NameTaken where `summary` is unfinished and another unfinished task has its name."""
    for task, stored in world.tasks.items():
        others = stored.summary
        if task == summary.task or others.name != summary.name:
            continue
        if not (others.is_finished or summary.is_finished):
            raise NameTaken(summary.name, task)
