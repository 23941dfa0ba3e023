"""`task.check`: true once is progress, false is a failure that counts when it leaves the program."""

import pytest

import perdure
from perdure.testing import Death
from tests.worlds import DEAD, Play, Stop, World, counted


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


def test_a_verdict_and_the_change_that_goes_with_it_are_one_append():
    """Killed after any append, state, verdict and count say the same: all three, or none."""
    judged = 0
    for number in range(1, 30):
        world = World()

        async def program(task):
            if task.attempt > 1:
                raise Stop("it is enough")
            await task.check("first", True, then=lambda state: state.update(first=True))
            await task.check("second", False, then=lambda state: state.update(second=True))

        try:
            is_over = world.live(Play(program), death=Death("after_append", number)) != DEAD
        except Stop:
            is_over = True
        fold, kinds = world.fold(), world.kinds()
        assert ("first" in fold.tree.root) == ("first" in fold.document.checks)
        assert (
            kinds.count("FailureObserved")
            == ("second" in fold.tree.root)
            == kinds.count("CheckJudged") - ("first" in fold.tree.root)
        )
        judged += 1
        if is_over:
            break
    assert judged > 3
    assert 1 == world.fold().ledger.failures


def test_a_verdict_with_a_change_counts_wherever_it_goes_and_only_once():
    """Caught, it is counted all the same; one that leaves the program is not observed a second time."""
    world = World()

    async def program(task):
        if task.attempt == 1:
            await task.check("left", False, then=lambda state: state.update(left=1))
        with pytest.raises(perdure.CheckFailed):
            await task.check("caught", False, then=lambda state: state.update(caught=1))
        return "done"

    assert "done" == world.live(Play(program))
    assert ({"left": 1, "caught": 1}, 2) == (world.state(), world.kinds().count("FailureObserved"))


def test_a_change_that_raises_leaves_neither_change_nor_verdict():
    """What `then=` did before it raised is undone; a coroutine function is refused."""
    world = World()

    def slips(state):
        state["half"] = True
        raise Stop("no further")

    async def later(state):
        state["late"] = True

    async def program(task):
        for step in (task.check, task.checkpoint):
            given = ("c", True) if step == task.check else ("c",)
            with pytest.raises(Stop, match="no further"):
                await step(*given, then=slips)
            with pytest.raises(perdure.UsageError, match="plain function"):
                await step(*given, then=later)
        with pytest.raises(Stop, match="no further"):
            await task.note("c", then=slips)
        return "done"

    assert "done" == world.live(Play(program))
    assert {} == world.state()
    assert not {"CheckJudged", "CheckpointMarked", "NoteWritten"} & {*world.kinds()}


def test_a_checkpoint_and_a_note_change_the_state_in_their_own_append():
    """Each time: a program that marks by its state marks twice what it wants twice, and once what it was killed in."""
    for number in range(1, 12):
        world = World()

        async def program(task):
            while len(task.state.get("marks", ())) < 2:
                await task.checkpoint("c", then=lambda state: state.setdefault("marks", []).append("c"))
            if "said" not in task.state:
                await task.note("done", then=lambda state: state.update(said=True))

        is_over = world.live(Play(program), death=Death("after_append", number)) != DEAD
        if not is_over:
            world.live(Play(program))
        kinds = world.kinds()
        assert (2, 1) == (kinds.count("CheckpointMarked"), kinds.count("NoteWritten"))
        if is_over:
            break
    assert number > 4
