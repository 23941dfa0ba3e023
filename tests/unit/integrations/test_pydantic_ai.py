"""What `perdure.integrations.pydantic_ai` refuses, reserves and records."""

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.toolsets import FilteredToolset, FunctionToolset

from perdure.codec import values
from perdure.errors import ToolUndeclared
from perdure.integrations.pydantic_ai import durable
from perdure.model.entry import ActionIntended
from tests.worlds import Play, World


def speaking(asked):
    """Return a model that notes its settings and says one word."""

    async def say(_messages, info):
        asked.append(info.model_settings)
        return ModelResponse(parts=[TextPart("word")])

    return FunctionModel(say)


def look(place: str) -> str:
    """Look at a place."""
    return place


def intents(world):
    """Return the intents of the task."""
    return [entry.payload for entry in world.journal() if isinstance(entry.payload, ActionIntended)]


def test_a_tool_of_a_running_toolset_is_refused_before_the_model_is_asked():
    """What only shows itself while the agent runs is refused too, with nothing asked."""
    asked, world = [], World()
    hidden = FilteredToolset(FunctionToolset([look]), lambda _context, _tool: True)
    agent = Agent(speaking(asked), toolsets=[hidden])

    async def program(task):
        with pytest.raises(ToolUndeclared, match=r"effects=\{'look': \"pure\"\}"):
            async with durable(task, agent, effects={}) as lasting:
                await lasting.run("go")

    world.live(Play(program))
    assert ([], []) == (asked, intents(world))


def test_a_request_reserves_what_it_may_cost():
    """The intent holds the tokens of the question and of the longest answer, so a kill leaves them spent."""
    world = World()
    agent = Agent(speaking([]), model_settings={"max_tokens": 50})

    async def program(task):
        async with durable(task, agent, effects={}) as lasting:
            await lasting.run("go")

    world.live(Play(program))
    (intent,) = intents(world)
    assert 50 == intent.reserve.tokens_out
    assert intent.reserve.tokens_in > 10


def test_a_second_conversation_of_a_block_is_on_record():
    """What is asked anew, without a history, stands in the arguments as it did the first time."""
    world = World()
    agent = Agent(speaking([]))

    async def program(task):
        async with durable(task, agent, effects={}) as lasting:
            await lasting.run("one")
            await lasting.run("two")

    world.live(Play(program))
    news = [values.decode(intent.arguments)["said"] for intent in intents(world)]
    assert [["one"], ["two"]] == [[part["content"] for row in new for part in row["parts"]] for new in news]
