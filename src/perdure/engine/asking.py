"""Questions to people and what people say: asked once, answered once, found again by a resumed program.

A question is known by its key: the user's, or its text, in the body of a loop with the place. Its answer follows
the branch, as the state does: a rollback to before the question asks it again. A task that was handed over for another
reason takes a word as well (`core/awaiting.py`). Called by `handle.py` (the program), `mailbox.py` (a held task is
spoken to) and `runtime.py` (one that nobody holds).
"""

from __future__ import annotations

import asyncio
import shlex

import msgspec

from perdure.codec import values
from perdure.codec.redact import cut_redacted, redact_text
from perdure.core import awaiting
from perdure.core.fold import Fold
from perdure.engine.ending import next_line, tell_stopped
from perdure.engine.loops import current_place
from perdure.engine.session import Session
from perdure.errors import NothingAsked, StopRequested, UsageError
from perdure.limits import ERROR_MESSAGE_BYTES_MAX, TICK_S
from perdure.model import entry as e
from perdure.model.ids import check_key, plain_text
from perdure.ports import Message


def key_of(session: Session, lap: int, question: str, key: str) -> str:
    """Return by what a question is found again."""
    if key:
        check_key(key)
    place = current_place.get()
    own = key or plain_text(question)
    return f"{place} {own}" if place is not None and not key and place.belongs_to(session, lap) else own


async def ask(session: Session, question: str, key: str, wait_s: float) -> str:
    """Return the answer on record; else ask, and wait for it in this process for `wait_s` seconds.

    Raises StopRequested, by which the program is left, where there is none by then.
    """
    document = session.fold.document
    text = cut_redacted(question, ERROR_MESSAGE_BYTES_MAX)
    if key in document.answers:
        return document.answers[key]
    asked = StopRequested(session.task, "question", text, key)
    if wait_s <= 0 or session.world.rules.unattended:
        raise asked
    await put_question(session, text, key)
    end = session.world.clock.monotonic() + wait_s
    while key not in session.fold.document.answers:
        if session.stop is not None:
            raise session.stop
        if session.sequencer.dead is not None:
            raise session.sequencer.dead
        if session.world.clock.monotonic() >= end:
            raise asked
        await asyncio.sleep(TICK_S)
    return session.fold.document.answers[key]


async def put_question(session: Session, text: str, key: str) -> None:
    """Write the question, unless it is what the task waits for already."""
    if session.fold.ledger.question_key == key:
        return
    session.put(e.QuestionAsked(question=text, key=key))
    await session.commit()
    tell_stopped(session)


def question_in(fold: Fold) -> str:
    """Return the question that an answer would go to now. Raises NothingAsked, saying what the task waits for."""
    ledger = fold.ledger
    if awaiting.waits_for_word(ledger):
        return awaiting.question_of(ledger)
    key = awaiting.asked_key(fold.document, ledger)
    if key:
        return fold.document.asking[key]
    command = next_line(fold) if ledger.status == "needs_human" else f"perdure tell {shlex.quote(ledger.name)} TEXT"
    raise NothingAsked(ledger.name, f"{ledger.status} {ledger.reason}".strip(), command)


async def take_word(session: Session, message: Message) -> str:
    """Write what a person tells or answers to a task that nobody held; return the question that is answered."""
    question = "" if message.what == "tell" else question_in(session.fold)
    put_word(session, message)
    await session.commit()
    return question


def put_word(session: Session, message: Message) -> None:
    """Put what a person has said, and what it answers; an answer to nothing stays a message."""
    session.put(e.MessageReceived(message=message.id, what=message.what, text=message.text))  # type: ignore[arg-type]  # words are checked by `post`'s callers
    if message.what != "answer":
        return
    key = awaiting.asked_key(session.fold.document, session.fold.ledger)
    if key or awaiting.waits_for_word(session.fold.ledger):
        answer = msgspec.Raw(values.encode(redact_text(message.text)))
        session.put(e.QuestionAnswered(answer=answer, by="person", key=key))


def refuse_again(asked: set[str], key: str) -> None:
    """Raise where this call of the program has asked that already: a resumed one could not tell the two apart."""
    if key in asked:
        raise UsageError(f"question {key!r} was asked already in this run of the program; give each its own key=")
    asked.add(key)
