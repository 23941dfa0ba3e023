"""The questions of a program: which are open, which one a person means, and what an answer does. Pure.

A question has a key (by it its program finds the answer), a text, and a number that no other question of the task ever
has: a person who names it by that cannot reach another one, whatever was asked, answered or rolled back meanwhile.
Not what a task waits for without having asked (`awaiting.py`). Called by fold, engine and views.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from perdure.codec import values
from perdure.core import awaiting
from perdure.limits import QUESTION_GIST_BYTES
from perdure.model import entry as e
from perdure.model.document import Document
from perdure.model.ids import cut_text
from perdure.model.ledger import Ledger

_TOLD_MAX: Final = 10  # questions of which one line tells
ANSWERED: Final = "answered"  # why a task is running that has waited for people


class Open(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A question that is not answered yet."""

    number: int
    key: str
    text: str
    name: str  # what a person types to mean it: the number, unless that is another one's key


# --- what entries mean ----------------------------------------------------------------------------------------------
def note_asked(document: Document, ledger: Ledger, asked: e.QuestionAsked, others: tuple[str, ...]) -> None:
    """A question is on record; the task waits for its answer, and for those to `others`."""
    if document.asking.get(asked.key) != asked.question:  # the same once more is the same question
        ledger.questions += 1
        document.numbers[asked.key] = ledger.questions
    document.asking[asked.key] = asked.question
    ledger.question_keys = (*(key for key in others if key != asked.key), asked.key)
    _say(document, ledger)


def note_answered(document: Document, ledger: Ledger, answered: e.QuestionAnswered) -> bool:
    """An answer is on record; return whether it was the last that the task has waited for."""
    document.asking.pop(answered.key, None)
    document.answers[answered.key] = str(values.decode(bytes(answered.answer)))
    if answered.key not in ledger.question_keys:
        return False
    ledger.question_keys = tuple(key for key in ledger.question_keys if key != answered.key)
    _say(document, ledger)
    return not ledger.question_keys


# --- what is asked --------------------------------------------------------------------------------------------------
def open_questions(document: Document, ledger: Ledger) -> tuple[Open, ...]:
    """Return what can be answered, oldest first: the questions for which the task waits, else all that are open."""
    keys = [key for key in document.asking if key in ledger.question_keys] or list(document.asking)
    return tuple(sorted((_described(document, key) for key in keys), key=lambda one: one.number))


def only_open(document: Document, ledger: Ledger) -> str:
    """Return the key of the question that an answer goes to which names none; "" where that is not clear."""
    found = () if awaiting.waits_for_word(ledger) else open_questions(document, ledger)
    return found[0].key if len(found) == 1 else ""


def find_open(document: Document, said: str) -> str:
    """Return the key of the open question that a person means by `said`, its key or its number; "" where none is."""
    by_number = next((key for key, number in document.numbers.items() if str(number) == said), "")
    fitting = {key for key in (said, by_number) if key in document.asking}
    return fitting.pop() if len(fitting) == 1 else ""


def why_not(document: Document, ledger: Ledger, said: str) -> str:
    """Return why `said` names no open question."""
    by_number = next((key for key, number in document.numbers.items() if str(number) == said), "")
    if said in document.asking and by_number in document.asking:
        return f"it is the key of one question and the number of another (key {by_number!r})"
    if said in document.answers or by_number in document.answers:
        return "it is answered already; an answer counts once"
    if said.isdecimal() and 0 < int(said) <= ledger.questions:
        return "it is over: the task was rolled back to before it, or has replaced it"
    return "the task has asked no such question, or was rolled back to before it"


def told(questions: Iterable[Open]) -> str:
    """Return what is asked in one line: the text of the only question, or the beginnings of several, with numbers."""
    several = tuple(questions)
    if len(several) == 1:
        return in_one_line(several[0].text)
    return some_of([f"[{one.number}] {cut_text(in_one_line(one.text), QUESTION_GIST_BYTES)}" for one in several])


def some_of(texts: Sequence[str]) -> str:
    """Return the first of several questions, and how many more there are: a model may ask a hundred at once."""
    more = len(texts) - _TOLD_MAX
    return "; ".join(texts[:_TOLD_MAX]) + (f"; and {more} more" if more > 0 else "")


def in_one_line(text: str) -> str:
    """Return a question without its line ends: what a person may copy into a shell stays one line."""
    return " ".join(filter(None, map(str.strip, text.splitlines())))


def _described(document: Document, key: str) -> Open:
    number = document.numbers.get(key, 0)
    is_clear = str(number) == key or str(number) not in document.asking
    return Open(number=number, key=key, text=document.asking[key], name=str(number) if number and is_clear else key)


def _say(document: Document, ledger: Ledger) -> None:
    """The reason of the task's status is what it asks; not where a person has it, who is named there."""
    if ledger.takeover is None and ledger.question_keys:
        ledger.reason = f"question: {told(open_questions(document, ledger))}"
