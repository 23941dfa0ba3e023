"""`task.edit` and the read-only view: all of a change or nothing, one at a time, and no action inside."""

import asyncio
import contextlib

import pytest

import perdure
from perdure.errors import EditOpen, LimitExceeded, ReadOnlyState, UsageError
from perdure.limits import COUNT_MAX, COUNT_NAMES_MAX
from perdure.model.entry import StateEdited
from tests.worlds import DEAD, Death, Play, Stop, World, counted


def test_a_body_that_raises_leaves_nothing():
    """Neither in the state nor in the journal, the order of keys included."""
    world = World()

    async def program(task):
        with contextlib.suppress(ZeroDivisionError):
            async with task.edit() as state:
                del state["a"]
                state["b"]["c"].append(2)
                state["z"] = 1 / 0
        return [list(task.state), task.state.plain()]

    first = {"a": 1, "b": {"c": [1]}}
    assert [["a", "b"], first] == world.live(Play(program, state=first))
    assert "StateEdited" not in world.kinds()
    assert first == world.state()


def test_an_edit_that_changes_nothing_writes_nothing():
    """It costs no entry, and what is loose stays loose."""
    world, calls = World(), []
    read = counted(calls)

    async def program(task):
        await task.act(read, 1)
        async with task.edit() as state:
            assert 1 == state["a"]
        if task.attempt == 1:
            raise Stop

    play = Play(program, state={"a": 1})
    with pytest.raises(Stop):
        world.live(play)
    world.live(play)
    assert [1] == calls
    assert "StateEdited" not in world.kinds()


def test_two_edits_wait_for_each_other():
    """The second body begins when the first has ended, and sees its change."""
    world, seen = World(), []

    async def program(task):
        async def add():
            async with task.edit() as state:
                seen.append(state["n"])
                await asyncio.sleep(0)
                state["n"] += 1

        await asyncio.gather(add(), add(), add())

    world.live(Play(program, state={"n": 0}))
    assert [0, 1, 2] == seen
    assert {"n": 3} == world.state()


async def _edit(task):
    async with task.edit():
        pass


@pytest.mark.parametrize(
    "inner",
    [
        _edit,
        lambda task: task.act(counted([]), 1),
        lambda task: task.checkpoint("c"),
        lambda task: task.note("n"),
        lambda task: task.check("c", True),
        lambda task: task.rollback("start"),
    ],
)
def test_nothing_else_is_done_inside_an_edit(inner):
    """The body only changes the state: an act or anything durable in it raises EditOpen, and the edit is undone."""

    async def program(task):
        refused = []
        try:
            async with task.edit() as state:
                state["x"] = 1
                await inner(task)
        except EditOpen:
            refused.append(1)
        assert [1] == refused
        return task.state.plain()

    assert {} == World().live(Play(program))


def test_the_state_outside_an_edit_is_read_only():
    """A write to `task.state`, or to the edit's view after its end, raises ReadOnlyState."""

    async def program(task):
        with pytest.raises(ReadOnlyState):
            task.state["x"] = 1
        with pytest.raises(ReadOnlyState):
            task.state["list"].append(1)
        async with task.edit() as state:
            state["y"] = 2
        with pytest.raises(ReadOnlyState):
            state["z"] = 3
        return task.state.plain()

    assert {"list": [], "y": 2} == World().live(Play(program, state={"list": []}))


def test_an_edit_may_not_pass_an_effect_that_was_not_asked_for_again():
    """A program that no longer makes a recorded call is stopped before its edit; the state is as it was."""
    world, programs = World(), []
    send = counted([], effect="irreversible", name="send")

    async def first(task):
        await task.act(send, 1)
        raise Stop

    async def changed(task):
        programs.append(task)
        async with task.edit() as state:
            state["x"] = 1

    with pytest.raises(Stop):
        world.live(Play(first))
    with pytest.raises(perdure.ResumeDiverged, match="send"):
        world.live(Play(changed))
    assert {} == programs[0].state.plain() == world.state()
    assert "needs_human" == world.fold().ledger.status


