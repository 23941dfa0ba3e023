"""Which question a person means, and what is said of several: by numbers that are never used again."""

import pytest

from perdure.codec import values
from perdure.core import questions
from perdure.model import entry as e
from perdure.model.document import Document
from perdure.model.ledger import Ledger, Takeover


def asked(*pairs, ledger=None):
    """Return document and ledger of a task that waits for the answers to these questions."""
    document, ledger = Document(), ledger or Ledger(status="needs_human")
    for key, text in pairs:
        questions.note_asked(document, ledger, e.QuestionAsked(question=text, key=key), ledger.question_keys)
    return document, ledger


def answer(document, ledger, key, text="yes"):
    """Take an answer in; return whether it was the last that is waited for."""
    return questions.note_answered(document, ledger, e.QuestionAnswered(answer=e.Raw(values.encode(text)), key=key))


def test_the_last_answer_ends_the_wait():
    """Until then the reason says what is still asked: of several, the beginning of each with its number."""
    document, ledger = asked(("a", "first?"), ("b", "x" * 1000))
    assert ledger.reason.startswith("question: [1] first?; [2] xxx")
    assert len(ledger.reason) < 300
    assert not answer(document, ledger, "a")
    assert f"question: {'x' * 1000}" == ledger.reason
    assert answer(document, ledger, "b")


def test_of_many_questions_the_reason_tells_the_first():
    """A model may ask a hundred at once: the reason stays a line that a person can read."""
    _, ledger = asked(*((f"k{number}", f"q{number}?\nreally?") for number in range(100)))
    assert ledger.reason.startswith("question: [1] q0? really?; [2] q1? really?;")
    assert ledger.reason.endswith("; [10] q9? really?; and 90 more")


def test_what_is_not_waited_for_ends_no_wait():
    """An answer to a question of an earlier life is kept under its key, and the task waits on."""
    document, ledger = asked(("old", "old?"))
    ledger.question_keys = ()
    questions.note_asked(document, ledger, e.QuestionAsked(question="new?", key="new"), ())
    assert ["new"] == [one.key for one in questions.open_questions(document, ledger)]
    assert not answer(document, ledger, "old")
    assert ({"old": "yes"}, ("new",)) == (document.answers, ledger.question_keys)


@pytest.mark.parametrize(
    ("said", "key"), [("1", "a"), ("b", "b"), ("2", "b"), ("c", ""), ("3", ""), ("0", ""), ("", ""), ("01", "")]
)
def test_a_question_is_named_by_key_or_number(said, key):
    """Exactly; anything else names none."""
    assert key == questions.find_open(asked(("a", "first?"), ("b", "second?"))[0], said)


def test_a_number_is_never_used_again():
    """Neither for the same key with another text, nor after all is answered; the same text again keeps its number."""
    document, ledger = asked(("a", "first?"), ("a", "first?"), ("a", "other?"), ("b", "second?"))
    assert {"a": 2, "b": 3} == document.numbers
    answer(document, ledger, "a")
    questions.note_asked(document, ledger, e.QuestionAsked(question="third?", key="c"), ())
    assert {"a": 2, "b": 3, "c": 4} == document.numbers


def test_a_person_who_has_the_task_stays_its_reason():
    """What its program had asked is still open, and an answer to it is kept."""
    ledger = Ledger(status="needs_human", reason="takeover: by ada", takeover=Takeover(by="ada", at=1, seq=1))
    document, _ = asked(("a", "first?"), ledger=ledger)
    assert ("takeover: by ada", "a") == (ledger.reason, questions.open_questions(document, ledger)[0].key)
