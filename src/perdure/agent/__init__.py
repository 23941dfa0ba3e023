"""The ready-made agent: goal, plan, act, on the public API only. Today it knows one model, `offline`."""

from __future__ import annotations

from perdure.agent.loop import Agent, load_agent

__all__ = ["Agent", "load_agent"]
