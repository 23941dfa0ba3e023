"""What the rungs of the SQLite store stand on: its place, clock, writer and readers."""

from __future__ import annotations

import os

from perdure.ports import Clock
from perdure.stores.forks import Origin
from perdure.stores.sqlite.keeping import Keeping
from perdure.stores.sqlite.readers import Readers
from perdure.stores.sqlite.writer import Writer


class Rung:
    """Base of all rungs."""

    def __init__(self, place: str, clock: Clock, writer: Writer, readers: Readers, keeping: Keeping) -> None:
        self.place = place
        self.folder: str | None = os.path.dirname(place)
        self.capabilities = frozenset({"durable", "processes", "sweep", "delete", "upkeep"})
        self._clock = clock
        self._keeping = keeping
        self._origin = Origin()
        self._all_writes = writer
        self._all_reads = readers

    @property
    def _writer(self) -> Writer:
        self._origin.check()
        return self._all_writes

    @property
    def _readers(self) -> Readers:
        self._origin.check()
        return self._all_reads

    def _until(self, ttl_s: float) -> int:
        return self._clock.now() + round(ttl_s * 1_000_000)
