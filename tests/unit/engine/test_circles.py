"""A run that goes in circles: noticed, written, and the program is left for it; over kills, answers and rollbacks."""

import asyncio

import pytest

import perdure
from perdure.model.entry import DecisionTaken, StuckNoticed
from tests.worlds import DEAD, Death, Play, World

DIRECT, OUTLINE = perdure.Strategy("direct", prompt="a"), perdure.Strategy("outline", prompt="b")


@perdure.tool(effect="pure", name="circling_look")
async def look(where: str) -> str:
    """Say the same each time."""
    return f"nothing in {where}"


@perdure.tool(effect="pure", name="circling_break")
async def broken(where: str) -> str:
    """Fail in the same way each time."""
    raise ValueError(f"no {where}")


@perdure.tool(effect="pure", name="circling_wait", poll=True)
async def wait(_for: str) -> str:
    """Say the same each time, and be meant to."""
    return "not yet"


def rows(world):
    """The rows that fired, in order."""
    return [one.payload.row for one in world.journal() if isinstance(one.payload, DecisionTaken)]


def noticed(world):
    """What was noticed: (rule, period), in order."""
    found = [one.payload for one in world.journal() if isinstance(one.payload, StuckNoticed)]
    return [(one.rule, one.period) for one in found]


def circling(calls, *, until=lambda task: False, limit=60):
    """Return a program that makes `calls` over and over, until `until` says that it has heard."""

    async def program(task):
        for number in range(limit):
            if until(task):
                return task.strategy.name
            tool, argument = calls[number % len(calls)]
            await task.act_outcome(tool, argument)
        return "never left"

    return program


@pytest.mark.parametrize(
    ("calls", "rule"),
    [
        ([(look, "a")], ("run", 1)),
        ([(broken, "a")], ("error", 1)),
        ([(look, "a"), (look, "b")], ("cycle", 2)),
        ([(look, "a"), (broken, "b"), (look, "c")], ("cycle", 3)),
    ],
)
def test_a_circle_is_named_and_a_hint_is_given_first(calls, rule):
    """The hint reaches the program, which goes on knowing it; entries of the circle are on record."""
    world = World()
    told = circling(calls, until=lambda task: task.advice.kind == "nudge")
    assert "direct" == world.live(Play(told, strategies=(DIRECT, OUTLINE)))
    assert [rule] == noticed(world)
    assert ["nudge"] == rows(world)
    (entry,) = [one for one in world.journal() if isinstance(one.payload, StuckNoticed)]
    assert all(seq < entry.header.seq for seq in entry.payload.entries)
    assert len(entry.payload.entries) >= 2


def test_who_does_not_heed_the_hint_goes_back_and_about_it_otherwise():
    """Hint, rollback with the next strategy, and the lesson says what was tried."""
    world = World()
    stubborn = circling([(look, "a")], until=lambda task: task.strategy.name == "outline")
    assert "outline" == world.live(Play(stubborn, strategies=(DIRECT, OUTLINE)))
    assert ["nudge", "roll_back"] == rows(world)
    (lesson,) = world.fold().ledger.lessons
    assert "'direct'" in lesson
    assert "circling_look" in lesson


def test_a_goal_that_is_reached_already_ends_the_task():
    """The verifier runs first: what it returns is the result."""
    world = World()

    async def program(task):
        async with task.edit() as state:
            state["found"] = 42
        while True:
            await task.act(look, "a")

    play = Play(program, state={"found": 0}, strategies=(DIRECT,), reached=lambda state: state["found"])
    assert 42 == world.live(play)
    assert ["already_done"] == rows(world)
    assert 42 == world.live(play)  # as recorded


