"""`task.each`: a loop that remembers its place, alone and inside another, over kills and changed items."""

import pytest

import perdure
from tests.worlds import DEAD, Death, Play, Stop, World, counted


def visits(world, name="job"):
    """Return the loops and how far each has come on record."""
    return {loop: position.done for loop, position in world.fold(name).document.positions.items()}


def test_a_loop_goes_on_where_it_was():
    """Finished bodies are skipped, and the acts of the open one are found again by their place."""
    world, calls = World(), []
    read = counted(calls)
    bodies = []

    async def program(task):
        async for item in task.each("items", [1, 2, 3]):
            bodies.append(item)
            await task.act(read, item)
            await task.act(read, item * 10)
            if item == 2 and task.attempt == 1:
                raise Stop

    with pytest.raises(Stop):
        world.live(Play(program))
    world.live(Play(program))
    assert [1, 2, 2, 3] == bodies
    assert [1, 10, 2, 20, 3, 30] == calls


@pytest.mark.parametrize("where", ["before_append", "after_append"])
def test_a_nested_loop_ends_as_the_undisturbed_one_wherever_it_is_killed(where):
    """Each inner loop has its own place; no finished act runs twice (repopilot 203: a resume that starts at step 1)."""

    async def program(task, calls):
        send = counted(calls)
        async for outer in task.each("outer", ["a", "b"]):
            async for inner in task.each("inner", [1, 2]):
                await task.act(send, f"{outer}{inner}", then=lambda state, got: state["got"].append(got))
            await task.act(send, outer, then=lambda state, got: state["got"].append(got))
        return task.state["got"].plain()

    expected = ["a1", "a2", "a", "b1", "b2", "b"]
    for number in range(1, 60):
        world, calls = World(), []

        async def bound(task, calls=calls):
            return await program(task, calls)

        play = Play(bound, state={"got": []})
        died = world.live(play, death=Death(where, number))
        assert expected == world.live(play)
        assert expected == list(dict.fromkeys(calls))
        assert len(calls) <= len(expected) + 1
        if died != DEAD:
            return
    pytest.fail("no life ran through")


def test_a_loop_left_by_break_keeps_its_place():
    """A resumed program goes through the same body to the same break, without its finished acts."""
    world, calls = World(), []
    read = counted(calls)

    async def program(task):
        async for item in task.each("items", [1, 2, 3]):
            if await task.act(read, item) == 2:
                break
        after = await task.act(read, 100)
        if task.attempt == 1:
            raise Stop
        return after

    with pytest.raises(Stop):
        world.live(Play(program))
    assert 100 == world.live(Play(program))
    assert [1, 2, 100] == calls


@pytest.mark.parametrize(
    "items", [[1, 9, 3], [1], [9, 2, 3]], ids=["another open item", "fewer items", "another finished item"]
)
def test_other_items_than_recorded_stop_the_task(items):
    """A loop over other items raises ResumeDiverged, and a person is asked."""
    world, lists = World(), [[1, 2, 3], items]
    read = counted([])

    async def program(task):
        async for item in task.each("items", lists[min(task.attempt, 2) - 1]):
            await task.act(read, item)
            if item == 2 and task.attempt == 1:
                raise Stop

    with pytest.raises(Stop):
        world.live(Play(program))
    with pytest.raises(perdure.ResumeDiverged, match="items"):
        world.live(Play(program))
    assert "needs_human" == world.fold().ledger.status


def test_more_items_behind_the_recorded_ones_are_welcome():
    """A list that has grown at its end is gone through to its new end."""
    world, lists = World(), [[1, 2], [1, 2, 3]]
    calls = []
    read = counted(calls)

    async def program(task):
        async for item in task.each("items", lists[task.attempt - 1]):
            await task.act(read, item)
        if task.attempt == 1:
            raise Stop

    with pytest.raises(Stop):
        world.live(Play(program))
    world.live(Play(program))
    assert [1, 2, 3] == calls


def test_a_name_begun_twice_in_one_run_is_refused():
    """Two loops of one name would share their places."""

    async def program(task):
        for _ in range(2):
            async for _item in task.each("items", [1]):
                await task.note("x")

    with pytest.raises(perdure.UsageError, match="another name"):
        World().live(Play(program))


def test_an_effect_in_a_body_needs_no_anchor():
    """Its place in the loop is its key."""
    world, sent = World(), []
    send = counted(sent, effect="irreversible", name="send")

    async def program(task):
        async for item in task.each("items", [1, 2]):
            await task.act(send, item)
            await task.act(send, item)

    world.live(Play(program))
    assert [1, 1, 2, 2] == sent


def test_other_arguments_at_a_place_are_another_call():
    """Arguments are part of the place: a body whose branches come in another order finds its outcomes all the same."""
    world, calls = World(), []
    read = counted(calls)

    async def program(task):
        async for _item in task.each("items", [1]):
            order = [7, 8] if task.attempt == 1 else [8, 9, 7]
            got = [await task.act(read, number) for number in order]
            if task.attempt == 1:
                raise Stop
        return got

    with pytest.raises(Stop):
        world.live(Play(program))
    assert [8, 9, 7] == world.live(Play(program))
    assert [7, 8, 9] == calls


def test_the_places_of_finished_bodies_are_forgotten():
    """What the document keeps of a loop does not grow with its length."""
    world = World()
    read = counted([])

    async def program(task):
        async for item in task.each("items", list(range(50))):
            await task.act(read, item)

    world.live(Play(program))
    assert {"items": 50} == visits(world)
    assert {} == world.fold().document.places
