"""To be stopped is no failure: whatever becomes of a cancellation, nothing is counted or tried again."""

import asyncio

import pytest

import perdure
from tests.worlds import Play, World, until


def stopped(program, how, state=None):
    """Run `program(task, entered)`, and stop it `how` once it has set `entered`; return its world and what came out."""
    world = World()

    async def main():
        entered = asyncio.Event()

        async def fn(task):
            return await program(task, entered)

        async with world.runtime() as runtime:
            running = asyncio.create_task(runtime.run(Play(fn, state=state), "job"))
            await until(entered.is_set)
            how(runtime, running)
            return await asyncio.gather(running, return_exceptions=True)

    (ended,) = asyncio.run(main())
    return world, ended


def cancelled(_runtime, running):
    """From outside, as by a server that shuts down."""
    running.cancel()


def asked_twice(runtime, _running):
    """As by two signals: stop now."""
    runtime.request_stop()
    runtime.request_stop()


STOPS = pytest.mark.parametrize(
    ("how", "ending"), [(cancelled, asyncio.CancelledError), (asked_twice, perdure.TaskPaused)]
)


def expect_nothing_counted(world):
    """The task is paused by a signal; no counter of failures has moved, and nothing was decided."""
    ledger = world.fold().ledger
    assert ("paused", 0, 0, None) == (ledger.status, ledger.failures, ledger.retries, ledger.last_failure)
    assert ledger.reason.startswith("by signal")
    assert {"FailureObserved", "DecisionTaken", "StrategyChosen"}.isdisjoint(world.kinds())


async def _sleep(entered):
    entered.set()
    await asyncio.sleep(3600)


async def in_a_tool(task, entered):
    """The usual case: a coroutine tool is cancelled."""

    @perdure.tool(effect="pure")
    async def slow() -> None:
        await _sleep(entered)

    await task.act(slow)


async def in_a_tool_that_translates(task, entered):
    """A client library turns the cancellation into an error of its own."""

    @perdure.tool(effect="pure")
    async def slow() -> None:
        try:
            await _sleep(entered)
        except asyncio.CancelledError:
            raise ConnectionError("closed") from None

    await task.act(slow)


async def in_a_program_that_translates(task, entered):
    """The program itself does."""
    try:
        await _sleep(entered)
    except asyncio.CancelledError:
        raise RuntimeError(f"{task.name} was interrupted") from None


async def in_a_program_that_catches_all(task, entered):
    """It was asked once, comes to its next act, and turns what that raises into an error."""
    entered.set()
    await until(lambda: task._session.stop or asyncio.current_task().cancelling())
    try:
        await task.note("next")
    except BaseException:  # noqa: BLE001 - as careless code does
        raise ValueError("something went wrong") from None


async def in_a_group(task, entered):
    """One of several, in a task group."""
    async with asyncio.TaskGroup() as group:
        group.create_task(in_a_tool(task, entered))


async def in_an_edit(task, entered):
    """The block of an edit waits for something."""
    async with task.edit() as state:
        state["n"] = 1
        await _sleep(entered)


def asked_once(runtime, _running):
    """As by one signal."""
    runtime.request_stop()


def test_what_a_program_makes_of_the_first_request_is_no_failure():
    """It is paused all the same."""
    world, ended = stopped(in_a_program_that_catches_all, asked_once)
    assert isinstance(ended, perdure.TaskPaused)
    expect_nothing_counted(world)


@STOPS
@pytest.mark.parametrize(
    "program",
    [in_a_tool, in_a_tool_that_translates, in_a_program_that_translates, in_a_group, in_an_edit],
    ids=lambda program: program.__name__,
)
def test_a_stop_is_not_classed_as_a_failure(program, how, ending):
    """The caller gets the stop, the task is paused, an open edit is undone."""
    world, ended = stopped(program, how, state={"n": 0})
    assert isinstance(ended, ending)
    expect_nothing_counted(world)
    assert {"n": 0} == world.state()
    assert (program is in_a_tool_that_translates) == world.fold().ledger.failed_actions  # as the tool has said


@STOPS
def test_a_stop_in_the_wait_between_two_attempts(how, ending):
    """The failure before it stays counted as it was; the wait is over at once, and the next run tries again."""
    calls = []

    async def program(task, entered):
        @perdure.tool(effect="pure")
        async def flaky() -> str:
            calls.append(1)
            if len(calls) < 2:
                entered.set()
                raise ConnectionError("not now")
            return "done"

        return await task.act(flaky)

    def stop_in_the_wait(runtime, running):
        (task,) = runtime._sessions
        asyncio.get_running_loop().create_task(_when_waiting(runtime, task, lambda: how(runtime, running)))

    world, ended = stopped(program, stop_in_the_wait)
    assert isinstance(ended, ending)
    ledger = world.fold().ledger
    assert ("paused", 0, 1) == (ledger.status, ledger.failures, ledger.retries)
    world.clock.step_us = 500_000  # the next run waits the rest
    assert "done" == world.live(Play(lambda task: program(task, asyncio.Event())))


async def _when_waiting(runtime, task, then):
    await until(lambda: (fold := runtime.fold_of(task)) and fold.ledger.retries)
    then()


def test_who_was_cancelled_before_may_still_run_a_program_that_fails():
    """Only a cancellation that came while the program ran is taken for a stop: a clean-up is run as any program."""
    world = World()

    async def failing(task):
        raise ValueError(task.name)

    async def main():
        asyncio.current_task().cancel()
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            async with world.runtime() as runtime:
                with pytest.raises(perdure.NeedsHuman):
                    await runtime.run(Play(failing, failures_max=1), "job")
        asyncio.current_task().uncancel()

    asyncio.run(main())
    assert 1 == world.fold().ledger.failures


def test_a_failure_in_a_task_group_is_a_failure():
    """Groups of some versions of Python leave their task looking cancelled; that alone is no stop."""
    world = World()

    async def program(task):
        @perdure.tool(effect="pure")
        async def broken() -> None:
            raise ValueError("bad")

        async with asyncio.TaskGroup() as group:
            group.create_task(task.act(broken))

    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(program, failures_max=1))
    assert 1 == world.fold().ledger.failures
