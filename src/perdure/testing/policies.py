"""A policy whose moves are written down beforehand: for tests of agents, tools and recovery without a model.

Not a way to write agents (a program is). Called by tests: `follow(task, ScriptedPolicy([...]))`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from perdure.errors import UsageError
from perdure.model.move import (
    Act,
    AdoptPlan,
    Ask,
    AskAll,
    BeginStep,
    Checkpoint,
    Finish,
    Judge,
    Move,
    PolicyView,
    Remember,
    Say,
    Together,
)

_MISSING: Final = object()


class ScriptedPolicy:
    """`ports.Policy` that makes `moves` in their order, each once.

    It keeps nothing in mind: which moves are made already it sees in the task's memory (the place `into` of an Act, the
    plan, the marks of checkpoints), so that a resumed agent goes on behind the last one. An Ask leaves nothing there:
    the n-th Ask of the script is made until the program has been called n + 1 times.
    """

    def __init__(self, moves: Sequence[Move]) -> None:
        if not moves or not isinstance(moves[-1], Finish):
            raise UsageError("the last move of a script must be Finish: without it the agent would never end")
        if any(isinstance(move, Remember) for move in moves):
            raise UsageError("a script cannot tell whether a Remember is made already; let an Act bring the value")
        self.moves = tuple(moves)

    def next(self, view: PolicyView) -> Move:
        """Return the first move that is not made yet."""
        asked = 0
        for move in self.moves:
            asked += isinstance(move, Ask)
            if not _is_made(move, view, asked):
                return move
        raise UsageError("no move is left behind Finish")


def _is_made(move: Move, view: PolicyView, asked: int) -> bool:
    memory = view.memory
    match move:
        case Act(into=into):
            return _find(memory, into) is not _MISSING
        case Together(acts=acts):
            return all(_is_made(act, view, asked) for act in acts)
        case AdoptPlan(steps=steps):
            return list(memory.get("plan", ())) == list(steps)
        case BeginStep(name=name):
            return bool(memory.get("step") == name)
        case Judge(name=name):
            return name in view.checks
        case Checkpoint(name=name):
            return name in memory.get("marks", ())
        case Say(key=key):
            return key in memory.get("said", ())
        case Ask():
            return view.attempt > asked
        case AskAll(questions=questions):
            return all(key in view.answers for key in questions)
        case Remember() | Finish():
            return False


def _find(memory: Mapping[str, Any], into: tuple[str | int, ...]) -> object:
    found: Any = memory
    for step in into:
        if not isinstance(found, Mapping) or step not in found:
            return _MISSING
        found = found[step]  # pyright: ignore[reportUnknownVariableType] - whatever stands in memory
    return found  # pyright: ignore[reportUnknownVariableType] - as above
