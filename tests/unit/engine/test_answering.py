"""Words of people to a task that was handed over without a question of its program: they reach it, and it goes on."""

import asyncio

import pytest

import perdure
from perdure import operations
from perdure.errors import NothingAsked
from perdure.model.entry import MessageReceived, QuestionAnswered
from perdure.ports import Message
from perdure.testing import Death
from tests.unit.engine.test_asking import entries, resume, say
from tests.worlds import DEAD, Play, World, dying, until

WORD = "xyzzy"


async def wants_word(task):
    """Fail until somebody has said the word."""
    if WORD not in task.messages:
        raise ValueError("no word")
    return task.advice.kind, task.advice.text, task.brief()


@perdure.tool(effect="pure", name="locked_door")
async def locked_door(key: str) -> str:
    """Refuse whoever has no key."""
    if key != WORD:
        raise perdure_error()
    return "open"


def perdure_error():
    """Return an error that names its class."""
    error = PermissionError("no key")
    error.failure_class = "auth"
    return error


async def wants_key(task):
    """Try the door with what a person has said last."""
    return await task.act(locked_door, task.messages[-1] if task.messages else "")


def test_a_limit_is_answered_and_the_program_is_told():
    """The word is advice of kind person, stands in the brief once, and the counts begin anew."""
    world = World()
    with pytest.raises(perdure.NeedsHuman, match="3 failures") as caught:
        world.live(Play(wants_word))
    assert "perdure show job --handover" == caught.value.next_command
    question, is_written, _ = say(world, "answer", WORD)
    assert (True, True) == ("3 failures" in question, is_written)
    ledger = world.fold().ledger
    assert ("running", "answered", 0, [WORD]) == (ledger.status, ledger.reason, ledger.failures, ledger.messages)
    kind, text, brief = world.live(Play(wants_word))
    assert ("person", WORD, 1) == (kind, text, brief.count(WORD))
    (answered,) = entries(world, QuestionAnswered)
    assert "" == answered.key


def test_a_missing_key_is_answered():
    """A task that waits for a key or right goes on with it, as one at its limit does."""
    world = World()
    with pytest.raises(perdure.NeedsHuman, match="auth"):
        world.live(Play(wants_key))
    say(world, "answer", "wrong")
    with pytest.raises(perdure.NeedsHuman, match="auth"):
        world.live(Play(wants_key))
    say(world, "answer", WORD)
    assert "open" == resume(world, Play(wants_key))
    assert ["wrong", WORD] == world.fold().ledger.messages


def test_a_word_outlives_failures_and_rollbacks():
    """Advice ends with what follows from it; what a person has said stays in messages and in the brief."""
    world = World()
    seen = []

    async def program(task):
        if WORD not in task.messages:
            raise ValueError("no word")
        seen.append((task.advice.kind, WORD in task.brief()))
        if len(seen) < 3:
            raise ValueError("something else")
        return "done"

    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(program))
    say(world, "answer", WORD)
    assert "done" == world.live(Play(program))
    assert [("person", True), ("", True), ("", True)] == seen


def test_a_passing_fault_does_not_take_advice_away():
    """Nothing has followed from it yet: the program that is called again is told again."""
    world = World()
    kinds = []

    async def program(task):
        if WORD not in task.messages:
            raise ValueError("no word")
        kinds.append(task.advice.kind)
        if len(kinds) == 1:
            raise ConnectionError("reset")
        return "done"

    async def main():
        async with world.runtime() as runtime:
            running = asyncio.create_task(runtime.run(Play(program), "job"))
            while not running.done():
                world.clock.advance(1)
                await asyncio.sleep(0)
            return await running

    with pytest.raises(perdure.NeedsHuman):
        asyncio.run(main())
    say(world, "answer", WORD)
    assert "done" == asyncio.run(main())
    assert ["person", "person"] == kinds


def test_an_answer_goes_to_what_the_task_waits_for_now():
    """An earlier question of its program is open still, but a limit is what it stands at: the limit is answered."""
    world = World()
    is_broken = False

    async def program(task):
        if is_broken:
            raise ValueError("broken")
        return await task.ask("which one?")

    with pytest.raises(perdure.NeedsHuman, match="which one"):
        world.live(Play(program))
    is_broken = True
    with pytest.raises(perdure.NeedsHuman, match="3 failures"):
        resume(world, Play(program))
    assert "3 failures" in say(world, "answer", WORD)[0]
    assert [WORD] == world.fold().ledger.messages
    is_broken = False
    with pytest.raises(perdure.NeedsHuman, match="which one"):
        world.live(Play(program))
    assert "which one?" == say(world, "answer", "red")[0]
    assert "red" == world.live(Play(program))


