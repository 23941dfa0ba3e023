"""A Pydantic AI agent inside a program, killed at every point: no finished request again, each letter once."""

import json
from collections import Counter

import pytest
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

import perdure
from perdure.integrations.pydantic_ai import durable, effect_key
from tests.agent.modelserver import ModelServer
from tests.crash.forked import play_apart
from tests.crash.lasting import says
from tests.worlds import Play, World

# Of a shape: how many requests, what letters, the result, how many requests may be in flight at once, every n-th point.
SHAPES = {
    "alone": (4, ["again", "again", "hello"], "3 turns", 1, 1),
    "crowd": (10, ["aloud", "once", "that", "this"], "end of others, end of once, end of aloud", 3, 3),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_killed_at_every_point_nobody_can_tell(shape, tmp_path):
    """Each finished request once, each letter once, the same answer; what was in flight may come again, once."""
    count, letters, result, at_once, step = SHAPES[shape]
    with ModelServer(says) as server:
        (undisturbed,) = play_apart("tests.crash.lasting", [[]], tmp_path / "undisturbed", server.base_url, shape)
        assert (undisturbed["status"], undisturbed["result"], undisturbed["findings"]) == ("succeeded", result, [])
        points = undisturbed["counts"]["any"]
        cases = [[f"any:{number}"] for number in range(1, points + 1, step)]
        played = play_apart("tests.crash.lasting", cases, tmp_path / "killed", server.base_url, shape)
        assert [] == server.problems()
        requests = server.requests()
    kills = sum(bool(signal) for found in played for signal in found["kills"])
    print(f"killed {kills} times, {len(requests)} requests")
    assert kills == len(cases) > 20
    for found in (undisturbed, *played):
        assert (found["result"], found["letters"], found["findings"]) == (result, letters, []), found["case"]
        sent = Counter(row["key"] for row in requests if found["goal"] in json.dumps(row["body"]))
        assert (len(sent), sent.total() <= count + at_once * len(found["kills"])) == (count, True), found["case"]


def test_a_tool_without_an_effect_is_refused_before_anything_runs():
    """With the line to write; an effect that is none, too."""
    agent = Agent(TestModel())
    called = []

    @agent.tool_plain
    def push(button: str) -> str:
        called.append(button)
        return button

    async def program(task):
        async with durable(task, agent, effects=effects) as lasting:
            await lasting.run("push")

    effects = {}
    with pytest.raises(perdure.errors.ToolUndeclared, match="push"):
        World().live(Play(program))
    effects = {"push": "harmless"}
    with pytest.raises(perdure.UsageError, match="harmless"):
        World().live(Play(program))
    with pytest.raises(perdure.UsageError, match="idempotent"):
        effect_key()
    assert called == []


def test_a_stream_is_recorded_whole_and_a_second_life_asks_nobody():
    """The text comes out of the record, and the tokens are on the account."""
    model = TestModel(custom_output_text="hello there")
    agent = Agent(model)
    asked = []

    async def program(task):
        async with durable(task, agent, effects={}) as lasting, lasting.run_stream("say it") as answer:
            said = [piece async for piece in answer.stream_text(delta=True, debounce_by=None)]
        if len(asked) == 0:
            asked.append("once")
            raise perdure.UsageError("the program ends behind the answer")
        return "".join(said)

    world = World()
    with pytest.raises(perdure.UsageError):
        world.live(Play(program))
    model.custom_output_text = "something else"
    assert world.live(Play(program)) == "hello there"
    assert world.fold().ledger.tokens_out > 0
