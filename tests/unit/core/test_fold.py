"""What each entry means for document and ledger, one by one."""

import msgspec
import pytest

from perdure.core import fold as folding
from perdure.core.fold import Fold
from perdure.core.resume import key_of
from perdure.errors import UnknownKind
from perdure.limits import ENTRY_BYTES_COUNTED_MIN
from perdure.model import entry as e
from perdure.model.effect import PRESETS
from perdure.model.failure import ErrorRecord, Failure
from perdure.model.ids import Holder
from perdure.model.kinds import KINDS
from perdure.model.patch import Op
from perdure.model.strategy import Strategy

HOLDER = Holder(boot="b", pid_namespace=0, pid=1, started=0, token="t")
PUT = (Op(kind="put", path=("x",), value=1),)


class Journal:
    """A fold and the entries put into it, one after the other."""

    def __init__(self):
        self.fold = Fold("task")
        self.epoch = 1

    def put(self, payload, operations=()):
        """Take the next entry in."""
        fold = self.fold
        header = e.Header("task", fold.seq + 1, self.epoch, 0, fold.branch, 0, 1, 0, 0, fold.digest, b"")
        fold.advance(e.Entry(header, payload, bytes(32), 10), operations)
        return fold.seq

    def intend(self, action="a", preset="pure", **more):
        """Put an intent."""
        return self.put(
            e.ActionIntended(
                action=action, tool="t", effect=PRESETS[preset], arguments=e.Raw(b"{}"), digest=action.encode(), **more
            )
        )

    def settle(self, action="a", outcome="succeeded", operations=(), **more):
        """Put its outcome."""
        return self.put(e.ActionSettled(action=action, intent=1, outcome=outcome, **more), operations)

    def did(self, action="a", preset="pure", operations=(), **more):
        """Put both."""
        self.intend(action, preset, **more)
        return self.settle(action, operations=operations)


@pytest.fixture
def journal():
    """A task that has begun."""
    made = Journal()
    made.put(
        e.TaskStarted(
            name="job",
            goal="g",
            driver=e.Driver(kind="inline"),
            holder=HOLDER,
            state=e.Raw(b"{}"),
            strategies=(Strategy("a"), Strategy("b")),
            failures_max=5,
        )
    )
    return made


# --- every kind -----------------------------------------------------------------------------------------------------
def test_every_kind_of_entry_has_its_rule():
    """None is passed over in silence."""
    assert {kind for _, _, kind in KINDS} == set(folding.RULES)


def test_an_unknown_kind_is_refused_and_leaves_the_fold_as_it_was(journal):
    """The fold never guesses."""

    class Later(msgspec.Struct, frozen=True):
        pass

    before = (journal.fold.seq, journal.fold.digest)
    with pytest.raises(UnknownKind):
        journal.put(Later())
    assert before == (journal.fold.seq, journal.fold.digest)


def test_the_start_fills_the_ledger(journal):
    """Name, goal, driver, strategies, limits."""
    ledger = journal.fold.ledger
    assert ("job", "g", "inline", 5, "running") == (
        ledger.name,
        ledger.goal,
        ledger.driver.kind,
        ledger.failures_max,
        ledger.status,
    )


def test_bytes_are_counted_as_at_least_a_minimum(journal):
    """Small entries cost time, too: the snapshot policy counts each as 256 bytes."""
    assert ENTRY_BYTES_COUNTED_MIN == journal.fold.bytes_since_snapshot


@pytest.mark.parametrize(
    ("payload", "status"),
    [
        (e.TaskPausedEntry(by="person"), "paused"),
        (e.TaskParkedEntry(until=9), "parked"),
        (e.QuestionAsked(question="?"), "needs_human"),
        (e.TaskSucceeded(result=e.Raw(b"1")), "succeeded"),
        (e.TaskFailedEntry(reason="r"), "failed"),
        (e.TaskCancelledEntry(), "cancelled"),
    ],
)
def test_statuses_follow_their_entries_and_a_resume_ends_them(journal, payload, status):
    """A wait's end and a question's action are gone with it."""
    journal.put(payload)
    assert status == journal.fold.ledger.status
    journal.put(e.TaskResumed())
    ledger = journal.fold.ledger
    assert ("running", 0, "") == (ledger.status, ledger.until, ledger.question_action)


def test_an_answer_begins_the_count_of_failures_anew(journal):
    """A person has looked."""
    error = ErrorRecord(type="E", message="m")
    journal.put(e.FailureObserved(failure=Failure(failure_class="tool", error=error), counted=True))
    journal.put(e.FailureObserved(failure=Failure(failure_class="network", error=error), counted=False))
    assert (1, 1) == (journal.fold.ledger.failures, journal.fold.ledger.retries)
    journal.put(e.QuestionAnswered(answer=e.Raw(b"1")))
    assert (0, 0) == (journal.fold.ledger.failures, journal.fold.ledger.retries)


