"""An agent that comes from AutoGPT goes on against a strict service, through the client that real runs use."""

import asyncio
from pathlib import Path

import pytest

from perdure.agent.autogpt import inherit_agent
from perdure.llm.opening import open_model
from perdure.model.chat import Message, ModelRequest
from tests.agent.modelserver import Answer, ModelServer

FIXTURES = sorted((Path(__file__).parents[1] / "fixtures" / "autogpt").glob("state-*.json"))


async def asked(server, messages):
    """Ask the model once and return its reply."""
    model = open_model("openai:scripted-1", base_url=server.base_url, environ={})
    try:
        return await model.reply(ModelRequest(messages=messages), lambda text: None)
    finally:
        await model.aclose()


def call_texts(body):
    """Return (name, answer) of each call of a request of chat completions, in order."""
    answers = {m["tool_call_id"]: m["content"] for m in body["messages"] if m["role"] == "tool"}
    calls = [call for message in body["messages"] for call in message.get("tool_calls") or ()]
    return [(call["function"]["name"], answers[call["id"]]) for call in calls]


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda path: path.stem)
def test_the_history_of_an_agent_is_taken_by_a_strict_service(fixture):
    """Behind the goal, each action of AutoGPT stands as a call with its answer; nothing is found wrong with it."""
    found = inherit_agent(str(fixture), {})
    messages = [Message(role="user", text=found.goal), *found.messages]
    with ModelServer([Answer(text="I go on.")] * 9) as server:
        reply = asyncio.run(asked(server, messages))
        (request,) = server.requests()
    assert ("I go on.", [], found.goal) == (reply.text, server.problems(), request["body"]["messages"][0]["content"])
    names = [call["name"] for message in found.messages for call in message.get("calls", ())]
    assert names == [name for name, _ in call_texts(request["body"])]
    assert [] == [name for name, answer in call_texts(request["body"]) if not answer]
