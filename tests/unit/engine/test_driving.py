"""The program loop and the runtime: starting, going on, ending, retrying, stopping, and telling tasks apart."""

import asyncio

import pytest

import perdure
from perdure.clock import SystemClock
from perdure.engine.loading import load_fold
from perdure.errors import StoreFull, TaskFinished
from perdure.stores.memory import MemoryStore, MemoryWorld
from perdure.testing.faults import FaultyStore
from tests.worlds import DEAD, IMPATIENT, Death, Play, Stop, World, counted, until


class Impatient(World):
    """A world whose clock moves on by half a second at each look, so that waits pass without being waited."""

    def __init__(self):
        super().__init__()
        self.clock.step_us = 500_000


# --- starting and ending --------------------------------------------------------------------------------------------
def test_a_second_run_returns_the_recorded_result_without_calling():
    """The result is read from the journal; the program is not called."""
    world, calls = World(), []

    async def program(task, x):
        calls.append(x)
        return {"x": x, "deep": [(1, 2)]}

    first = world.live(Play(program), args={"x": 5}, goal="g")
    assert first == world.live(Play(program), args={"x": 5}, goal="g") == {"x": 5, "deep": [(1, 2)]}
    assert [5] == calls


@pytest.mark.parametrize("what", ["goal", "args", "initial state"])
def test_another_goal_state_or_argument_is_refused(what):
    """TaskMismatch says what differs; the order of arguments is no difference."""
    world = World()

    async def program(task, x, y):
        raise Stop

    with pytest.raises(Stop):
        world.live(Play(program, state={"a": 1}), goal="g", args={"x": 1, "y": 2})
    with pytest.raises(Stop):
        world.live(Play(program, state={"a": 1}), goal="g", args={"y": 2, "x": 1})
    goal = "other" if what == "goal" else "g"
    args = {"x": 1, "y": 3} if what == "args" else {"x": 1, "y": 2}
    state = {"a": True} if what == "initial state" else {"a": 1}
    with pytest.raises(perdure.TaskMismatch, match=what):
        world.live(Play(program, state=state), goal=goal, args=args)


def test_new_starts_another_task_under_the_name_of_a_finished_one():
    """A new id; the name means the newest."""
    world, ids = World(), []

    async def program(task):
        ids.append(task.id)
        return len(ids)

    async def twice():
        async with world.runtime() as runtime:
            return [await runtime.run(Play(program), "job", new=new) for new in (True, True, False)]

    assert [1, 2, 2] == asyncio.run(twice())
    assert 2 == len(set(ids))


def test_a_name_that_begins_other_names_is_its_own():
    """Exact names only: `rep` is started although `rep-1` and `rep-2` exist."""
    world = World()

    async def program(task):
        return task.name

    assert ["rep-1", "rep-2", "rep"] == [world.live(Play(program), name) for name in ("rep-1", "rep-2", "rep")]


def test_a_name_whose_maker_died_before_its_first_entry_is_free():
    """A task that never began stands in nobody's way."""
    world = World()

    async def program(task):
        return "done"

    assert DEAD == world.live(Play(program), death=Death("before_append", 1))
    assert "done" == world.live(Play(program))


@pytest.mark.parametrize("where", ["before_append", "after_append"])
def test_a_task_killed_at_any_append_ends_like_the_undisturbed_one(where):
    """Start, program call, act and end included."""
    for number in range(1, 12):
        world, calls = World(), []
        read = counted(calls)

        async def program(task, read=read):
            await task.act(read, 1, then=lambda state, got: state.update(got=got)) if "got" not in task.state else 0
            return task.state.plain()

        died = world.live(Play(program), death=Death(where, number))
        assert {"got": 1} == world.live(Play(program))
        if died != DEAD:
            return
    pytest.fail("no life ran through")


def test_fail_ends_the_task_and_keeps_its_scene():
    """TaskFailed names the reason; a second run raises it again; `again` opens it."""
    world, reasons = World(), ["no money"]

    async def program(task):
        if reasons:
            await task.fail(reasons[0])
        return "done"

    for _ in range(2):
        with pytest.raises(perdure.TaskFailed, match="no money"):
            world.live(Play(program))
    reasons.clear()

    async def again():
        async with world.runtime() as runtime:
            return await runtime.resume("job", Play(program), again=True)

    assert "done" == asyncio.run(again())