def test_a_word_cannot_settle():
    """Whether an effect happened is for `settle`: the answer is refused with the line, and nothing is written."""
    world = World()

    async def doubtful(task):
        @perdure.tool(effect="irreversible", name="doubtful_post")
        async def post() -> str:
            raise ConnectionError("gone")

        await task.act(post)

    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(doubtful))
    (action,) = world.fold().ledger.open
    before = world.fold().seq
    with pytest.raises(NothingAsked, match="needs_human in_doubt") as refused:
        say(world, "answer", "it has")
    assert f"perdure settle job {action} --happened | --did-not-happen" == refused.value.next_command
    assert before == world.fold().seq


def test_a_word_does_not_end_a_rollback_whose_undo_has_failed():
    """That is put right and resumed, or settled; the answer is refused with a line to type."""
    world = World()

    @perdure.tool(effect="idempotent", name="answering_free")
    async def free(result: str, key: perdure.EffectKey) -> None:
        raise ValueError("no such room")

    @perdure.tool(effect="compensable", name="answering_rent", undo=free)
    async def rent() -> str:
        return "room"

    async def program(task):
        await task.checkpoint("begin")
        await task.act(rent, then=lambda state, said: state.update(room=said))
        await task.rollback("begin")

    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(program))
    with pytest.raises(NothingAsked, match="needs_human handover") as refused:
        say(world, "answer", "go on")
    assert "perdure resume job" == refused.value.next_command


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("where", ["before_append", "after_append", "during_recovery"])
def test_an_answer_that_is_killed_anywhere_is_given_once(where, number):
    """It is on record or not; who types it again is refused where it is, and the program is told it once."""
    world, death = World(), Death(where, number)
    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(wants_word))

    async def answer():
        async with world.runtime(death) as runtime:
            return await operations.answer(runtime, "job", WORD, "m1")

    with dying(death):
        try:
            first = asyncio.run(answer())
        except BaseException:
            if not death.is_dead:
                raise
            first = DEAD
    is_there = world.fold().ledger.status == "running"
    if is_there:
        with pytest.raises(NothingAsked, match="all that it has asked is answered"):
            say(world, "answer", WORD)
    else:
        assert DEAD == first
        say(world, "answer", WORD)
    assert [WORD] == world.fold().ledger.messages
    kind, text, brief = resume(world, Play(wants_word))
    assert ("person", WORD, 1) == (kind, text, brief.count(WORD))


def test_an_answer_in_the_inbox_of_a_holder_who_has_left_is_found():
    """Posted to a process that ended before it looked: the next one takes it in, once."""
    world = World()
    with pytest.raises(perdure.NeedsHuman, match="3 failures"):
        world.live(Play(wants_word))

    async def post():
        store = world.store()
        await store.post((await store.find("job")).task, Message(id="late", what="answer", text=WORD))

    asyncio.run(post())
    assert "person" == resume(world, Play(wants_word))[0]
    assert (1, 1) == (len(entries(world, MessageReceived)), len(entries(world, QuestionAnswered)))
    assert [WORD] == world.fold().ledger.messages


def test_a_task_held_by_another_is_answered_through_its_inbox():
    """An operation that finds a holder leaves the word there; the holder's program waits for its own question."""
    world = World()

    async def program(task):
        return await task.ask("which one?", wait_s=1e12)

    async def main():
        async with world.runtime() as runtime, world.runtime() as other:
            running = asyncio.create_task(runtime.run(Play(program), "job"))
            await until(lambda: world.memory.tasks)
            (task,) = world.memory.tasks
            await until(lambda: (fold := runtime.fold_of(task)) and fold.ledger.status == "needs_human")
            question, is_written, _ = await operations.answer(other, "job", "red", "m1")
            while not running.done():
                world.clock.advance(0.3)
                await asyncio.sleep(0)
            return question, is_written, await running

    assert ("which one?", False, "red") == asyncio.run(main())
