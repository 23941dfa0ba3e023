"""Approvals over restarts: what runs is what was approved, once; every word to a waiting task has a defined outcome."""

import asyncio

import pytest

import perdure
from perdure import operations
from perdure.agent.loop import follow
from perdure.agent.permits import permits
from perdure.agent.settings import AgentSettings
from perdure.core.questions import open_questions
from perdure.errors import NothingAsked, QuestionNotOpen, QuestionUnclear
from perdure.model.entry import NoteWritten, QuestionAsked
from perdure.model.move import Act, AskAll, Checkpoint, Finish, Remember, Say, Together
from perdure.testing import Death
from tests.unit.engine.test_asking import entries, resume, say
from tests.worlds import DEAD, Play, World, counted, until

DAY_S = 86_400.0


class Reply:
    """A policy with one reply of a model, whose calls it makes as they are permitted.

    `model` gives other arguments each time it is asked, as a model does.
    """

    def __init__(self, calls, model=None, effect="irreversible", **settings):
        self.settings = AgentSettings(**settings)
        self.model = model or (lambda: [{"item": item} for item in calls])
        self.done = []
        self.tool = counted(self.done, effect=effect, name="deed")

    def next(self, view):
        """Return the next move, from memory alone."""
        memory = view.memory
        if "begin" not in memory.get("marks", ()):
            return Checkpoint(name="begin")
        if "calls" not in memory:
            calls = [{"id": f"1.{n}", "name": "deed", "arguments": given} for n, given in enumerate(self.model())]
            return Remember(change=lambda memory: memory.update(calls=calls, results={}))
        calls = memory["calls"].plain()
        if all(call["id"] in memory["results"] for call in calls):
            return Finish(result={"results": memory["results"].plain(), "told": list(view.messages)})
        found = permits(view, self.settings, calls)
        if found.questions:
            return AskAll(questions=found.questions)
        for key, text in found.said.items():
            return Say(text=text, key=key)
        if found.change:
            return Remember(change=found.change, count=found.count)
        acts = [
            Act(tool=self.tool, arguments=call["arguments"], key=call["id"], into=("results", call["id"]))
            for call in calls
            if call["id"] in found.allowed
        ]
        if acts and any(act.into[1] not in memory["results"] for act in acts):
            return Together(acts=tuple(acts))
        return Remember(change=lambda memory: memory["results"].update(found.refused))


def play(policy):
    """Return the policy as a program that any life can run."""
    return Play(lambda task: follow(task, policy))


def asked(policy):
    """Return a world in which the policy waits for a person."""
    world = World()
    with pytest.raises(perdure.NeedsHuman):
        world.live(play(policy))
    return world


def answer(world, text, question=""):
    """Answer, and return what is answered."""
    return world.do(lambda runtime: operations.answer(runtime, "job", text, world.ids.short_id(), question))[0]


def numbers(world):
    """Return the numbers of the open questions."""
    fold = world.fold()
    return [one.number for one in open_questions(fold.document, fold.ledger)]


def test_the_approved_call_is_run_from_the_record():
    """After the restart no model is asked again: what runs is what stood in the question."""
    replies = iter([[{"item": 1}], [{"item": 2}]])
    policy = Reply((), lambda: next(replies))
    world = asked(policy)
    assert "Allow deed(item=1)?" in answer(world, "y")
    assert {"1.0": 1} == resume(world, play(policy))["results"]
    assert ([1], [{"item": 2}]) == (policy.done, next(replies))


def test_a_changed_call_is_asked_again():
    """After a rollback to before the reply the model wants something else: the old approval does not count for it."""
    replies = iter([[{"item": 1}], [{"item": 2}]])
    policy = Reply((), lambda: next(replies))
    world = asked(policy)
    answer(world, "y")
    world.do(lambda runtime: runtime.rollback("job", "begin"))
    with pytest.raises(perdure.NeedsHuman, match="deed\\(item=2\\)"):
        resume(world, play(policy))
    assert [] == policy.done
    with pytest.raises(QuestionNotOpen, match="rolled back"):
        answer(world, "y", "1")
    answer(world, "y", "2")
    resume(world, play(policy))
    assert [2] == policy.done


