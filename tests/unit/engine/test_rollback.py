"""Checkpoints and rollback: which moment a name means, what the jump restores, and that a killed one is finished."""

import asyncio

import pytest

import perdure
from perdure.engine.rollback import find_checkpoint
from perdure.errors import ActionsInFlight, BranchLeft, CheckpointUnknown
from perdure.model.checkpoint import Checkpoint
from perdure.model.document import Document
from tests.worlds import DEAD, Death, Play, Stop, World, counted


async def _add(task, value):
    async with task.edit() as state:
        state["got"].append(value)


def test_a_rollback_restores_the_state_and_calls_the_program_anew():
    """The document is that of the checkpoint, on the next branch; what came after it is out of the state."""
    world, seen = World(), []

    async def program(task):
        seen.append(task.state["got"].plain())
        if not task.state["got"]:
            await _add(task, 1)
        await task.checkpoint("one")
        if task.attempt == 1:
            await _add(task, 2)
            await task.rollback("one", reason="try again")
        return task.state["got"].plain()

    assert [1] == world.live(Play(program, state={"got": []}))
    assert [[], [1]] == seen
    assert (1, {"got": [1]}) == (world.fold().branch, world.state())
    assert 1 == world.kinds().count("CheckpointMarked")


@pytest.mark.parametrize("number", range(1, 30))
def test_a_rollback_killed_anywhere_is_finished_by_the_next_opener(number):
    """Between any two appends of it: the run ends as the undisturbed one, and the jump is written once."""
    world = World()

    async def program(task):
        if not task.state["got"]:
            await _add(task, 1)
        await task.checkpoint("one")
        if task._session.fold.ledger.rollbacks < 2:
            await _add(task, 2)
            await task.rollback("one")
        return task.state["got"].plain()

    play = Play(program, state={"got": []})
    world.live(play, death=Death("before_append" if number % 2 else "after_append", (number + 1) // 2))
    assert world.live(play) == [1]
    kinds = world.kinds()
    assert kinds.count("RollbackBegan") == kinds.count("RolledBackEntry")


def test_names_mean_the_newest_the_second_or_the_start():
    """`name` is the newest of that name, `name#2` the second, `start` the beginning; others are refused by name."""
    marks = [Checkpoint(name=name, seq=seq, changed=seq) for seq, name in ((3, "a"), (5, "a"), (7, "b#2"), (9, "a"))]
    document = Document(checkpoints=marks)
    names = ["a", "a#1", "a#2", "b#2", "start"]
    assert [9, 3, 5, 7, 1] == [find_checkpoint(document, "task", name) for name in names]
    with pytest.raises(CheckpointUnknown, match=r"start, a, b#2"):
        find_checkpoint(document, "task", "c")


def test_a_checkpoint_waits_for_nothing_and_is_refused_while_actions_run():
    """Beside an act in flight a checkpoint raises ActionsInFlight, and so does a rollback."""

    async def program(task):
        entered, leave = asyncio.Event(), asyncio.Event()

        @perdure.tool(effect="pure")
        async def slow() -> None:
            entered.set()
            await leave.wait()

        acting = asyncio.create_task(task.act(slow))
        await entered.wait()
        with pytest.raises(ActionsInFlight):
            await task.checkpoint("c")
        with pytest.raises(ActionsInFlight):
            await task.rollback("start")
        leave.set()
        await acting
        await task.checkpoint("c")

    World().live(Play(program))


def test_the_same_checkpoint_with_nothing_changed_writes_nothing():
    """Twice in a row is one entry; after a change of the state it is a second one."""
    world = World()

    async def program(task):
        await task.checkpoint("c")
        await task.checkpoint("c")
        await _add(task, 1)
        await task.checkpoint("c")

    world.live(Play(program, state={"got": []}))
    assert 2 == world.kinds().count("CheckpointMarked")


def test_a_checkpoint_may_not_pass_an_effect_that_was_not_asked_for_again():
    """A program that no longer makes a recorded call is stopped before its checkpoint."""
    world = World()
    send = counted([], effect="irreversible", name="send")

    async def first(task):
        await task.act(send, 1)
        raise Stop

    async def changed(task):
        await task.checkpoint("c")

    with pytest.raises(Stop):
        world.live(Play(first))
    with pytest.raises(perdure.ResumeDiverged):
        world.live(Play(changed))
    assert "CheckpointMarked" not in world.kinds()


def test_what_an_old_branch_holds_is_refused_after_a_rollback():
    """The handle of the branch that was left raises BranchLeft for every act, edit and checkpoint."""
    old = []

    async def program(task):
        if not old:
            old.append(task)
            await task.rollback("start")
        for call in (old[0].act(counted([])), old[0].checkpoint("c"), old[0].note("n")):
            with pytest.raises(BranchLeft):
                await call
        return "new branch"

    assert "new branch" == World().live(Play(program))


def test_a_rollback_comes_out_of_a_task_group():
    """RolledBack inside an exception group unwinds the program like a bare one."""

    async def program(task):
        if task.attempt == 1:

            async def back():
                await task.rollback("start")

            async with asyncio.TaskGroup() as group:
                group.create_task(back())
        return task.attempt

    assert 2 == World().live(Play(program))


def test_no_handler_of_the_program_keeps_a_rollback():
    """`except Exception` does not catch it."""

    async def program(task):
        if task.attempt == 1:
            try:
                await task.rollback("start")
            except Exception:  # noqa: BLE001 - what user code does
                return "kept"
        return "called anew"

    assert "called anew" == World().live(Play(program))


def test_finished_calls_of_the_old_branch_are_not_answers_on_the_new_one():
    """Keyed outcomes from behind the checkpoint are made again (langgraph 7038: stale answers after going back)."""
    world, calls = World(), []
    read = counted(calls)

    async def program(task):
        await task.using(key="before").act(read, 1)
        await task.checkpoint("c")
        await task.using(key="behind").act(read, 2)
        if task.attempt == 1:
            await task.rollback("c")

    world.live(Play(program))
    assert [1, 2, 2] == calls


def test_rollbacks_in_a_row_cost_no_more_than_their_number():
    """Each to a checkpoint behind the one before: twenty are read back as fast as they were made."""
    world = World()

    async def program(task):
        if task.attempt <= 20:
            await task.checkpoint(f"c{task.attempt}")
            await task.rollback(f"c{task.attempt}")
        return task.attempt

    assert 21 == world.live(Play(program))
    assert 20 == world.fold().branch


def test_the_past_is_never_rewritten():
    """A rollback and three resumes leave every earlier entry as it was (openhuman 6282)."""
    world, prefixes = World(), []

    async def program(task):
        if task.attempt == 1:
            await task.rollback("start")
        raise Stop

    for _ in range(3):
        with pytest.raises(Stop):
            world.live(Play(program))
        prefixes.append([entry.digest for entry in world.journal()])
    assert prefixes[0] == prefixes[1][: len(prefixes[0])]
    assert prefixes[1] == prefixes[2][: len(prefixes[1])]


def test_a_person_rolls_back_a_task_that_nobody_holds():
    """From outside, the next life of the program begins at the checkpoint."""
    world = World()

    async def program(task):
        if not task.state["got"]:
            await task.checkpoint("empty")
            await _add(task, 1)
            raise Stop
        return task.state["got"].plain()

    play = Play(program, state={"got": []})
    with pytest.raises(Stop):
        world.live(play)

    async def back():
        async with world.runtime() as runtime:
            await runtime.rollback("job", "empty")

    asyncio.run(back())
    assert {"got": []} == world.state()
    with pytest.raises(Stop):
        world.live(play)
    assert [1] == world.live(play)


def test_a_kill_right_behind_a_checkpoint_loses_nothing():
    """A marked checkpoint is there after the kill, and is not marked again."""
    world = World()

    async def program(task):
        await task.checkpoint("c")

    assert DEAD == world.live(Play(program), death=Death("after_checkpoint"))
    world.live(Play(program))
    assert 1 == world.kinds().count("CheckpointMarked")
