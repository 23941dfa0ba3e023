"""What an action comes to: refused before dispatch, recorded whatever it returns or raises, rebuilt to its type."""

import asyncio

import pytest

import perdure
from perdure.errors import NestedAct, ToolUndeclared
from perdure.model.entry import ActionIntended, ActionSettled, StateEdited
from perdure.model.outcome import Failed, Succeeded
from tests.worlds import DEAD, Death, Play, Stop, World, counted


# --- what is refused, and what is recorded --------------------------------------------------------------------------
def test_an_argument_that_cannot_be_stored_is_refused_before_dispatch():
    """The path to the value is named, nothing is called, nothing is written."""
    calls, world = [], World()

    @perdure.tool(effect="pure")
    async def read(thing: object) -> None:
        calls.append(thing)

    async def program(task):
        await task.act(read, {"deep": [object()]})

    with pytest.raises(perdure.Unstorable) as caught:
        world.live(Play(program))
    assert ("thing", "deep", 0) == tuple(caught.value.path)
    assert ([], ["TaskStarted", "ProgramCalled"]) == (calls, world.kinds())


def test_a_result_that_cannot_be_stored_never_runs_an_effect_again():
    """The effect stays on record as done and invalid; a resumed program gets the same failure without a second call."""
    world, calls = World(), []
    send = counted(calls, effect="irreversible", result=object(), name="send")

    async def program(task):
        outcome = await task.using(key="k").act_outcome(send, 1)
        assert "object" in outcome.error.message
        if task.attempt == 1:
            raise Stop

    with pytest.raises(Stop):
        world.live(Play(program))
    world.live(Play(program))
    assert [1] == calls


def test_a_result_that_does_not_fit_its_annotation_is_recorded_all_the_same():
    """A tool that breaks its own promise has an outcome: the effect is not in doubt, and is not sent again."""
    world, calls = World(), []

    @perdure.tool(effect="irreversible")
    async def send() -> perdure.Strategy:
        calls.append(1)
        return {"name": 5}

    async def program(task):
        assert isinstance(await task.using(key="k").act_outcome(send), Failed)
        if task.attempt == 1:
            raise Stop

    with pytest.raises(Stop):
        world.live(Play(program))
    world.live(Play(program))
    assert [1] == calls


def test_typed_results_are_equal_in_first_and_resumed_run():
    """Results are rebuilt to the return annotation, in both runs from the record."""
    world, results = World(), []

    @perdure.tool(effect="pure")
    async def choose() -> perdure.Strategy:
        return perdure.Strategy("s", tools=("a", "b"), temperature=0.5)

    async def program(task):
        results.append(await task.act(choose))
        if task.attempt == 1:
            raise Stop

    with pytest.raises(Stop):
        world.live(Play(program))
    world.live(Play(program))
    assert [perdure.Strategy("s", tools=("a", "b"), temperature=0.5)] * 2 == results


def test_a_free_result_that_is_not_valid_is_a_failed_call_and_an_effects_stays():
    """`valid=` turns a free result into Failed(output); an effect's result stays, marked."""

    async def program(task):
        free = await task.act_outcome(counted([], result="", valid=bool))
        effect = await task.act_outcome(counted([], effect="irreversible", name="send", result="", valid=bool))
        return [type(free).__name__, free.error.failure_class, type(effect).__name__, effect.valid]

    assert ["Failed", "output", "Succeeded", False] == World().live(Play(program))


def test_an_act_inside_a_tool_is_refused():
    """A tool that acts gets NestedAct, which is its own failure."""

    async def program(task):
        @perdure.tool(effect="pure")
        async def outer() -> None:
            await task.act(counted([]))

        with pytest.raises(perdure.ActionFailed) as caught:
            await task.act(outer)
        return caught.value.error.type

    assert NestedAct.__name__ == World().live(Play(program)).rpartition(".")[2]


def test_an_undeclared_callable_is_refused_with_the_line_to_write():
    """`task.act(fn)` says how to declare fn."""

    async def program(task):
        await task.act(print)

    with pytest.raises(ToolUndeclared, match=r"print = perdure\.tool"):
        World().live(Play(program))


def test_parallel_acts_have_an_intent_and_an_outcome_each():
    """Three acts of a task group are three pairs, and the results go to their callers."""
    world = World()
    read = counted([])

    async def program(task):
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(task.act(read, item)) for item in range(3)]
        return [done.result() for done in running]

    assert [0, 1, 2] == world.live(Play(program))
    payloads = [entry.payload for entry in world.journal()]
    intents = {one.action for one in payloads if isinstance(one, ActionIntended)}
    outcomes = [one.action for one in payloads if isinstance(one, ActionSettled)]
    assert (3, intents) == (len(outcomes), set(outcomes))


def test_map_returns_in_order_and_raises_its_first_failure():
    """Not a group of it: the caller handles ActionFailed as of one act; what was done is found again."""
    world, calls, bad = World(), [], [2]

    @perdure.tool(effect="pure")
    async def read(item: int) -> int:
        calls.append(item)
        if item in bad:
            raise ValueError("bad")
        return item * 10

    async def program(task):
        with pytest.raises(perdure.ActionFailed, match="bad"):
            await task.map("m", read, [1, 2, 3], concurrency=1)
        bad.clear()
        return await task.map("m", read, [1, 2, 3], concurrency=2)

    assert [10, 20, 30] == world.live(Play(program))
    assert 1 == calls.count(1)


def test_failures_are_recorded_as_values():
    """Type, message and causes of an exception with an own constructor are readable (dbos-transact-py 371, 730)."""

    class Odd(Exception):
        def __init__(self, *, code):
            super().__init__(f"code {code}")

    @perdure.tool(effect="pure")
    async def read() -> None:
        try:
            {}["inner"]
        except KeyError as inner:
            raise Odd(code=7) from inner

    async def program(task):
        error = (await task.act_outcome(read)).error
        return [error.type.rpartition(".")[2], error.message, "inner" in error.causes[0]]

    assert ["Odd", "code 7", True] == World().live(Play(program))


@pytest.mark.parametrize("point", ["before_intent", "after_intent", "after_effect", "after_outcome"])
def test_a_reducer_is_applied_once_wherever_the_process_dies(point):
    """A killed and resumed action leaves one element in the state, and an acknowledged one is not run again."""
    world, calls = World(), []
    read = counted(calls)

    async def program(task):
        await task.using(key="k").act(read, 1, then=lambda state, got: state["got"].append(got))
        return task.state["got"].plain()

    play = Play(program, state={"got": []})
    assert DEAD == world.live(play, death=Death(point))
    assert [1] == world.live(play)
    assert (2 if point == "after_effect" else 1) == len(calls)
    assert [] == [entry for entry in world.journal() if isinstance(entry.payload, StateEdited)]


def test_outcomes_come_as_values():
    """`act_outcome` returns Succeeded with the result and raises nothing for a failure."""

    async def program(task):
        return isinstance(await task.act_outcome(counted([]), 1), Succeeded)

    assert World().live(Play(program))
