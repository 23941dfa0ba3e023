"""`task.check`: true once is progress, false is a failure that counts when it leaves the program."""

import pytest

import perdure
from tests.worlds import Play, Stop, World, counted


def test_true_is_recorded_once_as_progress():
    """The first time takes a counted failure away, the second writes nothing."""
    world = World()

    async def program(task):
        if task.attempt == 1:
            raise ValueError("counted")
        await task.check("c", True)
        await task.check("c", lambda: "truthy")

    world.live(Play(program))
    assert 1 == world.kinds().count("CheckJudged")
    assert 0 == world.fold().ledger.failures


@pytest.mark.parametrize("verdict", [False, "", lambda: False, lambda: 1 / 0])
def test_false_raises_and_the_third_one_needs_a_person(verdict):
    """A false verdict, or a function that raises, is CheckFailed; leaving the program it counts."""
    world, attempts = World(), []

    async def program(task):
        attempts.append(task.attempt)
        await task.check("long enough", verdict)

    with pytest.raises(perdure.NeedsHuman, match="long enough"):
        world.live(Play(program))
    assert [1, 2, 3] == attempts
    assert 3 == world.fold().ledger.failures


def test_a_check_that_the_program_catches_does_not_count():
    """The program deals with it and may return."""
    world = World()

    async def program(task):
        for _ in range(5):
            with pytest.raises(perdure.CheckFailed):
                await task.check("c", False)
        return "done"

    assert "done" == world.live(Play(program))
    assert 0 == world.fold().ledger.failures


def test_a_failed_check_that_leaves_the_program_drops_free_loose_outcomes():
    """What did not pass is not handed out again: the program asks anew."""
    world, answers = World(), iter(["short", "long enough"])

    @perdure.tool(effect="pure")
    async def think() -> str:
        return next(answers)

    async def program(task):
        answer = await task.act(think)
        await task.check("length", len(answer) > 5)
        return answer

    assert "long enough" == world.live(Play(program))


def test_a_check_after_a_stop_is_judged_again_and_not_counted_for_the_stop():
    """Stopping behind a caught check leaves the count at zero."""
    world = World()
    read = counted([])

    async def program(task):
        await task.act(read, 1)
        with pytest.raises(perdure.CheckFailed):
            await task.check("c", False)
        raise Stop

    for _ in range(4):
        with pytest.raises(Stop):
            world.live(Play(program))
    assert 0 == world.fold().ledger.failures
