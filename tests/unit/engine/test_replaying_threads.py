"""Replay of plain programs: their threads come when they come, and the record decides all the same."""

import asyncio
import contextlib
import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import perdure
import perdure.sync
from perdure.engine.replay.playing import play
from perdure.engine.replay.record import load_record
from perdure.ports import Message
from tests.worlds import DEAD, Death, World, counted


def replay(world, program, mode="strict"):
    """Replay the task on record with the plain program."""

    async def load():
        store = world.store()
        return await load_record(store, (await store.find("job")).task)

    return play(asyncio.run(load()), program, mode)


@contextlib.contextmanager
def busy_threads():
    """Let two threads compute, so that a third one seldom comes to its turn."""
    over = threading.Event()

    def compute():
        while not over.is_set():
            sum(range(1000))

    threads = [threading.Thread(target=compute) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


read = counted([])


@perdure.sync.program(state={"got": []})
def reading(task):
    """Take steps of every kind, and compute between them."""
    for item in task.each("items", range(2)):
        sum(range(item * 10_000))
        task.act(read, item, then=lambda state, got: state["got"].append(got))
    with task.edit() as state:
        state["sum"] = sum(range(10_000))
        state["got"].append(3)
    task.checkpoint("read")
    task.note("half way", chance=task.random())
    return task.using(key="last").act(read, 4)


@pytest.mark.parametrize(("mode", "times"), [("strict", 20), ("tolerant", 5)])
def test_a_plain_program_is_replayed_equal_each_time(mode, times):
    """Its thread is waited for, however late it comes: nobody says that it does nothing."""
    world = World()
    assert 4 == world.live(reading)
    with busy_threads():
        found = [replay(world, reading, mode) for _ in range(times)]
    assert [None] * times == [one.divergence for one in found]
    assert {3} == {one.actions for one in found}


@pytest.mark.parametrize("number", [3, 5, 7, 9, 11])
def test_a_plain_program_that_was_killed_is_replayed_equal_and_its_end_is_quiet(number, caplog):
    """Its thread ends with the record of its life, and what that leaves behind is not spoken of."""
    world = World()
    assert DEAD == world.live(reading, death=Death("any", number))
    assert replay(world, reading).divergence is None
    assert 4 == world.live(reading)
    caplog.clear()
    assert replay(world, reading).divergence is None
    gc.collect()
    assert [] == caplog.records


wrong = []


@perdure.sync.program
def changing(task):
    """Do another thing where it is told to."""
    task.using(key="a").act(read, 1)
    if "too short" in wrong:
        return
    with task.edit() as state:
        state["b"] = 2
    task.using(key="c").act(read, 4 if "argument" in wrong else 3)


@pytest.mark.parametrize(("what", "seq"), [("too short", 5), ("argument", 6)])
def test_a_difference_in_a_plain_program_is_named(what, seq):
    """That its thread is waited for does not hide what it does."""
    world = World()
    world.live(changing)
    wrong.append(what)
    try:
        assert seq == replay(world, changing).divergence.seq
    finally:
        wrong.clear()


@perdure.sync.program(state={"order": []})
def side_by_side(task):
    """Call from four threads, each twice."""

    def twice(n):
        for step in range(2):
            keyed = task.using(key=f"{n} {step}")
            keyed.act(read, n, then=lambda state, got: state["order"].append(got))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(twice, range(4)))
    return list(task.state["order"])


def test_threads_of_a_plain_program_come_in_the_recorded_order():
    """A call waits for that of another thread which is recorded before it."""
    world = World()
    order = world.live(side_by_side)
    with busy_threads():
        found = [replay(world, side_by_side) for _ in range(5)]
    assert [0, 0, 1, 1, 2, 2, 3, 3] == sorted(order)
    assert [None] * 5 == [one.divergence for one in found]


runtimes = []


@perdure.tool(effect="pure")
async def stopped(n: int) -> int:
    """Somebody asks for a pause meanwhile."""
    for runtime in runtimes:
        await runtime.store.post((await runtime.store.find("job")).task, Message(id="m", what="pause"))
        await runtime._mailbox.look(runtime._sessions)
    return n


@perdure.sync.program(state={"got": []})
def looping(task):
    """Act in a loop."""
    for item in task.each("items", range(3)):
        task.act(stopped, item, then=lambda state, got: state["got"].append(got))
    return task.state.plain()


def test_a_plain_program_that_was_paused_in_a_loop_is_replayed_equal():
    """Before it goes on and after it has succeeded."""
    world = World()

    async def told():
        async with world.runtime() as runtime:
            runtimes.append(runtime)
            await runtime.run(looping, "job")

    with pytest.raises(perdure.TaskPaused):
        asyncio.run(told())
    runtimes.clear()
    assert replay(world, looping).divergence is None
    assert {"got": [0, 1, 2]} == world.live(looping)
    replayed = replay(world, looping)
    assert (None, 3) == (replayed.divergence, replayed.actions)
