"""Connections that only read: one for tiny reads on the loop's thread, a few for the rest in worker threads.

A read never leaves a cursor open: that would pin the write-ahead log, which then grows and grows. Called by the rungs.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from perdure.errors import StoreBroken
from perdure.stores.sqlite.database import connect_reader, translated

T = TypeVar("T")
_THREADS: Final = 2


class Readers:
    """The reading side of a store handle."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._near = connect_reader(place)
        self._near.execute("SELECT count(*) FROM sqlite_master").fetchone()  # opens the log: see `close`
        self._idle: list[sqlite3.Connection] = []
        self._executor = ThreadPoolExecutor(_THREADS, "perdure-reader")
        self.is_closed = False

    def peek(self, read: Callable[[sqlite3.Connection], T]) -> T:
        """Return what `read` returns, called right here: for reads of a few rows, under 0.2 ms."""
        self._check_open()
        with translated(self._place):
            return read(self._near)

    async def fetch(self, read: Callable[[sqlite3.Connection], T]) -> T:
        """Return what `read` returns, called in a worker thread."""
        return await self.run(lambda: self._fetch(read))

    async def run(self, work: Callable[[], T]) -> T:
        """Return what `work` returns, called in a worker thread."""
        self._check_open()
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def close(self) -> None:
        """Free everything. Called after the writer has closed: a reader that is still there keeps the log's file."""
        self.is_closed = True
        self._executor.shutdown()
        for connection in (*self._idle, self._near):
            connection.close()

    def _check_open(self) -> None:
        if self.is_closed:
            raise StoreBroken(self._place, "this handle was closed")

    def _fetch(self, read: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._idle.pop() if self._idle else connect_reader(self._place)
        try:
            with translated(self._place):
                return read(connection)
        finally:
            self._idle.append(connection)
