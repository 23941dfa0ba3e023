"""Waits that are decided: durable, waited to their end and no longer, parked where they are long."""

import asyncio
import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import perdure
from perdure.core.recovery import Rules
from perdure.core.retrying import Patience
from perdure.limits import CRASH_LOOP_STARTS_MAX
from perdure.model.decision import Retry
from perdure.model.entry import DecisionTaken, LeaseClaimed, TaskParkedEntry
from tests.worlds import DEAD, Death, Play, World

MINUTE_S = 60
ROOT = Path(__file__).parents[3]


class ServiceError(Exception):
    """What a service says no with."""

    def __init__(self, failure_class, wait_s=0.0, message="slow down"):
        super().__init__(message)
        self.failure_class, self.retry_after_s = failure_class, wait_s


class Service:
    """Fails with what is left in `faults`, then answers; counts its calls, and when they came."""

    def __init__(self, *faults, name, provider=""):
        self.faults, self.calls, self.clock = list(faults), [], None
        self.tool = perdure.tool(effect="pure", name=name, provider=provider)(self._call)

    async def _call(self) -> str:
        self.calls.append(self.clock.monotonic())
        if self.faults:
            raise self.faults.pop(0)
        return "answer"

    async def program(self, task):
        """Ask it once."""
        return await task.act(self.tool)


def live(world, service, **options):
    """Run one life of the service's program in virtual time."""
    service.clock = world.clock

    async def life():
        async with world.runtime(**options) as runtime:
            return await runtime.run(Play(service.program), "job")

    return world.clock.run(life())


# --- killed in a wait -----------------------------------------------------------------------------------------------
SCRIPT = """
    import asyncio, json, os, signal, sys
    import perdure
    from perdure.stores.opening import open_store
    from perdure.testing import FakeClock
    from tests.virtual import WatchedStore, run_timed
    from tests.worlds import Play

    place, at_s, dies_at_s, inline_s = sys.argv[1], *map(float, sys.argv[2:])
    clock = FakeClock()
    clock.advance(at_s)

    class Throttled(Exception):
        failure_class, retry_after_s = "throttled", 2400.0

    @perdure.tool(effect="pure", provider="acme")
    async def call() -> str:
        print(json.dumps(["called", clock.monotonic()]), flush=True)
        if clock.monotonic() < 2400:
            raise Throttled("429")
        return "answer"

    async def program(task):
        return await task.act(call)

    async def dying():
        await asyncio.sleep(dies_at_s - clock.monotonic())
        os.kill(os.getpid(), signal.SIGKILL)

    async def main():
        store = WatchedStore(await open_store(place, clock))
        asyncio.get_running_loop().store = store
        death = asyncio.create_task(dying()) if dies_at_s else None
        async with perdure.open(store, clock=clock, wait_inline_s=inline_s) as runtime:
            try:
                said = ["returned", await runtime.run(Play(program), "job")]
            except perdure.TaskParked as parked:
                said = ["parked", (parked.until - 1_800_000_000_000_000) / 1e6]
        print(json.dumps([*said, clock.monotonic()]), flush=True)
        await store.close()

    run_timed(clock, main())
"""


