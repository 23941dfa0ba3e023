"""The decision table: its rows, each reached, and the docstring that shows it."""

from collections import Counter
from typing import get_args

import msgspec
import pytest

from perdure.core import reckoning, recovery
from perdure.core.recovery import TABLE, Rules, decide, observe, signature_of
from perdure.core.strategies import changes_of, learned, next_strategy, variations
from perdure.errors import UsageError
from perdure.model import entry as e
from perdure.model.checkpoint import Checkpoint
from perdure.model.decision import (
    Abandon,
    Ask,
    ChangeStrategy,
    Condense,
    Finish,
    Nudge,
    Park,
    Pause,
    Reask,
    Retry,
    RollBack,
)  # fmt: skip
from perdure.model.document import Document
from perdure.model.effect import PRESETS
from perdure.model.failure import ErrorRecord, Failure, FailureClass
from perdure.model.ledger import Ledger, OpenAction, Tried
from perdure.model.strategy import Strategy

NOW = 1_000_000_000


DIRECT, OUTLINE, ELSEWHERE = (
    Strategy("direct", prompt="a"),
    Strategy("outline", prompt="b"),
    Strategy("other", model="m"),
)
HELP = Strategy("help", change="ask")
MARKED = Document(checkpoints=[Checkpoint(name="read", seq=7, changed=6, reason="program")])


def ledger(failure_class=None, *, failures=0, retries=0, error=None, **more):
    """Return a ledger whose last failure is of that class."""
    last = None
    if failure_class is not None:
        error = error or ErrorRecord(type="Odd", message="no", failure_class=failure_class)
        last = Failure(failure_class=failure_class, error=error)
    return Ledger(last_failure=last, failures=failures, retries=retries, name="t", **more)


def opened(preset, **more):
    """Return the open actions of a ledger that holds one of that preset."""
    action = OpenAction(
        action="a1", tool="send", effect=PRESETS[preset], digest=b"", intent=1, epoch=1, branch=0, intended_at=0
    )
    return {"a1": msgspec.structs.replace(action, **more)}


def told(failure_class, **more):
    """Return an error that says more than its class."""
    return ErrorRecord(type="Odd", message="no", failure_class=failure_class, **more)


PLAIN = Document()
FULL = {"direct": Tried(rounds=2), "outline": Tried(rounds=2)}
ROWS = {
    "effects_open": (PLAIN, ledger("tool", open=opened("irreversible", in_doubt=True)), Ask),
    "finished": (PLAIN, ledger(), Finish),
    "already_done": (PLAIN, ledger("stuck"), Finish),
    "disk_full": (PLAIN, ledger("storage"), Pause),
    "quota": (PLAIN, ledger("quota", error=told("quota", until=NOW + 1)), Park),
    "quota_gone": (PLAIN, ledger("quota"), Ask),
    "auth": (PLAIN, ledger("auth"), Ask),
    "as_told": (PLAIN, ledger("throttled", retries=1, error=told("throttled", wait_s=9.0)), Retry),
    "passing": (PLAIN, ledger("network", retries=1), Retry),
    "fall_back": (PLAIN, ledger("capacity", retries=4, strategies=(DIRECT, ELSEWHERE)), ChangeStrategy),
    "outage": (PLAIN, ledger("network", retries=4, passing_since=NOW - 1), Retry),
    "passing_too_long": (PLAIN, ledger("network", retries=4, passing_since=NOW - 6 * 3_600 * 1_000_000), Ask),
    "condense": (PLAIN, ledger("context", failures=1), Condense),
    "rephrase": (PLAIN, ledger("refusal", failures=1), Reask),
    "reask": (PLAIN, ledger("output", failures=1), Reask),
    "nudge": (PLAIN, ledger("stuck", failures=1), Nudge),
    "same_again": (PLAIN, ledger("tool", failures=1), Retry),
    "roll_back": (MARKED, ledger("tool", failures=3, strategies=(DIRECT, OUTLINE)), RollBack),
    "change_in_place": (
        Document(impossible_at=9), ledger("tool", failures=3, strategies=(DIRECT, OUTLINE)), ChangeStrategy,
    ),
    "ask_for_help": (MARKED, ledger("tool", failures=3, strategies=(DIRECT, HELP), tried=FULL), Ask),
    "exhausted": (MARKED, ledger("tool", failures=3, strategies=(DIRECT, OUTLINE), tried=FULL), Ask),
    "limit_reached": (PLAIN, ledger("tool", failures=3), Ask),
}  # fmt: skip


