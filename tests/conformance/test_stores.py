"""Every store x every check of the conformance suite; nothing is skipped."""

import asyncio

import pytest

from perdure.clock import SystemClock
from perdure.stores.memory import MemoryStore, MemoryWorld
from perdure.stores.opening import open_store
from perdure.testing.conformance import CHECKS, run


def memory_place(_):
    """A world of its own; each handle opened on it stands for a process."""
    world = MemoryWorld()

    async def open_handle():
        return MemoryStore(world, SystemClock())

    return open_handle


def sqlite_place(folder):
    """A file of its own."""

    async def open_handle():
        return await open_store(folder / "store" / "perdure.db", SystemClock())

    return open_handle


@pytest.mark.parametrize("place", [memory_place, sqlite_place])
@pytest.mark.parametrize("check", CHECKS, ids=[check.name for check in CHECKS])
def test_store_keeps_the_promise(place, check, tmp_path):
    """The store keeps what `ports.py` promises."""
    asyncio.run(run(check, place(tmp_path)))


def test_checks_have_names_of_their_own_and_say_what_they_hold():
    """Each check has its own name and a promise of one sentence or two."""
    assert len(CHECKS) == len({check.name for check in CHECKS})
    assert [] == [check.name for check in CHECKS if not check.promise.endswith(".")]
