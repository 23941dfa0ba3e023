"""The one driver of all policies: asks the policy for its next move, makes it, asks again.

    goal ─ plan ─ Act ─▶ tool ─▶ memory ─▶ next move … ─ Checkpoint ─ Finish

Whatever thinks behind the `Policy` port, what it did stands in the task's state ("memory") and in the journal: a
resumed agent decides its next move from there. Uses the engine as any program would.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, assert_never

import msgspec

from perdure.codec import values
from perdure.engine.task import Task
from perdure.errors import ConfigInvalid, LimitExceeded
from perdure.limits import AGENT_MOVES_MAX, FAILURES_MAX
from perdure.llm.naming import LOCAL
from perdure.model.entry import Driver
from perdure.model.failure import ErrorRecord
from perdure.model.ids import plain_text
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
from perdure.model.outcome import Failed, InDoubt, Outcome, Succeeded
from perdure.model.strategy import Strategy
from perdure.ports import Policy

MODELS: Final = ("offline", "local")


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
    """Return the agent that thinks with `model`. Raises ConfigInvalid naming the models there are.

    Raises ExtraMissing, naming the command, where the model on this machine is not installed.
    """
    if model not in MODELS:
        raise ConfigInvalid("model", f"{model!r} is not one of {', '.join(MODELS)}; others come with a later version")
    from perdure.agent.offline.policy import OfflinePolicy

    if model == LOCAL:
        from perdure.llm.local import open_local

        open_local()  # what is missing is said before anything begins
        return Agent(model=model, policy=OfflinePolicy(model))
    return Agent(model=model, policy=OfflinePolicy())


async def follow(task: Task, policy: Policy) -> object:
    """Make `policy`'s moves until it finishes; return its result."""
    last: Outcome | None = None
    for _ in range(AGENT_MOVES_MAX):
        move = policy.next(_view(task, last))
        if isinstance(move, Finish):
            return move.result
        last = await _make(task, move)
    raise LimitExceeded(f"moves of task {task.name!r}", AGENT_MOVES_MAX + 1, AGENT_MOVES_MAX)


def _view(task: Task, last: Outcome | None) -> PolicyView:
    return PolicyView(
        goal=task.goal,
        workspace=task.workspace,
        memory=task.state,
        last=last,
        attempt=task.attempt,
        strategy=task.strategy,
        advice=task.advice,
        brief=task.brief,
        messages=task.messages,
        answers=task.answers,
        checks=task.checks,
        is_budget_low=task.budget.is_low,
    )


async def _make(task: Task, move: Move) -> Outcome | None:
    match move:
        case Act():
            return await _act(task, move)
        case Together(acts=acts):
            await _act_together(task, acts)
        case Remember(change=change):
            async with task.edit() as memory:
                change(memory)
        case AdoptPlan() | BeginStep() | Judge() | Checkpoint():
            await _mark(task, move)
        case Ask(question=question):
            return Succeeded(await task.ask(question))
        case AskAll(questions=questions):
            await task.ask_all(questions)
        case Say(text=text, key=key):
            await task.note(text)
            async with task.edit() as memory:
                memory.setdefault("said", []).append(key)
        case Finish():
            return None
        case _:
            assert_never(move)
    return None


async def _mark(task: Task, move: AdoptPlan | BeginStep | Judge | Checkpoint) -> None:
    """Write how far the work has come; what was adopted, begun or marked stands in memory too."""
    match move:
        case AdoptPlan(steps=steps):
            await task.adopt(steps)
            async with task.edit() as memory:
                memory["plan"] = list(steps)
        case BeginStep(name=name):
            await task.begin_step(name)
            async with task.edit() as memory:
                memory["step"] = name
        case Judge(name=name, passed=passed, reason=reason):
            await task.check(name, passed, reason=reason)
        case Checkpoint(name=name):
            await task.checkpoint(name)
            async with task.edit() as memory:
                memory.setdefault("marks", []).append(name)


async def _act_together(task: Task, acts: tuple[Act, ...]) -> None:
    """Make the calls at once. One that leaves the program lets the others come to their ends first."""
    outcomes = await asyncio.gather(*(_act(task, act) for act in acts), return_exceptions=True)
    failed = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    for first in sorted(failed, key=lambda error: isinstance(error, Exception)):  # an unwinding one goes before others
        raise first


async def _act(task: Task, move: Act) -> Outcome:
    """Call the tool under its key; result or failure stands in memory at `into` when this returns."""

    def keep(memory: Any, result: object) -> None:  # noqa: ANN401 - a view of the state
        _store(memory, move.into, move.shape(result) if move.shape else result)

    using = task.using(key=plain_text(move.key), timeout_s=move.timeout_s, reserve=move.reserve)
    if move.on_failure == "leave":
        return Succeeded(await using.act(move.tool, then=keep, **move.arguments))
    outcome = await using.act_outcome(move.tool, then=keep, **move.arguments)
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


def _store(memory: Any, into: tuple[str | int | None, ...], value: object) -> None:  # noqa: ANN401 - a view of the state
    for step in into[:-1]:
        memory = memory.setdefault(step, {}) if isinstance(step, str) else memory[step]
    if into[-1] is None:
        memory.append(value)
    else:
        memory[into[-1]] = value