def decided(name, rules=None):
    """Return what is decided in the case of a row."""
    document, given, _ = ROWS[name]
    return decide(document, given, rules or Rules(), NOW, is_reached=name == "already_done")


def test_the_docstring_shows_the_table():
    """Row by row and column by column."""
    shown = [line.strip() for line in (recovery.__doc__ or "").splitlines()]
    for row in TABLE:
        (line,) = [line for line in shown if line.split()[:1] == [row.name]]
        assert [row.name, *row.when.split(), *row.then.split()] == line.split()


def test_every_row_is_reached():
    """And by the case that bears its name."""
    assert {row.name for row in TABLE} == set(ROWS)
    for name, (_, _, kind) in ROWS.items():
        decision, row = decided(name)
        assert (name, kind) == (row, type(decision))


ASKED = [name for name, (_, _, kind) in ROWS.items() if kind is Ask and name != "ask_for_help"]


@pytest.mark.parametrize("name", ASKED)
def test_unattended_every_question_is_an_end(name):
    """Where a person would be asked, the task is given up with the same words."""
    assert len(ASKED) > 5
    assert Abandon(decided(name)[0].question) == decided(name, Rules(unattended=True))[0]


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
    for name, (document, given, _) in ROWS.items():
        before = msgspec.json.encode((document, given))
        assert decided(name) == decided(name)
        assert before == msgspec.json.encode((document, given))


# --- classes --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("failure_class", get_args(FailureClass))
def test_no_class_is_without_an_end(failure_class):
    """Whatever fails again and again, with strategies and without: in the end a person is asked, or it is parked."""
    for strategies in ((), (DIRECT, OUTLINE, ELSEWHERE)):
        fold, now = Ledger(name="t", strategies=strategies), NOW
        document = Document()
        for _ in range(2_000):
            failed = ErrorRecord(type="Odd", message="no", failure_class=failure_class)
            reckoning.note_failure(document, fold, observe(failed, fold), now)
            decision, row = decide(document, fold, Rules(), now)
            taken = e.DecisionTaken(decision=msgspec.Raw(msgspec.json.encode(decision)), row=row)
            reckoning.note_decision(document, fold, taken)
            if isinstance(decision, Retry):
                now = decision.at
            if isinstance(decision, RollBack | ChangeStrategy):
                chosen = next(one for one in strategies if one.name == decision.strategy)
                reckoning.note_strategy(document, fold, chosen)
            if isinstance(decision, Ask | Park | Pause):
                break
            reckoning.note_call(fold)
            now += 1_000
        else:
            pytest.fail(f"{failure_class} goes on for ever")


def test_an_unknown_error_passes_once_and_is_then_a_wrong_request():
    """So that what nobody knows can never loop."""
    odd = ErrorRecord(type="Odd", message="trace 17", failure_class="capacity", is_unknown=True)
    document, fold = Document(), Ledger(name="t")
    first = observe(odd, fold)
    reckoning.note_failure(document, fold, first, NOW)
    again = [observe(msgspec.structs.replace(odd, message=message), fold) for message in ("trace 18", "quite another")]
    assert [("capacity", False), ("request", True), ("request", True)] == [
        (one.failure.failure_class, one.counted) for one in (first, *again)
    ]
    other = observe(msgspec.structs.replace(odd, type="Other"), fold)
    assert ("capacity", False) == (other.failure.failure_class, other.counted)


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("failed, req_011CcR9mkMvXdaiWP4739PSN", "failed, req_011CZM37KZVHEegQcQEk3tSW", True),
        ("failed, id bcf42502-6360-abcd-bfbd-95a2f9922ab4", "failed, id 8bff1516-7407-dcba-aaaa-fd2e944f6977", True),
        ("at 0x7f00aa", "at 0x7fbbcc", True),
        ("no such customer: alpha", "no such customer: beta", False),
    ],
)
def test_two_errors_are_the_same_whatever_number_they_were_given(one, other, is_same):
    """Services put an id of the request into each message; what is not an id makes another error."""
    signatures = {
        signature_of(Failure(failure_class="tool", error=ErrorRecord(type="E", message=said)), Ledger(name="t"))
        for said in (one, other)
    }
    assert is_same == (1 == len(signatures))


