"""The ready-made agent: goal, plan, act, on the public API only."""

from __future__ import annotations

from perdure.agent.agent import Agent, load_agent
from perdure.agent.settings import AgentSettings

__all__ = ["Agent", "AgentSettings", "load_agent"]
