"""What a policy may ask of the agent loop, and what it is shown. The loop is `agent/loop.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from perdure.model.outcome import Outcome


class PolicyView(msgspec.Struct, frozen=True, kw_only=True):
    """All that a policy decides from. `memory` is the task's durable state, read-only."""

    goal: str
    workspace: str
    memory: Mapping[str, Any]
    last: Outcome | None = None  # of the action just made in this process, None after a resume
    attempt: int = 1


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """Call `tool`; its result (or {"failed": {"type", "message"}}) is stored in memory at path `into`."""

    tool: Any  # a declared tool: perdure.tools.Tool
    arguments: Mapping[str, Any]
    key: str
    into: tuple[str, ...]


class AdoptPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Record the ordered steps; they also stand in memory["plan"]."""

    steps: tuple[str, ...]


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Mark a checkpoint; its name is appended to memory["marks"]."""

    name: str


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """Ask a person; the task waits."""

    question: str


class Finish(msgspec.Struct, frozen=True, kw_only=True):
    """The goal is reached; `result` is the task's result."""

    result: Any


Move = Act | AdoptPlan | Checkpoint | Ask | Finish
