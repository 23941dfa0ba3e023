"""Time-outs, threads that outlive them, and cancellation: recorded, passed on, and never a second call."""

import asyncio
import threading

import pytest

import perdure
from perdure.engine.loading import load_fold
from perdure.model.entry import ActionSettled
from perdure.model.outcome import Failed, InDoubt, Succeeded
from tests.worlds import Play, Stop, World, counted, until


def settled(world):
    """Return (outcome, failure class, by) of each outcome on record."""
    payloads = [entry.payload for entry in world.journal() if isinstance(entry.payload, ActionSettled)]
    return [(one.outcome, one.error.failure_class if one.error else "", one.by) for one in payloads]


async def forever():
    """Never return."""
    await asyncio.get_running_loop().create_future()


class Gate:
    """A plain tool that waits in its thread until the test lets it go."""

    def __init__(self, effect="irreversible", ends=None, name="wait"):
        self.started, self.calls, self._open = threading.Event(), [], threading.Event()

        def wait(item: int) -> str:
            self.calls.append(item)
            self.started.set()
            assert self._open.wait(10)
            if ends is not None:
                raise ends
            return f"late {item}"

        if isinstance(effect, perdure.Effect):

            def keyed(item: int, key: perdure.EffectKey) -> str:
                return wait(item)

        self.tool = perdure.tool(effect=effect, name=name, timeout_s=1.0)(wait if isinstance(effect, str) else keyed)

    def open(self):
        """Let the thread end."""
        self._open.set()

    async def out_of_time(self, world):
        """Let the clock pass the tool's time-out as soon as the thread runs."""
        await until(self.started.is_set)
        world.clock.advance(2.0)


@pytest.mark.parametrize(
    ("effect", "outcome", "recorded"), [("pure", Failed, "failed"), ("irreversible", InDoubt, "in_doubt")]
)
def test_a_coroutine_out_of_time_is_cancelled(effect, outcome, recorded):
    """Free: Failed(timeout); an effect: in doubt. The program goes on in both cases."""
    world, cancelled = World(), []

    @perdure.tool(effect=effect, timeout_s=1.0)
    async def slow() -> None:
        world.clock.advance(2.0)
        try:
            await forever()
        finally:
            cancelled.append(1)

    async def program(task):
        got = await task.act_outcome(slow)
        assert 0 == asyncio.current_task().cancelling()
        assert isinstance(got, outcome)
        raise Stop

    with pytest.raises(Stop):
        world.live(Play(program))
    assert [1] == cancelled
    assert [(recorded, "timeout", "")] == settled(world)


def test_a_tool_that_swallows_its_time_out_leaves_no_cancellation_behind():
    """What it returns all the same is its result."""
    world = World()

    @perdure.tool(effect="pure", timeout_s=1.0)
    async def stubborn() -> str:
        world.clock.advance(2.0)
        try:
            await forever()
        except asyncio.CancelledError:
            return "all the same"

    async def program(task):
        got = await task.act(stubborn)
        assert 0 == asyncio.current_task().cancelling()
        return got

    assert "all the same" == world.live(Play(program))


def test_act_raises_action_timed_out():
    """A free call out of time raises ActionTimedOut, which is an ActionFailed."""
    world = World()

    @perdure.tool(effect="pure")
    async def slow() -> None:
        world.clock.advance(2.0)
        await forever()

    async def program(task):
        with pytest.raises(perdure.ActionTimedOut):
            await task.using(timeout_s=1.0).act(slow)

    world.live(Play(program))


def test_a_late_result_settles_the_action():
    """A thread that ends after its time-out settles the effect; the waiting equal call gets that result."""
    world, gate = World(), Gate()

    async def program(task):
        helper = asyncio.create_task(gate.out_of_time(world))
        assert isinstance(await task.act_outcome(gate.tool, 1), InDoubt)
        await helper
        again = asyncio.create_task(task.act(gate.tool, 1))
        await asyncio.sleep(0)
        assert [1] == gate.calls
        gate.open()
        return await again

    assert "late 1" == world.live(Play(program))
    assert [1] == gate.calls
    assert [("in_doubt", "timeout", ""), ("succeeded", "", "late")] == settled(world)


def test_a_keyed_call_is_not_dispatched_again_while_its_thread_runs():
    """The second call under the key waits for the thread of the first, also with a reducer."""
    world, gate = World(), Gate()

    async def program(task):
        keyed = task.using(key="k")
        helper = asyncio.create_task(gate.out_of_time(world))
        await keyed.act_outcome(gate.tool, 1, then=lambda state, got: state.update(got=got))
        await helper
        again = asyncio.create_task(keyed.act(gate.tool, 1, then=lambda state, got: state.update(got=got)))
        gate.open()
        await again
        return task.state.plain()

    assert {"got": "late 1"} == world.live(Play(program))
    assert [1] == gate.calls