def test_starts_in_a_row_count_only_crashes_without_progress(journal):
    """By hand, after a release, or after something was settled: zero."""

    def claim(**more):
        journal.epoch += 1
        journal.put(e.LeaseClaimed(holder=HOLDER, **more))
        return journal.fold.ledger.starts_in_row

    assert [1, 2] == [claim(after_crash=True), claim(after_crash=True)]
    journal.did("a")
    assert [0, 1] == [claim(after_crash=True), claim(after_crash=True)]
    assert [0, 1, 0] == [claim(), claim(after_crash=True), claim(after_crash=True, by_hand=True)]


# --- actions --------------------------------------------------------------------------------------------------------
def test_an_intent_is_open_until_its_outcome(journal):
    """In doubt it stays open, marked."""
    journal.intend("a", "irreversible")
    assert ["a"] == list(journal.fold.ledger.open)
    journal.settle("a", "in_doubt")
    assert journal.fold.ledger.open["a"].in_doubt
    journal.settle("a")
    assert ({}, 1) == (journal.fold.ledger.open, journal.fold.ledger.actions)


def test_an_outcome_is_kept_by_what_finds_it_again(journal):
    """By key, by place in its loop, loose; with a reducer that ran, not at all."""
    journal.did("a", key="k")
    journal.did("b", key="0/1", loop="l")
    journal.did("c")
    journal.did("d", reduces=True)
    document = journal.fold.document
    assert [[key_of("t", "k")], [key_of("t", "0/1")], ["c"]] == [
        list(document.keyed),
        list(document.places["l"]),
        [kept.action for kept in document.loose],
    ]


def test_an_unapplied_outcome_is_kept_until_its_reducer_has_run(journal):
    """Through edits and checkpoints; then it is gone (loose) or applied (keyed)."""
    journal.intend("a", reduces=True)
    journal.settle("a", unapplied="raised")
    journal.intend("b", key="k", reduces=True)
    journal.settle("b", unapplied="raised")
    journal.put(e.StateEdited(patch=e.Raw(b"[]")), PUT)
    journal.put(e.CheckpointMarked(name="c"))
    assert ["a"] == [kept.action for kept in journal.fold.document.loose]
    for action in "ab":
        journal.put(e.StateEdited(patch=e.Raw(b"[]"), action=action), PUT)
    document = journal.fold.document
    assert ([], False) == (document.loose, document.keyed[key_of("t", "k")].unapplied)


def test_failed_outcomes_are_not_kept_but_their_effect_keys_are(journal):
    """Until an equal call succeeds."""
    for end in ("failed", "succeeded"):
        journal.intend("a", "idempotent", effect_key="K")
        journal.settle("a", end, error=ErrorRecord(type="E", message="m") if end == "failed" else None)
        assert (["K"] if end == "failed" else []) == list(journal.fold.ledger.failed_keys.values())


def test_a_late_word_on_a_settled_action_changes_nothing(journal):
    """It stays in the journal."""
    journal.did("a", key="k")
    before = msgspec.json.encode(journal.fold.document)
    journal.settle("a", "failed")
    assert before == msgspec.json.encode(journal.fold.document)


def test_an_outcome_of_a_branch_that_was_left_answers_nobody(journal):
    """It is counted, not kept."""
    journal.intend("a", "irreversible", key="k")
    journal.fold.branch = 1
    journal.settle("a")
    assert ({}, 1) == (journal.fold.document.keyed, journal.fold.ledger.actions)


# --- what drops loose outcomes --------------------------------------------------------------------------------------
def test_a_patch_drops_free_loose_outcomes_and_an_edit_all(journal):
    """Effects, and what was there before them, survive the patch of another action; an empty patch drops nothing."""
    journal.did("a")
    journal.did("b", "irreversible")
    journal.did("c", reduces=True)
    journal.did("e")
    assert ["a", "b", "e"] == [kept.action for kept in journal.fold.document.loose]
    journal.did("d", operations=PUT, reduces=True)
    assert ["a", "b"] == [kept.action for kept in journal.fold.document.loose]
    journal.put(e.StateEdited(patch=e.Raw(b"[]")), PUT)
    assert [] == journal.fold.document.loose