def test_a_doubt_that_can_be_asked_about_passes_once():
    """The next call asks the world; where that does not know either, a person is nearer than an outage."""
    unknown = ErrorRecord(type="OutcomeUnknown", message="whether 'send' happened is not known")
    for preset, classes in (("verifiable", ["network", "tool"]), ("irreversible", ["tool", "tool"])):
        fold, document, seen = ledger(open=opened(preset, in_doubt=True)), Document(), []
        for _ in classes:
            observed = observe(unknown, fold, action="a1", tool="send")
            reckoning.note_failure(document, fold, observed, NOW)
            seen.append(observed.failure.failure_class)
        assert classes == seen


def test_two_equal_errors_of_one_call_do_not_wait_for_the_third():
    """The strategy is changed at the second; without strategies there is nothing to change, and it waits."""
    for strategies, row in (((DIRECT, OUTLINE), "roll_back"), ((), "same_again")):
        assert row == decide(Document(), ledger("tool", failures=2, same=2, strategies=strategies), Rules(), NOW)[1]
        assert (
            "same_again"
            == decide(Document(), ledger("tool", failures=2, same=1, strategies=strategies), Rules(), NOW)[1]
        )


def test_a_wrong_request_is_never_sent_again():
    """At once another strategy; where there is none, a person."""
    for strategies, kind in (((DIRECT, OUTLINE), RollBack), ((), Ask)):
        assert kind is type(decide(Document(), ledger("request", failures=1, strategies=strategies), Rules(), NOW)[0])


# --- where to go back to --------------------------------------------------------------------------------------------
def marks(*seqs, **more):
    """Return a document with checkpoints at those entries, each holding something of its own."""
    found = [Checkpoint(name=f"at {seq}", seq=seq, changed=seq - 1, reason="program", **more) for seq in seqs]
    return Document(checkpoints=found)


@pytest.mark.parametrize(
    ("ends", "rounds", "to_seq"),
    [
        (("", ""), (1, 0), 9),  # the other one has not been tried
        (("", "same"), (1, 1), 6),  # both have come to the same end
        (("same", "same"), (1, 2), 3),  # again, from the one before
        (("same", "same"), (2, 2), 1),
        (("", "another"), (1, 1), 9),  # they fail in different ways: nothing says that it is the checkpoint
    ],
)
def test_it_goes_further_back_where_all_strategies_come_to_the_same_end(ends, rounds, to_seq):
    """Then the mistake lies further back than the newest checkpoint, and further with each rollback."""
    tried = {name: Tried(ended=end, rounds=n) for name, end, n in zip(("direct", "outline"), ends, rounds, strict=True)}
    third = Strategy("third", prompt="c")
    tried["third"] = Tried(ended="same" if ends[1] else "", rounds=1)
    given = ledger("tool", failures=3, strategies=(DIRECT, OUTLINE, third), tried=tried, signature="same")
    document = marks(3, 6, 9)
    target = recovery._target(document, given, given.last_failure)
    assert to_seq == target.seq


def test_checkpoints_that_hold_the_same_count_once_and_failed_ones_never():
    """Going back twice to the same is going back once."""
    document = marks(3, 9)
    document.checkpoints.append(Checkpoint(name="again", seq=10, changed=8, reason="program"))
    document.checkpoints.append(Checkpoint(name="bad", seq=12, changed=11, reason="program", verdict="failed"))
    found = [
        decide(document, ledger("tool", failures=3, strategies=(DIRECT, OUTLINE), **more), Rules(), NOW)[0].to_seq
        for more in ({}, {"tried": {"outline": Tried(rounds=1, ended="s")}, "signature": "s"})
    ]
    assert [10, 3] == found


def test_no_rollback_passes_a_persons_change():
    """What somebody has done by hand is not taken back by a machine."""
    document = marks(3, 9)
    document.human_at = 5
    given = ledger("tool", failures=3, strategies=(DIRECT, OUTLINE), signature="s")
    given.tried = {"outline": Tried(rounds=1, ended="s")}
    assert 9 == decide(document, given, Rules(), NOW)[0].to_seq
    document.human_at = 11
    assert "change_in_place" == decide(document, given, Rules(), NOW)[1]


