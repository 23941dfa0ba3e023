"""The inbox rung: messages are posted here, and consumed by the append that records them."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from perdure.ports import Message
from perdure.stores.checks import storable_message
from perdure.stores.sqlite.queries import SQL
from perdure.stores.sqlite.rows import known_number, task_number
from perdure.stores.sqlite.rung import Rung


class InboxRung(Rung):
    """`ports.Inbox`."""

    async def post(self, task: str, message: Message) -> None:
        """See `ports.Inbox.post`."""
        stored = storable_message(message)

        def insert(connection: sqlite3.Connection) -> None:
            number = known_number(connection, task)
            connection.execute(SQL["post_message"], (number, stored.id, stored.what, stored.text, stored.key))

        await self._writer.do(task, insert)

    async def messages(self, tasks: Sequence[str]) -> Mapping[str, list[Message]]:
        """See `ports.Inbox.messages`."""
        return self._readers.peek(lambda connection: _waiting(connection, tasks))


def _waiting(connection: sqlite3.Connection, tasks: Sequence[str]) -> dict[str, list[Message]]:
    waiting: dict[str, list[Message]] = {}
    for task in tasks:
        number = task_number(connection, task)
        rows = connection.execute(SQL["waiting_messages"], (number,)).fetchall() if number else []
        if rows:
            waiting[task] = [Message(id=id_, what=what, text=text, key=key) for id_, what, text, key in rows]
    return waiting