def test_a_checkpoint_anchors_effects_and_drops_the_free(journal):
    """The effect is found again by tool and arguments, and so is what was read before it, until the next change."""
    journal.did("a")
    journal.did("b", "irreversible")
    journal.intend("c", reduces=True)
    journal.settle("c", unapplied="raised")
    journal.put(e.CheckpointMarked(name="c"))
    document = journal.fold.document
    assert (["a", "c"], {key_of("t", b"b".hex()): "b"}) == (
        [kept.action for kept in document.loose],
        {key: kept.action for key, kept in document.anchored.items()},
    )
    seq = journal.put(e.StateEdited(patch=e.Raw(b"[]")), PUT)
    assert seq == document.edited


def test_a_change_forgets_free_intents_of_earlier_epochs(journal):
    """Effects stay open, and so do this epoch's."""
    journal.intend("old", "pure")
    journal.intend("effect", "irreversible")
    journal.epoch = 2
    journal.put(e.LeaseClaimed(holder=HOLDER))
    journal.intend("mine", "pure")
    journal.put(e.StateEdited(patch=e.Raw(b"[]")), PUT)
    assert ["effect", "mine"] == list(journal.fold.ledger.open)


# --- loops ----------------------------------------------------------------------------------------------------------
def test_a_body_that_ends_forgets_its_places_and_the_loops_inside_it(journal):
    """So the document does not grow with the loop."""
    journal.put(e.PositionMoved(loop="l", done=0, item=b"i"))
    journal.put(e.PositionMoved(loop="l[0].m", done=0, item=b"j"))
    journal.did("a", key="0/1", loop="l[0].m")
    journal.did("b", key="0/2", loop="l")
    journal.put(e.PositionMoved(loop="l", done=1))
    document = journal.fold.document
    assert (["l"], {}) == (list(document.positions), document.places)


# --- checks, strategies, rollback -----------------------------------------------------------------------------------
def test_a_check_passed_for_the_first_time_takes_a_failure_away(journal):
    """Not below zero, and not a second time."""
    error = ErrorRecord(type="E", message="m")
    for _ in range(2):
        journal.put(e.FailureObserved(failure=Failure(failure_class="tool", error=error), counted=True))
    for name, left in (("a", 1), ("a", 1), ("b", 0), ("c", 0)):
        journal.put(e.CheckJudged(name=name, passed=True))
        assert left == journal.fold.ledger.failures


def test_a_strategy_is_chosen_by_name(journal):
    """It belongs to the document."""
    journal.put(e.StrategyChosen(strategy=Strategy("b")))
    assert 1 == journal.fold.document.strategy


def test_a_rollback_takes_the_document_and_leaves_the_ledger(journal):
    """The ledger survives; the document is that of the earlier fold."""
    earlier = Fold("task")
    earlier.advance(
        e.Entry(
            e.Header("task", 1, 1, 0, 0, 1, 1, 0, 0, bytes(32), b""),
            e.TaskStarted(name="job", goal="g", driver=e.Driver(kind="inline"), holder=HOLDER, state=e.Raw(b"{}")),
            bytes(32),
            10,
        )
    )
    journal.did("a", key="k")
    journal.put(e.LessonLearned(text="lesson"))
    journal.put(e.FactStated(text="fact"))
    journal.put(e.RollbackBegan(to_seq=1, checkpoint="start"))
    assert 1 == journal.fold.ledger.rollback.to_seq
    fold = journal.fold
    header = e.Header("task", fold.seq + 1, 1, 0, 1, 0, 1, 0, 0, fold.digest, b"")
    fold.jump(e.Entry(header, e.RolledBackEntry(to_seq=1, checkpoint="start"), bytes(32), 10), earlier)
    ledger = fold.ledger
    assert (1, {}, 1, ["lesson"], ["fact"], 1, None) == (
        fold.branch,
        fold.document.keyed,
        ledger.actions,
        ledger.lessons,
        ledger.facts,
        ledger.rollbacks,
        ledger.rollback,
    )


def test_messages_and_facts_are_kept(journal):
    """What was told, what was found, what was released by a person."""
    journal.put(e.MessageReceived(message="1", what="tell", text="hurry"))
    journal.put(e.MessageReceived(message="2", what="pause"))
    journal.did("a", "irreversible")
    journal.put(e.ActionReleased(action="a"))
    ledger = journal.fold.ledger
    assert (["hurry"], [], 1) == (ledger.messages, journal.fold.document.loose, len(ledger.facts))


def test_patches_are_applied_and_remembered_by_path(journal):
    """The state changes, and `touched` knows when."""
    seq = journal.put(e.StateEdited(patch=e.Raw(b"[]")), PUT)
    assert ({"x": 1}, seq, 0) == (
        journal.fold.tree.root,
        journal.fold.touched.last(("x",)),
        journal.fold.touched.last(("y",)),
    )
