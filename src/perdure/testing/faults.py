"""A store that fails when it is told to: what disks, full devices and lost answers do, at any operation.

Wraps any `ports.Store` and changes nothing else. Called by tests and by the simulation.

    store = FaultyStore(MemoryStore(world, clock), fail_at=7, error="broken", when="after")
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from typing import Any, Literal, TypeVar

from perdure.errors import StoreBroken, StoreBusy, StoreError, StoreFull
from perdure.limits import LEASE_TTL_S
from perdure.model.ids import Holder
from perdure.model.status import TaskSummary
from perdure.ports import Append, Lease, Message, SnapshotHead, Store, StoredAppend

Fault = Literal["broken", "full", "busy"]
When = Literal["before", "after"]
R = TypeVar("R")


class _Rung:
    """What all rungs stand on: the count, and the failing."""

    def __init__(self, store: Store, *, fail_at: int = 0, error: Fault = "broken", when: When = "before") -> None:
        self.place = store.place
        self.folder = store.folder
        self.capabilities = store.capabilities
        self.calls: list[str] = []
        self._store = store
        self._fail_at = fail_at
        self._error: Fault = error
        self._when: When = when
        self._is_broken = False

    def _take(self, name: str) -> StoreError | None:
        """Count one operation; return how it fails, None where it does not."""
        self.calls.append(name)
        if self._is_broken:
            return StoreBroken(self.place, "input/output error, earlier")
        if len(self.calls) != self._fail_at:
            return None
        match self._error:
            case "broken":
                self._is_broken = True
                return StoreBroken(self.place, f"input/output error in {name}")
            case "full":
                return StoreFull(self.place)
            case "busy":
                return StoreBusy(self.place, None, 0.0)

    @property
    def _is_answer_lost(self) -> bool:
        """Whether the operation just counted is done, and only its answer lost."""
        return self._when == "after" and len(self.calls) == self._fail_at

    async def _do(self, name: str, call: Callable[[], Coroutine[Any, Any, R]]) -> R:
        failure = self._take(name)
        if failure is None:
            return await call()
        if self._is_answer_lost:
            await call()
        raise failure


class _Journal(_Rung):
    def append(self, task: str, append: Append) -> Awaitable[None]:
        """See `ports.Journal.append`; the failure is raised where the answer is awaited."""
        failure = self._take("append")
        if failure is None:
            return self._store.append(task, append)
        written = self._store.append(task, append) if self._is_answer_lost else None
        return _Failed(written, failure)

    async def read(self, task: str, after: int = 0) -> AsyncIterator[StoredAppend]:
        """See `ports.Journal.read`; one operation."""
        failure = self._take("read")
        if failure is not None:
            raise failure
        async for stored in self._store.read(task, after):
            yield stored

    async def head(self, task: str) -> tuple[int, bytes]:
        """See `ports.Journal.head`."""
        return await self._do("head", lambda: self._store.head(task))


class _Snapshots(_Rung):
    async def save_snapshot(self, task: str, head: SnapshotHead, parts: Sequence[bytes]) -> None:
        """See `ports.Snapshots.save_snapshot`."""
        await self._do("save_snapshot", lambda: self._store.save_snapshot(task, head, parts))

    async def snapshots(self, task: str) -> list[SnapshotHead]:
        """See `ports.Snapshots.snapshots`."""
        return await self._do("snapshots", lambda: self._store.snapshots(task))

    async def load_snapshot(self, task: str, seq: int) -> bytes | None:
        """See `ports.Snapshots.load_snapshot`."""
        return await self._do("load_snapshot", lambda: self._store.load_snapshot(task, seq))

    async def forget_snapshots(self, task: str, keep: Sequence[int]) -> int:
        """See `ports.Snapshots.forget_snapshots`."""
        return await self._do("forget_snapshots", lambda: self._store.forget_snapshots(task, keep))


class _Leases(_Rung):
    async def lease(self, task: str) -> Lease:
        """See `ports.Leases.lease`."""
        return await self._do("lease", lambda: self._store.lease(task))

    async def claim(
        self, task: str, holder: Holder, *, over: int, beats: int | None = None, ttl_s: float = LEASE_TTL_S
    ) -> Lease:
        """See `ports.Leases.claim`."""
        return await self._do("claim", lambda: self._store.claim(task, holder, over=over, beats=beats, ttl_s=ttl_s))

    async def renew(self, task: str, epoch: int, ttl_s: float = LEASE_TTL_S) -> None:
        """See `ports.Leases.renew`."""
        await self._do("renew", lambda: self._store.renew(task, epoch, ttl_s))

    async def release(self, task: str, epoch: int) -> None:
        """See `ports.Leases.release`."""
        await self._do("release", lambda: self._store.release(task, epoch))


class _Catalogue(_Rung):
    async def create(
        self, summary: TaskSummary, holder: Holder, ttl_s: float = LEASE_TTL_S, *, epoch: int = 1
    ) -> Lease:
        """See `ports.Catalogue.create`."""
        return await self._do("create", lambda: self._store.create(summary, holder, ttl_s, epoch=epoch))

    async def forget_empty(self, task: str, *, over: int) -> bool:
        """See `ports.Catalogue.forget_empty`."""
        return await self._do("forget_empty", lambda: self._store.forget_empty(task, over=over))

    async def tasks(self) -> list[TaskSummary]:
        """See `ports.Catalogue.tasks`."""
        return await self._do("tasks", self._store.tasks)

    async def find(self, name: str) -> TaskSummary:
        """See `ports.Catalogue.find`."""
        return await self._do("find", lambda: self._store.find(name))

    async def delete(self, task: str) -> None:
        """See `ports.Catalogue.delete`."""
        await self._do("delete", lambda: self._store.delete(task))


class _Blobs(_Rung):
    async def blobs(self, digests: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """See `ports.Blobs.blobs`."""
        return await self._do("blobs", lambda: self._store.blobs(digests))

    async def sweep(self) -> int:
        """See `ports.Blobs.sweep`."""
        return await self._do("sweep", self._store.sweep)

    async def post(self, task: str, message: Message) -> None:
        """See `ports.Inbox.post`."""
        await self._do("post", lambda: self._store.post(task, message))

    async def messages(self, tasks: Sequence[str]) -> Mapping[str, list[Message]]:
        """See `ports.Inbox.messages`."""
        return await self._do("messages", lambda: self._store.messages(tasks))

    async def close(self) -> None:
        """Close the store beneath; never fails by order."""
        await self._store.close()


class FaultyStore(_Journal, _Snapshots, _Leases, _Catalogue, _Blobs):
    """`store`, whose `fail_at`-th operation (from 1, of whatever rung; 0: none) raises `error`.

    "broken": as after EIO, so every later operation raises it too. "full", "busy": once. `when="before"`: nothing was
    done; `when="after"`: it was, and the answer is lost. `calls` has the operations so far, by name.
    """


class _Failed:
    """An append whose answer is a failure, whatever became of it."""

    def __init__(self, written: Awaitable[None] | None, failure: StoreError) -> None:
        self._written = written
        self._failure = failure

    def __await__(self) -> Generator[Any, None, None]:
        if self._written is not None:
            yield from self._written.__await__()
        raise self._failure
