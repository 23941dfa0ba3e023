"""One action: what makes a finished one found again, when its patch is applied, and what is refused before dispatch."""

import asyncio
from functools import partial

import pytest

import perdure
from perdure.engine import outcomes
from perdure.errors import EffectNotAnchored, KeyMissing, KeyReused
from perdure.model.entry import ActionIntended, ActionSettled
from perdure.model.outcome import Failed
from tests.worlds import Play, Stop, World, counted


# --- key ------------------------------------------------------------------------------------------------------------
def test_a_keyed_outcome_is_found_again_and_its_patch_is_not_applied_twice():
    """A finished action with a key is not run again by a resumed program, nor is its reducer."""
    calls, world = [], World()
    read = counted(calls)

    async def program(task):
        await task.using(key="k").act(read, 3, then=lambda state, got: state["got"].append(got))
        if task.attempt == 1:
            raise Stop
        return task.state["got"].plain()

    play = Play(program, state={"got": []})
    with pytest.raises(Stop):
        world.live(play)
    assert [3] == world.live(play)
    assert [3] == calls


def test_a_key_with_other_arguments_is_refused():
    """The same tool and key with other arguments raises KeyReused and calls nothing."""
    calls = []
    read = counted(calls)

    async def program(task):
        await task.using(key="k").act(read, 1)
        await task.using(key="k").act(read, 2)

    with pytest.raises(KeyReused) as caught:
        World().live(Play(program))
    assert ("read", "k") == (caught.value.tool, caught.value.key)
    assert [1] == calls


def test_the_same_key_twice_at_once_is_one_call():
    """The second of two equal calls under one key waits for the first and gets its outcome."""
    calls = []

    @perdure.tool(effect="pure")
    async def slow(x: int) -> list[int]:
        calls.append(x)
        await asyncio.sleep(0)
        return [x]

    async def program(task):
        under_key = task.using(key="k")
        first, second = await asyncio.gather(under_key.act(slow, 1), under_key.act(slow, 1))
        first.append(2)
        return second

    assert [1] == World().live(Play(program))
    assert [1] == calls


def test_a_renamed_tool_finds_its_outcomes_by_its_alias():
    """A tool that names its former name as an alias is answered by what was recorded under that."""
    calls, world = [], World()
    tools = [counted(calls, name="old"), counted(calls, name="new", aliases=["old"])]

    async def program(task):
        keyed = await task.using(key="k").act(tools[0], 1)
        loose = await task.act(tools[0], 2)
        if len(tools) > 1:
            raise Stop
        return [keyed, loose]

    with pytest.raises(Stop):
        world.live(Play(program))
    del tools[0]
    assert [1, 2] == world.live(Play(program))
    assert [1, 2] == calls


# --- then -----------------------------------------------------------------------------------------------------------
def test_the_patch_rides_in_the_append_of_the_outcome():
    """`then=` changes the state in the entry of the outcome itself, and an empty patch leaves no trace."""
    world, calls = World(), []
    read = counted(calls)

    async def program(task):
        await task.act(read, 1, then=lambda state, got: state.update(a=got))
        await task.act(read, 2, then=lambda state, got: None)

    world.live(Play(program))
    settled = [entry.payload for entry in world.journal() if isinstance(entry.payload, ActionSettled)]
    assert [True, False] == [bool(bytes(one.patch)) for one in settled]
    assert {"a": 1} == world.state()


def test_a_reducer_that_raises_leaves_the_state_and_is_run_alone_by_the_next_matching_act():
    """The outcome stands unapplied: the next equal call runs only the reducer, once, in the same life or the next."""
    for in_next_life in (False, True):
        calls, reduced, world = [], [], World()
        read = counted(calls)

        def reduce(state, got, reduced=reduced):
            reduced.append(got)
            state["half"] = True
            if len(reduced) == 1:
                raise ValueError("no")
            state["got"] = got

        async def program(task, in_next_life=in_next_life, read=read, reduce=reduce):
            if not task.state.get("got"):
                try:
                    await task.act(read, 7, then=reduce)
                except perdure.ReducerFailed:
                    assert {} == task.state.plain()
                    if in_next_life:
                        raise Stop from None
                    await task.act(read, 7, then=reduce)
            return task.state.plain()

        if in_next_life:
            with pytest.raises(Stop):
                world.live(Play(program))
        assert {"half": True, "got": 7} == world.live(Play(program))
        assert ([7], [7, 7]) == (calls, reduced)
        assert {"half": True, "got": 7} == world.state()


def test_a_reducer_that_is_a_coroutine_function_is_refused():
    """`then=` must be a plain function: it is refused before anything is done, and as a lambda's result after."""
    calls = []

    async def late(state, got):
        state["x"] = got

    async def program(task):
        with pytest.raises(perdure.UsageError, match="plain function"):
            await task.act(counted(calls), then=late)
        assert [] == calls
        with pytest.raises(perdure.ReducerFailed, match="plain function"):
            await task.act(counted(calls), then=lambda state, got: late(state, {"got": got}))
        return task.state.plain()

    assert {} == World().live(Play(program))


