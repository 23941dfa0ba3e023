"""The journal rung: appends go to the writer, reads come in pages."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Awaitable
from functools import partial
from typing import Final

from perdure.errors import Damaged, PerdureError
from perdure.limits import MIB, READ_PAGE_ROWS
from perdure.ports import Append, StoredAppend
from perdure.stores.answers import Refused
from perdure.stores.checks import SEQ_MAX, check_append
from perdure.stores.sqlite.commits import Pending
from perdure.stores.sqlite.queries import SQL
from perdure.stores.sqlite.rows import SEQ_BITS, known_number
from perdure.stores.sqlite.rung import Rung

_PAGE_BYTES: Final = 4 * MIB
_FIRST_PAGE_ROWS: Final = 4  # who looks up one entry reads no further


class JournalRung(Rung):
    """`ports.Journal`."""

    def append(self, task: str, append: Append) -> Awaitable[None]:
        """See `ports.Journal.append`."""
        try:
            self._origin.check()
            check_append(append)
        except PerdureError as refusal:
            return Refused(refusal)
        if not append.lease_s:
            return self._all_writes.append(Pending(task, append))
        self._keeping.extend(task, append.epoch, append.lease_s)
        return self._all_writes.append(Pending(task, append, self._until(append.lease_s)))

    async def read(self, task: str, after: int = 0) -> AsyncIterator[StoredAppend]:
        """See `ports.Journal.read`."""
        due: int | None = None  # with which entry the next append must begin
        rows = _FIRST_PAGE_ROWS
        while True:
            page = await self._readers.fetch(partial(_read_page, task=task, after=after, due=due, limit=rows))
            rows = READ_PAGE_ROWS
            for append in page:
                if append.last_seq < append.first_seq or append.first_seq != (due or append.first_seq):
                    raise Damaged(task, due or append.first_seq, f"what comes next is entry {append.first_seq}")
                due = append.last_seq + 1
                if append.last_seq > after:
                    yield append
            if not page or due is None or due > SEQ_MAX:
                return

    async def head(self, task: str) -> tuple[int, bytes]:
        """See `ports.Journal.head`."""
        return self._readers.peek(lambda connection: _head(connection, task))


def _head(connection: sqlite3.Connection, task: str) -> tuple[int, bytes]:
    first = known_number(connection, task) << SEQ_BITS
    found = connection.execute(SQL["newest"], (first, first | SEQ_MAX)).fetchone()
    if found is None:
        raise Damaged(task, 0, "not even its beginning is there")
    return found[1], found[2]


def _read_page(
    connection: sqlite3.Connection, task: str, after: int, due: int | None, limit: int
) -> list[StoredAppend]:
    """Return the next appends: from entry `due` on, or at first from the one that holds or precedes `after` + 1."""
    base = known_number(connection, task) << SEQ_BITS
    if due is None:
        found = connection.execute(SQL["newest"], (base, base | min(after + 1, SEQ_MAX))).fetchone()
        start = found[0] if found else base
    else:
        start = base | due
    page: list[StoredAppend] = []
    size = 0
    rows = connection.execute(SQL["page"], (start, base | SEQ_MAX, limit))
    try:
        for key, last_seq, frames, last_digest in rows:
            if not isinstance(frames, bytes):
                raise Damaged(task, key & SEQ_MAX, f"its frames are {type(frames).__name__}, not bytes")
            if not isinstance(last_seq, int) or not isinstance(last_digest, bytes):
                raise Damaged(task, key & SEQ_MAX, "what its row says of its last entry is no number and digest")
            page.append(StoredAppend(key & SEQ_MAX, last_seq, frames, last_digest))
            size += len(frames)
            if size >= _PAGE_BYTES:
                break
    finally:
        rows.close()
    return page
