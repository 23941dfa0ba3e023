"""Several questions at once: on record together, answered one by one, in any order, each by its own."""

import asyncio

import pytest

import perdure
from perdure import operations
from perdure.core.questions import open_questions
from perdure.errors import LimitExceeded, QuestionNotOpen, QuestionUnclear
from perdure.limits import QUESTIONS_MAX
from perdure.model.entry import MessageReceived, QuestionAnswered, QuestionAsked
from perdure.ports import Message
from perdure.testing import Death
from perdure.views.asked import has_answered, questions_of
from perdure.views.listing import look_at
from tests.unit.engine.test_asking import entries, resume
from tests.unit.engine.test_replaying import replay
from tests.worlds import DEAD, Play, World, counted, until

TWO = {"a": "delete a?", "b": "publish b?"}


async def both(task):
    """Ask two things at once."""
    return await task.ask_all(TWO)


def asked_both(fn=both, **options):
    """Return a world in which the program has asked."""
    world = World()
    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(fn, **options))
    return world


def answer(world, text, question=""):
    """Answer a task that nobody holds."""
    return world.do(lambda runtime: operations.answer(runtime, "job", text, world.ids.short_id(), question))[:2]


def numbers(world):
    """Return {key: number} of what is open."""
    fold = world.fold()
    return {one.key: one.number for one in open_questions(fold.document, fold.ledger)}


def test_answers_in_reverse_order_reach_the_right_questions_after_two_restarts():
    """Each answer names its question; the task waits until the last is there, and a restart between changes nothing."""
    world = asked_both()
    assert ("publish b?", True) == answer(world, "for b", "2")
    assert ("needs_human", "question: delete a?") == (world.fold().ledger.status, world.fold().ledger.reason)
    with pytest.raises(perdure.NeedsHuman, match="delete a") as caught:
        resume(world, Play(both))
    assert "perdure answer job TEXT" == caught.value.next_command
    assert ("delete a?", True) == answer(world, "for a", "a")
    assert "running" == world.fold().ledger.status
    assert {"a": "for a", "b": "for b"} == resume(world, Play(both))
    assert ["a", "b", "a"] == [asked.key for asked in entries(world, QuestionAsked)]
    assert ["b", "a"] == [answered.key for answered in entries(world, QuestionAnswered)]


def test_what_is_asked_together_is_one_append():
    """No kill leaves a task that has asked one of its questions and not the other."""
    world = asked_both()

    async def appends():
        store = world.store()
        return [append async for append in store.read((await store.find("job")).task)]

    places = {entry.header.seq for entry in world.journal() if isinstance(entry.payload, QuestionAsked)}
    (together,) = [
        {*range(one.first_seq, one.last_seq + 1)} & places
        for one in asyncio.run(appends())
        if {*range(one.first_seq, one.last_seq + 1)} & places
    ]
    assert places == together


@pytest.mark.parametrize("number", range(2, 7))
@pytest.mark.parametrize("where", ["before_append", "after_append"])
def test_killed_anywhere_each_is_asked_and_answered_once(where, number):
    """After a death at any append the same questions are open under the same numbers, and answers reach them."""
    world = World()
    try:
        is_dead = DEAD == world.live(Play(both), death=Death(where, number))
    except perdure.NeedsHuman:
        is_dead = False
    if is_dead:
        with pytest.raises(perdure.NeedsHuman):
            world.live(Play(both))
    assert {"a": 1, "b": 2} == numbers(world)
    answer(world, "for b", "2")
    answer(world, "for a", "1")
    assert {"a": "for a", "b": "for b"} == resume(world, Play(both))


def test_an_answer_that_names_no_question_is_refused_where_two_are_open():
    """The refusal lists them with numbers and the lines to type; nothing is written."""
    world = asked_both()
    before = world.fold().seq
    with pytest.raises(QuestionUnclear) as caught:
        answer(world, "yes")
    assert (
        "perdure answer job TEXT --question 1   # delete a?",
        "perdure answer job TEXT --question 2   # publish b?",
    ) == caught.value.lines
    assert before == world.fold().seq


def test_a_doubled_or_unknown_answer_is_refused_with_the_reason():
    """By key or by number: what is answered takes no second word, and what was never asked takes none."""
    world = asked_both()
    answer(world, "yes", "1")
    before = world.fold().seq
    for question, why in (("1", "answered already"), ("a", "answered already"), ("c", "no such"), ("7", "no such")):
        with pytest.raises(QuestionNotOpen, match=why) as caught:
            answer(world, "no", question)
        assert ("perdure answer job TEXT --question 2   # publish b?",) == caught.value.lines
    assert (before, {"a": "yes"}) == (world.fold().seq, world.fold().document.answers)


