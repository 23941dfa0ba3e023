"""The snapshot rung: a few parts to a transaction, the head in the last, so that a snapshot is whole or absent."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import partial
from typing import Final

from perdure.ports import SnapshotHead
from perdure.stores.checks import check_parts
from perdure.stores.sqlite.queries import SQL
from perdure.stores.sqlite.rows import known_number
from perdure.stores.sqlite.rung import Rung

_PARTS_READ: Final = 16  # per statement: 4 MiB
_PARTS_WRITTEN: Final = 2  # per transaction: 512 KiB, for which an append waits at most


class SnapshotRung(Rung):
    """`ports.Snapshots`."""

    async def save_snapshot(self, task: str, head: SnapshotHead, parts: Sequence[bytes]) -> None:
        """See `ports.Snapshots.save_snapshot`."""
        check_parts(list(map(len, parts)))
        await self._writer.do(task, partial(_forget, task=task, seq=head.seq))
        for first in range(0, max(len(parts), 1), _PARTS_WRITTEN):
            await self._writer.do(task, partial(_insert, task=task, head=head, parts=parts, first=first))

    async def snapshots(self, task: str) -> list[SnapshotHead]:
        """See `ports.Snapshots.snapshots`."""
        return self._readers.peek(partial(_heads, task=task))

    async def load_snapshot(self, task: str, seq: int) -> bytes | None:
        """See `ports.Snapshots.load_snapshot`."""
        expected = self._readers.peek(partial(_expected, task=task, seq=seq))
        if expected is None:
            return None
        parts: list[bytes] = []
        while len(parts) < expected[0]:
            page = await self._readers.fetch(partial(_read_parts, task=task, seq=seq, first=len(parts)))
            if not page:
                return None
            parts += page
        joined = b"".join(parts)
        return joined if len(joined) == expected[1] else None

    async def forget_snapshots(self, task: str, keep: Sequence[int]) -> int:
        """See `ports.Snapshots.forget_snapshots`."""
        gone = await self._readers.fetch(lambda connection: _seqs(connection, task) - set(keep))
        for seq in sorted(gone):
            await self._writer.do(task, partial(_forget, task=task, seq=seq))
        return len(gone)


def _forget(connection: sqlite3.Connection, task: str, seq: int) -> None:
    number = known_number(connection, task)
    connection.execute(SQL["delete_snapshot"], (number, seq))
    connection.execute(SQL["delete_snapshot_parts"], (number, seq))


def _insert(connection: sqlite3.Connection, task: str, head: SnapshotHead, parts: Sequence[bytes], first: int) -> None:
    """Insert the parts from number `first` on that go together; behind the last of all, the head."""
    number, end = known_number(connection, task), first + _PARTS_WRITTEN
    for place, part in enumerate(parts[first:end], first):
        connection.execute(SQL["insert_snapshot_part"], (number, head.seq, place, part))
    if end >= len(parts):
        columns = (head.seq, head.branch, head.fold_version, head.digest, head.size, len(parts))
        connection.execute(SQL["insert_snapshot"], (number, *columns))


def _heads(connection: sqlite3.Connection, task: str) -> list[SnapshotHead]:
    rows = connection.execute(SQL["snapshots"], (known_number(connection, task),)).fetchall()
    names = SnapshotHead.__struct_fields__
    return [SnapshotHead(**dict(zip(names, row, strict=True))) for row in rows]


def _expected(connection: sqlite3.Connection, task: str, seq: int) -> tuple[int, int] | None:
    """Return (parts, bytes) of the snapshot at `seq`."""
    found: tuple[int, int] | None = connection.execute(
        SQL["snapshot_size"], (known_number(connection, task), seq)
    ).fetchone()
    return found


def _read_parts(connection: sqlite3.Connection, task: str, seq: int, first: int) -> list[bytes]:
    number = known_number(connection, task)
    rows = connection.execute(SQL["snapshot_parts"], (number, seq, first, _PARTS_READ)).fetchall()
    return [part for (part,) in rows]


def _seqs(connection: sqlite3.Connection, task: str) -> set[int]:
    return {seq for (seq,) in connection.execute(SQL["snapshot_seqs"], (known_number(connection, task),))}
