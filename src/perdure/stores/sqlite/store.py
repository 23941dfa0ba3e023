"""The SQLite store: all rungs on one file. Opened by `stores/opening.py`."""

from __future__ import annotations

import asyncio
import os

from perdure.ports import Clock
from perdure.stores.sqlite.blobs import BlobRung
from perdure.stores.sqlite.catalogue import CatalogueRung
from perdure.stores.sqlite.database import prepare
from perdure.stores.sqlite.health import Health
from perdure.stores.sqlite.inbox import InboxRung
from perdure.stores.sqlite.journal import JournalRung
from perdure.stores.sqlite.keeping import Keeping
from perdure.stores.sqlite.leases import LeaseRung
from perdure.stores.sqlite.readers import Readers
from perdure.stores.sqlite.snapshots import SnapshotRung
from perdure.stores.sqlite.upkeep import UpkeepRung
from perdure.stores.sqlite.writer import Writer


class SqliteStore(JournalRung, SnapshotRung, LeaseRung, CatalogueRung, BlobRung, InboxRung, UpkeepRung):
    """`ports.Store` in one file. A handle belongs to the event loop it was opened on."""

    async def close(self) -> None:
        """Write what is queued, then free everything. Closing twice does nothing."""
        self._origin.check()
        if not self._all_reads.is_closed:
            self._all_writes.refuse_more()
            await self._all_reads.run(self._all_writes.stop)
            self._all_reads.close()


async def open_sqlite(path: str, clock: Clock) -> SqliteStore:
    """Open the store in the file at `path`, making it (and its folder) where nothing is.

    Raises StoreUnreadable, StoreTooNew, StoreBusy, StoreFull, StoreBroken, and leaves the file as it was.
    """
    place = os.path.abspath(path)  # noqa: ASYNC240 - touches no disk
    lock = await asyncio.to_thread(prepare, place)
    try:
        health = Health(place)
        readers = Readers(place, health)
        keeping = Keeping(clock)
        writer = Writer(place, lock, health, keeping)
    except BaseException:
        lock.close()
        raise
    return SqliteStore(place, clock, writer, readers, keeping)
