"""What is observed of a failure, and the edges of the decision table: each case lies beside one that goes otherwise."""

import msgspec
import pytest

from perdure.core.recovery import Rules, decide, observe, signature_of
from perdure.core.retrying import PATIENT
from perdure.limits import LESSON_BYTES_MAX, PASSING_MAX
from perdure.model.effect import Standing
from perdure.model.failure import ErrorRecord, Failure
from perdure.model.ledger import Ledger, Tried
from perdure.model.strategy import Strategy
from tests.unit.core.test_recovery import DIRECT, ELSEWHERE, MARKED, NOW, OUTLINE, ledger, marks, opened, told


# --- what is observed -----------------------------------------------------------------------------------------------
def signed(message="no", *, tool="ask", action="a1", call=("a1", "ask", b"\1"), kind="Odd"):
    """Return the signature of a failure of that call."""
    error = ErrorRecord(type=kind, message=message, failure_class="tool")
    failure = Failure(failure_class="tool", error=error, tool=tool, action=action)
    return signature_of(failure, Ledger(name="t", failed_call=call))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"message": "<A at 0x7fab> is shut"}, {"message": "<A at 0x9bcd> is shut"}),
        ({"message": "no node deadbeefcafe"}, {"message": "no node feedfacedead"}),
        ({"message": "after 17 tries"}, {"message": "after 8 tries"}),
        ({"action": "a1"}, {"action": "a2", "call": ("a2", "ask", b"\1")}),  # the same arguments in another call
        (
            {"action": "", "call": ("a1", "ask", b"\1")},
            {"action": "", "call": ("a2", "ask", b"\2")},
        ),  # it comes of no call
    ],
)
def test_what_changes_from_time_to_time_makes_no_other_failure(one, other):
    """Addresses, ids, numbers; and a call that failed long before says nothing of a failure that has none."""
    assert signed(**one) == signed(**other)


@pytest.mark.parametrize(
    "other",
    [{"message": "yes"}, {"tool": "look"}, {"kind": "Odder"}, {"call": ("a1", "ask", b"\2")}],
)
def test_another_message_tool_type_or_argument_makes_another_failure(other):
    """Two equal ones in a row are a dead end, so none of these may be lost."""
    assert signed() != signed(**other)


@pytest.mark.parametrize(
    ("retries", "message", "seen"),
    [
        (PATIENT.retries_max, "slow", ("tool", True)),
        (PATIENT.retries_max - 1, "slow", ("timeout", False)),
        (PATIENT.retries_max, "another", ("timeout", False)),
    ],
)
def test_a_tool_that_is_out_of_time_again_and_again_is_at_fault_itself(retries, message, seen):
    """The fourth equal time-out in a row is a failure of the tool; one of another call is not."""
    late = ErrorRecord(type="Late", message="slow", failure_class="timeout")
    given = Ledger(name="t", retries=retries)
    given.signature = signature_of(Failure(failure_class="timeout", error=late), given)
    found = observe(msgspec.structs.replace(late, message=message), given)
    assert seen == (found.failure.failure_class, found.counted)


# --- what is decided ------------------------------------------------------------------------------------------------
BACK_AT = told("quota", until=NOW + 60_000_000)
TOLD = told("throttled", wait_s=9.0)
ENDED = {"direct": Tried(rounds=2, ended="s")}
TWO, FAR = (DIRECT, OUTLINE), (DIRECT, ELSEWHERE)
STANDS = Standing(action="a1", tool="send", digest=b"", settled=0, undo="impossible")
LATE = NOW - 7 * 3_600 * 1_000_000
STAYS = Rules(changes_strategy=False, rolls_back=False)
EDGES = [
    # a budget that is spent ends every wait, and calling somebody else too
    (ledger("quota", error=BACK_AT, passing=PASSING_MAX), Rules(), "quota"),
    (ledger("quota", error=BACK_AT, passing=PASSING_MAX + 1), Rules(), "quota_gone"),
    (ledger("throttled", error=TOLD, retries=1, passing=PASSING_MAX + 1), Rules(), "passing_too_long"),
    (ledger("network", retries=4, passing_since=NOW, passing=PASSING_MAX + 1, strategies=FAR), Rules(),
     "passing_too_long"),
    # what was told is waited out in an outage too, and no longer than that lasts
    (ledger("throttled", error=TOLD, retries=9, passing_since=NOW), Rules(), "as_told"),
    (ledger("throttled", error=TOLD, retries=9, passing_since=LATE), Rules(), "passing_too_long"),
    # somebody else is called where that may help, and where it may be done
    (ledger("network", retries=4, passing_since=NOW, strategies=FAR), Rules(), "fall_back"),
    (ledger("network", retries=4, passing_since=LATE, strategies=FAR), Rules(), "fall_back"),
    (ledger("network", retries=4, passing_since=NOW, strategies=FAR), Rules(changes_strategy=False), "outage"),
    (ledger("timeout", retries=4, passing_since=NOW, strategies=FAR), Rules(), "outage"),
    # a second round that comes to the end of the first is over at once
    (ledger("tool", failures=1, strategies=TWO, tried=ENDED, signature="s"), Rules(), "roll_back"),
    (ledger("tool", failures=1, strategies=TWO, tried=ENDED, signature="other"), Rules(), "same_again"),
    # without advice the program is called anew, or left
    (ledger("context", failures=1), Rules(reasks=False), "same_again"),
    (ledger("refusal", failures=1), Rules(reasks=False), "same_again"),
    (ledger("output", failures=1), Rules(reasks=False), "same_again"),
    (ledger("output", failures=3, failures_max=9, advised={"reask": 1}), Rules(), "reask"),
    (ledger("output", failures=3, failures_max=9, advised={"reask": 2}), Rules(), "same_again"),
    (ledger("stuck", failures=1, strategies=TWO), Rules(), "nudge"),
    (ledger("stuck", failures=1, strategies=TWO), Rules(nudges=False), "roll_back"),
    # two equal errors are a dead end where there is a way out of it
    (ledger("context", failures=2, same=2, strategies=TWO, advised={"condense": 1}), Rules(), "roll_back"),
    (ledger("tool", failures=2, same=2, strategies=TWO), Rules(changes_strategy=False), "roll_back"),
    (ledger("tool", failures=2, same=2, strategies=TWO), Rules(rolls_back=False), "change_in_place"),
    (ledger("tool", failures=2, same=2, strategies=TWO), STAYS, "same_again"),
    (ledger("tool", failures=3, same=3, strategies=TWO), STAYS, "limit_reached"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "rules", "row"), EDGES)
