"""How sure a holder may be of his lease before a call that may not be made twice, and who is believed to live."""

import asyncio
import contextlib

import msgspec
import pytest

import perdure
from perdure.engine import beat, leases
from perdure.engine.leases import Tenure
from perdure.errors import Fenced, StoreFull
from perdure.limits import LEASE_CALL_MARGIN_S, LEASE_TTL_S
from perdure.model import entry as e
from perdure.model.ids import Holder
from perdure.ports import Message
from perdure.stores.memory import MemoryStore
from tests.worlds import Play, StillClock, Stop, World, counted

OTHER = Holder(boot="another", pid_namespace=0, pid=1, started=0, token="0" * 32)


class Watched(MemoryStore):
    """A memory store that notes the terms it is asked for, and may do something after an append."""

    def __init__(self, world, after_append=lambda: None):
        super().__init__(world.memory, world.clock)
        self.terms = []
        self.after_append = after_append

    def append(self, task, append):
        """Note and pass on."""
        answer = super().append(task, append)
        if append.lease_s:
            self.terms.append(("append", append.lease_s))
            self.after_append()
        return answer

    async def renew(self, task, epoch, ttl_s=LEASE_TTL_S):
        """Note and pass on."""
        self.terms.append(("renew", ttl_s))
        await super().renew(task, epoch, ttl_s)


def act_once(tool, world, after_append=lambda: None):
    """Make one call of `tool` in a runtime of its own; return the terms the store was asked for."""
    store = Watched(world, after_append)

    async def program(task):
        return await task.using(key="once").act(tool, 1)

    async def main():
        async with perdure.open(store, clock=world.clock, ids=world.ids) as runtime:
            return await runtime.run(Play(program), "job")

    return asyncio.run(main()), store.terms


# --- terms ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("effect", ["irreversible", "verifiable"])
def test_a_call_that_may_not_be_made_twice_goes_out_under_a_longer_lease(effect):
    """Its intent renews the lease to its time-out and the margin, its outcome puts it back; nothing else is written."""
    options = {"probe": lambda item: False} if effect == "verifiable" else {}
    _, terms = act_once(counted([], effect=effect, timeout_s=100, **options), World())
    assert ["append", "append"] == [name for name, _ in terms]
    assert [100 + LEASE_CALL_MARGIN_S, LEASE_TTL_S] == [round(term, 1) for _, term in terms]


@pytest.mark.parametrize("effect", ["pure", "workspace"])
def test_a_call_that_may_be_made_again_asks_for_nothing(effect):
    """What may be sent again is safe under any lease."""
    assert [] == act_once(counted([], effect=effect, timeout_s=100), World())[1]


def test_a_process_that_stood_still_before_the_call_renews_first():
    """Between the durable intent and the call more than the margin has passed: the lease is asked for once more."""
    world, calls = World(), []
    waits = iter([LEASE_CALL_MARGIN_S + 1])
    _, terms = act_once(
        counted(calls, effect="irreversible", timeout_s=100), world, lambda: world.clock.advance(next(waits, 0))
    )
    assert ["append", "renew", "append"] == [name for name, _ in terms]
    assert 105 == round(terms[1][1])
    assert [1] == calls


def test_a_process_that_was_followed_before_the_call_does_not_make_it():
    """It stood still, somebody else took the task over: the renewal is refused, and the call never goes out."""
    world, calls = World(), []
    thief = world.store()

    def stand_still():
        world.clock.advance(1000)
        (stored,) = world.memory.tasks.values()
        stored.lease = msgspec.structs.replace(stored.lease, epoch=2, holder=OTHER)

    with pytest.raises(perdure.TaskBusy, match="epoch 2"):
        act_once(counted(calls, effect="irreversible", timeout_s=100), world, stand_still)
    assert [] == calls
    assert OTHER == asyncio.run(thief.lease(next(iter(world.memory.tasks)))).holder


def test_an_unsure_renewal_is_a_loss(monkeypatch):
    """The store cannot say whether the lease still stands: the session is dead before any call."""
    world, calls = World(), []

    async def refuse(self, task, epoch, ttl_s=LEASE_TTL_S):
        raise StoreFull("memory://")

    monkeypatch.setattr(Watched, "renew", refuse)
    with pytest.raises(perdure.TaskPaused, match="full"):
        act_once(counted(calls, effect="irreversible"), world, lambda: world.clock.advance(LEASE_CALL_MARGIN_S + 1))
    assert [] == calls
    assert "ActionSettled" not in world.kinds()


