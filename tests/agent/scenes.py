"""Agents for tests: a scripted model that answers by what it is asked for, a few tools, and a world in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import perdure
from perdure.agent import Agent, AgentSettings
from perdure.agent.forms import FORMS, schema_of
from perdure.model.chat import ModelReply, ModelRequest
from perdure.testing import ScriptedModel
from tests.worlds import World

MODEL = "scripted:one"
JUDGED = {"kind": "judged", "criterion": "it is there"}

Speaks = Callable[[ModelRequest], ModelReply]


def says(text: str = "", *calls: tuple[str, Mapping[str, Any]]) -> ModelReply:
    """Return a reply: some text, and calls as (name, arguments)."""
    return ModelReply(text=text, calls=[{"id": "", "name": name, "arguments": dict(given)} for name, given in calls])


def fills(value: Mapping[str, Any]) -> ModelReply:
    """Return a reply that fills a form."""
    return ModelReply(text=json.dumps(value))


def form_of(request: ModelRequest) -> str:
    """Return which form a request asks for, "" for a turn of the conversation."""
    return next((form for form in FORMS if request.schema == schema_of(form)), "")


def planned(*titles: str, check: Mapping[str, Any] = JUDGED) -> ModelReply:
    """Return a plan of steps that a judge looks at."""
    return fills({"steps": [{"title": title, "check": check} for title in titles], "goal_check": check})


APPROVED = fills({"passed": True, "reason": "it is"})
REFUSED = fills({"passed": False, "reason": "nothing was done"})


class Scene:
    """One agent and its world; `asked` are the requests, by form."""

    def __init__(
        self, speaks: Speaks, *, tools: Sequence[Any] = (), workspace: Path | None = None, **settings: Any
    ) -> None:
        self.world = World()
        self.model = ScriptedModel(speaks, name=MODEL)
        self.settings = AgentSettings(model=MODEL, **{"continuous": True, "prompt_strategy": "one_shot", **settings})
        self.tools = tuple(tools)
        self.workspace = workspace

    @property
    def forms(self) -> list[str]:
        """What was asked for, in order: the form, or "turn"."""
        return [form_of(request) or "turn" for request in self.model.requests]

    @property
    def agent(self) -> Agent:
        """The agent, as each process would make it."""
        return Agent(settings=self.settings, open_model=lambda _: self.model, tools=self.tools)

    def live(self, goal: str = "do it", **options: Any) -> Any:
        """Let it work for one life; return the result, or DEAD."""
        agent = self.agent
        workspace = str(self.workspace) if self.workspace else ""
        death = options.pop("death", None)
        return self.world.do(
            lambda runtime: runtime.run(agent, "job", goal=goal, args=agent.arguments(), workspace=workspace),
            death,
            **options,
        )

    def ask(self, goal: str = "do it", **options: Any) -> str:
        """Let it work until it needs a person; return the question."""
        try:
            self.live(goal, **options)
        except perdure.NeedsHuman as stopped:
            return str(stopped)
        raise AssertionError("nobody was asked")

    @property
    def memory(self) -> dict[Any, Any]:
        """What the agent has in mind."""
        return self.world.state()