@pytest.mark.parametrize("where", ["before_append", "after_append"])
def test_a_killed_edit_is_whole_or_absent(where):
    """Whatever append the process dies at, the state is one of the two that were ever committed."""
    for number in range(1, 5):
        world = World()

        async def program(task):
            if not task.state["n"]:
                async with task.edit() as state:
                    state["n"] += 1
                    state["m"] += 1
            return task.state.plain()

        play = Play(program, state={"n": 0, "m": 0})
        world.live(play, death=Death(where, number))
        if world.memory.tasks:
            assert world.state() in ({"n": 0, "m": 0}, {"n": 1, "m": 1}) if _has_begun(world) else True
        assert {"n": 1, "m": 1} == world.live(play)


def test_a_values_copy_in_the_state_is_its_own():
    """Changing a list after it was put into the state changes nothing (microsoft/agent-framework 7683)."""
    world = World()

    async def program(task):
        mine = [1]
        async with task.edit() as state:
            state["a"] = mine
            state["b"] = mine
        mine.append(2)
        async with task.edit() as state:
            state["a"].append(3)
        return task.state.plain()

    assert {"a": [1, 3], "b": [1]} == world.live(Play(program))
    assert {"a": [1, 3], "b": [1]} == world.state()


def test_a_value_outside_the_domain_is_refused_at_insertion():
    """Its path is named and the edit is undone."""

    async def program(task):
        with pytest.raises(perdure.Unstorable):
            async with task.edit() as state:
                state["x"] = {"deep": object()}
        return task.state.plain()

    world = World()
    assert {} == world.live(Play(program))
    assert DEAD != world.state()
    assert [] == [entry for entry in world.journal() if isinstance(entry.payload, StateEdited)]


@pytest.mark.parametrize("number", range(1, 14))
@pytest.mark.parametrize("where", ["before_append", "after_append"])
def test_a_count_goes_with_its_edit_and_no_rollback_takes_it_back(where, number):
    """Killed anywhere, it is counted as often as the edit was made, on whatever branch."""
    world, made = World(), []

    async def program(task):
        await task.checkpoint("start")
        for _ in range(2 - len(task.state["rows"])):
            async with task.edit(count={"rows": 3}) as state:
                state["rows"].append(task.counts.get("rows", 0))
            made.append("row")
        if task.counts == {"rows": 6}:
            await task.rollback("start")
        return [task.state["rows"].plain(), task.counts]

    play = Play(program, state={"rows": []})
    if DEAD == (ended := world.live(play, death=Death(where, number))):
        ended = world.live(play)
    assert [[6, 9], {"rows": 12}] == ended
    edits = [entry.payload.counts for entry in world.journal() if isinstance(entry.payload, StateEdited)]
    assert ([{"rows": 3}] * 4, {"rows": 12}) == (edits, world.fold().ledger.counts)


def test_a_count_alone_is_written_and_one_whose_body_raises_is_not():
    """No change of the state is needed, and nothing half is left."""
    world = World()

    async def program(task):
        async with task.edit(count={"looks": 1}):
            pass
        with contextlib.suppress(ZeroDivisionError):
            async with task.edit(count={"looks": 5}):
                raise ZeroDivisionError
        return task.counts

    assert {"looks": 1} == world.live(Play(program))
    assert {"looks": 1} == world.fold().ledger.counts


@pytest.mark.parametrize(
    ("count", "error", "says"),
    [
        ({"a": 0}, UsageError, "whole number from 1 on, not by 0"),
        ({"a": -1}, UsageError, "whole number from 1 on, not by -1"),
        ({"a": True}, UsageError, "not by True"),
        ({"a": 1.5}, UsageError, "not by 1.5"),
        ({"": 1}, UsageError, "count name ''"),
        ({"a": COUNT_MAX + 1}, LimitExceeded, "count 'a'"),
        ({f"n{number}": 1 for number in range(COUNT_NAMES_MAX + 1)}, LimitExceeded, "names of counts"),
    ],
)
def test_a_count_that_is_none_is_refused_before_the_body_runs(count, error, says):
    """It is said which one; nothing is written, and the next edit finds its way."""
    world, ran = World(), []

    async def program(task):
        with pytest.raises(error, match=says):
            async with task.edit(count=count):
                ran.append("body")
        async with task.edit() as state:
            state["x"] = 1
        return task.counts

    assert ({}, []) == (world.live(Play(program)), ran)


def _has_begun(world):
    return any(stored.appends for stored in world.memory.tasks.values())
