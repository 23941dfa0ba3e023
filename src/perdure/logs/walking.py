"""A journal, frame by frame, that goes on behind damage: what `verify`, `log` and the files of the log read with.

Not how a task is loaded (`engine/loading.py` stops at the first thing that is wrong, as whoever acts on it must).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Final

import msgspec

from perdure.codec.entries import GENESIS, read_header, unpack
from perdure.errors import Damaged, UnknownKind
from perdure.model.entry import Entry, Header
from perdure.ports import Store, StoredAppend

_LENGTH_BYTES: Final = 4  # before each frame, big-endian


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One place of a journal: an entry, one of an unknown kind (header and frame only), or damage."""

    seq: int
    header: Header | None = None
    entry: Entry | None = None
    frame: bytes = b""
    damage: str = ""


async def walk(store: Store, task: str, after: int = 0) -> AsyncIterator[Step]:
    """Yield every entry of `task` behind entry `after` and every damage, in order, in bounded memory.

    The link of the first entry is checked where reading begins at entry 1. Raises TaskUnknown, StoreBroken.
    """
    head, digest = await store.head(task)
    chain = _Chain(task, after)
    reported = 0
    while True:
        try:
            async for step in _read_on(store, chain):
                yield step
        except Damaged as error:  # behind it there may be more: ask again, one entry further each time
            if error.seq != reported:
                yield Step(seq=error.seq, damage=error.reason)
                reported = error.seq
            chain.lose(max(error.seq, chain.seq + 1))
            if chain.seq < head:
                continue
        break
    if head > chain.seq or (head == chain.seq and chain.digest not in {None, digest}):
        yield Step(seq=head, damage=f"the journal ends at entry {chain.seq}, the store says {head}")


async def _read_on(store: Store, chain: _Chain) -> AsyncIterator[Step]:
    async for append in store.read(chain.task, chain.seq):
        for step in chain.follow(append):
            yield step


class _Chain:
    """Where reading stands; `digest` is None behind damage, where the next link cannot be checked."""

    def __init__(self, task: str, after: int) -> None:
        self.task = task
        self.seq = after
        self.digest: bytes | None = None if after else GENESIS

    def lose(self, seq: int) -> None:
        """Go on behind entry `seq`, which cannot be read."""
        self.seq, self.digest = seq, None

    def follow(self, append: StoredAppend) -> Iterator[Step]:
        """Yield the entries of `append` that are not yet read."""
        if append.first_seq > self.seq + 1:
            yield Step(seq=self.seq + 1, damage=f"entries {self.seq + 1} to {append.first_seq - 1} are missing")
            self.lose(append.first_seq - 1)
        seq = append.first_seq
        for frame in _cut(append.frames):
            if seq > self.seq:
                yield self._take(frame, seq)
            seq += 1
        if seq <= append.last_seq:
            self.lose(append.last_seq)
            yield Step(seq=seq, damage=f"entries {seq} to {append.last_seq} are cut off")
        elif self.digest is not None and self.digest != append.last_digest:
            yield Step(seq=append.last_seq, damage="the digest beside it is another one")

    def _take(self, frame: bytes, seq: int) -> Step:
        expected, self.seq, self.digest = self.digest, seq, None
        header: Header | None = None
        try:
            header, self.digest = read_header(frame, self.task, seq)
            if expected is not None and header.prev != expected:
                return Step(seq=seq, header=header, frame=frame, damage="it is not linked to the entry before it")
            return Step(seq=seq, header=header, entry=unpack(frame, self.task, seq), frame=frame)
        except UnknownKind:
            return Step(seq=seq, header=header, frame=frame)
        except Damaged as error:
            return Step(seq=seq, header=header, frame=frame, damage=error.reason)


def _cut(frames: bytes) -> Iterator[bytes]:
    """Yield whole frames only; the caller counts them."""
    offset = 0
    while offset + _LENGTH_BYTES <= len(frames):
        start = offset + _LENGTH_BYTES
        offset = start + int.from_bytes(frames[offset:start])
        if offset > len(frames):
            return
        yield frames[start:offset]
