"""What of an action the stuck detector is shown, and what begins anew for it."""

import msgspec
import pytest

from perdure.core import watching
from perdure.model import entry as e
from perdure.model.document import Document, Kept
from perdure.model.failure import ErrorRecord, Failure
from perdure.model.ledger import Ledger
from tests.unit.core.test_recovery import opened


class Run:
    """A run of which the detector sees each action."""

    def __init__(self):
        self.document, self.ledger, self.seq = Document(), Ledger(name="t"), 1

    def act(self, result=b'"no"', *, failure_class="", digest=b"d", **more):
        """Let an action end; return whether the run goes in circles now."""
        self.seq += 1
        action = msgspec.structs.replace(opened("pure")["a1"], digest=digest, **more)
        error = ErrorRecord(type="X", message="no", failure_class=failure_class) if failure_class else None
        settled = e.ActionSettled(
            action="a1", intent=1, outcome="failed" if error else "succeeded", error=error,
            result=e.NOTHING if error else msgspec.Raw(result),
        )  # fmt: skip
        watching.note_settled(self.document, self.ledger, settled, action, (self.seq, self.seq * 1_000_000))
        return self.ledger.circling > 0

    def fail(self, failure_class, action=""):
        """Let a failure leave the program."""
        error = ErrorRecord(type="X", message="no", failure_class=failure_class)
        failure = Failure(failure_class=failure_class, error=error, action=action)
        watching.note_failure(self.document, self.ledger, failure)


def test_the_same_call_with_the_same_answer_is_a_circle_at_the_third():
    """It goes on until something new comes: then it is over."""
    run = Run()
    assert [False, False, True, True] == [run.act() for _ in range(4)]
    assert not run.act(digest=b"another")


@pytest.mark.parametrize("failure_class", ["network", "throttled", "quota", "auth"])
def test_what_goes_away_by_waiting_is_no_circle(failure_class):
    """Whoever waits counts these; the same error of another class is one at the second."""
    waiting, failing = Run(), Run()
    assert not any(waiting.act(failure_class=failure_class) for _ in range(9))
    assert [False, True] == [failing.act(failure_class="tool") for _ in range(2)]


def test_a_poll_between_says_nothing_of_whether_a_circle_goes_on():
    """It neither ends it nor is part of it."""
    run = Run()
    assert [False, False, True] == [run.act() for _ in range(3)]
    run.act(digest=b"p", result=b'"wait"', is_poll=True)
    run.act(digest=b"p", result=b'"wait"', is_poll=True)
    assert run.ledger.circling > 0


def test_long_answers_that_differ_behind_what_is_kept_of_them_differ():
    """A page that grows at its end is another page each time."""
    run, page = Run(), b'"' + b"x" * 70_000
    assert not any(run.act(page + b"%d" % n * 40 + b'"') for n in range(6))


@pytest.mark.parametrize("left", [watching.note_progress, watching.note_left])
def test_after_progress_and_on_another_branch_the_same_actions_are_another_attempt(left):
    """What came before counts no more."""
    run = Run()
    run.act()
    run.act()
    left(run.document, run.ledger)
    assert [False, False, True] == [run.act() for _ in range(3)]


def test_who_was_told_of_a_circle_has_one_round_more():
    """Of one action two; then it is the same circle again."""
    run = Run()
    assert [False, False, True] == [run.act() for _ in range(3)]
    run.fail("stuck")
    assert (0, None) == (run.ledger.circling, run.ledger.firing)
    assert [False, True] == [run.act() for _ in range(2)]
    assert "again" == run.ledger.firing.rule


def test_a_failure_that_left_the_program_is_counted_by_recovery_and_no_part_of_a_circle():
    """The program is called anew and makes the call once more: that is no repetition."""
    run = Run()
    for _ in range(4):
        assert not run.act(failure_class="tool")
        run.ledger.failed_call = ("a1", "send", b"d")
        run.fail("tool", action="a1")


def test_after_a_bad_answer_what_has_led_to_it_may_be_asked_once_more():
    """Once for each call; the next time it is one more of the same."""
    run = Run()
    run.act()
    run.act()
    run.document.loose = [Kept(action="a1", tool="send", digest=b"d", intent=1, settled=2)]
    run.fail("output")
    assert [False, True] == [run.act() for _ in range(2)]


def test_a_call_that_is_made_again_after_another_file_was_written_is_no_circle():
    """As the tests after each edit."""
    run = Run()
    for number in range(5):
        run.document.written = {"a1": ((0, number + 1),)}
        assert not run.act()
    assert {} == run.document.written


def test_what_is_waited_for_takes_nothing_out_of_a_circle():
    """A passing fault is no step, so that none is to be forgotten when it leaves the program."""
    run = Run()
    run.act()
    run.act()
    run.act(digest=b"away", failure_class="network")
    run.ledger.failed_call = ("a1", "send", b"away")
    run.fail("network", action="a1")
    assert run.act()


def test_a_model_that_is_asked_under_another_key_is_asked_something_else():
    """Its arguments may be a view of a state that has grown: the calls between make the circle, whatever it says."""
    run, circles = Run(), []
    for turn in range(3):
        run.act(b'"reply %d"' % turn, digest=b"conversation", key=f"turn {turn}", is_paid=True)
        circles.append(run.act())
    assert [False, False, True] == circles
