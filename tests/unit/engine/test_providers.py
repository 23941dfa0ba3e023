"""Breakers of providers: when they open and close, who waits, what is written, and what other tasks notice."""

import asyncio

import pytest

import perdure
from perdure.clock import SystemClock
from perdure.core.breaker import Breaker, Hold, Turn
from perdure.engine.providers import Providers, providers_for
from perdure.limits import BREAKER_CEILING_S, PARALLEL_ACTIONS_MAX
from perdure.model.entry import ActionIntended, ActionSettled, HealthChanged, TaskParkedEntry, WaitBegan
from perdure.model.failure import ErrorRecord
from perdure.testing import FakeClock
from tests.worlds import DEAD, CountedIds, Death, Play, World

BUSY = ErrorRecord(type="Busy", message="no", failure_class="capacity")
SLOW = ErrorRecord(type="Slow", message="no", failure_class="throttled")


# --- the breaker alone ----------------------------------------------------------------------------------------------
def fail(breaker, now, error=BUSY, chance=0.0):
    """Let one call go out and fail."""
    turn = breaker.ask(now)
    assert isinstance(turn, Turn)
    breaker.note(turn, error, now, chance)
    breaker.leave(turn)


def test_it_opens_at_the_fifth_fault_in_a_row():
    """Four are let pass, and an answer between them begins the row anew, a refusal too."""
    breaker = Breaker()
    for _ in range(4):
        fail(breaker, 0)
    fail(breaker, 0, ErrorRecord(type="X", message="no", failure_class="refusal"))
    for _ in range(5):
        assert isinstance(breaker.ask(0), Turn)
        fail(breaker, 0)
    assert isinstance(breaker.ask(0), Hold)
    assert isinstance(breaker.ask(4.9), Hold)


def test_one_call_tries_and_the_others_wait():
    """Its success closes the breaker; its failure opens it for longer, each time, up to a ceiling."""
    breaker, now, spans = Breaker(), 0.0, []
    breaker.open("bad", now, 1.0)
    for _ in range(8):
        spans.append(breaker.ask(now).until - now)
        now = breaker.ask(now).until
        trial = breaker.ask(now)
        assert trial.is_trial
        assert 0.0 == breaker.ask(now).until  # nobody knows how long the other one takes
        breaker.note(trial, BUSY, now, 1.0)
        breaker.leave(trial)
    assert [10.0, 20.0, 40.0, 80.0, 160.0, 240.0, 240.0, 240.0] == pytest.approx(spans)
    assert BREAKER_CEILING_S == max(spans)
    now = breaker.ask(now).until
    trial = breaker.ask(now)
    breaker.note(trial, None, now, 0.0)
    breaker.leave(trial)
    assert all(isinstance(breaker.ask(now), Turn) for _ in range(5))


def test_a_trial_that_came_to_nothing_lets_another_one_try():
    """Cancelled or killed by its time-out: its turn is given back."""
    breaker = Breaker()
    breaker.open("bad", 0, 0.0)
    trial = breaker.ask(100)
    breaker.note(trial, ErrorRecord(type="C", message="", failure_class="cancelled"), 100, 0.0)
    breaker.leave(trial)
    assert breaker.ask(100).is_trial


def test_no_more_calls_go_out_at_once_than_it_bears():
    """The next one goes when one has come back."""
    breaker = Breaker()
    turns = [breaker.ask(0) for _ in range(PARALLEL_ACTIONS_MAX)]
    assert all(isinstance(one, Turn) for one in turns)
    assert isinstance(breaker.ask(0), Hold)
    breaker.leave(turns[0])
    assert isinstance(breaker.ask(0), Turn)


def test_an_older_call_that_ends_is_not_the_one_that_tries():
    """While that one is under way nobody else goes out."""
    breaker = Breaker()
    older = breaker.ask(0)
    breaker.open("bad", 0, 0.0)
    trial = breaker.ask(100)
    breaker.leave(older)
    assert trial.is_trial
    assert isinstance(breaker.ask(100), Hold)


def test_a_provider_that_was_back_is_let_alone_as_briefly_as_the_first_time():
    """Only openings in a row last longer."""
    breaker, untils = Breaker(), []
    for began in (0, 1000):
        breaker.open("bad", began, 1.0)
        untils.append(breaker.ask(began).until - began)
        trial = breaker.ask(began + 500)
        breaker.note(trial, None, began + 500, 0.0)
        breaker.leave(trial)
    assert untils[0] == untils[1]


def test_nobody_calls_before_a_time_that_was_told():
    """One fault is enough for that; a later, shorter word does not shorten it."""
    breaker = Breaker()
    fail(breaker, 0, ErrorRecord(type="S", message="no", failure_class="throttled", wait_s=50))
    breaker.hold(20, "shorter")
    assert 50 == breaker.ask(49).until
    assert isinstance(breaker.ask(50), Turn)


