"""The lease rung: one row per task, changed by compare-and-swap only."""

from __future__ import annotations

import sqlite3

from perdure.errors import Fenced, TaskBusy
from perdure.limits import LEASE_TTL_S
from perdure.model.ids import Holder
from perdure.ports import Lease
from perdure.stores.sqlite.queries import SQL
from perdure.stores.sqlite.rows import holder_column, known_number, read_holder, task_number
from perdure.stores.sqlite.rung import Rung


class LeaseRung(Rung):
    """`ports.Leases`."""

    async def lease(self, task: str) -> Lease:
        """See `ports.Leases.lease`."""
        return self._readers.peek(lambda connection: self._lease(connection, task))

    async def claim(
        self, task: str, holder: Holder, *, over: int, beats: int | None = None, ttl_s: float = LEASE_TTL_S
    ) -> Lease:
        """See `ports.Leases.claim`."""
        until = self._until(ttl_s)

        def swap(connection: sqlite3.Connection) -> Lease:
            columns = (holder_column(holder), until, known_number(connection, task), over, beats)
            if not connection.execute(SQL["claim_lease"], columns).rowcount:
                present = self._lease(connection, task).holder
                raise TaskBusy(task, str(present or "nobody any more"))
            return self._lease(connection, task)

        granted = await self._writer.do(task, swap)
        self._writer.keep(task, granted.epoch, ttl_s)
        return granted

    async def renew(self, task: str, epoch: int, ttl_s: float = LEASE_TTL_S) -> None:
        """See `ports.Leases.renew`."""
        until = self._until(ttl_s)
        self._keeping.extend(task, epoch, ttl_s)

        def beat(connection: sqlite3.Connection) -> None:
            number = known_number(connection, task)
            if not connection.execute(SQL["renew_lease"], (until, number, epoch)).rowcount:
                raise Fenced(task, epoch, self._lease(connection, task).epoch)

        await self._writer.do(task, beat, is_urgent=True)

    async def release(self, task: str, epoch: int) -> None:
        """See `ports.Leases.release`."""
        self._keeping.drop(task, epoch)

        def free(connection: sqlite3.Connection) -> None:
            connection.execute(SQL["release_lease"], (task_number(connection, task), epoch))

        await self._writer.do(task, free)

    def _lease(self, connection: sqlite3.Connection, task: str) -> Lease:
        number = known_number(connection, task)
        epoch, holder, beats, until = connection.execute(SQL["lease"], (number,)).fetchone()
        return Lease(epoch=epoch, holder=read_holder(holder, self.place), beats=beats, until=until)
