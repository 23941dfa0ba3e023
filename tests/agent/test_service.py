"""The whole agent against a service that fails: by the real client, on real sockets; each request is the engine's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import perdure
from perdure import operations
from perdure.agent import Agent, AgentSettings, thinking
from perdure.clock import SystemClock
from perdure.model import entry as e
from tests.agent.modelserver import Answer, Asked, ModelServer
from tests.worlds import World

DONE = Answer(text="all is well")
YES = Answer(text=json.dumps({"passed": True, "reason": "it is"}))
CONTEXT = {"message": "This model's maximum context length is 10 tokens.", "code": "context_length_exceeded"}
LONG = 6_000  # letters of a conversation that is too long
KEY = "sk-of-a-test-0123456789"
ROUGH: dict[str, list[Answer]] = {  # what a request is answered, each time that it comes; then DONE
    "throttled": [Answer(status=429, headers={"Retry-After": "1"})],
    "broken": [Answer(status=500), Answer(status=500)],
    "cut": [Answer(text="all is lost", cut_after=2)],
    "slow": [Answer(text="too late", delay_s=5)],
    "refused": [],
    "long": [],
}


@perdure.tool(effect="pure", name="sv_look", quick=True)
def look(place: str) -> str:
    """Look at a place."""
    return f"seen {place} " + f"and around {place}, " * 100


def says(asked: Asked) -> Answer:
    """Return what the service says; which failures there are stands in the goal."""
    if asked.system.startswith("You judge"):
        return YES
    kind = next(kind for kind in (*ROUGH, "empty", "odd") if f"({kind})" in asked.goal)
    if kind == "long":
        if len(json.dumps(asked.messages)) > LONG:
            return Answer(status=400, error=CONTEXT)
        return DONE if "What went before, in short" in str(asked.messages) else _looks({"place": str(asked.turn)})
    if kind == "empty":
        return DONE if "the answer was empty" in asked.last else Answer()
    if kind == "odd":
        return DONE if asked.turn else _looks('{"place": ')
    return ([*ROUGH[kind], DONE])[min(asked.seen, len(ROUGH[kind]))]


def _looks(arguments: object) -> Answer:
    return Answer(calls=(("sv_look", arguments),))


class Watch:
    """An agent, its world and its service."""

    def __init__(self, server: ModelServer, kind: str) -> None:
        self.server = server
        self.world = World()
        self.world.clock = SystemClock()  # the service is slow and rough in the time of all
        self.goal = f"look round ({kind})"

    def live(self) -> Any:
        """Let the agent work for one life; return its result."""
        settings = AgentSettings(
            model="openai:gpt-5-mini", base_url=self.server.base_url, tools=("sv_look",), prompt_strategy="one_shot",
            continuous=True,
        )  # fmt: skip
        agent = Agent(settings=settings, tools=[look])
        return self.world.do(lambda runtime: runtime.run(agent, "job", goal=self.goal, args=agent.arguments()))

    @property
    def statuses(self) -> list[int]:
        """What became of the requests of the conversation, in order: without the judge's."""
        return [row["status"] for row in self.turns()]

    def turns(self) -> list[dict[str, Any]]:
        """Return the requests of the conversation."""
        rows = self.server.requests()
        return [row for row in rows if not row["body"]["messages"][0]["content"].startswith("You judge")]

    def settled(self) -> list[str]:
        """Return how the calls of the model in the conversation ended, the judge's not: "" or the class."""
        journal = [entry.payload for entry in self.world.journal()]
        thoughts = {
            one.action for one in journal
            if isinstance(one, e.ActionIntended) and one.tool == "think" and one.key.startswith("turn")
        }  # fmt: skip
        ends = [one for one in journal if isinstance(one, e.ActionSettled) and one.action in thoughts]
        return [one.error.failure_class if one.error else "" for one in ends]


@pytest.fixture
def watch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    """The service of that kind, and an agent that asks it."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ModelServer(says, key=KEY) as server:
        yield Watch(server, request.param)


@pytest.mark.parametrize(
    ("watch", "statuses", "settled"),
    [
        ("throttled", [429, 200], ["throttled", ""]),
        ("broken", [500, 500, 200], ["capacity", "capacity", ""]),
        ("cut", [200, 200], ["network", ""]),
    ],
    indirect=["watch"],
)
def test_what_passes_is_asked_again_by_the_engine_alone(watch: Watch, statuses: list[int], settled: list[str]) -> None:
    """One request for each try, each on record; a part of an answer is never taken for one."""
    assert watch.live() == "all is well"
    assert statuses == watch.statuses
    assert settled == watch.settled()
    assert [] == watch.server.problems()


@pytest.mark.parametrize("watch", ["slow"], indirect=True)
def test_an_answer_that_does_not_come_is_given_up(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """At its time-out the request is closed and asked again; what it may have cost is charged."""
    monkeypatch.setattr(thinking, "THINK_TIMEOUT_S", 1.0)
    assert watch.live() == "all is well"
    assert 2 == len(watch.turns())
    assert ["timeout", ""] == watch.settled()


@pytest.mark.parametrize("watch", ["long"], indirect=True)
def test_a_conversation_that_is_too_long_is_never_sent_twice(watch: Watch) -> None:
    """The request is refused once; the next is another and shorter, and the agent goes on from there."""
    assert watch.live() == "all is well"
    turns = watch.turns()
    assert 1 == watch.statuses.count(400)
    assert len(turns) == len({row["key"] for row in turns})
    assert turns[-1]["bytes"] < turns[watch.statuses.index(400)]["bytes"]
    assert [] == watch.server.problems()


@pytest.mark.parametrize("watch", ["empty"], indirect=True)
def test_an_empty_answer_is_asked_for_in_other_words(watch: Watch) -> None:
    """The same prompt is not sent again: the model is told that its answer was empty."""
    assert watch.live() == "all is well"
    assert [200, 200] == watch.statuses
    assert ["output", ""] == watch.settled()


@pytest.mark.parametrize("watch", ["odd"], indirect=True)
def test_arguments_that_are_no_json_are_told_to_the_model(watch: Watch) -> None:
    """The call is answered as refused, right behind it; nothing is called and nothing is asked again."""
    assert watch.live() == "all is well"
    _, second = watch.turns()
    assert "no JSON object" in second["body"]["messages"][-1]["content"]
    assert [] == watch.server.problems()
    tools = [one.payload.tool for one in watch.world.journal() if isinstance(one.payload, e.ActionIntended)]
    assert "sv_look" not in tools


@pytest.mark.parametrize("watch", ["refused"], indirect=True)
def test_a_key_that_is_not_taken_asks_a_person(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """One request, not more; with another key the same task goes on, and the key is in no journal."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-9876543210")
    with pytest.raises(perdure.NeedsHuman):
        watch.live()
    assert [401] == watch.statuses
    assert ["auth"] == watch.settled()
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    watch.world.do(lambda runtime: operations.answer(runtime, "job", "retry", "one"))
    assert watch.live() == "all is well"
    assert [401, 200] == watch.statuses