def test_a_throttled_provider_gets_half_as_many_calls_at_once_and_more_again_by_success():
    """Halved once for all that ran together, one at least, and one more for each round of successes."""
    breaker = Breaker()
    together = [breaker.ask(0) for _ in range(16)]
    for turn in together:
        breaker.note(turn, SLOW if turn in together[:4] else None, 1, 0.0)
        breaker.leave(turn)
    assert 8 <= breaker.calls_max < 10
    for now in range(2, 9):
        breaker.note(Turn(now), SLOW, now, 0.0)
    assert 1 == breaker.calls_max
    for _ in range(5000):
        breaker.note(Turn(0), None, 0, 0.0)
    assert PARALLEL_ACTIONS_MAX == breaker.calls_max


def test_of_many_providers_one_that_nobody_is_kept_from_calling_is_forgotten(monkeypatch):
    """Never one that is held up: to forget that would be to call it."""
    monkeypatch.setattr("perdure.engine.providers._PROVIDERS_MAX", 3)
    providers, clock = Providers(), FakeClock()
    providers.open("away", "bad", clock, CountedIds())
    for number in range(9):
        providers.leave(f"p{number}", providers.ask(f"p{number}", clock.monotonic()))
    assert 3 == len(providers._breakers)
    assert isinstance(providers.ask("away", clock.monotonic()), Hold)


# --- in runs --------------------------------------------------------------------------------------------------------
class DownError(Exception):
    """The service is away."""

    def __init__(self, failure_class="capacity", wait_s=0.0):
        super().__init__("down")
        self.failure_class, self.retry_after_s = failure_class, wait_s


class Service:
    """A provider that is away until a moment; counts its calls and when they came."""

    def __init__(self, world, name, back_at_s=0.0, **fault):
        self.clock, self.back_at_s, self.fault, self.calls = world.clock, back_at_s, fault, []
        self.most = self.running = 0
        self.tool = perdure.tool(effect="pure", provider=name, name=f"call_{name}")(self._call)

    async def _call(self, who: str) -> str:
        self.calls.append((who, self.clock.monotonic()))
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0.1)
        self.running -= 1
        if self.clock.monotonic() < self.back_at_s:
            raise DownError(**self.fault)
        return who

    async def catching(self, task, who, times):
        """Call it again and again, whatever comes of it."""
        for _ in range(times):
            await task.using(fresh=True).act_outcome(self.tool, who)
        return who

    async def once(self, task, who):
        """Call it once."""
        return await task.act(self.tool, who)


def play(world, main, **options):
    """Run `main(runtime)` in virtual time."""

    async def life():
        async with world.runtime(**options) as runtime:
            return await main(runtime)

    return world.clock.run(life())


def waits(world, name):
    """Return what a task has waited for."""
    return [one.payload for one in world.journal(name) if isinstance(one.payload, WaitBegan)]


def test_a_second_task_of_the_process_waits_too_and_says_so_before():
    """Five faults of one task open the breaker; the other task's call waits, with nothing open, until one has tried."""
    world = World()
    service = Service(world, "shared", back_at_s=3)
    events = []

    async def main(runtime):
        await runtime.run(Play(service.catching), "first", args={"who": "first", "times": 5})
        opened_at = world.clock.monotonic()
        result = await runtime.run(Play(service.once), "second", args={"who": "second"})
        return opened_at, result

    opened_at, result = play(world, main, hooks=[lambda task, event, fields: events.append((event, fields))])
    assert "second" == result
    assert ["first"] * 5 + ["second"] == [who for who, _ in service.calls]
    waited_s = service.calls[-1][1] - opened_at
    assert 5 <= waited_s <= 11
    kinds = world.kinds("second")
    assert kinds.index("WaitBegan") < kinds.index("ActionIntended")
    (began,) = waits(world, "second")
    assert "shared" == began.provider
    assert "waiting" in [event for event, fields in events if fields.get("provider") == "shared"]
    assert {} == world.fold("second").ledger.waits


def test_four_faults_let_the_next_task_call_at_once():
    """The stated count is five."""
    world = World()
    service = Service(world, "four", back_at_s=0.35)

    async def main(runtime):
        await runtime.run(Play(service.catching), "first", args={"who": "first", "times": 4})
        return await runtime.run(Play(service.once), "second", args={"who": "second"})

    play(world, main)
    assert [] == waits(world, "second")


def test_one_tries_and_nobody_else_calls_meanwhile():
    """Twenty calls wait for an open breaker: one goes out alone when its time is over, the rest behind its success."""
    world = World()
    service = Service(world, "many", back_at_s=3)

    async def crowd(task):
        await service.catching(task, "opener", 5)
        service.most = 0
        at = world.clock.monotonic()
        await asyncio.gather(*(task.act(service.tool, f"w{number}") for number in range(20)))
        return at

    play(world, lambda runtime: runtime.run(Play(crowd), "job"))
    behind = sorted(at for who, at in service.calls if who != "opener")
    assert 20 == len(behind)
    assert behind[1] - behind[0] >= 0.1


