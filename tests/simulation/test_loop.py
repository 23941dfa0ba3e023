"""The virtual loop: time jumps, processes die, order is drawn."""

import asyncio

import pytest

from perdure.testing import FakeClock
from perdure.testing.simulation.chance import Chance, ChanceIds
from perdure.testing.simulation.loop import Process, VirtualLoop


def test_sleeping_moves_the_clock_and_costs_nothing():
    """A week of sleep passes at once, on loop and clock alike."""
    clock = FakeClock()

    async def week():
        await asyncio.sleep(7 * 86_400)
        return asyncio.get_running_loop().time()

    assert 7 * 86_400 == clock.run(week()) == clock.monotonic()


def test_timers_fire_in_their_order():
    """Who sleeps longer wakes later, whoever began first."""
    woken = []

    async def sleeper(seconds):
        await asyncio.sleep(seconds)
        woken.append(seconds)

    async def main():
        await asyncio.gather(*(sleeper(seconds) for seconds in (3, 1, 2)))

    FakeClock().run(main())
    assert [1, 2, 3] == woken


def test_waiting_for_nothing_is_an_error():
    """A future that nobody will ever set does not hang: it says that nothing will come."""

    async def forever():
        await asyncio.get_running_loop().create_future()

    with pytest.raises(RuntimeError, match="everything waits"):
        FakeClock().run(forever())


def test_a_thread_is_a_step():
    """What asyncio would do in a thread is done on the loop, its error included."""

    def fails():
        raise ValueError("in the thread")

    async def main():
        assert 3 == await asyncio.to_thread(lambda: 3)
        with pytest.raises(ValueError, match="in the thread"):
            await asyncio.to_thread(fails)

    FakeClock().run(main())


def test_a_killed_process_makes_no_further_step_and_others_go_on():
    """Its tasks stop where they wait, and what they still try while they are taken apart reaches nobody."""
    loop = VirtualLoop(FakeClock())
    seen = []

    async def works(name):
        try:
            while True:
                await asyncio.sleep(1)
                seen.append(name)
        finally:
            await asyncio.sleep(1)
            seen.append("after death")

    async def main():
        mortal, other = Process("mortal"), Process("other")
        loop.spawn(mortal, works("mortal"))
        loop.spawn(other, works("other"))
        await asyncio.sleep(2.5)
        loop.kill(mortal)
        await asyncio.sleep(2)

    loop.run_until_complete(main())
    assert ["mortal", "other", "mortal", "other", "other", "other"] == seen


def test_a_process_dies_before_the_step_that_was_named():
    """`dies_at` counts the steps of its own; the stage hears of it."""
    loop = VirtualLoop(FakeClock())
    seen = []

    async def counts():
        for number in range(10):
            seen.append(number)
            await asyncio.sleep(0)

    async def main():
        process = Process("mortal")
        process.dies_at = 4
        process.at_death = lambda: seen.append("dead")
        loop.spawn(process, counts())
        await asyncio.sleep(1)

    loop.run_until_complete(main())
    assert [0, 1, 2, "dead"] == seen


def test_the_next_step_may_be_drawn():
    """With a choice among the ready ones the order is the chooser's."""
    order = []

    async def main():
        for number in range(3):
            asyncio.get_running_loop().call_soon(order.append, number)
        await asyncio.sleep(1)

    VirtualLoop(FakeClock(), choose=lambda number: number - 1).run_until_complete(main())
    assert [2, 1, 0] == order


def test_chance_is_the_same_everywhere():
    """The draws of a seed are written down here: they may never change, or old seeds would mean nothing."""
    chance = Chance(1, "a")
    assert [79, 36, 24] == [chance.below(100) for _ in range(3)]
    assert 0.0 <= chance.share() < 1.0
    assert Chance(1, "a").bits() != Chance(1, "b").bits()


def test_weights_are_kept():
    """What has no weight is never drawn, and what has more is drawn more often."""
    chance = Chance("weights")
    drawn = [chance.weighted((("often", 9), ("rarely", 1), ("never", 0))) for _ in range(500)]
    assert 400 < drawn.count("often") < 490
    assert 0 == drawn.count("never")


def test_ids_have_their_shapes_and_do_not_repeat():
    """Ids look like those of production."""
    ids = ChanceIds(Chance("ids"))
    drawn = [ids.short_id() for _ in range(200)]
    assert 200 == len(set(drawn))
    assert {22} == set(map(len, drawn))
    assert 32 == len(ids.task_id())
    assert 16 == len(ids.salt())
