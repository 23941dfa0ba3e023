"""The decision table: its rows, each reached, and the docstring that shows it."""

import msgspec
import pytest

from perdure.core import recovery
from perdure.core.recovery import TABLE, Rules, decide
from perdure.model.decision import Abandon, Ask, Finish, Retry
from perdure.model.document import Document
from perdure.model.effect import PRESETS
from perdure.model.failure import ErrorRecord, Failure
from perdure.model.ledger import Ledger, OpenAction

NOW = 1_000_000_000


def ledger(failure_class=None, *, failures=0, retries=0, **more):
    """Return a ledger whose last failure is of that class."""
    last = None
    if failure_class is not None:
        error = ErrorRecord(type="Odd", message="no", failure_class=failure_class)
        last = Failure(failure_class=failure_class, error=error)
    return Ledger(last_failure=last, failures=failures, retries=retries, **more)


def opened(preset, **more):
    """Return the open actions of a ledger that holds one of that preset."""
    action = OpenAction(
        action="a1", tool="send", effect=PRESETS[preset], digest=b"", intent=1, epoch=1, branch=0, intended_at=0
    )
    return {"a1": msgspec.structs.replace(action, **more)}


ROWS = {
    "effects_open": (ledger("tool", open=opened("irreversible", in_doubt=True)), Ask),
    "finished": (ledger(), Finish),
    "passing": (ledger("network", retries=1), Retry),
    "passing_too_long": (ledger("network", retries=4), Ask),
    "same_again": (ledger("tool", failures=1), Retry),
    "limit_reached": (ledger("tool", failures=3), Ask),
}


def test_the_docstring_shows_the_table():
    """Row by row and column by column."""
    shown = [line.strip() for line in (recovery.__doc__ or "").splitlines()]
    for row in TABLE:
        (line,) = [line for line in shown if line.split()[:1] == [row.name]]
        assert [row.name, *row.when.split(), *row.then.split()] == line.split()


def test_every_row_is_reached():
    """And by the case that bears its name."""
    assert {row.name for row in TABLE} == set(ROWS)
    for name, (given, kind) in ROWS.items():
        decision, row = decide(Document(), given, Rules(), NOW)
        assert (name, kind) == (row, type(decision))


@pytest.mark.parametrize("name", ["effects_open", "passing_too_long", "limit_reached"])
def test_unattended_every_question_is_an_end(name):
    """Where a person would be asked, the task is given up with the same words."""
    given, _ = ROWS[name]
    asked, _ = decide(Document(), given, Rules(), NOW)
    given_up, _ = decide(Document(), given, Rules(unattended=True), NOW)
    assert Abandon(asked.question) == given_up


def test_waits_double_and_have_a_ceiling():
    """Half a second, one, two, …, a minute."""
    waits = []
    for retries in range(1, 12):
        decision, _ = decide(Document(), ledger("network", retries=retries), Rules(retries_max=99), NOW)
        waits.append((decision.at - NOW) / 1_000_000)
    assert [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0, 60.0] == waits


def test_the_tasks_own_limit_counts():
    """failures_max as declared by the program."""
    for failures_max, kind in ((1, Ask), (5, Retry)):
        decision, _ = decide(Document(), ledger("tool", failures=3, failures_max=failures_max), Rules(), NOW)
        assert kind is type(decision)


@pytest.mark.parametrize(
    ("preset", "in_doubt", "has_returned", "row"),
    [
        ("irreversible", True, False, "effects_open"),
        ("irreversible", True, True, "effects_open"),
        ("idempotent", True, False, "same_again"),
        ("verifiable", True, False, "same_again"),
        ("idempotent", False, True, "effects_open"),
        ("pure", False, True, "finished"),
    ],
)
def test_only_what_nobody_can_know_stops_a_program_that_is_called_anew(preset, in_doubt, has_returned, row):
    """A returned program asks for nothing more, so that any open effect stops it."""
    given = ledger("tool", failures=1, open=opened(preset, in_doubt=in_doubt))
    assert row == decide(Document(), given, Rules(), NOW, has_returned=has_returned)[1]


def test_a_returned_program_is_not_judged_by_a_failure_that_it_has_dealt_with():
    """The last failure on record did not leave it."""
    assert isinstance(decide(Document(), ledger("tool", failures=9), Rules(), NOW, has_returned=True)[0], Finish)


def test_deciding_changes_nothing():
    """The same values give the same decision, and are left as they were."""
    for given, _ in ROWS.values():
        before = msgspec.json.encode(given)
        assert decide(Document(), given, Rules(), NOW) == decide(Document(), given, Rules(), NOW)
        assert before == msgspec.json.encode(given)
