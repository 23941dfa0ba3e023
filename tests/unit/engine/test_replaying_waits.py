"""Replay of waits, health and parking: all of it is taken from the record, and nobody is called or waited for."""

import asyncio

import pytest

import perdure
from perdure.engine.replay.playing import play
from perdure.engine.replay.record import load_record
from perdure.model.entry import HealthChanged, TaskParkedEntry, WaitBegan
from tests.worlds import Play, World


class BusyError(Exception):
    """What a service says no with."""

    def __init__(self, failure_class="capacity", wait_s=0.0):
        super().__init__("busy")
        self.failure_class, self.retry_after_s = failure_class, wait_s


class Service:
    """Fails with what is left in `faults`, then answers; counts its calls."""

    def __init__(self, *faults, name, provider="acme"):
        self.faults, self.calls = list(faults), 0
        self.tool = perdure.tool(effect="pure", name=name, provider=provider)(self._call)

    async def _call(self, number: int) -> int:
        self.calls += 1
        if self.faults:
            raise self.faults.pop(0)
        return number

    async def catching(self, task):
        """Call it nine times, whatever comes of it."""
        for number in range(9):
            await task.act_outcome(self.tool, number)
        return "done"

    async def once(self, task):
        """Call it once."""
        return await task.act(self.tool, 1)


def _live(world, program):
    async def life():
        async with world.runtime() as runtime:
            return await runtime.run(program, "job")

    return world.clock.run(life())


def _check(world, service, program, mode):
    async def load():
        store = world.store()
        return await load_record(store, (await store.find("job")).task)

    before = service.calls
    replayed = play(asyncio.run(load()), program, mode)
    assert (None, ()) == (replayed.divergence, replayed.remarks)
    assert before == service.calls


def _kinds(world):
    return {type(entry.payload) for entry in world.journal()}


@pytest.mark.parametrize("mode", ["strict", "tolerant"])
def test_a_wait_for_a_provider_is_told_from_the_record(mode):
    """Words on its health, and the waits that its breaker brought."""
    world, service = World(), Service(*[BusyError()] * 6, name=f"replayed_{mode}")
    program = Play(service.catching)
    assert "done" == _live(world, program)
    assert {HealthChanged, WaitBegan} <= _kinds(world)
    _check(world, service, program, mode)


@pytest.mark.parametrize("mode", ["strict", "tolerant"])
def test_an_alarm_leaves_the_program_at_the_same_place(mode):
    """A bad tool without a provider: the program is called anew, in the replay too."""
    world, service = World(), Service(*[ValueError("no")] * 6, name=f"alarmed_{mode}", provider="")
    program = Play(service.catching)
    assert "done" == _live(world, program)
    assert HealthChanged in _kinds(world)
    _check(world, service, program, mode)


@pytest.mark.parametrize("mode", ["strict", "tolerant"])
def test_a_task_that_was_parked_is_parked_in_its_replay(mode):
    """By a decision; gone on with when it was time."""
    world, service = World(), Service(BusyError("throttled", 900), name=f"parked_{mode}")
    program = Play(service.once)
    with pytest.raises(perdure.TaskParked):
        _live(world, program)
    _check(world, service, program, mode)
    world.clock.advance(900)
    assert 1 == _live(world, program)
    assert TaskParkedEntry in _kinds(world)
    _check(world, service, program, mode)


@pytest.mark.parametrize("mode", ["strict", "tolerant"])
def test_a_call_that_parked_its_task_is_parked_in_its_replay(mode):
    """By the breaker: before its intent."""
    world, service = World(), Service(BusyError("throttled", 900), name=f"held_{mode}")

    async def twice(task):
        await task.act_outcome(service.tool, 0)
        return await task.act(service.tool, 1)

    program = Play(twice)
    with pytest.raises(perdure.TaskParked):
        _live(world, program)
    _check(world, service, program, mode)
    world.clock.advance(700)
    assert 1 == _live(world, program)
    assert 900 <= world.clock.monotonic() <= 902
    _check(world, service, program, mode)
