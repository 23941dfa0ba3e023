"""Questions to people and what people say: asked once, answered once, found again by a resumed program.

A question is known by its key: the user's, or its text, in the body of a loop with the place. Its answer follows
the branch, as the state does: a rollback to before the question asks it again. A task that was handed over for another
reason takes a word as well (`core/awaiting.py`). Called by `handle.py` (the program), `mailbox.py` (a held task is
spoken to) and `runtime.py` (one that nobody holds).
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping

import msgspec

from perdure.codec import values
from perdure.codec.redact import cut_redacted, redact_text
from perdure.core import awaiting, questions
from perdure.core.fold import Fold
from perdure.engine.ending import answer_lines, next_line, resume_line, tell_stopped
from perdure.engine.loops import current_place
from perdure.engine.session import Session
from perdure.errors import LimitExceeded, NothingAsked, QuestionNotOpen, QuestionUnclear, StopRequested, UsageError
from perdure.limits import ERROR_MESSAGE_BYTES_MAX, QUESTIONS_MAX, TICK_S
from perdure.model import entry as e
from perdure.model.ids import check_key, check_text, plain_text
from perdure.ports import Message


def key_of(session: Session, lap: int, question: str, key: str) -> str:
    """Return by what a question is found again."""
    if key:
        check_key(key)
    place = current_place.get()
    own = key or plain_text(question)
    return f"{place} {own}" if place is not None and not key and place.belongs_to(session, lap) else own


async def ask_all(session: Session, texts: Mapping[str, str], wait_s: float) -> dict[str, str]:
    """Return the answers to `texts` (by key) that are on record; else ask, and wait here for `wait_s` seconds.

    What is not asked yet is put on record in one append. Raises StopRequested, by which the program is left, where an
    answer is missing by then.
    """
    answers = session.fold.document.answers
    missing = {key: cut_redacted(text, ERROR_MESSAGE_BYTES_MAX) for key, text in texts.items() if key not in answers}
    if not missing:
        return {key: answers[key] for key in texts}
    key, text = next(iter(missing.items()))
    if session.world.rules.unattended:
        raise StopRequested(session.task, "question", "; ".join(map(questions.in_one_line, missing.values())), key)
    asked = StopRequested(session.task, "question", text, key)
    if wait_s <= 0 and len(missing) == 1:
        raise asked  # written when all that runs has come to its end
    await put_questions(session, missing)
    end = session.world.clock.monotonic() + wait_s
    while any(key not in session.fold.document.answers for key in missing):
        if session.stop is not None:
            raise session.stop
        if session.sequencer.dead is not None:
            raise session.sequencer.dead
        if session.world.clock.monotonic() >= end:
            raise asked
        await asyncio.sleep(TICK_S)
    return {key: session.fold.document.answers[key] for key in texts}


async def put_questions(session: Session, texts: Mapping[str, str]) -> None:
    """Write the questions for whose answers the task does not wait already, in one append."""
    fresh = [key for key in texts if key not in session.fold.ledger.question_keys]
    for key in fresh:
        session.put(e.QuestionAsked(question=texts[key], key=key))
    if fresh:
        await session.commit()
        tell_stopped(session)


def address(fold: Fold, question: str) -> tuple[str, str]:
    """Return (key, text) of the question that a person means: its key, its number, or "" for the only one.

    ("", why) where the task waits for a word without having asked. Raises QuestionUnclear, QuestionNotOpen;
    NothingAsked, saying what the task waits for.
    """
    document, ledger = fold.document, fold.ledger
    asked = questions.open_questions(document, ledger)
    if question:
        key = questions.find_open(document, question)
        if not key:
            raise _not_open(fold, question)
        return key, document.asking[key]
    if awaiting.waits_for_word(ledger):
        return "", awaiting.question_of(ledger)
    if len(asked) > 1:
        raise QuestionUnclear(ledger.name, answer_lines(ledger.name, asked))
    if asked:
        return asked[0].key, asked[0].text
    if ledger.reason == questions.ANSWERED:
        raise NothingAsked(ledger.name, "all that it has asked is answered", resume_line(ledger.name))
    command = next_line(fold) if ledger.status == "needs_human" else f"perdure tell {shlex.quote(ledger.name)} TEXT"
    raise NothingAsked(ledger.name, f"{ledger.status} {ledger.reason}".strip(), command)


async def take_word(session: Session, message: Message) -> str:
    """Write what a person tells or answers to a task that nobody held; return the question that is answered."""
    question, fold = "", session.fold
    if message.key and message.key not in fold.document.asking:
        raise _not_open(fold, message.key)
    if message.what == "answer":
        key, question = (message.key, fold.document.asking[message.key]) if message.key else address(fold, "")
        message = msgspec.structs.replace(message, key=key)
    put_word(session, message)
    await session.commit()
    return question


def _not_open(fold: Fold, question: str) -> QuestionNotOpen:
    document, ledger = fold.document, fold.ledger
    lines = answer_lines(ledger.name, questions.open_questions(document, ledger))
    return QuestionNotOpen(ledger.name, question, questions.why_not(document, ledger, question), lines)


def put_word(session: Session, message: Message) -> None:
    """Put what a person has said, and what it answers.

    An answer that names a question which is no longer open answers nothing; one that names none, where none is clear,
    stays a message.
    """
    fold, key = session.fold, message.key
    word = e.MessageReceived(message=message.id, what=message.what, text=message.text, key=key)  # type: ignore[arg-type]  # words are checked by `post`'s callers
    session.put(word)
    if message.what != "answer":
        return
    if not key:
        key = questions.only_open(fold.document, fold.ledger)
    if key in fold.document.asking or (not key and awaiting.waits_for_word(fold.ledger)):
        answer = msgspec.Raw(values.encode(redact_text(message.text)))
        session.put(e.QuestionAnswered(answer=answer, by="person", key=key))


def refuse_again(asked: set[str], key: str) -> None:
    """Raise where this call of the program has asked that already: a resumed one could not tell the two apart."""
    if key in asked:
        raise UsageError(f"question {key!r} was asked already in this run of the program; give each its own key=")
    asked.add(key)


def check_questions(questions: Mapping[str, str]) -> None:
    """Raise where several questions cannot be asked at once: without keys, or too many."""
    if len(questions) > QUESTIONS_MAX:
        raise LimitExceeded("questions asked at once", len(questions), QUESTIONS_MAX)
    for key, text in questions.items():
        check_text(text, "question")
        if not check_key(key):
            raise UsageError(f"question {text!r} has an empty key: its answer could not be told from others")