def test_an_answer_after_a_rollback_past_its_question_is_refused():
    """Asked again the question has another number: whoever still names the old one is told that it is over."""

    async def back(task):
        await task.checkpoint("before")
        got = await task.ask_all(TWO)
        if got["a"] == "go back":
            await task.rollback("before")
        return got

    world = asked_both(back)
    answer(world, "go back", "1")
    answer(world, "for b", "2")
    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(back))
    assert {"a": 3, "b": 4} == numbers(world)
    with pytest.raises(QuestionNotOpen, match="rolled back to before it"):
        answer(world, "yes", "2")
    answer(world, "new b", "4")
    answer(world, "new a", "3")
    assert {"a": "new a", "b": "new b"} == world.live(Play(back))


def test_a_rolled_back_task_that_has_not_asked_again_takes_no_late_answer():
    """Nothing is open then, and the refusal says why."""
    world = World()

    async def wants(task):
        await task.checkpoint("before")
        return await task.ask_all(TWO)

    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(wants))
    world.do(lambda runtime: runtime.rollback("job", "before"))
    with pytest.raises(QuestionNotOpen, match=r"rolled back to before it, or .*; none is open"):
        answer(world, "yes", "1")
    with pytest.raises(QuestionNotOpen, match="none is open"):
        answer(world, "yes", "a")


def test_a_key_that_is_another_ones_number_is_no_name():
    """Neither is answered by chance; each still has a name of its own."""
    world = asked_both(lambda task: task.ask_all({"2": "first?", "x": "second?"}))
    with pytest.raises(QuestionNotOpen, match="the key of one question and the number of another"):
        answer(world, "yes", "2")
    assert ("1", "x") == tuple(one.name for one in world.do(lambda runtime: questions_of(runtime.store, "job")))
    assert ("first?", True) == answer(world, "one", "1")
    assert ("second?", True) == answer(world, "two", "x")


def test_the_same_key_with_another_text_is_another_question():
    """A program that was changed asks something else: an answer by the old number does not reach it."""
    world = asked_both()
    with pytest.raises(perdure.NeedsHuman):
        resume(world, Play(lambda task: task.ask_all({"a": "delete everything?", "b": TWO["b"]})))
    assert {"b": 2, "a": 3} == numbers(world)
    with pytest.raises(QuestionNotOpen, match="has replaced it"):
        answer(world, "yes", "1")


def _held(world, wait_s, *messages):
    """Run a program that waits for its answers inside; return what it returns, `messages` being posted meanwhile."""

    async def program(task):
        return await task.ask_all(TWO, wait_s=wait_s), task.messages

    async def main():
        async with world.runtime() as runtime:
            running = asyncio.create_task(runtime.run(Play(program), "job"))
            await until(lambda: world.memory.tasks)
            (task,) = world.memory.tasks
            await until(lambda: (fold := runtime.fold_of(task)) and fold.ledger.status == "needs_human")
            for message in messages:
                await runtime.store.post(task, message)
            while not running.done():
                world.clock.advance(0.3)
                await asyncio.sleep(0)
            return await running

    return asyncio.run(main())


def test_a_held_task_takes_answers_from_its_inbox_by_key():
    """In reverse order; a second answer to one of them answers nothing else, and is no message to the program."""
    world = World()
    posted = (
        Message(id="m1", what="answer", text="for b", key="b"),
        Message(id="m2", what="answer", text="other b", key="b"),
        Message(id="m3", what="answer", text="for a", key="a"),
    )
    assert [{"a": "for a", "b": "for b"}, []] == list(_held(world, 1e12, *posted))
    assert ["b", "a"] == [answered.key for answered in entries(world, QuestionAnswered)]
    assert ["b", "b", "a"] == [message.key for message in entries(world, MessageReceived)]

    async def look(message):
        store = world.store()
        return await has_answered(store, (await store.find("job")).task, message, 0)

    assert [True, False, True] == [asyncio.run(look(message.id)) for message in posted]


def test_a_word_that_names_no_question_stays_a_message_where_two_are_open():
    """Posted by somebody who does not say which: it cannot be taken for the answer to either."""
    world = World()
    unnamed = Message(id="m0", what="answer", text="yes")
    posted = (Message(id=f"m{key}", what="answer", text=f"for {key}", key=key) for key in "ab")
    assert [{"a": "for a", "b": "for b"}, ["yes"]] == list(_held(world, 1e12, unnamed, *posted))


def test_the_time_to_wait_ends_with_all_questions_open():
    """The task then waits outside of the process; nothing is asked twice."""
    world = World()
    with pytest.raises(perdure.NeedsHuman):
        _held(world, 1.0)
    assert (2, {"a": 1, "b": 2}) == (len(entries(world, QuestionAsked)), numbers(world))