def test_ask_needs_a_person_with_the_question():
    """The task waits outside of the process."""
    world = World()

    async def program(task):
        await task.ask("which one?")

    with pytest.raises(perdure.NeedsHuman, match="which one"):
        world.live(Play(program))
    assert "needs_human" == world.fold().ledger.status


def test_wrong_use_goes_to_the_caller_and_leaves_the_task_resumable():
    """A UsageError is no failure of the work: it is not counted and not retried."""
    world = World()

    async def program(task):
        raise Stop

    with pytest.raises(Stop):
        world.live(Play(program))
    assert ("running", 0) == (world.fold().ledger.status, world.fold().ledger.failures)


def test_a_result_that_cannot_be_stored_is_refused_and_the_task_stays_resumable():
    """The path is named; with another program the same task ends."""
    world, results = World(), [{"deep": object()}, "plain"]

    async def program(task):
        return results.pop(0)

    with pytest.raises(perdure.Unstorable, match="deep"):
        world.live(Play(program))
    assert "plain" == world.live(Play(program))


def test_attempts_are_counted_over_lives():
    """1 at the first call, one more at each new call of the program."""
    world, attempts = World(), []

    async def program(task):
        attempts.append(task.attempt)
        if len(attempts) < 3:
            raise Stop

    for _ in range(2):
        with pytest.raises(Stop):
            world.live(Play(program))
    world.live(Play(program))
    assert [1, 2, 3] == attempts


# --- failures -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("failures_max", [1, 3, 5])
def test_counted_failures_end_with_a_person(failures_max):
    """The program is called anew until its own failures_max."""
    world, calls = World(), []

    async def program(task):
        calls.append(1)
        raise ValueError("always")

    with pytest.raises(perdure.NeedsHuman, match="always"):
        world.live(Play(program, failures_max=failures_max))
    assert failures_max == len(calls)


def test_unattended_the_task_fails_instead():
    """Nobody can be asked: TaskFailed with the same words."""
    world = World()

    async def program(task):
        raise ValueError("always")

    with pytest.raises(perdure.TaskFailed, match="always"):
        world.live(Play(program), unattended=True)
    assert "failed" == world.fold().ledger.status


def test_a_passing_failure_is_retried_three_times_with_longer_waits():
    """The wait is written before it is waited; without patience the fourth failure in a row asks a person."""
    world, calls = Impatient(), []

    @perdure.tool(effect="pure")
    async def read() -> None:
        calls.append(1)
        raise ConnectionError("down")

    async def program(task):
        await task.act(read)

    with pytest.raises(perdure.NeedsHuman, match="down"):
        world.live(Play(program), rules=IMPATIENT)
    assert 4 == len(calls)
    assert 0 == world.fold().ledger.failures


def test_a_passing_failure_that_passes_is_forgotten():
    """Three broken connections, then an answer: the task succeeds."""
    world, calls = Impatient(), []

    @perdure.tool(effect="pure")
    async def read() -> str:
        calls.append(1)
        if len(calls) < 4:
            raise ConnectionError("down")
        return "up"

    async def program(task):
        return await task.act(read)

    assert "up" == world.live(Play(program))


def test_a_kill_in_the_wait_between_two_attempts_goes_on_counting():
    """The tries of both lives together are no more than one life's, and the one the kill cut off (dbos 260)."""
    world, calls = Impatient(), []

    @perdure.tool(effect="pure")
    async def read() -> None:
        calls.append(1)
        raise ConnectionError("down")

    async def program(task):
        await task.act(read)

    assert DEAD == world.live(Play(program), death=Death("during_recovery", 2), rules=IMPATIENT)
    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(program), rules=IMPATIENT)
    assert len(calls) <= 5


