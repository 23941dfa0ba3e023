"""Leases that the writer's thread renews by itself, and when. Whether a holder is dead is judged elsewhere.

A renewal that the event loop had to ask for would stop when the loop hangs in a long plain function, and a living
holder would be taken for dead. Filled by the rungs on the loop's thread, served by `writer.py` on the writer's.
"""

from __future__ import annotations

import sqlite3
import threading
import time

from perdure.limits import LEASE_BEATS_PER_TTL
from perdure.ports import Clock
from perdure.stores.sqlite.queries import SQL
from perdure.stores.sqlite.rows import task_number


class Kept:
    """One lease of this process. Times are monotonic."""

    __slots__ = ("due", "epoch", "stands_until", "task", "ttl_s")

    def __init__(self, task: str, epoch: int, ttl_s: float) -> None:
        self.task = task
        self.epoch = epoch
        self.ttl_s = ttl_s
        self.due = time.monotonic() + self.period_s
        self.stands_until = 0.0  # a call under way wants it to stand until then

    @property
    def period_s(self) -> float:
        """Seconds between two renewals."""
        return self.ttl_s / LEASE_BEATS_PER_TTL


class Keeping:
    """The leases that one store handle keeps."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._gate = threading.Lock()
        self._kept: dict[str, Kept] = {}

    def keep(self, task: str, epoch: int, ttl_s: float) -> None:
        """Renew this lease from now on."""
        with self._gate:
            self._kept[task] = Kept(task, epoch, ttl_s)

    def drop(self, task: str, epoch: int) -> None:
        """No longer renew it; another epoch's lease of the task stays."""
        with self._gate:
            kept = self._kept.get(task)
            if kept is not None and kept.epoch == epoch:
                del self._kept[task]

    def extend(self, task: str, epoch: int, lease_s: float) -> None:
        """Let it stand for `lease_s` from now on; renewals in between do not shorten that."""
        with self._gate:
            kept = self._kept.get(task)
            if kept is not None and kept.epoch == epoch:
                kept.stands_until = time.monotonic() + lease_s

    def wait_s(self) -> float | None:
        """Return the seconds until the next renewal is due, None where nothing is kept."""
        with self._gate:
            first = min((kept.due for kept in self._kept.values()), default=None)
        return None if first is None else max(first - time.monotonic(), 0.0)

    def take_due(self) -> list[Kept]:
        """Return the leases to be renewed now; they are due again a period later, whatever comes of it."""
        now = time.monotonic()
        with self._gate:
            due = [kept for kept in self._kept.values() if kept.due <= now]
            for kept in due:
                kept.due = now + kept.period_s
        return due

    def renew(self, connection: sqlite3.Connection, due: list[Kept]) -> None:
        """Renew leases inside an open transaction; forget those that are somebody else's by now."""
        for kept in due:
            term_s = max(kept.ttl_s, kept.stands_until - time.monotonic())
            until = self._clock.now() + round(term_s * 1_000_000)
            number = task_number(connection, kept.task)
            if number is None or not connection.execute(SQL["renew_lease"], (until, number, kept.epoch)).rowcount:
                self.drop(kept.task, kept.epoch)
