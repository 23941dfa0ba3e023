"""Windows of calls: what counts, when something is bad and when no longer, what follows, and how much is kept."""

import contextlib

import msgspec
import pytest

import perdure
from perdure.core import health
from perdure.core.health import HEALTHY, HealthRules
from perdure.limits import HEALTH_KEYS_MAX
from perdure.model import entry as e
from perdure.model.effect import PRESETS
from perdure.model.entry import FailureObserved, HealthChanged
from perdure.model.failure import ErrorRecord
from perdure.model.ledger import Ledger, OpenAction
from perdure.model.outcome import Failed
from tests.worlds import Play, World


def called(ledger, *ends, tool="fetch", provider=""):
    """Let calls end, each by a class of failure, "ok", "hollow" or "invalid"; return what was judged after each."""
    action = OpenAction(
        action="a", tool=tool, effect=PRESETS["pure"], digest=b"", intent=1, epoch=1, branch=0, intended_at=0,
        provider=provider,
    )  # fmt: skip
    said = []
    for end in ends:
        settled = e.ActionSettled(action="a", intent=1, outcome="succeeded")
        if end in {"hollow", "invalid"}:
            settled = msgspec.structs.replace(settled, **{end: True})
        elif end != "ok":
            error = ErrorRecord(type="X", message="x", failure_class=end)
            settled = msgspec.structs.replace(settled, outcome="failed", error=error)
        health.note_call(ledger, action, settled, 0)
        changed = health.judge(ledger, tool, provider, HEALTHY)
        said.append(changed)
        if changed is not None:
            health.note_changed(ledger, changed)
    return said


def rate(ledger, of):
    """Return (calls, succeeded, valid) of one window."""
    (found,) = [one for one in health.rates(ledger) if one.of == of]
    return found.calls, found.succeeded, found.valid


def test_the_window_holds_the_newest_twenty():
    """The twenty-first call pushes the first one out."""
    ledger = Ledger()
    called(ledger, *["tool"] * 2, *["ok"] * 20)
    assert (20, 20, 20) == rate(ledger, "tool fetch")
    called(ledger, "hollow")
    assert (20, 20, 19) == rate(ledger, "tool fetch")


@pytest.mark.parametrize(
    ("end", "expected"),
    [("ok", (1, 1, 1)), ("hollow", (1, 1, 0)), ("invalid", (1, 1, 0)), ("output", (1, 1, 0)), ("network", (1, 0, 0))],
)
def test_a_call_counts_by_how_it_ended(end, expected):
    """Succeeded and valid are two things."""
    ledger = Ledger()
    called(ledger, end, provider="acme")
    assert expected == rate(ledger, "tool fetch") == rate(ledger, "provider acme")


def test_who_was_stopped_has_not_failed():
    """A cancelled call is in no window."""
    ledger = Ledger()
    called(ledger, "cancelled", provider="acme")
    assert () == health.rates(ledger)


@pytest.mark.parametrize("end", ["request", "context", "refusal", "auth", "quota"])
def test_an_answer_to_a_wrong_request_is_no_fault_of_the_provider(end):
    """It counts for the tool alone."""
    ledger = Ledger()
    called(ledger, end, provider="acme")
    assert ["tool fetch"] == [one.of for one in health.rates(ledger)]


def test_under_half_of_at_least_six_is_bad():
    """Five say nothing; three of six are enough; two are not."""
    assert [None] * 5 == called(Ledger(), *["tool"] * 5)
    assert [None] * 6 == called(Ledger(), *["ok"] * 3, *["tool"] * 3)
    changed = called(Ledger(), *["ok"] * 2, *["tool"] * 4)[-1]
    assert HealthChanged(of="tool fetch", is_bad=True, calls=6, succeeded=2, valid=2) == changed


def test_it_is_said_once_and_judged_anew():
    """Behind a word on it five more say nothing; still bad, it is said again; good again, that is said once."""
    ledger = Ledger()
    assert [5] == [n for n, said in enumerate(called(ledger, *["tool"] * 6)) if said]
    assert [5] == [n for n, said in enumerate(called(ledger, *["tool"] * 6)) if said]
    said = called(ledger, *["ok"] * 20)
    assert [5] == [n for n, one in enumerate(said) if one]
    assert not said[5].is_bad
    assert 0 == ledger.ailing


def test_a_bad_tool_is_a_failure_and_a_bad_provider_is_not():
    """For the tool an alarm stands; a tool with a provider is judged with it, which has a breaker."""
    alone, served = Ledger(), Ledger()
    called(alone, *["output"] * 6)
    called(served, *["output"] * 6, provider="acme")
    assert ("tool", "fetch") == (alone.alarm.failure_class, alone.alarm.tool)
    assert served.alarm is None
    assert [True] == [one.is_bad for one in health.rates(served) if one.of == "provider acme"]


def test_a_program_without_strategies_is_left_once_for_a_bad_tool():
    """It may know what to do with calls that fail; one with strategies is to try another one each time."""
    for strategies, alarms in (((), 1), ((perdure.Strategy("a"), perdure.Strategy("b")), 3)):
        ledger, counted = Ledger(strategies=strategies), 0
        for _ in range(3):
            called(ledger, *["output"] * 6)
            counted += ledger.alarm is not None
            ledger.alarm = None
        assert alarms == counted
    health.note_looked(ledger)


