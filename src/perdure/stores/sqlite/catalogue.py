"""The catalogue rung: which tasks there are."""

from __future__ import annotations

import sqlite3
from itertools import takewhile
from typing import Final

from perdure.errors import LimitExceeded, NameTaken, TaskUnknown
from perdure.limits import LEASE_TTL_S
from perdure.model.ids import Holder
from perdure.model.status import TaskSummary
from perdure.ports import Lease
from perdure.stores.checks import SEQ_MAX, check_summary
from perdure.stores.finding import pick_task
from perdure.stores.sqlite.queries import SQL
from perdure.stores.sqlite.rows import (
    SEQ_BITS,
    TASKS_MAX,
    holder_column,
    known_number,
    read_summary,
    summary_columns,
    task_number,
)
from perdure.stores.sqlite.rung import Rung

_FITTING_MAX: Final = 6  # names, and as many ids: enough to say that a prefix is ambiguous
_DELETIONS: Final = (
    "delete_lease",
    "delete_uses",
    "delete_staged",
    "delete_snapshots",
    "delete_all_snapshot_parts",
    "delete_messages",
    "delete_task",
)


class CatalogueRung(Rung):
    """`ports.Catalogue`."""

    async def create(
        self, summary: TaskSummary, holder: Holder, ttl_s: float = LEASE_TTL_S, *, epoch: int = 1
    ) -> Lease:
        """See `ports.Catalogue.create`."""
        check_summary(summary)
        lease = Lease(epoch=epoch, holder=holder, beats=0, until=self._until(ttl_s))
        await self._writer.do(summary.task, lambda connection: _create(connection, summary, lease))
        self._writer.keep(summary.task, lease.epoch, ttl_s)
        return lease

    async def tasks(self) -> list[TaskSummary]:
        """See `ports.Catalogue.tasks`."""
        rows = await self._readers.fetch(lambda connection: connection.execute(SQL["tasks"]).fetchall())
        return [read_summary(text, self.place) for (text,) in rows]

    async def find(self, name: str) -> TaskSummary:
        """See `ports.Catalogue.find`."""
        try:
            texts = self._readers.peek(lambda connection: _candidates(connection, name))
        except UnicodeEncodeError:  # half of a surrogate pair: nothing was ever stored under it
            raise TaskUnknown(name) from None
        return pick_task(name, [read_summary(text, self.place) for text in texts])

    async def delete(self, task: str) -> None:
        """See `ports.Catalogue.delete`."""
        await self._writer.do(task, lambda connection: _delete(connection, known_number(connection, task)))

    async def forget_empty(self, task: str, *, over: int) -> bool:
        """See `ports.Catalogue.forget_empty`."""
        return await self._writer.do(task, lambda connection: _forget_empty(connection, task, over))


def _create(connection: sqlite3.Connection, summary: TaskSummary, lease: Lease) -> None:
    taken = connection.execute(SQL["unfinished_of_name"], (summary.name,)).fetchone()
    if taken and not summary.is_finished:
        raise NameTaken(summary.name, taken[0])
    try:
        number = connection.execute(SQL["insert_task"], (summary.task, *summary_columns(summary))).lastrowid or 0
    except sqlite3.IntegrityError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_CONSTRAINT_UNIQUE:
            raise NameTaken(summary.name, summary.task) from error
        raise LimitExceeded("tasks ever made in one store", TASKS_MAX + 1, TASKS_MAX) from error
    assert lease.holder is not None  # noqa: S101 - made above with one
    connection.execute(SQL["insert_lease"], (number, lease.epoch, holder_column(lease.holder), lease.until))
    connection.execute(SQL["insert_genesis"], (number << SEQ_BITS,))


def _candidates(connection: sqlite3.Connection, name: str) -> list[str]:
    """Return the summaries among which `pick_task` chooses, newest first; never all tasks, and no pattern matching."""
    execute = connection.execute
    exact = execute(SQL["task_by_id"], (name,)).fetchall() or execute(SQL["newest_of_name"], (name,)).fetchall()
    if exact:
        return [text for (text,) in exact]
    names = _from_prefix(connection, "names_from", name)
    ids = _from_prefix(connection, "ids_from", name)
    rows = [execute(SQL["newest_of_name"], (one,)).fetchone() for one in names]
    rows += [execute(SQL["task_by_id"], (one,)).fetchone() for one in ids]
    return list(dict.fromkeys(text for (text,) in rows))


def _from_prefix(connection: sqlite3.Connection, query: str, prefix: str) -> list[str]:
    values = (value for (value,) in connection.execute(SQL[query], (prefix, _FITTING_MAX)).fetchall())
    return list(takewhile(lambda value: value.startswith(prefix), values))


def _forget_empty(connection: sqlite3.Connection, task: str, over: int) -> bool:
    number = task_number(connection, task)
    if number is None:
        return False
    first = number << SEQ_BITS
    (_, head, _) = connection.execute(SQL["newest"], (first, first | SEQ_MAX)).fetchone()
    (epoch,) = connection.execute(SQL["lease_epoch"], (number,)).fetchone()
    if head or epoch != over:
        return False
    _delete(connection, number)
    return True


def _delete(connection: sqlite3.Connection, number: int) -> None:
    first = number << SEQ_BITS
    connection.execute(SQL["delete_appends"], (first, first | SEQ_MAX))
    for query in _DELETIONS:
        connection.execute(SQL[query], (number,))