def test_a_failed_step_runs_again_and_the_later_ones_once():
    """Steps 3, 4 and 5 run once each after step 3 has failed (microsoft/agent-framework 3758)."""
    world, done, failing = World(), [], [1]

    @perdure.tool(effect="pure")
    async def step(number: int) -> int:
        if number == 3 and failing:
            failing.pop()
            raise ValueError("once")
        done.append(number)
        return number

    async def program(task):
        async for number in task.each("steps", [1, 2, 3, 4, 5]):
            await task.act(step, number, then=lambda state, got: state["got"].append(got))
        return task.state["got"].plain()

    assert [1, 2, 3, 4, 5] == world.live(Play(program, state={"got": []}))
    assert [1, 2, 3, 4, 5] == done


def test_a_program_that_is_called_for_ever_is_stopped(monkeypatch):
    """Rolling back to the start each time ends at a person, not at the end of the universe."""
    monkeypatch.setattr("perdure.engine.driving.PROGRAM_CALLS_MAX", 5)

    async def program(task):
        await task.rollback("start")

    with pytest.raises(perdure.NeedsHuman, match="5 times"):
        World().live(Play(program))


# --- stopping -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("what", "ending"), [("pause", perdure.TaskPaused), ("cancel", perdure.TaskCancelled)])
def test_a_request_to_stop_ends_at_the_next_action(what, ending):
    """The running action is finished, none is begun, and the status says so."""
    world, calls = World(), []
    read = counted(calls)

    async def stopped():
        async with world.runtime() as runtime:

            async def program(task):
                await task.using(key="a").act(read, 1)
                runtime.request_stop(what, by="signal")
                await task.using(key="b").act(read, 2)
                return "done"

            with pytest.raises(ending, match="signal"):
                await runtime.run(Play(program), "job")

    asyncio.run(stopped())
    assert [1] == calls
    assert {"pause": "paused", "cancel": "cancelled"}[what] == world.fold().ledger.status


def test_a_second_request_stops_at_once():
    """It does not wait for the action."""
    world, entered = World(), []

    @perdure.tool(effect="pure")
    async def slow() -> None:
        entered.append(1)
        await asyncio.get_running_loop().create_future()

    async def program(task):
        await task.act(slow)

    async def stopped():
        async with world.runtime() as runtime:
            running = asyncio.create_task(runtime.run(Play(program), "job"))
            await until(lambda: entered)
            runtime.request_stop()
            runtime.request_stop()
            with pytest.raises(perdure.TaskPaused):
                await running

    asyncio.run(stopped())
    assert "paused" == world.fold().ledger.status


def test_a_cancelled_task_stays_cancelled():
    """A later run raises TaskCancelled and calls nothing."""
    world, calls = World(), []

    async def program(task):
        calls.append(1)
        raise Stop

    with pytest.raises(Stop):
        world.live(Play(program))

    async def cancel():
        async with world.runtime() as runtime:
            await runtime.stop_task("job", "cancel")

    asyncio.run(cancel())
    with pytest.raises(perdure.TaskCancelled):
        world.live(Play(program))
    assert [1] == calls


# --- inline ---------------------------------------------------------------------------------------------------------
async def _inline(world, body, name="script", **options):
    async with world.runtime() as runtime, runtime.task(name, goal="g", **options) as task:
        return await body(task)


def test_an_inline_task_is_found_again():
    """Left by an exception it is unfinished, left in order it has succeeded, and then it is read-only."""
    world, calls = World(), []
    read = counted(calls)

    async def body(task):
        await task.using(key="k").act(read, 1, then=lambda state, got: state.update(got=got))
        if task.attempt == 1:
            raise ZeroDivisionError
        return task.state.plain()

    with pytest.raises(ZeroDivisionError):
        asyncio.run(_inline(world, body, state={"first": 0}))
    assert {"first": 0, "got": 1} == asyncio.run(_inline(world, body, state={"first": 0}))
    assert [1] == calls

    async def too_late(task):
        assert ("succeeded", {"first": 0, "got": 1}) == (task.status, task.state.plain())
        await task.act(read, 2)

    with pytest.raises(TaskFinished):
        asyncio.run(_inline(world, too_late))