def test_the_same_call_after_a_rollback_is_asked_again():
    """An approval is used on its branch only, and a late one is refused with the reason."""
    policy = Reply([1])
    world = asked(policy)
    world.do(lambda runtime: runtime.rollback("job", "begin"))
    with pytest.raises(QuestionNotOpen, match="rolled back"):
        answer(world, "y", "1")
    with pytest.raises(perdure.NeedsHuman):
        resume(world, play(policy))
    answer(world, "y", "2")
    resume(world, play(policy))
    assert [1] == policy.done


def test_two_identical_pending_calls_are_approved_one_by_one():
    """In reverse order and over restarts: each runs, or not, as its own answer says."""
    policy = Reply([5, 5])
    world = asked(policy)
    with pytest.raises(QuestionUnclear):
        answer(world, "y")
    answer(world, "n", "2")
    with pytest.raises(perdure.NeedsHuman):
        resume(world, play(policy))
    assert [] == policy.done
    answer(world, "y", "1")
    results = resume(world, play(policy))["results"]
    assert ([5], 5, "CallRefused") == (policy.done, results["1.0"], results["1.1"]["failed"]["type"])


def test_an_approval_that_arrives_twice_counts_once():
    """The second one is refused with the reason, and nothing runs twice."""
    policy = Reply([1, 2])
    world = asked(policy)
    answer(world, "y", "1")
    for text in ("y", "n"):
        with pytest.raises(QuestionNotOpen, match="answered already"):
            answer(world, text, "1")
    answer(world, "y", "2")
    with pytest.raises(NothingAsked):
        answer(world, "y")
    resume(world, play(policy))
    assert [1, 2] == sorted(policy.done)


def test_of_two_people_who_answer_at_the_same_time_one_is_heard():
    """Whoever comes second finds the task in the other's hands; their word is on record and answers nothing else."""
    policy = Reply([1, 2])
    world = asked(policy)

    async def both(runtime):
        async with world.runtime() as other:
            words = (operations.answer(runtime, "job", "y", "m1", "1"), operations.answer(other, "job", "n", "m2", "1"))
            return await asyncio.gather(*words, return_exceptions=True)

    ended = world.do(both)
    assert 1 == sum(isinstance(one, tuple) and one[1] for one in ended)
    assert [2] == numbers(world)
    assert 1 == len(world.fold().document.answers)


def test_two_people_who_answer_two_questions_at_the_same_time_are_both_heard():
    """A word left during another's visit is taken in when that is over: the task does not wait for what was said."""
    policy = Reply([1, 2])
    world = asked(policy)

    async def both(runtime):
        async with world.runtime() as other:
            return await asyncio.gather(
                operations.answer(runtime, "job", "y", "m1", "1"), operations.answer(other, "job", "n", "m2", "2")
            )

    world.do(both)
    assert ("running", []) == (world.fold().ledger.status, numbers(world))
    assert {"1.0"} == {call for call, result in resume(world, play(policy))["results"].items() if result == 1}


@pytest.mark.parametrize("number", range(1, 10))
@pytest.mark.parametrize("where", ["before_append", "after_append"])
def test_killed_anywhere_a_grant_is_spent_once(where, number):
    """`y -3` to the first of three calls of which the last is refused: whatever is killed, one is left over."""
    policy = Reply([1, 2, 3], effect="pure")
    world = asked(policy)
    answer(world, "y -3", "1")
    answer(world, "no", "3")
    if DEAD == world.do(lambda runtime: runtime.resume("job", play(policy)), Death(where, number)):
        resume(world, play(policy))
    results = world.state()["results"]
    assert ({"1.0", "1.1", "1.2"}, {1, 2}) == (results.keys(), set(policy.done))
    (granted,) = world.state()["permits"]["grants"].values()
    assert ("CallRefused", 2, [1]) == (
        results["1.2"]["failed"]["type"], granted, list(world.fold().ledger.counts.values()),
    )  # fmt: skip


