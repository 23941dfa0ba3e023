"""How long to wait: full jitter in range and spread, told waits never cut short, outages and budgets that end."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core import retrying
from perdure.core.recovery import Rules, decide
from perdure.core.retrying import PATIENT, Patience
from perdure.limits import TOLD_WAIT_MAX_S
from perdure.model.decision import Ask, Park, Retry
from perdure.model.document import Document
from perdure.model.failure import ErrorRecord, Failure
from perdure.model.ledger import Ledger, Window

NOW = 1_800_000_000_000_000
HOUR_US = 3_600_000_000


def error(wait_s=0.0, kind="throttled", until=0):
    """Return the record of an error that says when to come back."""
    return ErrorRecord(type="Busy", message="no", failure_class=kind, wait_s=wait_s, until=until)


def ledger(retries, *, failed=None, name="t", since=NOW, **more):
    """Return a ledger with so many faults in a row."""
    failed = failed or error()
    last = Failure(failure_class=failed.failure_class, error=failed)
    return Ledger(name=name, started_at=5, retries=retries, passing_since=since, last_failure=last, **more)


def pauses(retries, count=400):
    """Return the waits of as many tasks that failed together, in seconds."""
    return [retrying.pause_us(ledger(retries, name=f"task-{n}"), error(), PATIENT) / 1e6 for n in range(count)]


@pytest.mark.parametrize(
    ("retries", "floor", "ceiling"), [(1, 0, 0.5), (2, 0, 1), (3, 0, 2), (4, 15, 30), (9, 120, 240)]
)
def test_waits_are_spread_over_their_whole_range(retries, floor, ceiling):
    """Tasks that failed together come back one by one: evenly, from the floor to the ceiling and not beyond."""
    waits = pauses(retries)
    width = ceiling - floor
    assert floor <= min(waits) < floor + 0.05 * width
    assert ceiling - 0.05 * width < max(waits) <= ceiling
    quarters = [sum(1 for one in waits if q <= (one - floor) / width * 4 < q + 1) for q in range(4)]
    assert min(quarters) > 60, quarters
    assert abs(statistics.mean(waits) - (floor + width / 2)) < 0.06 * width


def test_each_try_of_a_task_has_a_chance_of_its_own_and_keeps_it():
    """The same ledger gives the same wait, after a restart too; another attempt another one."""
    chances = [retrying.chance_of(ledger(n)) for n in range(50)]
    assert chances == [retrying.chance_of(ledger(n)) for n in range(50)]
    assert 50 == len(set(chances))


@given(st.floats(0.001, 10 * TOLD_WAIT_MAX_S), st.integers(1, 10_000))
def test_a_wait_that_was_told_is_never_cut_short(wait_s, retries):
    """At least as told (a week at most), and at most a second more, or as much as would have been waited anyway."""
    waited = retrying.pause_us(ledger(retries), error(wait_s), PATIENT) / 1e6
    told = min(wait_s, TOLD_WAIT_MAX_S)
    assert told - 1e-6 <= waited <= max(told + 1.0, PATIENT.outage_ceiling_s)


@pytest.mark.parametrize("wait_s", [0.0, -5.0, math.nan])
def test_what_is_no_wait_is_none(wait_s):
    """Nothing, a negative number, no number: as if nothing had been said."""
    assert retrying.pause_us(ledger(2), error(), PATIENT) == retrying.pause_us(ledger(2), error(wait_s), PATIENT)


def test_an_endless_wait_is_a_week():
    """Infinity is not waited for."""
    assert (
        TOLD_WAIT_MAX_S * 1e6 <= retrying.pause_us(ledger(1), error(math.inf), PATIENT) <= TOLD_WAIT_MAX_S * 1e6 + 1e6
    )


@given(st.integers(0, 10**9), st.integers(0, 10**6))
def test_no_count_is_too_large(retries, quick):
    """However often a call has failed and however many quick tries are allowed, there is a wait within the ceilings."""
    patience = Patience(retries_max=quick)
    assert 0 <= retrying.pause_us(ledger(retries), error(), patience) <= PATIENT.outage_ceiling_s * 1e6


@pytest.mark.parametrize(("hours", "kind", "row"), [(5.9, Retry, "outage"), (6.1, Ask, "passing_too_long")])
def test_an_outage_is_waited_for_six_hours(hours, kind, row):
    """From the first fault of the row, processes or not."""
    now = NOW + int(hours * HOUR_US)
    decision, fired = decide(Document(), ledger(40, passing=40), Rules(), now)
    assert (kind, row) == (type(decision), fired)


@pytest.mark.parametrize(
    "spent", [{"passing": 1_001}, {"failed_provider": "acme", "health": {"provider acme": Window(faults=301)}}]
)
def test_a_budget_that_is_spent_ends_the_quick_tries_too(spent):
    """A task that gets on between its faults has one in a row at most, and still not an endless number of them."""
    decision, row = decide(Document(), ledger(1, **spent), Rules(), NOW)
    assert (Ask, "passing_too_long") == (type(decision), row)
    assert "passing faults" in decision.question


def test_faults_of_another_provider_do_not_count():
    """The budget is that of the one whose call failed."""
    spent = {"provider acme": Window(faults=301)}
    decision, _ = decide(Document(), ledger(1, passing=301, failed_provider="other", health=spent), Rules(), NOW)
    assert isinstance(decision, Retry)


def test_a_quota_is_parked_for_until_it_is_back():
    """The later of date and wait counts; what is told in seconds is not waited for less long each time it is told."""
    until = NOW + HOUR_US
    decision, _ = decide(Document(), ledger(1, failed=error(60, "quota", until)), Rules(), NOW)
    assert (Park, until) == (type(decision), decision.until)
    decision, _ = decide(Document(), ledger(9, failed=error(0.5, "quota")), Rules(), NOW)
    assert decision.until >= NOW + 100_000_000
    decision, row = decide(Document(), ledger(1, failed=error(0, "quota", NOW - 1)), Rules(), NOW)
    assert (Ask, "quota_gone") == (type(decision), row)


def test_the_last_fault_within_the_budget_of_a_provider_is_waited_for():
    """The next one is one too many."""
    for faults, kind in ((PATIENT.provider_max, Retry), (PATIENT.provider_max + 1, Ask)):
        spent = {"provider acme": Window(faults=faults)}
        assert kind is type(decide(Document(), ledger(1, failed_provider="acme", health=spent), Rules(), NOW)[0])


def test_who_was_told_the_same_time_does_not_come_back_at_once_with_all_others():
    """Another task and another attempt wait a little longer or shorter."""
    waits = {retrying.pause_us(ledger(1, name=f"task-{n}"), error(9.0), PATIENT) for n in range(20)}
    assert len(waits) > 15
    assert retrying.chance_of(ledger(1, attempt=1)) != retrying.chance_of(ledger(1, attempt=2))
