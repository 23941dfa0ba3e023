"""Scripted policies."""

import asyncio

import pytest

import perdure
from perdure.agent.loop import follow
from perdure.clock import SystemClock
from perdure.errors import UsageError
from perdure.model.move import Act, AdoptPlan, Ask, Checkpoint, Finish
from perdure.stores.memory import MemoryStore, MemoryWorld
from perdure.testing import Death, Killed, ScriptedPolicy
from perdure.testing.points import MortalStore

CALLS = []


@perdure.tool(effect="pure")
async def read(page: int) -> str:
    """Read a page."""
    CALLS.append(page)
    return f"page {page}"


MOVES = [
    AdoptPlan(steps=("read", "tell")),
    Act(tool=read, arguments={"page": 1}, key="1", into=("pages", "1")),
    Checkpoint(name="begun"),
    Act(tool=read, arguments={"page": 2}, key="2", into=("pages", "2")),
    Finish(result="told"),
]


ASKING = [Ask(question="shall I?"), Finish(result="yes")]


@perdure.program
async def scripted(task):
    """Follow the script."""
    return await follow(task, ScriptedPolicy(MOVES))


@perdure.program
async def asking(task):
    """Ask first."""
    return await follow(task, ScriptedPolicy(ASKING))


def run(world, program, death=None):
    """One life of `program`; returns (result, state)."""
    death = death or Death()

    async def live():
        async with perdure.open(MortalStore(MemoryStore(world, SystemClock()), death)) as runtime:
            return await runtime.run(program, "scripted")

    with death.awaited():
        return asyncio.run(live())


def test_the_moves_are_made_in_order_each_once():
    """The agent calls each tool once and ends with the script's result."""
    CALLS.clear()
    assert "told" == run(MemoryWorld(), scripted)
    assert [1, 2] == CALLS


def test_a_resumed_agent_goes_on_behind_the_last_move():
    """The policy keeps nothing in mind: after a death only what is still to be done is done."""
    CALLS.clear()
    world, program = MemoryWorld(), scripted
    with pytest.raises(Killed):
        run(world, program, Death("after_checkpoint"))
    assert "told" == run(world, program)
    assert [1, 2] == CALLS


def test_a_question_is_asked_once():
    """An Ask stops the task; the next call of the program goes on behind it."""
    world, program = MemoryWorld(), asking

    async def resume():
        async with perdure.open(MemoryStore(world, SystemClock())) as runtime:
            return await runtime.resume("scripted", program)

    with pytest.raises(perdure.NeedsHuman, match=r"shall I\?"):
        run(world, program)
    assert "yes" == asyncio.run(resume())


def test_a_script_without_an_end_is_refused():
    """It would make the agent run for ever."""
    with pytest.raises(UsageError, match="Finish"):
        ScriptedPolicy(MOVES[:-1])
