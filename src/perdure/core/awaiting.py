"""What a task that stands waits for, and where a word of a person goes. Pure; asked by fold, engine and views.

A question of its program is answered under its key (`core/questions.py`). Where the task was handed over for another
reason (a limit, a key that is missing, strategies used up), a word lets it go on, and its program finds it in
`task.messages` and, as long as nothing has followed from it, in `task.advice`. No word says what became of an effect:
that is settled.
"""

from __future__ import annotations

from typing import Final

from perdure.model.ledger import Ledger

_NO_MATTER_OF_WORDS: Final = frozenset({"in_doubt", "diverged", "takeover"})


def waits_for_word(ledger: Ledger) -> bool:
    """Whether the task waits for what a person has to say, and not for the answer to a question of its program."""
    if ledger.status != "needs_human" or ledger.question_keys or ledger.question_action or ledger.budget_asked:
        return False  # what a budget needs is an amount, and no word
    return need_of(ledger) not in _NO_MATTER_OF_WORDS


def need_of(ledger: Ledger) -> str:
    """Return why a person is needed, in the word of `QuestionAsked.reason`; "" where none is."""
    return ledger.reason.partition(":")[0] if ledger.status == "needs_human" else ""


def question_of(ledger: Ledger) -> str:
    """Return what a person is asked, "" where nothing is."""
    return ledger.reason.partition(":")[2].strip() if ledger.status == "needs_human" else ""