def test_of_several_calls_the_longest_counts():
    """The term follows the call that may take longest, and is shortened when the last is over."""
    clock = StillClock(step_us=0)
    tenure = Tenure(clock)
    assert 105 == tenure.extend("long", 100)
    assert 105 == tenure.extend("short", 10)
    clock.advance(5)
    assert tenure.is_sure(10)
    assert tenure.is_sure(100)
    assert not tenure.is_sure(101)
    assert 0 == tenure.shorten("short")
    assert 0 == tenure.shorten("unknown")
    assert LEASE_TTL_S == tenure.shorten("long")
    assert LEASE_TTL_S == tenure.term_s()


def test_time_that_the_machine_slept_counts_against_the_holder():
    """The clock on the wall went on while the other stood still: not sure."""
    clock = StillClock(step_us=0)
    clock.monotonic = lambda: 1_800_000_000.0
    tenure = Tenure(clock)
    tenure.extend("call", 100)
    clock.advance(LEASE_CALL_MARGIN_S - 1)
    assert tenure.is_sure(100)
    clock.advance(2)
    assert not tenure.is_sure(100)


# --- who is believed ------------------------------------------------------------------------------------------------
@pytest.fixture
def unfinished():
    """A world with a task that another runtime holds."""
    world = World()

    async def program(task):
        raise Stop

    with pytest.raises(Stop):
        world.live(Play(program))
    (stored,) = world.memory.tasks.values()
    until = world.clock.now() + 30_000_000
    stored.lease = msgspec.structs.replace(stored.lease, epoch=2, holder=OTHER, beats=7, until=until)
    return world, stored


def challenge(world, monkeypatch, alive, at_sleep=lambda number: None):
    """Claim the task for another runtime, the holder being `alive`; return the lease and how often it was looked at."""
    sleeps = []

    async def sleep(seconds):
        sleeps.append(seconds)
        at_sleep(len(sleeps))

    async def main():
        async with world.runtime() as runtime:
            task = (await runtime.store.find("job")).task
            with monkeypatch.context() as patched:
                patched.setattr(leases, "is_alive", lambda holder, store: alive)
                patched.setattr(leases.asyncio, "sleep", sleep)
                return await leases.claim(runtime.store, task, runtime._presence, world.clock)

    with contextlib.suppress(perdure.TaskBusy):
        return asyncio.run(main())[0].epoch, sum(sleeps)
    return None, sum(sleeps)


def test_a_living_holder_whose_lease_stands_is_believed_at_once(unfinished, monkeypatch):
    """No watching: TaskBusy now."""
    world, _ = unfinished
    assert (None, 0) == challenge(world, monkeypatch, alive=True)


def test_a_living_holder_whose_lease_has_ended_is_watched_and_followed(unfinished, monkeypatch):
    """He has not beaten for a whole time to live, counted in the challenger's own sleeps: stopped."""
    world, _ = unfinished
    world.clock.advance(31)
    epoch, slept = challenge(world, monkeypatch, alive=True)
    assert 3 == epoch
    assert slept >= LEASE_TTL_S


def test_one_beat_while_he_is_watched_and_he_is_believed(unfinished, monkeypatch):
    """The clock on the wall had jumped, or the machine had slept: the holder is there."""
    world, stored = unfinished
    world.clock.advance(31)

    def beat(number):
        if number == 3:
            stored.lease = msgspec.structs.replace(stored.lease, beats=8)

    epoch, slept = challenge(world, monkeypatch, alive=True, at_sleep=beat)
    assert None is epoch
    assert slept < LEASE_TTL_S


def test_a_beat_between_the_last_look_and_the_claim_keeps_the_lease(unfinished, monkeypatch):
    """The claim names the beats that stood still; a holder who woke in that moment is not robbed."""
    world, stored = unfinished
    world.clock.advance(31)
    claim = MemoryStore.claim

    async def wake_then_claim(self, *what, **how):
        stored.lease = msgspec.structs.replace(stored.lease, beats=8)
        return await claim(self, *what, **how)

    monkeypatch.setattr(MemoryStore, "claim", wake_then_claim)
    assert None is challenge(world, monkeypatch, alive=True)[0]


def test_a_dead_holder_is_followed_at_once(unfinished, monkeypatch):
    """Whatever his lease says."""
    world, _ = unfinished
    assert (3, 0) == challenge(world, monkeypatch, alive=False)


# --- what dies with a session ---------------------------------------------------------------------------------------
def test_a_session_that_died_gives_its_lease_back():
    """A run refused for want of room leaves the task free for anybody, not held by a process that does nothing."""
    world = World()
    store = Watched(world)

    async def program(task):
        await task.using(key="a").act(counted([]), 1)

    def fill(self, task, one):
        return _refused() if one.expected_seq >= 2 else MemoryStore.append(self, task, one)

    async def main():
        async with perdure.open(store, clock=world.clock, ids=world.ids) as runtime:
            with pytest.raises(perdure.TaskPaused):
                await runtime.run(Play(program), "job")
            return (await store.lease((await store.find("job")).task)).holder

    store.append = fill.__get__(store)
    assert None is asyncio.run(main())


