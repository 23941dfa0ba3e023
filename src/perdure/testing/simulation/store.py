"""The store of a simulation: the memory store behind a writer that takes its time.

A `SeededStore` is one process's handle. Appends wait in a queue and are written in batches, as SQLite's writer does it,
and what is not written dies with the process; every other call may take a while too. `Books` note what a judge must
know. Called by `lives.py` and `judging.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import Final

import msgspec

from perdure.errors import PerdureError
from perdure.limits import LEASE_TTL_S
from perdure.model.ids import Holder
from perdure.model.status import TaskSummary
from perdure.ports import Append, Clock, Lease, Message, SnapshotHead, StoredAppend
from perdure.stores.answers import DONE, Refused
from perdure.stores.memory import MemoryStore, MemoryWorld
from perdure.testing.points import Killed
from perdure.testing.simulation.chance import Chance
from perdure.testing.simulation.loop import Process

_AT_ONCE: Final = 0.5  # how many calls take no time
_SLOW_S: Final = 0.02
_STUCK_S: Final = 0.5


class Written(msgspec.Struct, frozen=True):
    """An append as it became visible."""

    task: str
    last_seq: int
    last_digest: bytes
    epoch: int
    lease: int  # the epoch of the task's lease at that moment


class Books:
    """What was written and what was acknowledged, over all processes."""

    def __init__(self) -> None:
        self.written: list[Written] = []
        self.acknowledged: list[tuple[str, int, bytes]] = []
        self.batches = 0  # of more than one append
        self.refused = 0


class _Waiting(msgspec.Struct):
    task: str
    append: Append
    answer: asyncio.Future[None]


class SeededStore(MemoryStore):
    """One process's handle on a world."""

    def __init__(self, world: MemoryWorld, clock: Clock, process: Process, chance: Chance, books: Books) -> None:
        super().__init__(world, clock)
        self._process = process
        self._chance = chance
        self._books = books
        self._queue: list[_Waiting] = []
        self._is_writing = False

    # --- the writer -------------------------------------------------------------------------------------------------
    def append(self, task: str, append: Append) -> Awaitable[None]:
        """As the memory store's, now or later, in the order of the calls."""
        self._open_world()
        if not self._is_writing and self._chance.holds(_AT_ONCE):
            refusal = self.write(task, append)
            return DONE if refusal is None else Refused(refusal)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[None] = loop.create_future()
        self._queue.append(_Waiting(task, append, answer))
        if not self._is_writing:
            self._is_writing = True
            loop.call_later(self._delay_s(), self._write_batch)
        return answer

    def write(self, task: str, append: Append) -> Exception | None:
        """Write one append; return why it was refused, None where it was not."""
        epoch = self.epoch_of(task)
        try:
            self.write_one(task, append)
        except PerdureError as refusal:
            self._books.refused += 1
            return refusal
        self._books.written.append(Written(task, append.last_seq, append.last_digest, append.epoch, epoch))
        return None

    def epoch_of(self, task: str) -> int:
        """Return the epoch of the task's lease, 0 where there is no such task."""
        stored = self._open_world().tasks.get(task)
        return stored.lease.epoch if stored else 0

    def write_one(self, task: str, append: Append) -> None:
        """Write one append or raise its refusal: the transaction."""
        answer = super().append(task, append)
        if answer is not DONE:
            answer.__await__()

    def write_all(self, batch: Sequence[tuple[str, Append]]) -> list[Exception | None]:
        """Write a batch; a refusal is its own append's alone."""
        return [self.write(task, append) for task, append in batch]

    def _write_batch(self) -> None:
        batch, self._queue = self._queue, []
        self._books.batches += len(batch) > 1
        refusals = self.write_all([(one.task, one.append) for one in batch])
        loop = asyncio.get_running_loop()
        loop.call_later(self._delay_s() / 4, self._answer_batch, batch, refusals)

    def _answer_batch(self, batch: list[_Waiting], refusals: list[Exception | None]) -> None:
        for one, refusal in zip(batch, refusals, strict=True):
            if one.answer.done():
                continue
            if refusal is not None:
                one.answer.set_exception(refusal)
                continue
            self._books.acknowledged.append((one.task, one.append.last_seq, one.append.last_digest))
            one.answer.set_result(None)
        self._is_writing = bool(self._queue)
        if self._is_writing:
            asyncio.get_running_loop().call_later(self._delay_s(), self._write_batch)

    # --- all other calls take their time ----------------------------------------------------------------------------
    async def read(self, task: str, after: int = 0) -> AsyncIterator[StoredAppend]:
        """See `ports.Journal.read`."""
        await self._pause()
        async for stored in super().read(task, after):
            yield stored

    async def head(self, task: str) -> tuple[int, bytes]:
        """See `ports.Journal.head`."""
        await self._pause()
        return await super().head(task)

    async def save_snapshot(self, task: str, head: SnapshotHead, parts: Sequence[bytes]) -> None:
        """See `ports.Snapshots.save_snapshot`."""
        await self._pause()
        await super().save_snapshot(task, head, parts)

    async def snapshots(self, task: str) -> list[SnapshotHead]:
        """See `ports.Snapshots.snapshots`."""
        await self._pause()
        return await super().snapshots(task)

    async def lease(self, task: str) -> Lease:
        """See `ports.Leases.lease`."""
        await self._pause()
        return await super().lease(task)

    async def claim(
        self, task: str, holder: Holder, *, over: int, beats: int | None = None, ttl_s: float = LEASE_TTL_S
    ) -> Lease:
        """See `ports.Leases.claim`."""
        await self._pause()
        lease = await super().claim(task, holder, over=over, beats=beats, ttl_s=ttl_s)
        await self._pause()
        return lease

    async def renew(self, task: str, epoch: int, ttl_s: float = LEASE_TTL_S) -> None:
        """See `ports.Leases.renew`."""
        await self._pause()
        await super().renew(task, epoch, ttl_s)

    async def release(self, task: str, epoch: int) -> None:
        """See `ports.Leases.release`."""
        await self._pause()
        await super().release(task, epoch)

    async def create(
        self, summary: TaskSummary, holder: Holder, ttl_s: float = LEASE_TTL_S, *, epoch: int = 1
    ) -> Lease:
        """See `ports.Catalogue.create`."""
        await self._pause()
        lease = await super().create(summary, holder, ttl_s, epoch=epoch)
        await self._pause()
        return lease

    async def messages(self, tasks: Sequence[str]) -> Mapping[str, list[Message]]:
        """See `ports.Inbox.messages`."""
        await self._pause()
        return await super().messages(tasks)

    async def _pause(self) -> None:
        if not self._chance.holds(_AT_ONCE):
            await asyncio.sleep(self._delay_s())

    def _delay_s(self) -> float:
        longest = _STUCK_S if self._chance.holds(0.02) else _SLOW_S
        return self._chance.share() * longest

    def _open_world(self) -> MemoryWorld:
        if self._process.is_dead:
            raise Killed
        return super()._open_world()


class BareStore(MemoryStore):
    """A handle for judges: it knows of no snapshots, so every fold begins with entry 1."""

    async def snapshots(self, task: str) -> list[SnapshotHead]:
        """None, whatever is there."""
        del task
        return []
