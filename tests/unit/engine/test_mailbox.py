"""Messages to a task that somebody works on: pause, cancel, tell; each taken in exactly once."""

import asyncio

import pytest

import perdure
from perdure.model.entry import MessageReceived
from perdure.ports import Message
from tests.worlds import Play, World, until


async def _told(world, program, *messages):
    """Run `program(task, entered, leave)` and give it the messages while it runs."""
    entered, leave = asyncio.Event(), asyncio.Event()

    async def fn(task):
        return await program(task, entered, leave)

    async with world.runtime() as runtime:
        running = asyncio.create_task(runtime.run(Play(fn), "job"))
        await entered.wait()
        task = (await runtime.store.find("job")).task
        for message in messages:
            await runtime.store.post(task, message)
        world.clock.advance(1.0)
        await until(lambda: all(m is None for m in world.memory.tasks[task].messages.values()))
        leave.set()
        return await running


def _waits(effect):
    async def program(task, entered, leave):
        @perdure.tool(effect=effect)
        async def slow() -> str:
            entered.set()
            await leave.wait()
            return "slow"

        got = await task.using(key="k").act(slow)
        await task.note("after")
        return got

    return program


@pytest.mark.parametrize(
    ("what", "ending", "status"),
    [("pause", perdure.TaskPaused, "paused"), ("cancel", perdure.TaskCancelled, "cancelled")],
)
def test_a_stop_waits_for_the_effect_in_flight(what, ending, status):
    """The running effect is finished and recorded, then the task stops before its next action."""
    world = World()
    with pytest.raises(ending, match="person"):
        asyncio.run(_told(world, _waits("irreversible"), Message(id="m1", what=what)))
    assert status == world.fold().ledger.status
    kinds = world.kinds()
    assert ("ActionSettled" in kinds, "NoteWritten" in kinds) == (True, False)


def test_a_told_message_is_kept_and_stops_nothing():
    """It stands in the ledger, once, however often it was posted."""
    world = World()
    message = Message(id="m1", what="tell", text="hurry")
    assert "slow" == asyncio.run(_told(world, _waits("pure"), message, message))
    assert ["hurry"] == world.fold().ledger.messages
    assert 1 == len([entry for entry in world.journal() if isinstance(entry.payload, MessageReceived)])


def test_a_paused_task_goes_on_where_it_was():
    """The next run finds its finished action and ends."""
    world = World()
    with pytest.raises(perdure.TaskPaused):
        asyncio.run(_told(world, _waits("irreversible"), Message(id="m1", what="pause")))

    async def program(task):
        @perdure.tool(effect="irreversible")
        async def slow() -> str:
            return "again"

        return await task.using(key="k").act(slow)

    assert "slow" == world.live(Play(program))


def test_two_looks_at_once_take_a_message_in_once():
    """The beat may look while a task is opened; neither reads what the other has not yet taken out."""
    world = World()

    async def program(task):
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(looks[0]({task.id: task._session}))
        return task.messages

    looks = []

    async def main():
        async with world.runtime() as runtime:
            looks.append(runtime._mailbox.look)
            task = asyncio.create_task(runtime.run(Play(program), "job"))
            await until(lambda: world.memory.tasks)
            await runtime.store.post(next(iter(world.memory.tasks)), Message(id="m", what="tell", text="hurry"))
            return await task

    assert ["hurry"] == asyncio.run(main())