def test_a_patch_that_cannot_be_stored_leaves_the_state_as_it_was(monkeypatch):
    """A reducer whose patch is refused while it is written is undone like one that raises."""
    monkeypatch.setattr("perdure.codec.leaves.LEAF_BYTES_MAX", 10_000)

    async def program(task):
        with pytest.raises(perdure.ReducerFailed, match="10000"):
            await task.act(counted([]), then=lambda state, got: state.update(big="x" * 20_000))
        return task.state.plain()

    world = World()
    assert {} == world.live(Play(program))
    assert {} == world.state()


def test_a_reducer_that_changes_its_result_changes_nobody_elses():
    """The caller gets the recorded value, in the first run as in a resumed one."""
    world, results = World(), []

    @perdure.tool(effect="pure")
    async def read() -> dict[str, int]:
        return {"a": 1}

    def take(state, got):
        state["a"] = got.pop("a")

    async def program(task):
        results.append(await task.using(key="k").act(read, then=take))
        if task.attempt == 1:
            raise Stop

    with pytest.raises(Stop):
        world.live(Play(program))
    world.live(Play(program))
    assert [{"a": 1}, {"a": 1}] == results
    assert {"a": 1} == world.state()


def test_an_outcome_whose_reducer_meets_a_long_edit_is_written_unapplied(monkeypatch):
    """An edit that stays open past the wait leaves the outcome without its patch; the next equal act applies it."""
    monkeypatch.setattr(outcomes, "EDIT_WAIT_S", 0.001)
    calls = []
    read = counted(calls)

    async def program(task):
        leave = asyncio.Event()

        async def edit():
            async with task.edit() as state:
                state["edited"] = True
                await leave.wait()

        editing = asyncio.create_task(edit())
        await asyncio.sleep(0)
        await task.act(read, 5, then=lambda state, got: state.update(got=got))
        assert "got" not in task.state
        leave.set()
        await editing
        await task.act(read, 5, then=lambda state, got: state.update(got=got))
        return task.state.plain()

    world = World()
    assert {"edited": True, "got": 5} == world.live(Play(program))
    assert [5] == calls
    assert {"edited": True, "got": 5} == world.state()


def test_a_reducer_waits_for_a_short_edit():
    """`then=` beside another coroutine's edit is applied when that has closed, and both changes stay."""

    async def program(task):
        entered = asyncio.Event()

        async def edit():
            async with task.edit() as state:
                entered.set()
                await asyncio.sleep(0)
                state["edited"] = True

        async def act():
            await entered.wait()
            await task.act(counted([]), 5, then=lambda state, got: state.update(got=got))

        await asyncio.gather(edit(), act())
        return task.state.plain()

    world = World()
    assert {"edited": True, "got": 5} == world.live(Play(program))
    assert {"edited": True, "got": 5} == world.state()


def test_a_reducer_that_is_still_to_be_run_waits_for_every_edit():
    """Where another edit was waiting before it, that one comes first, and nothing clashes."""
    tries = []

    def reduce(state, got):
        tries.append(got)
        if len(tries) == 1:
            raise ValueError("first")
        state["got"] = got

    async def program(task):
        leave = asyncio.Event()
        act = partial(task.using(key="k").act, counted([]), 1, then=reduce)

        async def edit(name):
            async with task.edit() as state:
                await leave.wait()
                await asyncio.sleep(0)
                state[name] = True

        with pytest.raises(perdure.ReducerFailed):
            await act()
        works = []
        for work in (edit("a"), edit("b"), act()):
            works.append(asyncio.create_task(work))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        leave.set()
        await asyncio.gather(*works)
        return task.state.plain()

    world = World()
    assert {"a": True, "b": True, "got": 1} == world.live(Play(program)) == world.state()


# --- loose ----------------------------------------------------------------------------------------------------------
def test_loose_outcomes_are_handed_out_in_order_once_each():
    """Without key and reducer, equal calls of a resumed program get the recorded outcomes in the recorded order."""
    world, numbers = World(), iter(range(100))

    @perdure.tool(effect="pure")
    async def draw() -> int:
        return next(numbers)

    async def program(task):
        drawn = [await task.act(draw) for _ in range(task.attempt + 2)]
        if task.attempt == 1:
            raise Stop
        return drawn

    with pytest.raises(Stop):
        world.live(Play(program))
    assert [0, 1, 2, 3] == world.live(Play(program))


@pytest.mark.parametrize("change", ["edit", "checkpoint", "then"])
def test_a_change_of_the_document_drops_free_loose_outcomes(change):
    """After an edit, a checkpoint or a patch, what was read before is read anew."""
    world, calls = World(), []
    read = counted(calls)

    async def program(task):
        await task.act(read, 1)
        if task.attempt == 1:
            if change == "edit":
                async with task.edit() as state:
                    state["x"] = 1
            elif change == "checkpoint":
                await task.checkpoint("c")
            else:
                await task.act(read, 9, then=lambda state, got: state.update(x=got))
            raise Stop

    with pytest.raises(Stop):
        world.live(Play(program))
    world.live(Play(program))
    assert [1, 1] == [call for call in calls if call == 1]