def test_bad_health_opens_the_breaker_of_a_provider():
    """Two answers of six are too few although no five faults came in a row; the next call waits."""
    world = World()
    faults = [1, 0, 1, 1, 0, 1, 0]

    @perdure.tool(effect="pure", provider="moody", name="call_moody")
    async def call(number: int) -> int:
        if faults[number]:
            raise DownError
        return number

    async def program(task):
        for number in range(7):
            await task.act_outcome(call, number)

    play(world, lambda runtime: runtime.run(Play(program), "job"))
    (changed,) = [one.payload for one in world.journal() if isinstance(one.payload, HealthChanged)]
    assert ("provider moody", True, 6, 2) == (changed.of, changed.is_bad, changed.calls, changed.succeeded)
    assert "of the last 6 calls 2 succeeded" in waits(world, "job")[0].reason
    assert world.clock.monotonic() >= 5


def test_a_wait_that_is_too_long_parks_and_the_rest_is_waited_by_the_next_process():
    """One task is told to wait an hour; another one's call parks its task; the next process calls when it is over."""
    world = World()
    service = Service(world, "hourly", back_at_s=1, failure_class="throttled", wait_s=3600)

    async def main(runtime):
        with pytest.raises(perdure.TaskParked):
            await runtime.run(Play(service.once), "first", args={"who": "first"})
        with pytest.raises(perdure.TaskParked) as parked:
            await runtime.run(Play(service.once), "second", args={"who": "second"})
        return parked.value.until

    until = play(world, main)
    assert ["first"] == [who for who, _ in service.calls]
    (parked,) = [one.payload for one in world.journal("second") if isinstance(one.payload, TaskParkedEntry)]
    assert until == parked.until
    assert not [one for one in world.journal("second") if isinstance(one.payload, ActionIntended)]
    world.clock.advance(3500)
    assert "second" == play(world, lambda runtime: runtime.run(Play(service.once), "second", args={"who": "second"}))
    assert 3600 <= service.calls[-1][1] <= 3602


def test_a_process_that_dies_in_such_a_wait_leaves_the_rest_of_it():
    """Its breaker is gone with it; what it had begun to wait for is on record, and binds all tasks of the next one."""
    world = World()
    service = Service(world, "mourned", back_at_s=1, failure_class="throttled", wait_s=200)

    async def dying(runtime):
        await runtime.run(Play(service.catching), "first", args={"who": "first", "times": 1})
        waiting = asyncio.create_task(runtime.run(Play(service.once), "second", args={"who": "second"}))
        await asyncio.sleep(50)
        runtime.request_stop("pause")
        with pytest.raises(perdure.TaskPaused):
            await waiting

    play(world, dying)
    assert 50 <= world.clock.monotonic() <= 52
    play(world, lambda runtime: runtime.run(Play(service.once), "second", args={"who": "second"}))
    assert 200 <= service.calls[-1][1] <= 202


def test_a_throttled_provider_is_called_by_fewer_at_once():
    """Sixteen calls at once are refused; the next sixteen go out by at most eight, or a few more as they succeed."""
    world = World()
    service = Service(world, "narrow", back_at_s=0.15, failure_class="throttled")

    async def program(task):
        first = [task.using(fresh=True).act_outcome(service.tool, f"a{n}") for n in range(4)]
        await asyncio.gather(*first)
        service.most = 0
        await asyncio.gather(*(task.act(service.tool, f"b{n}") for n in range(16)))

    play(world, lambda runtime: runtime.run(Play(program), "job"))
    assert 2 <= service.most <= 5
    settled = [one.payload.outcome for one in world.journal() if isinstance(one.payload, ActionSettled)]
    assert 16 == settled.count("succeeded")


def test_tools_without_a_provider_know_no_breaker():
    """However often they fail in passing."""
    world = World()

    @perdure.tool(effect="pure", name="call_nobody")
    async def call(number: int) -> int:
        raise DownError

    async def program(task):
        for number in range(5):
            await task.act_outcome(call, number)

    play(world, lambda runtime: runtime.run(Play(program), "job"))
    assert [] == waits(world, "job")
    assert world.clock.monotonic() < 1


def test_a_wait_that_was_told_binds_the_next_process_although_nothing_was_decided():
    """Killed right behind the outcome that tells it, before the failure has left the program."""
    world = World()
    service = Service(world, "told", back_at_s=1, failure_class="throttled", wait_s=200)

    assert DEAD == world.live(Play(service.once), args={"who": "a"}, death=Death("after_outcome"))
    assert "a" == play(world, lambda runtime: runtime.run(Play(service.once), "job", args={"who": "a"}))
    assert 200 <= service.calls[-1][1] <= 202


def test_runtimes_of_a_process_share_their_breakers_and_other_clocks_do_not():
    """On the system's clock they are the process's; a test on a clock of its own meets nobody else's."""
    assert providers_for(SystemClock()) is providers_for(SystemClock())
    assert providers_for(FakeClock()) is not providers_for(FakeClock())
