"""Three calls of one reply, interrupted: none runs twice, each is closed once, the next request is valid (case 2)."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from functools import partial
from typing import Any

import pytest

import perdure
from perdure import operations
from perdure.agent import Agent
from perdure.engine.replay.playing import play
from perdure.engine.replay.record import load_record
from perdure.model.chat import ModelRequest
from perdure.model.failure import ErrorRecord
from perdure.model.outcome import Failed, Outcome, Succeeded
from perdure.testing import Death
from tests.agent.scenes import APPROVED, Scene, form_of, says
from tests.worlds import DEAD

MADE: Counter[str] = Counter()
PLACES = ("1", "2", "3")
NOT_HAPPENED = Failed(ErrorRecord(type="NotHappened", message="a person says so"))


@perdure.tool(effect="pure", name="in_look")
async def look(place: str) -> str:
    """Look at a place."""
    MADE[place] += 1
    return f"done {place}"


@perdure.tool(effect="irreversible", name="in_ring")
async def ring(place: str) -> str:
    """Ring a bell."""
    MADE[place] += 1
    return f"done {place}"


def speaking(name: str) -> Any:
    """Return a model that calls the tool thrice at once, then says that it is done."""

    def speaks(request: ModelRequest) -> Any:
        if form_of(request):
            return APPROVED
        if len(request.messages) == 2:
            return says("", *((name, {"place": place}) for place in PLACES))
        return says("all three")

    return speaks


def scene_of(name: str) -> Scene:
    """Return an agent with that tool; nothing was called so far."""
    MADE.clear()
    return Scene(speaking(name), tools=[look, ring])


def in_doubt(scene: Scene) -> str:
    """Let the agent go on; return the id of the call that a person is to settle, "" where the task ends."""
    try:
        assert scene.live() == "all three"
    except perdure.NeedsHuman as stopped:
        return re.findall(r"perdure settle job (\w+)", str(stopped))[0]
    return ""


async def settle(runtime: perdure.Runtime, action: str, outcome: Outcome) -> None:
    """Be the person: say what became of it."""
    await operations.settle(runtime, "job", action, outcome)


def are_answered(request: ModelRequest) -> bool:
    """Whether every call of a request has its one result."""
    replies = [message for message in request.messages if message["role"] == "assistant"]
    return all(set(one["results"]) == {call["id"] for call in one["calls"]} for one in replies)


def divergence_of(scene: Scene) -> object:
    """Replay the task strictly, with no model; return what differs."""

    async def load() -> Any:
        store = scene.world.store()
        return await load_record(store, (await store.find("job")).task)

    agent = Agent(settings=scene.settings, tools=[look, ring])
    replayed = play(asyncio.run(load()), agent, "strict")
    return replayed.divergence or list(replayed.remarks)


@pytest.mark.parametrize("point", ["before_intent", "after_intent", "after_effect", "after_outcome"])
def test_free_calls_of_one_reply_are_finished_after_a_kill(point: str) -> None:
    """When none has run, when one or two results are stored, when all are: what is on record is not called again."""
    killed = 0
    for number in range(1, 12):
        scene = scene_of("in_look")
        if scene.live(death=Death(point, number)) != DEAD:
            break
        killed += 1
        assert scene.live() == "all three"
        assert set(MADE) == set(PLACES)
        assert MADE.total() <= 6
        assert all(are_answered(request) for request in scene.model.requests)
        assert not divergence_of(scene)
    assert killed >= 5
    print(f"killed {killed} times {point}")


@pytest.mark.parametrize("point", ["after_intent", "after_effect"])
def test_calls_that_cannot_be_taken_back_are_closed_once_and_settled_by_a_person(point: str) -> None:
    """What is in doubt is asked once, over restarts, and never rung again; the others ring once; the task ends."""
    asked = 0
    for number in range(1, 12):
        scene = scene_of("in_ring")
        if scene.live(death=Death(point, number)) != DEAD:
            break
        rung = Counter(MADE)
        doubt = in_doubt(scene)
        if doubt:
            asked += 1
            assert in_doubt(scene) == doubt  # the same question in the next process, and nothing more was done
            assert Counter(MADE) == rung
            happened = Succeeded(f"done {number}") if point == "after_effect" else NOT_HAPPENED
            scene.world.do(partial(settle, action=doubt, outcome=happened))
            assert scene.live() == "all three"
        assert dict.fromkeys(PLACES, 1) == MADE
        assert all(are_answered(request) for request in scene.model.requests)
        assert not divergence_of(scene)
    assert asked == len(PLACES)