def test_a_loop_that_reads_and_stores_never_gets_stale_readings():
    """Killed after five of ten rounds, the loop's sixth round stores a sixth reading and not the first again."""
    world, readings = World(), iter(range(1, 100))

    @perdure.tool(effect="pure")
    async def read() -> int:
        return next(readings)

    @perdure.tool(effect="pure")
    async def store(value: int) -> int:
        return value

    def advance(state, value):
        state["rows"].append([len(state["rows"]), value])

    async def program(task):
        while len(task.state["rows"]) < 10:
            if len(task.state["rows"]) == 5 and task.attempt == 1:
                raise Stop
            await task.act(store, await task.act(read), then=advance)
        return task.state["rows"].plain()

    play = Play(program, state={"rows": []})
    with pytest.raises(Stop):
        world.live(play)
    assert [[row, row + 1] for row in range(10)] == world.live(play)


def test_failed_calls_are_made_again():
    """Only outcomes that succeeded are handed out (microsoft/agent-framework 3758: a failed step is not done)."""
    world, calls = World(), []

    @perdure.tool(effect="pure")
    async def read() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("first")
        return "second"

    async def program(task):
        outcome = await task.act_outcome(read)
        if task.attempt == 1:
            assert isinstance(outcome, Failed)
            raise Stop
        return outcome.result

    with pytest.raises(Stop):
        world.live(Play(program))
    assert "second" == world.live(Play(program))


@pytest.mark.parametrize("way", ["poll", "fresh"])
def test_poll_and_fresh_never_take_a_loose_outcome(way):
    """A tool that is declared `poll`, and a call with fresh=True, ask anew in a resumed program."""
    world, calls = World(), []
    read = counted(calls, poll=way == "poll")

    async def program(task):
        await task.using(fresh=way == "fresh").act(read, 1)
        if task.attempt == 1:
            raise Stop

    with pytest.raises(Stop):
        world.live(Play(program))
    world.live(Play(program))
    assert [1, 1] == calls


def test_an_effect_without_key_and_reducer_must_be_anchored_before_the_next_act():
    """Another act right behind it is refused before dispatch, naming the effect."""
    calls, sent = [], []
    send = counted(sent, effect="irreversible", name="send")

    async def program(task):
        await task.act(send, 1)
        await task.act(counted(calls), 2)

    with pytest.raises(EffectNotAnchored) as caught:
        World().live(Play(program))
    assert "send" == caught.value.tool
    assert ([1], []) == (sent, calls)


def test_an_act_beside_a_loose_effect_in_flight_is_refused_like_one_behind_it():
    """The first run is refused where a resumed one would be, also out of a task group."""
    calls = []

    @perdure.tool(effect="irreversible")
    async def send() -> None:
        await asyncio.sleep(0)

    async def program(task):
        async with asyncio.TaskGroup() as group:
            group.create_task(task.act(send))
            group.create_task(task.act(counted(calls), 1))

    with pytest.raises(EffectNotAnchored):
        World().live(Play(program))
    assert [] == calls


@pytest.mark.parametrize("change", ["then", "edit"])
def test_equal_effects_that_could_not_be_told_apart_are_refused(change):
    """Anchored by checkpoints alone, the second of two equal ones raises KeyMissing: neither skipped nor doubled."""
    world, sent = World(), []
    send = counted(sent, effect="irreversible", name="send")

    async def program(task):
        while task.state["n"] < 4:
            await task.act(send, 7)
            await task.checkpoint("sent")
            if change == "then":
                await task.act(counted([]), 1, then=lambda state, got: state.update(n=state["n"] + 1))
            else:
                async with task.edit() as state:
                    state["n"] += 1
                raise Stop

    play = Play(program, state={"n": 0})
    if change == "edit":
        with pytest.raises(Stop):
            world.live(play)
    with pytest.raises(KeyMissing):
        world.live(play)
    with pytest.raises(KeyMissing):
        world.live(play)
    assert [7] == sent


def test_an_effect_behind_a_checkpoint_is_not_sent_again():
    """An effect that a checkpoint has anchored is found by the same call of a resumed program."""
    world, sent = World(), []
    send = counted(sent, effect="irreversible", name="send")

    async def program(task):
        for item in range(3):
            await task.act(send, item)
            await task.checkpoint("sent")
            if item == task.attempt == 1:
                raise Stop

    with pytest.raises(Stop):
        world.live(Play(program))
    world.live(Play(program))
    assert [0, 1, 2] == sent


def test_a_call_names_the_call_that_asked_for_it():
    """By the id of the action that stands under that tool and key on this branch; of one that is not there, nothing."""
    world = World()
    read, send = counted([]), counted([], effect="irreversible", name="send")

    async def program(task):
        await task.using(key="turn").act(read, 1)
        await task.using(key="a").asked_by("read", "turn").act(send, 2)
        await task.using(key="b").asked_by("read", "other").act(send, 3)

    world.live(Play(program))
    turn, asked, other = [one.payload for one in world.journal() if isinstance(one.payload, ActionIntended)]
    assert (turn.action, "", "") == (asked.parent, other.parent, turn.parent)
