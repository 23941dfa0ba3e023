"""The fake clock."""

import asyncio
from itertools import pairwise

import pytest

import perdure
from perdure.stores.memory import MemoryStore, MemoryWorld
from perdure.testing import FakeClock

CLOCK = FakeClock()
TRIES = []


@perdure.tool(effect="pure")
async def flaky() -> str:
    """Fail twice, then take ten minutes."""
    TRIES.append(CLOCK.monotonic())
    if len(TRIES) < 3:
        raise ConnectionError("not yet")
    await asyncio.sleep(600)
    return "done"


@perdure.program
async def patient(task):
    """Wait for it."""
    return await task.using(key="flaky", timeout_s=900).act(flaky)


def test_it_stands_still_until_it_is_moved():
    """Both faces move together, and only by `advance`."""
    clock = FakeClock(at_us=1_000_000)
    assert (1_000_000, 0.0) == (clock.now(), clock.monotonic())
    clock.advance(2.5)
    assert (3_500_000, 2.5) == (clock.now(), clock.monotonic())


def test_it_may_move_at_each_look():
    """With a step no two looks are the same."""
    clock = FakeClock(at_us=0, step_us=3)
    assert [3, 6] == [clock.now(), clock.now()]


def test_it_does_not_go_back():
    """A step back is an error of the test."""
    with pytest.raises(ValueError, match="does not go back"):
        FakeClock().advance(-1)


def test_a_program_that_waits_for_minutes_takes_no_time():
    """Retries, time-outs and sleeps of a task happen in virtual time; the journal has their moments."""
    TRIES.clear()
    clock = CLOCK

    async def main():
        async with perdure.open(MemoryStore(MemoryWorld(), clock), clock=clock) as runtime:
            return await runtime.run(patient, "patient")

    assert "done" == clock.run(main())
    assert 600 < clock.monotonic() < 600 + 10
    first, second = (later - earlier for earlier, later in pairwise(TRIES))
    assert 0 < first <= 0.5 + 0.25
    assert 0 < second <= 1.0 + 0.25