# --- words that outlive who took them in ----------------------------------------------------------------------------
@pytest.mark.parametrize(("by_hand", "what", "error"), [
    (False, "pause", perdure.TaskPaused),
    (False, "cancel", perdure.TaskCancelled),
    (True, "pause", None),
    (True, "cancel", perdure.TaskCancelled),
])  # fmt: skip
def test_a_word_on_record_is_obeyed_by_the_next_holder(by_hand, what, error):
    """Recorded and never obeyed: the next run obeys before it calls the program; a resume by hand overtakes a pause."""
    world, calls = World(), []

    async def program(task):
        calls.append(1)
        if len(calls) > 1:
            return "done"
        session = task._session
        session.put(e.MessageReceived(message="m", what=what))
        await session.commit()
        raise Stop

    async def second():
        async with world.runtime() as runtime:
            if by_hand:
                return await runtime.resume("job", Play(program))
            return await runtime.run(Play(program), "job")

    with pytest.raises(Stop):
        world.live(Play(program))
    assert what == world.fold().ledger.asked
    if error is None:
        assert "done" == asyncio.run(second())
    else:
        with pytest.raises(error):
            asyncio.run(second())
    assert (1 if error else 2) == len(calls)
    assert "" == world.fold().ledger.asked


def test_a_cancel_outranks_a_pause():
    """Both were asked for and neither was obeyed: the task is cancelled."""
    world = World()

    async def program(task):
        for what in ("pause", "cancel", "pause"):
            task._session.put(e.MessageReceived(message=what, what=what))
        await task._session.commit()
        raise Stop

    with pytest.raises(Stop):
        world.live(Play(program))
    assert "cancel" == world.fold().ledger.asked


# --- starts that come to nothing ------------------------------------------------------------------------------------
def test_a_name_whose_first_append_was_refused_is_free_again():
    """The same runtime and any other may start a task of that name; nothing of the first is left."""
    world = World()
    refusals = [1]

    async def program(task):
        return "done"

    async def main():
        async with world.runtime() as runtime:
            append = runtime.store.append
            runtime.store.append = lambda task, one: _refused() if refusals and refusals.pop() else append(task, one)
            with pytest.raises(StoreFull):
                await runtime.run(Play(program), "job")
            return await runtime.run(Play(program), "job")

    assert "done" == asyncio.run(main())
    assert 1 == len(world.memory.tasks)


def _refused():
    async def refuse():
        raise StoreFull("memory://")

    return asyncio.ensure_future(refuse())


def test_a_renewal_on_the_loop_names_the_present_term():
    """The beat of the runtime never shortens a lease under which a call is out."""
    world = World()
    store = Watched(world)

    async def slow(item: int = 0):
        (session,) = runtimes[0]._sessions.values()
        await beat.renew(runtimes[0]._sessions)
        assert session.sequencer.dead is None
        return item

    runtimes = []
    tool = perdure.tool(effect="irreversible", name="slow", timeout_s=500)(slow)

    async def main():
        async with perdure.open(store, clock=world.clock, ids=world.ids) as runtime:
            runtimes.append(runtime)

            async def program(task):
                await task.using(key="a").act(tool, 1)

            await runtime.run(Play(program), "job")

    asyncio.run(main())
    assert [505, 505, 30] == [round(term) for _, term in store.terms]


def test_posting_twice_is_one_word():
    """The same id is the same message, also after it was taken in."""
    world = World()

    async def program(task):
        raise Stop

    with pytest.raises(Stop):
        world.live(Play(program))

    async def post():
        store = world.store()
        task = (await store.find("job")).task
        for _ in range(2):
            await store.post(task, Message(id="m", what="pause"))
        return len((await store.messages([task]))[task])

    assert 1 == asyncio.run(post())


def test_a_fenced_renewal_is_no_error_of_the_beat():
    """The beat goes on for the other tasks; the owner of the lost one is told at his next call."""
    world = World()

    async def main():
        async with world.runtime() as runtime, runtime.task("one") as one, runtime.task("two") as two:
            (stored,) = [t for t in world.memory.tasks.values() if t.summary.name == "one"]
            stored.lease = msgspec.structs.replace(stored.lease, epoch=9)
            await beat.renew(runtime._sessions)
            assert isinstance(one._session.sequencer.dead, Fenced)
            assert None is two._session.sequencer.dead
            await two.note("still here")
            with pytest.raises(Fenced):
                await one.note("gone")

    with pytest.raises(perdure.TaskBusy):
        asyncio.run(main())
