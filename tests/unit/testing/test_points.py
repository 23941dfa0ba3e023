"""Crash points by name, and deaths that are played."""

import asyncio

import pytest

import perdure
from perdure.clock import SystemClock
from perdure.engine import crashpoints
from perdure.stores.memory import MemoryStore, MemoryWorld
from perdure.testing import Death, Killed, crash_points
from perdure.testing.points import MortalStore


@perdure.tool(effect="pure")
async def read() -> int:
    """Return something."""
    return 1


@perdure.program
async def reader(task):
    """Read once."""
    return await task.act(read)


def test_the_points_are_those_of_the_engine_that_it_can_reach():
    """Names in the order of an action; there is none that no code reaches."""
    assert ("before_intent", "after_intent", "after_effect", "after_outcome") == crash_points()[:4]
    assert set(crash_points()) == set(crashpoints.NAMES)


def test_a_death_is_met_at_its_place_and_everywhere_after():
    """The second "after_effect" kills; from then on nothing passes."""
    death = Death("after_effect", 2)
    death.meet("after_effect")
    death.meet("before_intent")
    for point in ("after_effect", "before_append"):
        with pytest.raises(Killed):
            death.meet(point)
    assert ["after_effect", "before_intent", "after_effect"] == death.points


def test_a_point_that_does_not_exist_is_refused():
    """A typing error must not look like a sweep without findings."""
    with pytest.raises(ValueError, match="no crash point is called"):
        Death("after_lunch")


@pytest.mark.parametrize("where", ["before_append", "after_append"])
def test_nothing_of_a_dead_life_reaches_the_store(where):
    """A life that ends at its first append leaves that one or nothing, whatever it does while it unwinds."""
    world, death = MemoryWorld(), Death(where)

    async def live():
        async with perdure.open(MortalStore(MemoryStore(world, SystemClock()), death)) as runtime:
            await runtime.run(reader, "reader")

    with pytest.raises(Killed), death.awaited():
        asyncio.run(live())
    (stored,) = world.tasks.values()
    assert (where == "after_append") == len(stored.appends)
    assert stored.lease.holder is not None