def test_a_retry_loop_of_a_program_without_strategies_is_its_own_business():
    """It is noted, and left alone; one that does not end is left in the end, and a person is asked."""
    world = World()
    assert "never left" == world.live(Play(circling([(broken, "a")], limit=5)))
    assert [("error", 1)] == noticed(world)
    assert [] == rows(world)
    endless = World()
    with pytest.raises(perdure.NeedsHuman, match="circling_look"):
        endless.live(Play(circling([(look, "a")], limit=10_000)))
    assert ["nudge", "nudge", "limit_reached"] == rows(endless)


@pytest.mark.parametrize(
    "call", [lambda task, n: task.act(wait, "a"), lambda task, n: task.act(look, f"place {n}"), None]
)
def test_waiting_and_work_are_no_circles(call):
    """A tool that is declared to be polled, arguments that vary, equal items of a declared list (OpenHands 5355)."""
    world = World()

    async def program(task):
        if call is None:
            async for _ in task.each("items", ["same"] * 40):
                await task.act(look, "a")
            await task.map("all", look, ["same"] * 40)
        for number in range(0 if call is None else 40):
            await call(task, number)

    world.live(Play(program, strategies=(DIRECT, OUTLINE)))
    assert [] == noticed(world)


@pytest.mark.parametrize("number", range(1, 9))
def test_the_history_that_counts_survives_a_kill(number):
    """Killed after any outcome, the circle is named no later than it would have been (felinics/Memoh 1032)."""
    world = World()
    play = Play(
        circling([(look, "a"), (look, "b")], until=lambda task: bool(task.advice)), strategies=(DIRECT, OUTLINE)
    )
    world.live(play, death=Death("after_outcome", number))
    world.live(play)
    assert [("cycle", 2)] == noticed(world)
    assert ["nudge"] == rows(world)


def test_killed_in_the_middle_of_recovery_the_hint_is_given_once():
    """What was observed, or decided, before the kill is gone on with."""
    for number in range(1, 4):
        world = World()
        stubborn = circling([(look, "a")], until=lambda task: task.strategy.name == "outline")
        play = Play(stubborn, strategies=(DIRECT, OUTLINE))
        died = world.live(play, death=Death("during_recovery", number))
        assert "outline" == (world.live(play) if died is DEAD else died)
        assert 1 == rows(world).count("roll_back")
        assert 1 == len(world.fold().ledger.lessons)


def test_after_a_person_has_spoken_the_old_circle_counts_no_more_and_a_new_one_is_found():
    """(OpenHands/OpenHands 5480, 11431)."""
    world = World()
    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(circling([(look, "a")], limit=10_000)))
    before = len(noticed(world))

    async def answer():
        async with world.runtime() as runtime:
            return await runtime.resume("job", Play(other))

    async def other(task):
        for number in range(10_000):
            await task.act(look, "cd"[number % 2])
        return "done"

    with pytest.raises(perdure.NeedsHuman):
        asyncio.run(answer())
    assert ("cycle", 2) in noticed(world)[before:]
    assert ("run", 1) not in noticed(world)[before:]


def test_what_a_task_has_learned_is_a_prior_for_the_next_one():
    """The strategy that brought progress there is taken first here."""
    tools = perdure.Strategy("tools", prompt="a", tools=("circling_look", "circling_wait"))
    world = World()

    async def program(task):
        if task.strategy.name == "direct":
            raise ValueError("a dead end")
        await task.check("done", task.strategy.name == "outline")
        return task.strategy.name

    def play():
        return Play(program, strategies=(DIRECT, tools, OUTLINE), failures_max=1)

    assert "outline" == world.live(play(), "first")
    assert ["direct", "tools", "outline"] == list(world.fold("first").ledger.tried)

    async def ask():
        async with world.runtime() as runtime:
            return await runtime.learned("first")

    prior = asyncio.run(ask())
    assert {"outline": (1, 0)}.items() <= {name: (done, failed) for name, done, failed in prior}.items()
    assert "outline" == world.live(play(), "second", rules=perdure.Rules(prior=prior))
    assert "tools" not in {name for name, one in world.fold("second").ledger.tried.items() if one.rounds}
