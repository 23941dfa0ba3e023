"""The one driver of all policies: asks the policy for its next move, makes it, asks again.

    goal ─ plan ─ Act ─▶ tool ─▶ memory ─▶ next move … ─ Checkpoint ─ Finish

Whatever thinks behind the `Policy` port, what it did stands in the task's state ("memory") and in the journal: a
resumed agent decides its next move from there. Uses the engine as any program would.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, assert_never

import msgspec

from perdure.codec import values
from perdure.engine.task import Task
from perdure.errors import ConfigInvalid, LimitExceeded
from perdure.limits import AGENT_MOVES_MAX, FAILURES_MAX
from perdure.model.entry import Driver
from perdure.model.failure import ErrorRecord
from perdure.model.ids import plain_text
from perdure.model.move import Act, AdoptPlan, Ask, Checkpoint, Finish, Move, PolicyView
from perdure.model.outcome import Failed, InDoubt, Outcome, Succeeded
from perdure.model.strategy import Strategy
from perdure.ports import Policy

MODELS: Final = ("offline",)


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """The ready-made agent as a program; any process can load it again by the name of its model."""

    model: str
    policy: Any  # ports.Policy
    strategies: tuple[Strategy, ...] = ()
    failures_max: int = FAILURES_MAX
    state_version: int = 1
    source_digest: str = ""
    reached: Callable[[Any], object] | None = None

    @property
    def fn(self) -> Callable[..., Coroutine[Any, Any, Any]]:
        """The function that the engine calls with the task."""
        return self._follow

    @property
    def state(self) -> dict[str, Any]:
        """Memory at the start."""
        return {}

    def driver(self, arguments: Mapping[str, object]) -> Driver:
        """Return how another process finds this agent."""
        return Driver(kind="agent", target=self.model, arguments=msgspec.Raw(values.encode(dict(arguments))))

    async def _follow(self, task: Task) -> object:
        return await follow(task, self.policy)


def load_agent(model: str) -> Agent:
    """Return the agent that thinks with `model`. Raises ConfigInvalid naming the models there are."""
    if model != "offline":
        raise ConfigInvalid("model", f"{model!r} is not one of {', '.join(MODELS)}; others come with a later version")
    from perdure.agent.offline.policy import OfflinePolicy

    return Agent(model=model, policy=OfflinePolicy())


async def follow(task: Task, policy: Policy) -> object:
    """Make `policy`'s moves until it finishes; return its result."""
    last: Outcome | None = None
    for _ in range(AGENT_MOVES_MAX):
        view = PolicyView(goal=task.goal, workspace=task.workspace, memory=task.state, last=last, attempt=task.attempt)
        move = policy.next(view)
        if isinstance(move, Finish):
            return move.result
        last = await _make(task, move)
    raise LimitExceeded(f"moves of task {task.name!r}", AGENT_MOVES_MAX + 1, AGENT_MOVES_MAX)


async def _make(task: Task, move: Move) -> Outcome | None:
    match move:
        case Act():
            return await _act(task, move)
        case AdoptPlan(steps=steps):
            await task.adopt(steps)
            async with task.edit() as memory:
                memory["plan"] = list(steps)
        case Checkpoint(name=name):
            await task.checkpoint(name)
            async with task.edit() as memory:
                memory.setdefault("marks", []).append(name)
        case Ask(question=question):
            return Succeeded(await task.ask(question))
        case Finish():
            return None
        case _:
            assert_never(move)
    return None


async def _act(task: Task, move: Act) -> Outcome:
    """Call the tool under its key; result or failure stands in memory at `into` when this returns."""

    def keep(memory: Any, result: object) -> None:  # noqa: ANN401 - a view of the state
        _store(memory, move.into, result)

    outcome = await task.using(key=plain_text(move.key)).act_outcome(move.tool, then=keep, **move.arguments)
    match outcome:
        case Succeeded():
            return outcome
        case Failed(error):
            failed = error
        case InDoubt(reason):
            failed = ErrorRecord(type="InDoubt", message=reason)
    async with task.edit() as memory:
        _store(memory, move.into, {"failed": {"type": failed.type, "message": failed.message}})
    return outcome


def _store(memory: Any, into: tuple[str, ...], value: object) -> None:  # noqa: ANN401 - a view of the state
    for step in into[:-1]:
        memory = memory.setdefault(step, {})
    memory[into[-1]] = value