def test_unattended_all_questions_are_the_reason_of_the_failure():
    """Nobody can be asked: the package says what would have been."""
    world = World()
    with pytest.raises(perdure.TaskFailed, match=r"delete a\?; publish b"):
        world.live(Play(both), unattended=True)
    assert [] == entries(world, QuestionAsked)


def test_what_is_refused_before_anything_is_asked():
    """The same key twice in one call of the program, an empty key, no text, too many at once."""
    cases = (
        ({"": "what?"}, perdure.UsageError, "empty key"),
        ({"a": 7}, perdure.UsageError, "no text"),
        ({f"{n}": "?" for n in range(QUESTIONS_MAX + 1)}, LimitExceeded, "at once"),
    )
    for questions, error, why in cases:
        with pytest.raises(error, match=why):
            World().live(Play(lambda task, questions=questions: task.ask_all(questions)))
    world = asked_both()
    for number in "12":
        answer(world, "yes", number)

    async def twice(task):
        await task.ask_all(TWO)
        await task.ask(TWO["a"], key="a")

    with pytest.raises(perdure.UsageError, match="already in this run"):
        world.live(Play(twice))


def test_nothing_asked_is_nothing_to_wait_for():
    """Without questions there are no answers, and the program goes on."""
    assert {} == World().live(Play(lambda task: task.ask_all({})))


def test_each_pause_with_several_questions_is_passed_once():
    """In the middle and in each round of a loop: each act is made once, each question asked and answered once."""
    world, calls = World(), []
    act = counted(calls, effect="irreversible")

    async def flow(task):
        await task.using(key="begin").act(act, 0)
        async for n in task.each("rounds", [1, 2]):
            await task.act(act, n)
            got = await task.ask_all({f"left {n}": f"left {n}?", f"right {n}": f"right {n}?"})
            async with task.edit() as state:
                state["said"].append(sorted(got.values()))
        return task.state["said"].plain()

    for n in (1, 2):
        with pytest.raises(perdure.NeedsHuman):
            world.live(Play(flow, state={"said": []}))
        answer(world, f"r{n}", f"right {n}")
        answer(world, f"l{n}", f"left {n}")
    assert [["l1", "r1"], ["l2", "r2"]] == world.live(Play(flow, state={"said": []}))
    assert ([0, 1, 2], 4) == (calls, len(entries(world, QuestionAsked)))


def test_it_can_be_replayed():
    """The record answers: what was asked in two lives, and answered between, replays as it was."""
    world = asked_both()
    answer(world, "for b", "b")
    with pytest.raises(perdure.NeedsHuman):
        resume(world, Play(both))
    answer(world, "for a", "a")
    resume(world, Play(both))
    replayed = replay(world, both)
    assert (None, ()) == (replayed.divergence, replayed.remarks)


def test_the_open_questions_of_a_task_can_be_looked_up():
    """With number, key and text, oldest first; those that are answered are gone."""
    world = asked_both()
    answer(world, "yes", "1")

    async def look():
        return await questions_of(world.store(), "job")

    assert [(2, "b", "publish b?")] == [(one.number, one.key, one.text) for one in asyncio.run(look())]


def test_an_answer_left_for_a_holder_who_died_makes_the_task_due():
    """`resume --all --due` takes it: whoever has answered need not do it again."""
    world = asked_both(lambda task: task.ask("which?"))

    async def row():
        store = world.store()
        return await look_at(store, await store.find("job"))

    assert not asyncio.run(row()).is_due(0)

    async def post():
        store = world.store()
        await store.post((await store.find("job")).task, Message(id="m", what="answer", text="red", key="which?"))

    asyncio.run(post())
    assert asyncio.run(row()).is_due(0)
    assert "red" == resume(world, Play(lambda task: task.ask("which?")))


def test_a_flow_in_circles_goes_all_its_rounds_after_a_resume():
    """Five rounds with two questions each, a restart at every pause: each is made once, and the end is reached."""
    world, calls = World(), []
    act = counted(calls, effect="irreversible")

    async def circle(task):
        while task.state["rounds"] < 5:
            n = task.state["rounds"]
            await task.using(key=f"round {n}").act(act, n)
            await task.ask_all({f"left {n}": "left?", f"right {n}": "right?"})
            async with task.edit() as state:
                state["rounds"] = n + 1
        return task.state["rounds"]

    for _ in range(5):
        with pytest.raises(perdure.NeedsHuman):
            world.live(Play(circle, state={"rounds": 0}))
        for number in sorted(numbers(world).values(), reverse=True):
            answer(world, "on", str(number))
    assert 5 == world.live(Play(circle, state={"rounds": 0}))
    assert ([0, 1, 2, 3, 4], 10) == (calls, len(entries(world, QuestionAsked)))
