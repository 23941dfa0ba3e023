"""A task's journal in memory, and the store that a replay is shown: what is on record up to where the replay stands.

Reading is the only thing done with the real store, and it is done before the program runs. Written by nobody.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec

from perdure.codec import leaves
from perdure.codec.entries import GENESIS, unpack_all
from perdure.engine.loading import blobs_of
from perdure.errors import Damaged
from perdure.logs.lines import raws_of
from perdure.model import entry as e
from perdure.model.entry import Entry
from perdure.ports import SnapshotHead, Store, StoredAppend


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One journal, verified: entry n stands at place n - 1 of `entries` and `frames`."""

    task: str
    entries: list[Entry]
    frames: list[bytes]
    blobs: dict[bytes, bytes]
    is_cut: bool  # there is more in the journal than was asked for

    @property
    def start(self) -> e.TaskStarted:
        """What the task was started with. Raises Damaged."""
        start = e.start_of(self.entries[0].payload) if self.entries else None
        if start is None:
            raise Damaged(self.task, 1, "it is not the start of a task")
        return start

    def value(self, raw: msgspec.Raw) -> object:
        """Return an encoded value of this journal, decoded afresh."""
        return leaves.decode(bytes(raw), self.blobs)


async def load_record(store: Store, task: str, until: int | None = None) -> Record:
    """Read the journal of `task` up to entry `until`. Raises Damaged, UnknownKind, TaskUnknown."""
    entries: list[Entry] = []
    frames: list[bytes] = []
    prev = GENESIS
    is_cut = False
    async for append in store.read(task):
        offset = 0
        for entry in unpack_all(append.frames, task, first_seq=append.first_seq, prev=prev):
            frame = append.frames[offset : offset + entry.size]
            offset, prev = offset + entry.size, entry.digest
            if until is not None and entry.header.seq > until:
                is_cut = True
                break
            entries.append(entry)
            frames.append(frame)
        if is_cut:
            break
    blobs: dict[bytes, bytes] = {}
    for entry in entries:
        raws = [msgspec.Raw(raw) for raw in raws_of(entry.payload)]
        blobs.update(await blobs_of(store, task, entry.header.seq, *raws))
    return Record(task=task, entries=entries, frames=frames, blobs=blobs, is_cut=is_cut)


class RecordStore:
    """As much of `ports.Store` as the engine reads from: the record up to entry `seq`."""

    place = "the record"
    folder: str | None = None
    capabilities: frozenset[str] = frozenset()

    def __init__(self, record: Record, seq: int = 0) -> None:
        self.seq = seq
        self._record = record

    async def read(self, task: str, after: int = 0) -> AsyncIterator[StoredAppend]:
        """See `ports.Journal.read`; every entry is an append of its own."""
        del task
        for seq in range(after + 1, self.seq + 1):
            digest = self._record.entries[seq - 1].digest
            yield StoredAppend(seq, seq, self._record.frames[seq - 1], digest)

    async def head(self, task: str) -> tuple[int, bytes]:
        """See `ports.Journal.head`."""
        del task
        return (self.seq, self._record.entries[self.seq - 1].digest) if self.seq else (0, GENESIS)

    async def snapshots(self, task: str) -> list[SnapshotHead]:
        """See `ports.Snapshots.snapshots`: a replay trusts entries only."""
        del task
        return []

    async def blobs(self, digests: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """See `ports.Blobs.blobs`."""
        return {digest: self._record.blobs[digest] for digest in digests}
