"""Looks into the inbox of the tasks held here, and turns each message into an entry and into what it asks for."""

from __future__ import annotations

import asyncio

from perdure.engine.asking import put_word
from perdure.engine.budgeting import take_budget
from perdure.engine.session import Session
from perdure.errors import StopRequested
from perdure.ports import Message, Store


class Mailbox:
    """Reads the inbox for a runtime, a few times a second."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._looking = asyncio.Lock()  # what one look has read, and not yet taken out, another would take in again

    async def look(self, sessions: dict[str, Session]) -> None:
        """Take in what has arrived for any of `sessions`."""
        if not sessions:
            return
        async with self._looking:
            for task, messages in (await self._store.messages(list(sessions))).items():
                session = sessions.get(task)
                if session is not None and session.sequencer.dead is None:
                    await _take_in(session, messages)


def still_asked(session: Session, *, by_hand: bool) -> StopRequested | None:
    """Return what an earlier holder took in and did not live to obey; a resume by hand overtakes a pause."""
    asked = session.fold.ledger.asked
    return StopRequested(session.task, asked, "person") if asked == "cancel" or (asked and not by_hand) else None


async def _take_in(session: Session, messages: list[Message]) -> None:
    """Record the messages; the store removes them in the same append, so each is taken in exactly once."""
    messages = [message for message in messages if message.id not in session.received]
    if not messages:
        return
    session.received.update(message.id for message in messages)
    for message in messages:
        if message.what == "budget":
            take_budget(session, message.text)
        else:
            put_word(session, message)
    await session.commit(consumed=tuple(message.id for message in messages))
    for message in messages:
        session.tell("message", what=message.what, text=message.text)
        if message.what in {"pause", "cancel"} and session.stop is None:
            session.stop = StopRequested(session.task, message.what, "person")
            if message.what == "cancel" and session.runner is not None and not _has_effect_in_flight(session):
                session.runner.cancel()  # nothing of it can be left in the world, so it need not be waited for


def _has_effect_in_flight(session: Session) -> bool:
    actions = (session.fold.ledger.open.get(action) for action in session.running)
    return any(action is not None and not action.effect.is_free for action in actions)
