"""Asks on the terminal what a task waits for, and lets it go on. Used by run and resume where somebody sits there.

An empty line leaves a question for later, the end of the input and Ctrl-C all that are left: the command ends with exit
3, as it does without a terminal, and `perdure answer` is as good. No task is held while a person thinks.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from perdure.cli.terminal import complain
from perdure.core.questions import Open, open_questions
from perdure.engine.ending import next_line
from perdure.engine.loading import load_fold
from perdure.errors import NeedsHuman, NothingAsked, QuestionNotOpen

if TYPE_CHECKING:
    from perdure.cli.session import Session
    from perdure.engine.runtime import Runtime

_BYTES_MAX = 64 * 1024  # of one line: more than a terminal hands over
Work = Callable[["Runtime"], Awaitable[Any]]


def can_ask(*, unattended: bool, as_json: bool) -> bool:
    """Whether somebody sits at a terminal who can be asked."""
    return not unattended and not as_json and sys.stdin is not None and sys.stdin.isatty()


async def work_and_ask(session: Session, name: str, work: Work, again: Work) -> None:
    """Let `work` run the task `name`; as often as it waits for answers, ask here, then let `again` go on with it.

    Raises as `Session.work_on`; NeedsHuman where an answer is left for later.
    """
    while True:
        try:
            await session.work_on(name, work)
        except NeedsHuman as needed:
            if not await ask_here(session, needed.task):
                raise await _as_it_stands(session.runtime, needed) from None
            work = again
        else:
            return


async def ask_here(session: Session, task: str) -> bool:
    """Ask all that the task waits for, one after the other; return whether it can go on now.

    What is answered meanwhile is not asked: by somebody else, or by an answer that says yes to several calls.
    """
    later: set[str] = set()  # keys of the questions that were left
    while True:
        fold = await load_fold(session.runtime.store, task)
        waiting = open_questions(fold.document, fold.ledger) if fold.ledger.question_keys else ()
        question = next((one for one in waiting if one.key not in later), None)
        if question is None:
            return fold.ledger.status != "needs_human"
        text = await _answer_to(session, question)
        if text is None:
            return False
        if text:
            await _hand_in(session.runtime, task, question, text)
        else:
            later.add(question.key)


async def _hand_in(runtime: Runtime, task: str, question: Open, text: str) -> None:
    from perdure import operations
    from perdure.ids_source import SystemIds

    try:
        answered = await operations.answer(runtime, task, text, SystemIds().short_id(), question.name)
    except (QuestionNotOpen, NothingAsked) as late:
        complain(f"perdure: {late}")  # somebody else has answered meanwhile: that counts
    else:
        if answered.meaning:
            complain(answered.meaning)


async def _answer_to(session: Session, question: Open) -> str | None:
    """Return what is typed; "" for an empty line, None where nobody will type any more."""
    complain(f"\n[{question.number}] {question.text}")
    sys.stderr.write("answer (an empty line leaves it for later)> ")
    sys.stderr.flush()
    session.is_asking = True
    try:
        line = await _read_line(session.stopping)
    finally:
        session.is_asking = False
    return None if line is None else line.strip()


async def _read_line(stopping: asyncio.Event) -> str | None:
    """Return the next line of the terminal; None at the end of the input, or when it is asked to stop."""
    loop, number = asyncio.get_running_loop(), sys.stdin.fileno()
    has_line = asyncio.Event()
    loop.add_reader(number, has_line.set)
    waits = [asyncio.ensure_future(event.wait()) for event in (has_line, stopping)]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        loop.remove_reader(number)
        for wait in waits:
            wait.cancel()
    if stopping.is_set():
        return None
    line = os.read(number, _BYTES_MAX)  # a terminal hands over one line at a time
    return line.decode("utf-8", "backslashreplace") if line else None


async def _as_it_stands(runtime: Runtime, needed: NeedsHuman) -> NeedsHuman:
    """Return the error that says what the task waits for now, after some of it was answered."""
    fold = await load_fold(runtime.store, needed.task)
    if fold.ledger.status != "needs_human":
        return needed
    return NeedsHuman(needed.task, fold.ledger.reason, next_line(fold), fold.ledger.name)