@pytest.mark.parametrize(
    ("ends", "last"), [(ValueError("no"), ("failed", "tool", "late")), (ConnectionError("reset"), None)]
)
def test_a_late_error_settles_only_where_it_is_certain(ends, last):
    """A late refusal is a failure; a late broken connection leaves the effect in doubt."""
    world, gate = World(), Gate(ends=ends)

    async def program(task):
        helper = asyncio.create_task(gate.out_of_time(world))
        assert isinstance(await task.act_outcome(gate.tool, 1), InDoubt)
        await helper
        again = asyncio.create_task(task.act_outcome(gate.tool, 1))
        gate.open()
        await again
        raise Stop

    with pytest.raises(Stop):
        world.live(Play(program))
    assert [1] == gate.calls
    assert [("in_doubt", "timeout", ""), *([last] if last else [])] == settled(world)


def test_a_plain_tool_runs_in_a_thread_and_a_quick_one_on_the_loop():
    """`quick=True` is called where the program runs."""

    @perdure.tool(effect="pure")
    def plain() -> bool:
        return threading.current_thread() is threading.main_thread()

    quick = perdure.tool(effect="pure", name="quick", quick=True)(plain.fn)

    async def program(task):
        return [await task.act(plain), await task.act(quick)]

    assert [False, True] == World().live(Play(program))


# --- cancellation ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("effect", "recorded"), [("pure", "failed"), ("irreversible", "in_doubt")])
def test_a_cancellation_from_outside_is_recorded_and_passed_on(effect, recorded):
    """The run is paused, its caller gets CancelledError, and no finished tool runs again (EvoScientist 463)."""
    world, calls, started = World(), [], []
    read = counted(calls)

    @perdure.tool(effect=effect)
    async def slow() -> None:
        started.append(1)
        if len(started) == 1:
            await forever()

    async def program(task):
        await task.using(key="k").act(read, 1)
        await task.act(slow)
        return "done"

    async def cancelled():
        async with world.runtime() as runtime:
            running = asyncio.create_task(runtime.run(Play(program), "job"))
            await until(lambda: started)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            return (await load_fold(runtime.store, (await runtime.store.find("job")).task)).ledger.status

    assert "paused" == asyncio.run(cancelled())
    assert (recorded, "cancelled", "") == settled(world)[-1]
    if effect == "pure":
        assert "done" == world.live(Play(program))
    else:
        with pytest.raises(perdure.NeedsHuman):
            world.live(Play(program))
    assert [1] == calls


def test_a_cancelled_sibling_of_a_task_group_is_recorded_as_cancelled():
    """A failing act cancels its siblings; each has an outcome, and the program can go on."""
    world = World()

    @perdure.tool(effect="pure")
    async def slow() -> None:
        await forever()

    @perdure.tool(effect="pure")
    async def bad() -> None:
        raise ValueError("no")

    async def program(task):
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(task.act(slow))
                group.create_task(task.act(bad))
        except* perdure.ActionFailed:
            pass
        return "went on"

    assert "went on" == world.live(Play(program))
    assert {("failed", "tool", ""), ("failed", "cancelled", "")} == set(settled(world))


def test_a_thread_that_outlives_a_cancellation_settles_its_action():
    """`asyncio.timeout` around an act leaves the effect in doubt until its thread has ended."""
    world, gate = World(), Gate()

    async def program(task):
        running = asyncio.create_task(task.act(gate.tool, 1))
        await until(gate.started.is_set)
        running.cancel()
        await asyncio.wait([running])
        again = asyncio.create_task(task.act_outcome(gate.tool, 1))
        gate.open()
        return isinstance(await again, Succeeded)

    assert world.live(Play(program))
    assert [1] == gate.calls


def test_a_cancellation_while_an_outcome_waits_for_an_edit_does_not_lose_it():
    """The tool has run: its outcome is written, without its patch, before the cancellation goes on."""
    world, calls = World(), []
    read = counted(calls, effect="irreversible", name="send")

    async def program(task):
        leave = asyncio.Event()

        async def edit():
            async with task.edit():
                await leave.wait()

        editing = asyncio.create_task(edit())
        await asyncio.sleep(0)
        acting = asyncio.create_task(task.act(read, 1, then=lambda state, got: state.update(got=got)))
        await until(lambda: calls)
        acting.cancel()
        await asyncio.wait([acting])
        assert acting.cancelled()
        leave.set()
        await editing
        await task.act(read, 1, then=lambda state, got: state.update(got=got))
        return task.state.plain()

    assert {"got": 1} == world.live(Play(program))
    assert [1] == calls
