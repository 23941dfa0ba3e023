"""What is counted, what begins anew and what is kept: for each thing that happens to a task, field by field."""

import msgspec
import pytest

from perdure.core import reckoning
from perdure.limits import STUCK_PATIENCE
from perdure.model import decision as d
from perdure.model import entry as e
from perdure.model.advice import Advice
from perdure.model.document import Document, Kept
from perdure.model.failure import ErrorRecord, Failure
from perdure.model.ids import Holder
from perdure.model.ledger import Ledger, Rollback, Tried, Window
from perdure.model.strategy import Strategy
from tests.unit.core.test_recovery import opened

HINT = Advice("nudge", "look elsewhere")
NONE = ("", b"")  # no call
FIRST, SECOND = Strategy("first", source="web"), Strategy("second", source="books")


def busy(**more):
    """Return the ledger of a task in trouble, with everything that may begin anew."""
    given = Ledger(
        name="t", strategies=(FIRST, SECOND), failures=2, retries=2, passing=7, same=2, rollbacks_in_row=1,
        signature="s", advised={"nudge": 1}, is_undecided=True, decided=d.Pause("no room"),
        tried={"first": Tried(rounds=2, ended="s")}, health={"provider p": Window(faults=9)},
    )  # fmt: skip
    return msgspec.structs.replace(given, **more)


def failed(given, document=None, *, failure_class="tool", counted=True, at=5, **more):
    """Let a failure leave the program."""
    error = ErrorRecord(type="Odd", message=more.pop("message", "no"), failure_class=failure_class)
    failure = Failure(failure_class=failure_class, error=error, **more)
    reckoning.note_failure(document or Document(), given, e.FailureObserved(failure=failure, counted=counted), at)


def taken(decision):
    """Return the entry of a decision."""
    return e.DecisionTaken(decision=msgspec.Raw(msgspec.json.encode(decision)), row="x")


# --- failures -------------------------------------------------------------------------------------------------------
def test_equal_failures_are_counted_in_a_row():
    """Another one between begins a new row."""
    given, rows = Ledger(name="t"), []
    for message in ("a", "a", "b", "a", "a", "a"):
        failed(given, message=message)
        rows.append(given.same)
    assert [1, 2, 1, 1, 2, 3] == rows


def test_a_row_of_passing_faults_has_one_beginning():
    """And each of them counts for the whole task; advice stays, since nothing has followed from it."""
    given = Ledger(name="t", advice=HINT)
    for at in (5, 6, 7):
        failed(given, failure_class="network", counted=False, at=at)
    assert (3, 3, 5, 7) == (given.retries, given.passing, given.passing_since, given.failed_at)
    assert (0, HINT, True) == (given.failures, given.advice, given.is_undecided)


def test_a_counted_failure_is_one_of_its_strategy_and_ends_what_was_advised():
    """What was decided or noticed before it is over."""
    given = busy(advice=HINT, alarm=Failure(failure_class="stuck", error=ErrorRecord(type="S", message="")))
    failed(given)
    assert (3, 1, None) == (given.failures, given.tried["first"].failures, given.advice)
    assert (None, None, True) == (given.alarm, given.decided, given.is_undecided)


def test_retries_are_those_of_the_call_that_failed():
    """A failure that comes of no call has none, and no provider either."""
    for action, call, provider in (("a1", ("ask", b"\1"), "acme"), ("", NONE, ""), ("a2", NONE, "acme")):
        given = Ledger(name="t", failed_call=("a1", "ask", b"\1"), failed_provider="acme")
        failed(given, failure_class="network", counted=False, action=action)
        assert (call, provider) == (given.retried, given.failed_provider)


def test_a_failure_of_a_tool_is_not_held_against_its_health_once_more():
    """It is counted; what comes is judged anew."""
    given = Ledger(name="t", health={"tool ask": Window(calls=3, judged=3), "tool look": Window(calls=3, judged=3)})
    failed(given, tool="ask", action="a1")
    assert (0, 3) == (given.health["tool ask"].judged, given.health["tool look"].judged)


@pytest.mark.parametrize(("failure_class", "kept"), [("output", ["effect"]), ("tool", ["free", "effect"])])
def test_after_a_bad_answer_what_has_led_to_it_is_asked_again(failure_class, kept):
    """Not after another failure, and never an effect."""
    loose = [Kept(action=n, tool=n, digest=b"", intent=1, settled=2, free=n == "free") for n in ("free", "effect")]
    document = Document(loose=loose)
    failed(Ledger(name="t"), document, failure_class=failure_class)
    assert kept == [one.action for one in document.loose]


