"""What a policy may ask of the agent loop, and what it is shown. The loop is `agent/loop.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from perdure.model.advice import NO_ADVICE, Advice
from perdure.model.budget import NO_COST, Cost
from perdure.model.effect import Effect
from perdure.model.outcome import Outcome
from perdure.model.strategy import DEFAULT_STRATEGY, Strategy

Keep = Callable[[Any, Any], object]  # (memory, to be written; the result or the value)


class PolicyView(msgspec.Struct, frozen=True, kw_only=True):
    """All that a policy decides from. `memory` is the task's durable state, read-only."""

    goal: str
    workspace: str
    memory: Mapping[str, Any]
    last: Outcome | None = None  # of the action just made in this process, None after a resume
    attempt: int = 1
    strategy: Strategy = DEFAULT_STRATEGY
    advice: Advice = NO_ADVICE
    brief: Callable[[], str] = str  # what a prompt is built from: `Task.brief`
    lessons: Sequence[str] = ()  # what abandoned branches taught, oldest first
    messages: Sequence[str] = ()  # what people have said, oldest first
    answers: Mapping[str, str] = {}  # of people to questions on this branch, by key
    checks: Mapping[str, int] = {}  # passed on this branch
    plan: Sequence[str] = ()  # its steps as they are on record: another than memory["plan"] where a person wrote it
    counts: Mapping[str, int] = {}  # by `Remember`, over every rollback
    is_budget_low: bool = False  # the soft limit is reached: come to an end


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """Call `tool`; its result (or {"failed": {"type", "message"}}) is stored in memory at path `into`.

    `keep(memory, result)` stores it instead, and is then all that is done with it. With `on_failure="leave"` a failure
    leaves the program: recovery decides what follows.
    """

    tool: Any  # a declared tool: perdure.tools.Tool
    arguments: Mapping[str, Any]
    key: str
    into: tuple[str | int, ...] = ()
    keep: Keep | None = None
    effect: Effect | None = None  # instead of the tool's own
    on_failure: Literal["keep", "leave"] = "keep"
    reserve: Cost = NO_COST  # of a paid call: the most that it may cost
    timeout_s: float | None = None
    asked_by: tuple[str, str] | None = None  # (tool, key) of the request whose reply asks for it


class Together(msgspec.Struct, frozen=True, kw_only=True):
    """Make all these calls at once."""

    acts: tuple[Act, ...]


class Remember(msgspec.Struct, frozen=True, kw_only=True):
    """Change memory by `change(memory)`, which is pure and quick; no tool is called.

    `count`, by name, is added to the view's `counts` in the same append: a rollback takes the change back, never that.
    """

    change: Callable[[Any], object]
    count: Mapping[str, int] = {}


class AdoptPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Record the ordered steps; they also stand in memory["plan"]."""

    steps: tuple[str, ...]


class BeginStep(msgspec.Struct, frozen=True, kw_only=True):
    """What follows is done in this step of the plan; it also stands in memory["step"]."""

    name: str


class Judge(msgspec.Struct, frozen=True, kw_only=True):
    """A check was evaluated: one that passes is verified progress, one that does not leaves the program.

    `change(memory)` is made in the same append.
    """

    name: str
    passed: bool
    reason: str = ""
    change: Callable[[Any], object] | None = None


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Mark a checkpoint; in the same append its name comes to memory["marks"], and `change(memory)` is made."""

    name: str
    change: Callable[[Any], object] | None = None


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """Ask a person; the task waits."""

    question: str


class AskAll(msgspec.Struct, frozen=True, kw_only=True):
    """Ask people several things at once, by key; the answers are seen in the view's `answers`.

    Of very many the first are asked; the move is made again while answers are missing.
    """

    questions: Mapping[str, str]


class Say(msgspec.Struct, frozen=True, kw_only=True):
    """One line for people, in log and terminal; noted in memory["said"] by its key, so that it is said once."""

    text: str
    key: str


class Finish(msgspec.Struct, frozen=True, kw_only=True):
    """The goal is reached; `result` is the task's result."""

    result: Any


Move = Act | Together | Remember | AdoptPlan | BeginStep | Judge | Checkpoint | Ask | AskAll | Say | Finish
