"""Messages to a task that somebody works on: pause, cancel, tell; each taken in exactly once."""

import asyncio
import contextlib

import pytest

import perdure
from perdure.model.budget import Budget
from perdure.model.entry import MessageReceived
from perdure.ports import Message
from perdure.testing import Death
from tests.worlds import DEAD, Play, World, until


async def _told(world, program, *messages, **options):
    """Run `program(task, entered, leave)` and give it the messages while it runs."""
    entered, leave = asyncio.Event(), asyncio.Event()

    async def fn(task):
        return await program(task, entered, leave)

    async with world.runtime() as runtime:
        running = asyncio.create_task(runtime.run(Play(fn), "job", **options))
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


@pytest.mark.parametrize(
    ("texts", "after"),
    [
        (["+0.50 USD"], Budget(money="0.6 USD", tokens=9)),
        (["+0.50 USD", "+0.50 USD, tokens=none"], Budget(money="1.1 USD")),
        (["0.10 USD"], Budget(money="0.1 USD", tokens=9)),  # as it is
        (["3 EUR"], Budget(money="0.1 USD", tokens=9)),  # dollars are spent: it was sent before that
        (["nonsense"], Budget(money="0.1 USD", tokens=9)),
    ],
)
def test_a_budget_of_the_inbox_is_taken_in_once(texts, after):
    """Before the next call of the task, which it may allow; what cannot be any more changes nothing, and is gone."""
    world, calls = World(), []

    @perdure.tool(effect="pure", paid=True)
    async def think(number: int) -> int:
        calls.append(number)
        perdure.charge(perdure.Cost(money="0.1 USD"))
        return number

    async def program(task, entered, leave):
        paid = perdure.Cost(money="0.1 USD")
        await task.using(key="one", reserve=paid).act(think, 1)
        entered.set()
        await leave.wait()
        await task.using(key="two", reserve=paid).act(think, 2)

    allows = after.money != "0.1 USD"
    messages = [Message(id=f"m{number}", what="budget", text=text) for number, text in enumerate(texts)]
    with contextlib.nullcontext() if allows else pytest.raises(perdure.NeedsHuman):
        asyncio.run(_told(world, program, *messages, budget="0.1 USD, tokens=9"))
    assert after == world.fold().ledger.budget
    assert ([1, 2] if allows else [1]) == calls
    assert len(texts) == len([1 for entry in world.journal() if getattr(entry.payload, "by", "") == "person"])


@pytest.mark.parametrize("where", ["before_append", "after_append"])
def test_a_budget_is_added_to_once_whatever_is_killed(where):
    """Entry and message go in one append: killed before it, the next holder takes the message in; behind it, nobody."""
    kills = 0
    for number in range(2, 9):
        world, looks = World(), []

        async def program(task, looks=looks, world=world):
            await until(lambda: any(world.memory.tasks[task.id].messages))
            await looks[-1]({task.id: task._session})
            return "done"

        async def first(runtime, program=program, looks=looks, world=world):
            looks.append(runtime._mailbox.look)
            running = asyncio.create_task(runtime.run(Play(program), "job", budget="1 USD"))
            await until(lambda: world.memory.tasks)
            await runtime.store.post(next(iter(world.memory.tasks)), Message(id="m", what="budget", text="+1 USD"))
            return await running

        async def again(runtime, program=program, looks=looks):
            looks.append(runtime._mailbox.look)
            return await runtime.resume("job", Play(program))

        kills += world.do(first, Death(where, number)) == DEAD
        if world.fold().ledger.status != "succeeded":
            assert "done" == world.do(again)
        assert Budget(money="2 USD") == world.fold().ledger.budget
    assert 2 <= kills < 7