def test_a_source_is_left_for_a_false_word_and_for_nothing_else():
    """Once, however often it was found false."""
    given = busy()
    failed(given, failure_class="tool")
    assert [] == given.quarantined
    for _ in range(2):
        failed(given, failure_class="suspicious")
    assert ["web"] == given.quarantined


# --- decisions ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("decision", "kind"),
    [
        (d.Reask("no"), "reask"),
        (d.Reask("no", rephrase=True), "rephrase"),
        (d.Nudge("no"), "nudge"),
        (d.Condense("no"), "condense"),
    ],
)
def test_advice_is_there_at_once_and_counted_by_its_kind(decision, kind):
    """What was decided stands until it is obeyed."""
    given = Ledger(name="t", is_undecided=True)
    for number in (1, 2):
        reckoning.note_decision(Document(), given, taken(decision))
        assert (Advice(kind, "no"), {kind: number}) == (given.advice, given.advised)
    assert (decision, False) == (given.decided, given.is_undecided)


@pytest.mark.parametrize("decision", [d.RollBack(1, "start", "second", ""), d.ChangeStrategy("second", "")])
@pytest.mark.parametrize(("before", "rounds"), [(0, 1), (2, 2)])
def test_a_strategy_that_is_left_has_had_a_round_and_its_end_is_kept(decision, before, rounds):
    """Also the first one, which nobody has chosen."""
    given = busy(tried={"first": Tried(rounds=before)})
    reckoning.note_decision(Document(), given, taken(decision))
    assert Tried(rounds=rounds, ended="s") == given.tried["first"]


def test_a_program_that_is_called_has_obeyed():
    """Nothing is open, and no failure is the last one."""
    given = busy()
    failed(given)
    reckoning.note_call(given)
    assert (None, None, False) == (given.last_failure, given.decided, given.is_undecided)


PARK, RETRY = d.Park(9, "quota"), d.Retry(9)


@pytest.mark.parametrize(
    ("by_hand", "at_once", "left"),
    [(False, False, [PARK, RETRY]), (True, False, [None, RETRY]), (False, True, [None, None])],
)
def test_who_opens_a_task_ends_its_waits(by_hand, at_once, left):
    """By hand that for a quota, at once every one, those for providers too; anybody else waits on."""
    holder = Holder(boot="b", pid_namespace=0, pid=1, started=0, token="x")
    found = []
    for decided in (PARK, RETRY):
        given = Ledger(name="t", decided=decided, waits={"acme": 9})
        reckoning.note_claim(given, e.LeaseClaimed(holder=holder, by_hand=by_hand, at_once=at_once))
        found.append(given.decided)
        assert ({} if at_once else {"acme": 9}) == given.waits
    assert left == found


def test_a_task_that_stands_for_want_of_room_waits_for_nothing_else():
    """Whoever goes on has made some; what else was decided is still to be obeyed."""
    for decided, left in ((d.Pause("no room"), None), (RETRY, RETRY)):
        given = Ledger(name="t", decided=decided)
        reckoning.note_pause(given)
        assert left == given.decided


# --- what begins anew -----------------------------------------------------------------------------------------------
def test_after_a_persons_word_every_count_begins_anew():
    """The journal keeps the old ones; what strategies have done is kept, their rounds are not."""
    document, given = Document(), busy(circling=3)
    document.trace.steps.append((1, 2, 3))
    given.tried["first"].failures = 4
    reckoning.note_answer(document, given)
    assert [0] * 5 == [given.failures, given.retries, given.passing, given.same, given.rollbacks_in_row]
    assert ("", {}, None, None, False) == (
        given.signature, given.advised, given.decided, given.alarm, given.is_undecided,
    )  # fmt: skip
    assert (0, Tried(failures=4), [], 0) == (
        given.health["provider p"].faults, given.tried["first"], document.trace.steps, given.circling,
    )  # fmt: skip


def test_the_first_time_that_a_check_passes_is_progress_of_the_task():
    """It takes one failure away, and all may be tried again; the second time, on another branch, it is no news."""
    given = busy(advice=HINT)
    reckoning.note_passed(Document(), given, "it adds up", 9)
    assert (1, None, {"it adds up": 9}) == (given.failures, given.advice, given.proven)
    assert ({}, 0, 0, "") == (given.advised, given.rollbacks_in_row, given.same, given.signature)
    assert Tried(progress=1) == given.tried["first"]
    again = busy(proven={"it adds up": 9}, failures=0)
    reckoning.note_passed(Document(), again, "it adds up", 20)
    assert (0, {"it adds up": 9}, {"nudge": 1}) == (again.failures, again.proven, again.advised)
    assert Tried(rounds=2, ended="s") == again.tried["first"]


