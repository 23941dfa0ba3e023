"""An agent that comes from AutoGPT goes on against a strict service, through the client that real runs use."""

import asyncio
from pathlib import Path

import msgspec
import pytest

import perdure
from perdure.agent import Agent
from perdure.agent.autogpt import inherit_agent
from perdure.llm.opening import open_model
from perdure.model.chat import Message, ModelRequest
from perdure.testing import Death
from tests.agent.modelserver import Answer, ModelServer
from tests.worlds import DEAD, World

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


def going_on(asked):
    """Stand for a model that goes on: looks once, then says that it is done, and is believed by its judge."""
    if "response_format" in asked.body:
        return Answer(text='{"passed": true, "reason": "the index is there"}')
    if "ag_look" in [name for name, _ in call_texts(asked.body)]:
        return Answer(calls=(("finish", {"result": "index.md is whole"}),))
    return Answer(text="I look first.", calls=(("ag_look", {"filename": "index.md"}),))


@perdure.tool(effect="pure", name="ag_look")
def look(filename: str) -> str:
    """Look at a file."""
    return f"{filename}: - a.txt: a late ship"


@pytest.mark.parametrize("kill_at", [0, 2, *range(8, 19)])
def test_an_agent_of_autogpt_is_continued(kill_at, monkeypatch):
    """Its goal, settings and history go on in a task of ours; killed behind any append, no request is made twice."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    found = inherit_agent(str(FIXTURES[-1]), {}, model="openai:scripted-1")
    world = World()
    with ModelServer(going_on) as server:
        settings = msgspec.structs.replace(
            found.settings,
            model="openai:scripted-1",
            base_url=server.base_url,
            prompt_strategy="one_shot",
            continuous=True,
        )
        agent = Agent(settings=settings, tools=(look,))

        def live(runtime):
            return runtime.run(agent, "archive", goal=found.goal, args=agent.arguments(found.messages))

        result = world.do(live, Death("after_append", kill_at) if kill_at else None)
        assert (result == DEAD) == bool(kill_at)
        if kill_at:
            result = world.do(live)
        problems, served = server.problems(), server.served()
        first = server.requests()[0]["body"]
    assert ("index.md is whole", []) == (result, problems)
    assert {1} == set(served.values())
    assert "a careful archivist" in first["messages"][0]["content"]
    assert "Never delete a letter" in first["messages"][0]["content"]
    names = [call["name"] for message in found.messages for call in message.get("calls", ())]
    assert names == [name for name, _ in call_texts(first)]