def test_a_failure_that_left_the_program_is_not_counted_twice():
    """Behind it the tool is judged anew."""
    ledger = Ledger()
    for _ in range(9):
        assert [None] * 5 == called(ledger, *["tool"] * 5)
        health.note_failure(ledger, "fetch")
    assert ledger.alarm is None


def test_the_thresholds_are_settings():
    """Under 90 % of 2 calls."""
    ledger = Ledger()
    called(ledger, "ok", "tool")
    assert health.judge(ledger, "fetch", "", HealthRules(calls_min=2, valid_min=0.9)).is_bad


def test_no_more_than_so_many_are_kept():
    """The tools that came first are forgotten, and with them that they were bad; providers stay."""
    ledger = Ledger()
    called(ledger, *["network"] * 6, tool="first")
    called(ledger, *["network"] * 3, provider="acme")
    for number in range(2 * HEALTH_KEYS_MAX):
        called(ledger, "ok", tool=f"tool {number}")
    assert HEALTH_KEYS_MAX == len(ledger.health)
    assert 3 == health.faults_of(ledger, "acme")
    assert 0 == ledger.ailing


# --- in a run -------------------------------------------------------------------------------------------------------
def test_a_program_that_catches_what_a_tool_fails_with_is_left_at_the_sixth():
    """One failure of class tool is counted, with the rate as its text; the program is called anew."""
    world, calls = World(), []

    @perdure.tool(effect="pure", name="ailing_fetch")
    async def fetch(number: int) -> str:
        calls.append(number)
        raise ValueError(f"no {number}")

    async def program(task):
        missed = 0
        for number in range(8 if task.attempt == 1 else 2):
            missed += isinstance(await task.act_outcome(fetch, number), Failed)
        return missed

    assert 2 == world.live(Play(program))
    assert [0, 1, 2, 3, 4, 5, 0, 1] == calls
    (observed,) = [one.payload for one in world.journal() if isinstance(one.payload, FailureObserved)]
    assert ("tool", True, "ailing_fetch") == (observed.failure.failure_class, observed.counted, observed.failure.tool)
    assert "of the last 6 calls 0 succeeded" in observed.failure.error.message


@pytest.mark.parametrize(
    ("options", "is_bad"), [({"source": True}, True), ({}, False), ({"source": True, "poll": True}, False)]
)
def test_only_a_source_owes_an_answer(options, is_bad):
    """Empty pages of a source are not valid; another tool may return nothing, and one that polls may have to wait."""
    world = World()
    name = "hollow_" + "_".join(options) if options else "hollow"

    @perdure.tool(effect="pure", name=name, **options)
    async def look(number: int) -> str:
        return "404 Not Found" if number % 2 else ""

    async def program(task):
        for number in range(7):
            await task.act(look, number)

    world.live(Play(program))
    assert is_bad == any(isinstance(one.payload, HealthChanged) for one in world.journal())


def test_checks_have_a_window_of_their_own_and_sound_no_alarm():
    """A check that is not met is a failure in its own right."""
    world = World()

    async def program(task):
        for number in range(4):
            with contextlib.suppress(perdure.CheckFailed):
                await task.check(f"check {number}", number == 3)

    world.live(Play(program))
    assert (4, 4, 1) == rate(world.fold().ledger, "checks")
    assert world.fold().ledger.alarm is None


@pytest.mark.parametrize(("by", "calls"), [("probe", 0), ("a person", 0), ("late", 1)])
def test_who_was_settled_by_somebody_else_says_nothing_of_the_call(by, calls):
    """The call itself may come late, and then it counts."""
    given = Ledger()
    action = OpenAction(
        action="a", tool="send", effect=PRESETS["verifiable"], digest=b"", intent=1, epoch=1, branch=0, intended_at=0
    )
    health.note_call(given, action, e.ActionSettled(action="a", intent=1, outcome="succeeded", by=by), 0)
    assert calls == sum(one.calls for one in health.rates(given))


def test_a_wait_that_was_told_stands_from_the_end_of_its_call():
    """In the time of the journal, so that another process waits to the same moment."""
    given = Ledger()
    action = OpenAction(
        action="a", tool="ask", effect=PRESETS["pure"], digest=b"", intent=1, epoch=1, branch=0, intended_at=0,
        provider="acme",
    )  # fmt: skip
    error = ErrorRecord(type="X", message="x", failure_class="throttled", wait_s=2.0)
    health.note_call(given, action, e.ActionSettled(action="a", intent=1, outcome="failed", error=error), 7_000_000)
    assert {"acme": 9_000_000} == given.waits


def test_a_success_makes_nothing_bad():
    """However many have failed before it; and what is good again leaves nobody's program."""
    given = Ledger()
    said = called(given, *["tool"] * (HEALTHY.calls_min - 1), "ok")
    assert [None] * HEALTHY.calls_min == said
    health.note_changed(given, HealthChanged(of="tool fetch", is_bad=False, calls=5, succeeded=5, valid=5))
    assert given.alarm is None
