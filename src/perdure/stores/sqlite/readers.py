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
from perdure.stores.sqlite.database import connect_reader, translate
from perdure.stores.sqlite.health import Health

T = TypeVar("T")
_THREADS: Final = 2


class Readers:
    """The reading side of a store handle."""

    def __init__(self, place: str, health: Health, mode: str = "ro") -> None:
        self._place = place
        self._mode = mode  # of `database.connect_reader`
        self._health = health
        self._near = connect_reader(place, mode)
        try:  # a statement opens the log: see `close`
            self._ask(
                self._near, lambda connection: connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            )
        except BaseException:
            self._near.close()
            raise
        self._idle: list[sqlite3.Connection] = []
        self._executor = ThreadPoolExecutor(_THREADS, "perdure-reader")
        self.is_closed = False

    def peek(self, read: Callable[[sqlite3.Connection], T]) -> T:
        """Return what `read` returns, called right here: for reads of a few rows, under 0.2 ms."""
        self._health.check()
        return self._ask(self._near, read)

    async def fetch(self, read: Callable[[sqlite3.Connection], T]) -> T:
        """Return what `read` returns, called in a worker thread."""
        self._health.check()
        return await self.run(lambda: self._fetch(read))

    async def run(self, work: Callable[[], T]) -> T:
        """Return what `work` returns, called in a worker thread."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def close(self) -> None:
        """Free everything. Called after the writer has closed: a reader that is still there keeps the log's file."""
        self.is_closed = True
        self._executor.shutdown()
        for connection in (*self._idle, self._near):
            connection.close()

    def _fetch(self, read: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._idle.pop() if self._idle else connect_reader(self._place, self._mode)
        try:
            return self._ask(connection, read)
        finally:
            self._idle.append(connection)

    def _ask(self, connection: sqlite3.Connection, read: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return read(connection)
        except sqlite3.Error as error:
            raise self._health.note(translate(error, self._place)) from error
        except UnicodeEncodeError:
            raise  # it lies in what was asked for, not in what was found
        except (TypeError, ValueError) as error:
            raise StoreBroken(self._place, f"a row has the wrong shape: {error}") from error