def test_the_edges_of_the_rows(given, rules, row):
    """Each beside the next one that goes otherwise."""
    assert row == decide(MARKED, given, rules, NOW)[1]


@pytest.mark.parametrize(("rounds", "row"), [(3, "roll_back"), (4, "exhausted")])
def test_where_strategies_are_not_changed_the_present_one_has_the_rounds_of_all(rounds, row):
    """Two for each that is declared, and it is the one that is gone on with."""
    given = ledger("tool", failures=3, strategies=TWO, tried={"direct": Tried(rounds=rounds)})
    decision, fired = decide(MARKED, given, Rules(changes_strategy=False), NOW)
    assert row == fired
    assert row == "exhausted" or "direct" == decision.strategy


def test_where_no_checkpoint_lies_before_a_false_source_the_oldest_is_taken():
    """A person's change lies between: nothing is further back that a machine may go to."""
    document = marks(6, 9)
    document.human_at, document.first_uses = 5, {"web": 3}
    web, books = Strategy("web", source="web"), Strategy("books", source="books")
    decision, _ = decide(document, ledger("suspicious", failures=1, strategies=(web, books)), Rules(), NOW)
    assert (6, "books") == (decision.to_seq, decision.strategy)


def test_a_lesson_says_what_was_tried_from_where_and_why_it_failed():
    """In words that a model can read: the step and the bare name of the error, not where its class is defined."""
    document = msgspec.structs.replace(MARKED, step="draft")
    given = ledger("tool", failures=3, strategies=TWO)
    error = ErrorRecord(type="some.place.Odd", message="no", failure_class="tool")
    given.last_failure = Failure(failure_class="tool", error=error, tool="ask")
    lesson = "tried 'direct' from checkpoint 'read' in step 'draft', failed because ask: Odd: no (tool)"
    assert lesson == decide(document, given, Rules(), NOW)[0].lesson
    long = msgspec.structs.replace(error, message="no " * LESSON_BYTES_MAX)
    given.last_failure = msgspec.structs.replace(given.last_failure, error=long)
    assert len(decide(document, given, Rules(), NOW)[0].lesson.encode()) <= LESSON_BYTES_MAX


@pytest.mark.parametrize(
    ("standing", "failed", "in_doubt", "row"),
    [
        (False, "a2", True, "effects_open"),
        (True, "a2", True, "same_again"),  # it is of a branch that was left, and nothing has met it
        (True, "a1", True, "effects_open"),
        (False, "a2", False, "same_again"),  # it is under way: what became of it will be known
    ],
)
def test_an_effect_of_which_nobody_can_know_stops_the_program_that_meets_it(standing, failed, in_doubt, row):
    """And only while it is in doubt."""
    given = ledger("tool", failures=1, open=opened("irreversible", in_doubt=in_doubt))
    given.last_failure = msgspec.structs.replace(given.last_failure, action=failed)
    given.standing = {"a1": STANDS} if standing else {}
    assert row == decide(MARKED, given, Rules(), NOW)[1]


@pytest.mark.parametrize(
    ("standing", "failed", "is_first"), [(False, "a2", True), (True, "a2", False), (True, "a1", True)]
)
def test_no_other_strategy_before_it_is_known_what_became_of_an_effect(standing, failed, is_first):
    """One of a branch that was left is in nobody's way, unless the call that failed has met it."""
    given = ledger("tool", failures=3, strategies=TWO, open=opened("idempotent", in_doubt=True))
    given.last_failure = msgspec.structs.replace(given.last_failure, action=failed)
    given.standing = {"a1": STANDS} if standing else {}
    assert ("effects_open" if is_first else "roll_back") == decide(MARKED, given, Rules(), NOW)[1]
