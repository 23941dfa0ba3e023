"""The SQLite store for those who only look: it has no writer, no lock, and leaves no file behind.

What is read is what was committed when it was opened, or later. Opened by `stores/opening.py`.
"""

from __future__ import annotations

import os
from typing import Never, cast

from perdure.errors import StoreUnreadable
from perdure.ports import Clock
from perdure.stores.sqlite.database import check_to_look
from perdure.stores.sqlite.health import Health
from perdure.stores.sqlite.keeping import Keeping
from perdure.stores.sqlite.readers import Readers
from perdure.stores.sqlite.store import SqliteStore
from perdure.stores.sqlite.writer import Writer


class LookingStore(SqliteStore):
    """`ports.Store` of which only the reading half works; the other raises StoreUnreadable."""

    async def close(self) -> None:
        """Free everything. Closing twice does nothing."""
        if not self._all_reads.is_closed:
            self._all_reads.close()


class _NoWriter:
    """Stands where the writer is."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __getattr__(self, _what: str) -> Never:
        raise StoreUnreadable(self._place, "it was opened for looking only; nothing was written")


def look_into_sqlite(path: str, clock: Clock) -> LookingStore:
    """Open the store in the file at `path` for looking. Raises StoreUnreadable, StoreTooNew, StoreBroken."""
    place = os.path.abspath(path)
    readers = Readers(place, Health(place), check_to_look(place))
    return LookingStore(place, clock, cast("Writer", _NoWriter(place)), readers, Keeping(clock))