def test_continuous_is_in_the_journal():
    """What was allowed without asking is said there, and denied stays denied."""
    policy = Reply([1, 2], continuous=True, deny=("deed(2)",))
    result = World().live(play(policy))
    assert "CallDenied" == result["results"]["1.1"]["failed"]["type"]
    world, policy = World(), Reply([1, 2], continuous=True)
    world.live(play(policy))
    (note,) = entries(world, NoteWritten)
    assert "allowed by --continuous: deed(item=1); deed(item=2)" == note.text
    assert [] == entries(world, QuestionAsked)


def test_unattended_what_asks_fails_and_continuous_asks_nothing():
    """They combine: with both, what the limit leaves over fails with the question."""
    with pytest.raises(perdure.TaskFailed, match="Allow deed"):
        World().live(play(Reply([1])), unattended=True)
    both = Reply([1, 2], continuous=True)
    World().live(play(both), unattended=True)
    assert [1, 2] == sorted(both.done)
    with pytest.raises(perdure.TaskFailed, match="1 calls are made, as --continuous-limit allows"):
        World().live(play(Reply([1, 2], continuous=True, continuous_limit=1)), unattended=True)


def test_every_word_to_a_waiting_task_has_a_defined_outcome():
    """Told: queued and seen; empty, unknown, another goal: refused with the reason; a month of nothing: as it was."""
    policy = Reply([1])
    world = asked(policy)
    say(world, "tell", "I am away until Monday")
    with pytest.raises(perdure.UsageError, match="empty"):
        answer(world, "  ")
    with pytest.raises(QuestionNotOpen, match="no such question"):
        answer(world, "y", "permit 9.9 0123456789abcdef")
    with pytest.raises(perdure.TaskMismatch):
        world.live(play(policy), goal="another one")
    world.clock.advance(30 * DAY_S)
    with pytest.raises(perdure.NeedsHuman):
        resume(world, play(policy))
    assert ("needs_human", [1]) == (world.fold().ledger.status, numbers(world))
    answer(world, "y")
    assert {"results": {"1.0": 1}, "told": ["I am away until Monday"]} == resume(world, play(policy))


def test_a_task_that_waits_for_approval_can_be_cancelled():
    """Nothing of the reply has run; an answer then is refused because the task has ended."""
    policy = Reply([1])
    world = asked(policy)
    world.do(lambda runtime: operations.stop(runtime, "job", "cancel", "m"))
    with pytest.raises(perdure.TaskFinished):
        answer(world, "y", "1")
    assert ("cancelled", []) == (world.fold().ledger.status, policy.done)


def test_text_instead_of_an_approval_is_a_refusal_with_a_comment():
    """The task goes on with it; it never asks the same again and again."""
    policy = Reply([1])
    world = asked(policy)
    answer(world, "rather the second one")
    result = resume(world, play(policy))["results"]["1.0"]
    assert result["failed"]["message"].endswith("They say: rather the second one")
    assert (1, []) == (len(entries(world, QuestionAsked)), policy.done)


def test_a_task_taken_over_while_it_asks_can_be_answered_and_handed_back():
    """All of it on record; the answer is there when it goes on."""
    policy = Reply([1])
    world = asked(policy)
    world.do(lambda runtime: runtime.take_over("job"))
    answer(world, "y", "1")
    world.do(lambda runtime: runtime.hand_back("job"))
    assert {"1.0": 1} == resume(world, play(policy))["results"]


def test_a_word_left_for_a_holder_who_lives_waits_for_him():
    """It is not taken in by whoever left it."""
    world = World()

    async def program(task):
        return await task.ask("which?", wait_s=1e12)

    async def main():
        async with world.runtime() as runtime, world.runtime() as other:
            running = asyncio.create_task(runtime.run(Play(program), "job"))
            await until(lambda: world.memory.tasks)
            (task,) = world.memory.tasks
            await until(lambda: (fold := runtime.fold_of(task)) and fold.ledger.status == "needs_human")
            assert not await operations.tell(other, "job", "hello", "m1")
            assert 1 == len((await other.store.messages([task]))[task])
            await operations.answer(other, "job", "red", "m2")
            while not running.done():
                world.clock.advance(0.3)
                await asyncio.sleep(0)
            return await running

    assert ("red", ["hello"]) == (asyncio.run(main()), world.fold().ledger.messages)
