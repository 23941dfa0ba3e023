"""An existing Pydantic AI agent made durable, inside a program of perdure.

    async with durable(task, agent, effects={"look_up": "pure", "send": "idempotent"}) as lasting:
        answer = await lasting.run(question)

Each request to the model is one paid action, each call of a tool one action under its effect. The agent itself is run
again by a resumed program, from its top; what it asks for and is on record is answered from there. Called by users'
programs. To read, in this order: `runs.py` (which run of the agent is which on record), `requests.py` (the model),
`calls.py` (tools), `effects.py` (what they do), `lasting.py` (how these are hung into an agent).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from pydantic_ai.agent.abstract import AbstractAgent

from perdure.engine.task import Task
from perdure.integrations.pydantic_ai.effects import Effects, EffectSpec, effect_key
from perdure.integrations.pydantic_ai.lasting import hung, unwrapped
from perdure.integrations.pydantic_ai.runs import Runs

A = TypeVar("A", bound=AbstractAgent[Any, Any])


@asynccontextmanager
async def durable(task: Task, agent: A, *, effects: Mapping[str, EffectSpec], name: str = "agent") -> AsyncGenerator[A]:
    """Within the block, requests and tool calls of `agent` are actions of `task`, whoever runs it there, and how.

    `effects`: by name of a tool or an output function, what it does to the world: pure, idempotent (its key is
    `effect_key()`), irreversible, workspace; "program" for one that is part of the program (an agent that asks another
    one); an `Effect`, or a mapping of keywords of `perdure.tool`. `name`: another one for each agent, and for each of
    parallel branches. Raises ToolUndeclared for a tool without an effect, with nothing run; UsageError for an effect
    that does not exist, or a name that another agent has. Runs raise ActionFailed where a request or a tool fails,
    ResumeDiverged where the record is of another conversation.
    """
    declared = Effects(effects)
    inner = unwrapped(agent)
    with hung(inner, Runs.of(task, name, inner), declared):
        yield agent


__all__ = ["EffectSpec", "durable", "effect_key"]
