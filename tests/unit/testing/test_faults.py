"""The store that fails: where it is told to, before or after, and nowhere else."""

import asyncio

import pytest

import perdure
from perdure.clock import SystemClock
from perdure.errors import StoreBroken, StoreBusy, StoreError, StoreFull
from perdure.stores.memory import MemoryStore, MemoryWorld
from perdure.testing import FaultyStore
from perdure.testing.conformance import CHECKS, run


@perdure.tool(effect="pure")
async def read(item: int) -> int:
    """Return what it is given."""
    return item


@perdure.program(state={"got": []})
async def reader(task):
    """Read three things."""
    async for item in task.each("items", [1, 2, 3]):
        await task.act(read, item, then=lambda state, got: state["got"].append(got))
    return list(task.state["got"])


def lived(world, **faults):
    """Run the program once on `world`; return (result or error, the faulty store)."""
    store = FaultyStore(MemoryStore(world, SystemClock()), **faults)

    async def live():
        async with perdure.open(store) as runtime:
            return await runtime.run(reader, "reader")

    try:
        return asyncio.run(live()), store
    except (StoreError, perdure.TaskStopped) as error:
        return error, store


@pytest.mark.parametrize("check", CHECKS, ids=[check.name for check in CHECKS])
def test_without_faults_it_is_the_store_beneath(check):
    """A wrapper that never fails keeps every promise of a store."""
    world = MemoryWorld()

    async def open_handle():
        return FaultyStore(MemoryStore(world, SystemClock()))

    asyncio.run(run(check, open_handle))


@pytest.mark.parametrize("error", ["broken", "full", "busy"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_whichever_operation_fails_the_task_goes_on_in_the_next_life(error, when):
    """After a failure of the first, the second, … operation, a run on the sound store comes to the same result."""
    number, failures = 0, 0
    while True:
        number += 1
        world = MemoryWorld()
        ended, store = lived(world, fail_at=number, error=error, when=when)
        if len(store.calls) < number:
            break
        failures += isinstance(ended, Exception)
        assert [1, 2, 3] == lived(world)[0], (number, store.calls[number - 1])
    assert number > 10
    assert failures > 5


def test_broken_is_for_good_and_full_is_once():
    """After "broken" every operation fails; after "full" or "busy" the next one goes through."""

    async def calls(error, kind):
        store = FaultyStore(MemoryStore(MemoryWorld(), SystemClock()), fail_at=2, error=error)
        assert [] == await store.tasks()
        with pytest.raises(kind):
            await store.tasks()
        return await store.tasks()

    assert [] == asyncio.run(calls("full", StoreFull))
    assert [] == asyncio.run(calls("busy", StoreBusy))
    with pytest.raises(StoreBroken):
        asyncio.run(calls("broken", StoreBroken))


def test_an_answer_is_lost_after_the_work_was_done():
    """`when="after"`: the append is in the journal, though its caller was told that it failed."""
    lost, kept = MemoryWorld(), MemoryWorld()
    number = lived(MemoryWorld())[1].calls.index("append") + 1
    lived(lost, fail_at=number, when="before")
    lived(kept, fail_at=number, when="after")
    assert (0, 1) == (appends_of(lost), appends_of(kept))


def appends_of(world):
    """How many appends the one task of `world` has."""
    (stored,) = world.tasks.values()
    return len(stored.appends)