def test_a_strategy_that_is_taken_has_counts_of_its_own():
    """One more round; one that is no longer declared is the first one."""
    for strategy, place in ((SECOND, 1), (Strategy("gone"), 0)):
        document, given = Document(), busy(advice=HINT)
        reckoning.note_strategy(document, given, strategy)
        assert (place, 1) == (document.strategy, given.tried[strategy.name].rounds)
        assert (0, 0, 0, "") == (given.failures, given.retries, given.same, given.signature)
        assert ({}, None, None) == (given.advised, given.advice, given.decided)


@pytest.mark.parametrize(("strategy", "in_row"), [("second", 2), ("", 1)])
def test_what_was_noticed_on_a_branch_is_left_with_it(strategy, in_row):
    """Only a rollback that was decided is one in the row."""
    alarm = Failure(failure_class="stuck", error=ErrorRecord(type="S", message=""))
    back = Rollback(to_seq=1, checkpoint="start", moves=(), strategy=strategy)
    document, given = Document(), busy(rollback=back, alarm=alarm, advice=HINT, circling=3)
    document.trace.steps.append((1, 2, 3))
    reckoning.note_rolled_back(document, given)
    assert (in_row, None, None, False, None) == (
        given.rollbacks_in_row, given.alarm, given.decided, given.is_undecided, given.advice,
    )  # fmt: skip
    assert ([], 0) == (document.trace.steps, given.circling)


@pytest.mark.parametrize(
    ("strategies", "circling", "alarms"), [((FIRST,), 1, True), ((), 1, False), ((), STUCK_PATIENCE, True)]
)
def test_a_program_is_left_for_a_circle_at_once_where_there_is_another_way(strategies, circling, alarms):
    """One without strategies may be waiting in a loop of its own."""
    given = Ledger(name="t", strategies=strategies, circling=circling)
    reckoning.note_stuck(given, e.StuckNoticed(rule="run", entries=(1,), text="again"))
    assert alarms == (given.alarm is not None)


def test_a_task_that_is_handed_back_looks_before_it_acts():
    """A rollback does not pass what a person has changed; the counts begin anew."""
    document, given = Document(), busy()
    reckoning.note_handed_back(document, given, e.TaskHandedBack(changes=("state: a = 1",), word="mind the gap"), 12)
    assert (12, 0, "observe") == (document.human_at, given.failures, given.advice.kind)
    assert "state: a = 1" in given.advice.text
    assert "mind the gap" in given.advice.text


def test_an_action_is_what_its_strategy_costs_and_the_first_one_of_a_source_is_kept():
    """A false word is left past its first use; a tool that is no source uses none."""
    document, given = Document(), busy()
    for is_source, intent in ((False, 3), (True, 5), (True, 7)):
        action = msgspec.structs.replace(opened("pure")["a1"], is_source=is_source, intent=intent)
        reckoning.note_action(document, given, action)
    assert (3, {"web": 5}) == (given.tried["first"].actions, document.first_uses)


def test_what_earlier_tasks_have_made_of_a_strategy_counts_from_the_start():
    """Progress is progress, failures are failures."""
    started = e.TaskStarted(
        name="t", goal="", driver=e.Driver(kind="inline"), holder=None, state=e.NOTHING, prior=(("first", 4, 1),)
    )
    given = Ledger(name="t")
    reckoning.start(given, started)
    assert {"first": Tried(progress=4, failures=1)} == given.tried


@pytest.mark.parametrize(
    ("tool", "is_further", "counts"),
    [
        ("ask", False, (0, "", 0, NONE, False)),  # what had failed has come through
        ("look", True, (2, "s", 2, ("ask", b"\1"), True)),  # the run has come further, the call has not
        ("look", False, (2, "s", 2, ("ask", b"\1"), False)),
    ],
)
def test_what_ends_a_row_of_faults(tool, is_further, counts):
    """The call that failed has succeeded; the same arguments of another tool are none, and to come further is noted."""
    given = busy(retried=("ask", b"\1"))
    action = msgspec.structs.replace(opened("pure")["a1"], tool=tool, digest=b"\1")
    reckoning.note_success(given, action, is_further=is_further)
    assert counts == (given.retries, given.signature, given.same, given.retried, given.has_moved_on)


@pytest.mark.parametrize(
    ("has_moved_on", "call", "retries"),
    [(True, ("ask", b"\1"), 3), (True, ("ask", b"\2"), 1), (False, ("ask", b"\2"), 3)],
)
def test_a_run_that_has_come_further_begins_another_row_at_another_call(has_moved_on, call, retries):
    """What is done anew before the one that is away ends no row of that one."""
    given = busy(retried=("ask", b"\1"), has_moved_on=has_moved_on, failed_call=("a1", *call))
    failed(given, failure_class="network", counted=False, action="a1")
    assert (retries, call, False) == (given.retries, given.retried, given.has_moved_on)
