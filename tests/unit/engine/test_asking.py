"""Questions to people: asked once, answered once, found again; and what people tell a task."""

import asyncio

import pytest

import perdure
from perdure import operations
from perdure.errors import NothingAsked
from perdure.model.entry import MessageReceived, QuestionAnswered, QuestionAsked
from perdure.ports import Message
from tests.worlds import Play, World, counted, until


def entries(world, kind):
    """The entries of one kind."""
    return [entry.payload for entry in world.journal() if isinstance(entry.payload, kind)]


def say(world, what, text, name="job"):
    """Tell or answer a task that nobody holds."""

    async def do():
        async with world.runtime() as runtime:
            return await getattr(operations, what)(runtime, name, text, world.ids.short_id())

    return asyncio.run(do())


def resume(world, play, name="job"):
    """Go on with a task by hand."""

    async def go():
        async with world.runtime() as runtime:
            return await runtime.resume(name, play)

    return asyncio.run(go())


async def one_question(task):
    """Ask, and return the answer."""
    return "got " + await task.ask("which one?")


def test_a_resumed_program_gets_the_recorded_answer():
    """Asked once, answered once; any process that resumes gets it from `ask`."""
    world = World()
    with pytest.raises(perdure.NeedsHuman, match="which one") as caught:
        world.live(Play(one_question))
    assert "perdure answer job TEXT" == caught.value.next_command
    assert ("which one?", True, "") == say(world, "answer", "the red one")
    assert "running" == world.fold().ledger.status
    assert "got the red one" == world.live(Play(one_question))
    (asked,), (answered,) = entries(world, QuestionAsked), entries(world, QuestionAnswered)
    assert asked.key == answered.key


def test_a_resume_without_an_answer_asks_again_and_stays_answerable():
    """The task waits as before; the answer then goes to the one question."""
    world = World()
    for again in (False, True):
        with pytest.raises(perdure.NeedsHuman, match="which one"):
            resume(world, Play(one_question)) if again else world.live(Play(one_question))
    assert "needs_human" == world.fold().ledger.status
    say(world, "answer", "red")
    assert "got red" == world.live(Play(one_question))


def test_each_pause_is_passed_once():
    """A question in the middle and one in each round of a loop: each act is made, and each question asked, once."""
    world, calls = World(), []
    act = counted(calls, effect="irreversible")

    async def flow(task):
        await task.using(key="a").act(act, 0)
        begun = await task.ask("begin?")
        async for n in task.each("rounds", [1, 2, 3]):
            await task.act(act, n)
            answer = await task.ask("go on?")
            async with task.edit() as state:
                state["said"].append(answer)
        await task.using(key="d").act(act, 4)
        return [begun, *task.state["said"]]

    for n in range(4):
        with pytest.raises(perdure.NeedsHuman):
            world.live(Play(flow, state={"said": []}))
        say(world, "answer", f"yes {n}")
    assert [f"yes {n}" for n in range(4)] == world.live(Play(flow, state={"said": []}))
    assert [0, 1, 2, 3, 4] == calls
    assert 4 == len(entries(world, QuestionAsked)) == len(entries(world, QuestionAnswered))


def test_the_same_question_twice_is_refused_without_keys():
    """A resumed program could not tell the two apart; with keys each has its own answer."""
    world = World()

    async def twice(task):
        return [await task.ask("sure?"), await task.ask("sure?")]

    async def keyed(task):
        return [await task.ask("sure?", key=f"{n}") for n in range(2)]

    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(twice))
    say(world, "answer", "yes")
    with pytest.raises(perdure.UsageError, match="already in this run"):
        world.live(Play(twice))
    for text in ("first", "second"):
        with pytest.raises(perdure.NeedsHuman):
            world.live(Play(keyed))
        say(world, "answer", text)
    assert ["first", "second"] == world.live(Play(keyed))


def test_a_rollback_to_before_the_question_asks_it_again():
    """An answer is used on its branch only: what it was given for may be another thing by now."""
    world = World()

    async def back(task):
        await task.checkpoint("before")
        answer = await task.ask("publish?")
        if answer == "no":
            await task.rollback("before")
        return answer

    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(back))
    say(world, "answer", "no")
    with pytest.raises(perdure.NeedsHuman, match="publish"):
        world.live(Play(back))
    say(world, "answer", "yes")
    assert "yes" == world.live(Play(back))


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_word_is_refused(text):
    """Neither told nor answered; the task waits on."""
    world = World()
    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(one_question))
    for what in ("tell", "answer"):
        with pytest.raises(perdure.UsageError, match="empty"):
            say(world, what, text)
    assert "needs_human" == world.fold().ledger.status


