"""The blob rung: reading, and sweeping what nothing names. Blobs are written by `commits.py`, with their append."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from functools import partial

from perdure.stores.sqlite.contents import read_blob
from perdure.stores.sqlite.queries import SQL
from perdure.stores.sqlite.rung import Rung


class BlobRung(Rung):
    """`ports.Blobs`."""

    async def blobs(self, digests: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """See `ports.Blobs.blobs`."""
        found: dict[bytes, bytes] = {}
        for digest in dict.fromkeys(digests):  # one at a time: a worker thread holds one blob, not all
            found[digest] = await self._readers.fetch(partial(read_blob, digest=digest, place=self.place))
        return found

    async def sweep(self) -> int:
        """See `ports.Blobs.sweep`."""
        return await self._writer.do("", _sweep)


def _sweep(connection: sqlite3.Connection) -> int:
    connection.execute(SQL["sweep_staged"])
    gone = connection.execute(SQL["unreferenced_blobs"]).fetchall()
    for row in gone:
        connection.execute(SQL["delete_blob_parts"], row)
        connection.execute(SQL["delete_blob"], row)
    return len(gone)