def test_an_inline_task_can_fail_pause_and_roll_back():
    """`fail` and a pause are written and raised as what they are; a rollback leaves the block."""
    world = World()

    async def fail(task):
        await task.fail("no")

    async def back(task):
        await task.rollback("start")

    with pytest.raises(perdure.TaskFailed, match="no"):
        asyncio.run(_inline(world, fail, "a"))
    with pytest.raises(perdure.RolledBack):
        asyncio.run(_inline(world, back, "b"))
    assert ["failed", "running"] == [world.fold(name).ledger.status for name in ("a", "b")]
    with pytest.raises(perdure.TaskMismatch, match="goal"):
        asyncio.run(_other_goal(world))


async def _other_goal(world):
    async with world.runtime() as runtime, runtime.task("b", goal="other"):
        pass


# --- what is recorded beside ----------------------------------------------------------------------------------------
def test_time_and_chance_are_recorded_with_the_next_append():
    """What now, random and new_id gave stands in the journal before the entry that follows from it."""
    world, drawn = World(), []

    async def program(task):
        drawn.extend([task.now(), task.random(), task.new_id()])
        async with task.edit() as state:
            state["id"] = drawn[2]

    world.live(Play(program))
    kinds = world.kinds()
    assert kinds.index("StateEdited") == kinds.index("ValuesDrawn") + 1
    values = next(entry.payload.values for entry in world.journal() if "ValuesDrawn" in type(entry.payload).__name__)
    assert all(str(value).encode() in bytes(values) for value in drawn)


def test_notes_and_facts_are_kept_and_facts_only_once():
    """A fact that stands already is not stated again; a note is a line each time, also with halves of surrogates."""
    world, heard = World(), []

    async def program(task):
        for _ in range(2):
            await task.note("half \ud800", n=1)
            await task.fact("water is wet", source="me")

    world.live(Play(program), hooks=[lambda task, event, fields: heard.append(event)])
    assert (2, 1) == (world.kinds().count("NoteWritten"), world.kinds().count("FactStated"))
    assert ["water is wet"] == world.fold().ledger.facts
    assert 2 == heard.count("note")


def test_a_hook_that_raises_ends_nothing(caplog):
    """Its error is logged."""

    def hook(task, event, fields):
        raise ValueError("broken line")

    async def program(task):
        return "done"

    assert "done" == World().live(Play(program), hooks=[hook])
    assert "hook_failed" in caplog.text


def test_the_strategy_of_a_task_is_its_first_declared_one():
    """And `default` where none is declared; lessons begin empty."""
    seen = []

    async def program(task):
        seen.append((task.strategy.name, task.lessons))

    World().live(Play(program, strategies=(perdure.Strategy("direct"), perdure.Strategy("outline"))))
    World().live(Play(program))
    assert [("direct", []), ("default", [])] == seen


def test_a_real_program_survives_with_its_arguments():
    """A declared program gets its recorded arguments again, from a store of its own."""

    async def both():
        world = World()
        async with world.runtime() as runtime:
            with pytest.raises(Stop):
                await runtime.run(declared, "job", args={"words": ["a", "b"]})
            summary = await runtime.store.find("job")
            result = await runtime.resume(summary.task, declared)
            return result, (await load_fold(runtime.store, summary.task)).ledger.driver.target

    result, target = asyncio.run(both())
    assert "a b" == result
    assert target.endswith(":declared")


@perdure.program(state={})
async def declared(task, words):
    """A program at the top of its module."""
    if task.attempt == 1:
        raise Stop
    return " ".join(words)


def test_a_full_store_names_what_is_in_doubt_on_record_whichever_append_found_no_room():
    """The line to type is `settle` where the intent of an effect is on record and its outcome found no room."""

    @perdure.tool(effect="irreversible")
    async def fire() -> int:
        return 1

    async def program(task):
        await task.act(fire)

    async def full_at(number):
        world = MemoryWorld()
        store = FaultyStore(MemoryStore(world, SystemClock()), fail_at=number, error="full")
        try:
            async with perdure.open(store) as runtime:
                await runtime.run(Play(program), "job")
        except perdure.TaskPaused as paused:
            fold = await load_fold(MemoryStore(world, SystemClock()), paused.task)
            return bool(fold.ledger.open), paused.next_command.split()[1], "in doubt" in str(paused)
        except StoreFull:
            return None
        return None

    seen = {asyncio.run(full_at(number)) for number in range(1, 9)} - {None}
    assert {(True, "settle", True), (False, "resume", False)} == seen