def test_false_information_is_left_past_its_first_use():
    """And its source is not taken again."""
    web, books = Strategy("web", source="web"), Strategy("books", source="books", prompt="p")
    document = marks(3, 6, 9)
    document.first_uses = {"web": 5}
    given = ledger("suspicious", failures=1, strategies=(web, Strategy("web2", source="web", prompt="x"), books))
    given.quarantined = ["web"]
    decision, _ = decide(document, given, Rules(), NOW)
    assert (3, "books") == (decision.to_seq, decision.strategy)


# --- which strategy -------------------------------------------------------------------------------------------------
def test_each_strategy_has_two_rounds_and_the_order_is_that_of_the_class():
    """First rounds come first; the present one comes last among its like."""
    tools, source = Strategy("tools", prompt="a", tools=("x",)), Strategy("source", prompt="a", source="s")
    for failure_class, first in (("tool", "tools"), ("suspicious", "source"), ("output", "outline")):
        document, given = Document(), Ledger(name="t", strategies=(DIRECT, OUTLINE, tools, source))
        order = []
        while (following := next_strategy(given, document.strategy, failure_class)) is not None:
            order.append(following.name)
            left = msgspec.Raw(msgspec.json.encode(ChangeStrategy(following.name, "")))
            reckoning.note_decision(document, given, e.DecisionTaken(decision=left, row="change_in_place"))
            reckoning.note_strategy(document, given, following)
        assert first == order[0]
        assert {"direct": 1, "outline": 2, "tools": 2, "source": 2} == dict(Counter(order))
        assert len(set(order[:3])) == 3


def test_where_nobody_can_be_asked_the_others_have_their_second_rounds():
    """A strategy that is to ask is passed over."""
    given = ledger("tool", failures=3, strategies=(DIRECT, HELP), tried={"direct": Tried(rounds=1)})
    assert "ask_for_help" == decide(MARKED, given, Rules(), NOW)[1]
    decision, row = decide(MARKED, given, Rules(unattended=True), NOW)
    assert ("roll_back", "direct") == (row, decision.strategy)


def test_what_has_worked_here_comes_first():
    """A strategy with progress beats its place in the order; a prior of earlier tasks counts in the same way."""
    tools = Strategy("tools", prompt="a", tools=("x",))
    given = Ledger(name="t", strategies=(DIRECT, OUTLINE, tools))
    assert "tools" == next_strategy(given, 0, "tool").name
    given.tried = {"outline": Tried(progress=4), "tools": Tried(failures=5)}
    assert "outline" == next_strategy(given, 0, "tool").name


def test_variations_change_one_thing_each():
    """The mission's three changes and the others, each called by what it is."""
    first = Strategy("direct", prompt="a", tools=("x", "y"), source="web", model="m")
    more = ("smaller_steps", "fresh_context", "ask")
    made = variations(first, prompts=["b"], tools=[["y", "x"]], sources=["books"], models=["n"], more=more)
    changed = [(one.name, changes_of(one, first)) for one in made]
    assert [
        ("direct", ()),
        ("template 1", ("template",)),
        ("tools 1", ("tools",)),
        ("source books", ("source",)),
        ("model n", ("model",)),
        ("smaller steps", ("smaller_steps",)),
        ("fresh context", ("fresh_context",)),
        ("ask", ("ask",)),
    ] == changed


@pytest.mark.parametrize("given", [{"prompts": "abc"}, {"tools": ["look_up"]}, {"sources": "web"}, {"more": "ask"}])
def test_variations_take_lists(given):
    """A text is a list of letters too, and would make as many strategies."""
    with pytest.raises(UsageError, match="put it in brackets"):
        variations(Strategy("direct"), **given)


def test_what_earlier_tasks_have_learned_counts_as_if_this_one_had():
    """A prior rides in the first entry; without it the order of the class decides."""
    tools = Strategy("tools", prompt="a", tools=("x",))
    earlier = Ledger(tried={"outline": Tried(progress=4), "tools": Tried(failures=5)})
    prior = tuple((name, *record) for name, record in learned([earlier, earlier]).items())
    assert (("outline", 8, 0), ("tools", 0, 10)) == prior
    given = Ledger(name="t", strategies=(DIRECT, OUTLINE, tools))
    assert "tools" == next_strategy(given, 0, "tool").name
    started = e.TaskStarted(
        name="t", goal="", driver=e.Driver(kind="inline"), holder=None, state=e.NOTHING, prior=prior
    )
    reckoning.start(given, started)
    assert "outline" == next_strategy(given, 0, "tool").name