def test_a_second_answer_is_refused_with_the_reason():
    """And so is one to a task that waits for something else, or that has ended."""
    world = World()
    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(one_question))
    say(world, "answer", "red")
    with pytest.raises(NothingAsked, match="all that it has asked is answered"):
        say(world, "answer", "blue")
    assert "got red" == world.live(Play(one_question))
    with pytest.raises(perdure.TaskFinished):
        say(world, "answer", "green")


def test_an_answer_does_not_settle_what_is_in_doubt():
    """A task that waits for a settlement is no matter of words."""
    world = World()

    async def doubtful(task):
        @perdure.tool(effect="irreversible")
        async def send() -> str:
            raise ConnectionError("gone")

        await task.act(send)

    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(doubtful))
    with pytest.raises(NothingAsked, match="needs_human in_doubt"):
        say(world, "answer", "yes")
    assert "needs_human" == world.fold().ledger.status


def test_words_to_a_waiting_task_leave_it_waiting():
    """A plain message while a question is open is kept, seen by the program later, and answers nothing."""
    world = World()

    async def heeding(task):
        answer = await task.ask("which one?")
        return answer, task.messages

    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(heeding))
    say(world, "tell", "hurry")
    assert ("needs_human", ["hurry"]) == (world.fold().ledger.status, world.fold().ledger.messages)
    say(world, "answer", "red")
    assert ("red", ["hurry"]) == tuple(world.live(Play(heeding)))


def test_an_answer_to_a_paused_task_is_kept_and_does_not_wake_it():
    """It stays paused by its person; the resumed program has the answer."""
    world = World()
    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(one_question))

    async def pause():
        async with world.runtime() as runtime:
            await operations.stop(runtime, "job", "pause", "m")

    asyncio.run(pause())
    assert ("which one?", True, "") == say(world, "answer", "red")
    assert "paused" == world.fold().ledger.status
    assert "got red" == resume(world, Play(one_question))


def _waiting(world, wait_s, *messages, stop=False):
    """Run a program that waits for its answer inside, and post `messages` when it waits."""

    async def program(task):
        return await task.ask("which one?", wait_s=wait_s)

    async def main():
        async with world.runtime() as runtime:
            running = asyncio.create_task(runtime.run(Play(program), "job"))
            await until(lambda: world.memory.tasks)
            (task,) = world.memory.tasks
            await until(lambda: (fold := runtime.fold_of(task)) and fold.ledger.status == "needs_human")
            if stop:
                runtime.request_stop()
            for message in messages:
                await runtime.store.post(task, message)
            while not running.done():
                world.clock.advance(0.3)
                await asyncio.sleep(0)
            return await running

    return asyncio.run(main())


def test_a_running_task_that_waits_gets_its_answer_exactly_once():
    """The same message twice, and another one behind it: the first is the answer, the other is kept as a message."""
    world = World()
    first, second = Message(id="m1", what="answer", text="red"), Message(id="m2", what="answer", text="blue")
    assert "red" == _waiting(world, 1e12, first, first, second)
    assert 1 == len(entries(world, QuestionAnswered))
    assert 2 == len(entries(world, MessageReceived))
    assert ["blue"] == world.fold().ledger.messages


def test_waiting_ends_by_time_and_by_a_stop():
    """The task then waits outside of the process, with one question on record, or is paused; no failure is counted."""
    world = World()
    with pytest.raises(perdure.NeedsHuman, match="which one"):
        _waiting(world, 1.0)
    assert 1 == len(entries(world, QuestionAsked))
    other = World()
    with pytest.raises(perdure.TaskPaused):
        _waiting(other, 1e12, stop=True)
    assert ("paused", 0) == (other.fold().ledger.status, other.fold().ledger.failures)
    say(other, "answer", "red")
    assert "got red" == resume(other, Play(one_question))


def test_unattended_a_question_is_a_failure():
    """Nobody can be asked: the task fails with the question, whether it would wait or not."""
    for wait_s in (0.0, 60.0):
        world = World()

        async def program(task, wait_s=wait_s):
            await task.ask("which one?", wait_s=wait_s)

        with pytest.raises(perdure.TaskFailed, match="which one"):
            world.live(Play(program), unattended=True)


def test_an_answer_that_came_too_late_for_one_process_reaches_the_next():
    """It lies in the inbox of a task whose process is gone: the next one takes it in before it calls the program."""
    world = World()
    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(one_question))

    async def post():
        store = world.store()
        await store.post((await store.find("job")).task, Message(id="late", what="answer", text="red"))

    asyncio.run(post())
    assert "got red" == resume(world, Play(one_question))