def _life(place, *, at_s, dies_at_s=0.0, inline_s=300.0):
    """Run one process in virtual time on a real database; return (exit code, what it said)."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), f"sqlite:///{place}", *map(str, (at_s, dies_at_s, inline_s))],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PATH": "/usr/bin:/bin"},
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


@pytest.mark.parametrize("back_after_s", [10 * MINUTE_S, 25 * MINUTE_S, 39.9 * MINUTE_S, 50 * MINUTE_S])
def test_a_kill_in_the_middle_of_a_long_wait_changes_nothing_of_its_end(tmp_path, back_after_s):
    """Told to wait for 40 minutes and killed after 10, on a real database: the call goes out at minute 40, not before.

    However long the process is away; where that is longer than the wait, the call goes out at once.
    """
    place = tmp_path / "p.db"
    code, said, errors = _life(place, at_s=0, dies_at_s=10 * MINUTE_S, inline_s=1e9)
    assert (-9, ["called"]) == (code, [what for what, *_ in said]), errors
    code, said, errors = _life(place, at_s=back_after_s, inline_s=1e9)
    assert (0, ["called", "returned"]) == (code, [what for what, *_ in said]), errors
    expected = max(40 * MINUTE_S, back_after_s)
    assert expected <= said[0][1] <= expected + 1.1
    assert expected <= said[1][2] <= expected + 1.1


def test_a_long_wait_parks_and_the_task_says_when_it_goes_on(tmp_path):
    """With the usual 5 minutes: parked at once, parked again without a call before its time, done when it has come."""
    place = tmp_path / "p.db"
    _, said, errors = _life(place, at_s=0)
    assert ["called", "parked"] == [what for what, *_ in said], errors
    assert 2400 <= said[1][1] <= 2401.1
    _, again, errors = _life(place, at_s=20 * MINUTE_S)
    assert [["parked", said[1][1]]] == [one[:2] for one in again], errors
    _, near, errors = _life(place, at_s=36 * MINUTE_S)
    assert ["called", "returned"] == [what for what, *_ in near], errors
    assert 2400 <= near[0][1] <= 2401.1


# --- parking --------------------------------------------------------------------------------------------------------
def test_run_does_not_touch_a_task_that_is_parked_for_long():
    """It says until when, and takes no lease."""
    world, service = World(), Service(ServiceError("throttled", 3600), name="parked_call")
    with pytest.raises(perdure.TaskParked) as first:
        live(world, service)
    entries = len(world.journal())
    with pytest.raises(perdure.TaskParked) as second:
        live(world, service)
    assert first.value.until == second.value.until
    assert entries == len(world.journal())
    assert 1 == len(service.calls)


def test_a_wait_that_is_told_to_be_skipped_is_skipped():
    """`skips_waits` (--now): the rest is not waited for, and that stands on record."""
    world, service = World(), Service(ServiceError("throttled", 3600), name="hurried_call")
    with pytest.raises(perdure.TaskParked):
        live(world, service)
    assert "answer" == live(world, service, rules=Rules(skips_waits=True))
    assert service.calls[1] < 100
    claims = [one.payload.at_once for one in world.journal() if isinstance(one.payload, LeaseClaimed)]
    assert [True] == claims


def test_without_a_limit_the_process_waits_however_long_it_takes():
    """wait_inline_s = infinity (--wait): nothing is parked, not even for a quota."""
    fault = ServiceError("quota", 900, message="per day")
    world, service = World(), Service(ServiceError("throttled", 400), fault, name="patient_call")
    assert "answer" == live(world, service, wait_inline_s=float("inf"))
    assert not [one for one in world.journal() if isinstance(one.payload, TaskParkedEntry)]
    assert 1300 <= service.calls[-1] <= 1310


def test_a_request_to_stop_ends_a_wait_at_once():
    """Four minutes of an outage are not waited for by somebody who presses Ctrl-C."""
    world, service = World(), Service(ServiceError("throttled", 240), name="stopped_call")
    service.clock = world.clock

    async def main():
        async with world.runtime() as runtime:
            run = asyncio.create_task(runtime.run(Play(service.program), "job"))
            await asyncio.sleep(20)
            runtime.request_stop("pause")
            with pytest.raises(perdure.TaskPaused):
                await run

    world.clock.run(main())
    assert world.clock.monotonic() < 22
    assert "paused" == world.fold().ledger.status


# --- counts over restarts -------------------------------------------------------------------------------------------
IMPATIENT = Rules(patience=Patience(outage_s=0, base_s=0))


@pytest.mark.parametrize("dies_after", [1, 2, 3, 4, 5])
def test_tries_are_counted_over_kills(dies_after):
    """One call and three tries more, whichever of them the process dies behind; who runs it again gets no more.

    (run-llama/llama-agents 680, crewAIInc/crewAI 6639)
    """
    world = World()
    service = Service(*[ServiceError("capacity") for _ in range(100)], name="counted_call")
    service.clock = world.clock
    assert DEAD == world.live(Play(service.program), death=Death("during_recovery", dies_after), rules=IMPATIENT)
    assert 1 <= len(service.calls) < 4
    for _ in range(2):
        with pytest.raises(perdure.NeedsHuman, match="4 times in a row"):
            world.live(Play(service.program), rules=IMPATIENT)
    assert 4 == len(service.calls)


def test_a_word_of_a_person_gives_as_many_tries_again_and_a_new_task_begins_at_zero():
    """4 calls; resumed by hand 4 more; a new task of another name 4 of its own."""
    world = World()
    service = Service(*[ServiceError("capacity") for _ in range(100)], name="extended_call")
    service.clock = world.clock

    async def main():
        async with world.runtime(rules=IMPATIENT) as runtime:
            counts = []
            play = Play(service.program)
            for start in (runtime.run(play, "job"), runtime.resume("job", play), runtime.run(play, "other")):
                with pytest.raises(perdure.NeedsHuman):
                    await start
                counts.append(len(service.calls))
            return counts

    assert [4, 8, 12] == world.clock.run(main())


@pytest.mark.parametrize("failure_class", ["auth", "quota", "request"])
def test_what_waiting_does_not_help_is_not_tried_again(failure_class):
    """A dead key, a credit that is used up, a wrong request: one call, then a person, over any number of restarts.

    (thedotmack/claude-mem 1481)
    """
    world = World()
    service = Service(*[ServiceError(failure_class, message="no") for _ in range(9)], name=f"dead_{failure_class}")
    for _ in range(3):
        with pytest.raises(perdure.NeedsHuman, match="no"):
            live(world, service)
    assert 1 == len(service.calls)


def test_a_quota_that_is_said_to_be_back_and_is_not_does_not_spin():
    """The date of its return lies in the past: a person is asked, and nobody calls again and again."""
    error = ServiceError("quota", message="used up")
    error.retry_until = 1
    world, service = World(), Service(error, error, error, name="stale_quota")
    with pytest.raises(perdure.NeedsHuman):
        live(world, service)
    assert 1 == len(service.calls)


def test_short_waits_that_are_told_again_and_again_grow():
    """A wait of 10 ms, told for ever, ends with a person when the outage has lasted too long, after a few calls."""
    world = World()
    service = Service(*[ServiceError("throttled", 0.01) for _ in range(1000)], name="told_call")
    with pytest.raises(perdure.NeedsHuman, match="slow down"):
        live(world, service, rules=Rules(patience=Patience(outage_s=600)))
    assert 6 < len(service.calls) < 20
    assert 600 <= world.clock.monotonic() <= 900
    rows = [one.payload.row for one in world.journal() if isinstance(one.payload, DecisionTaken)]
    assert "passing_too_long" == rows[-1]


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"wait_inline_s": -1}, "wait_inline_s"),
        ({"wait_inline_s": "soon"}, "wait_inline_s"),
        ({"wait_inline_s": float("nan")}, "wait_inline_s"),
        ({"rules": 3}, "rules=3"),
        ({"rules": Rules(patience=Patience(base_s=-1))}, "base_s"),
        ({"rules": Rules(patience=Patience(retries_max=-1))}, "retries_max"),
        ({"rules": Rules(health=perdure.HealthRules(valid_min=2))}, "valid_min"),
        ({"rules": Rules(health=perdure.HealthRules(calls_min=21))}, "calls_min"),
        ({"rules": Rules(prior=(("direct", 1),))}, "prior"),
        ({"hooks": 3}, "hooks=3"),
        ({"hooks": ["echo"]}, "hooks="),
        ({"lease_ttl_s": "x"}, "lease_ttl_s"),
        ({"lease_ttl_s": -1}, "lease_ttl_s"),
        ({"lease_ttl_s": float("nan")}, "lease_ttl_s"),
    ],
)
def test_settings_of_no_use_are_refused(settings, what):
    """Before a store is opened, and by their name: a wait that is no number would be met in the middle of the night."""

    async def open_so():
        async with perdure.open("memory://", **settings):
            pass

    with pytest.raises(perdure.UsageError, match=what):
        asyncio.run(open_so())


def test_kills_in_a_wait_are_no_crash_loop():
    """Whatever the number of reboots: it was only waited. Behind the wait they count."""
    world, rules = World(), Rules(wait_inline_s=9_000.0)
    service = Service(ServiceError("throttled", wait_s=3_000.0), name="rebooted_call")
    service.clock = world.clock
    play = Play(service.program)
    assert DEAD == world.live(play, death=Death("during_recovery", 2), rules=rules)
    for _ in range(2 * CRASH_LOOP_STARTS_MAX):
        assert DEAD == world.live(play, death=Death("during_recovery", 3), rules=rules)
    assert 0 == world.fold().ledger.starts_in_row
    assert isinstance(world.fold().ledger.decided, Retry)
