"""The one driver of all policies: asks the policy for its next move, makes it, asks again.

    goal ─ plan ─ Act ─▶ tool ─▶ memory ─▶ next move … ─ Checkpoint ─ Finish

Whatever thinks behind the `Policy` port, what it did stands in the task's state ("memory") and in the journal: a
resumed agent decides its next move from there. Uses the engine as any program would.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import Any, assert_never

from perdure.engine.task import Task
from perdure.errors import LimitExceeded
from perdure.limits import AGENT_MOVES_MAX, QUESTIONS_MAX
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
from perdure.ports import Policy


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
        lessons=task.lessons,
        messages=task.messages,
        answers=task.answers,
        checks=task.checks,
        plan=task.plan,
        counts=task.counts,
        is_budget_low=task.budget.is_low,
    )


async def _make(task: Task, move: Move) -> Outcome | None:
    match move:
        case Act():
            return await _act(task, move)
        case Together(acts=acts):
            await _act_together(task, acts)
        case Remember(change=change, count=count):
            async with task.edit(count=count) as memory:
                change(memory)
        case AdoptPlan() | BeginStep() | Judge() | Checkpoint():
            await _mark(task, move)
        case Ask(question=question):
            return Succeeded(await task.ask(question))
        case AskAll(questions=questions):
            await task.ask_all(dict(islice(questions.items(), QUESTIONS_MAX)))  # the others when these are answered
        case Say(text=text, key=key):
            await say(task, text, key)
        case Finish():
            return None
        case _:
            assert_never(move)
    return None


async def say(task: Task, text: str, key: str) -> None:
    """Write a line for people; memory["said"] knows it by its key."""
    await task.note(text, then=lambda memory: memory.setdefault("said", []).append(key))


async def _mark(task: Task, move: AdoptPlan | BeginStep | Judge | Checkpoint) -> None:
    """Write how far the work has come; what was adopted, begun or marked stands in memory too."""
    match move:
        case AdoptPlan(steps=steps):
            await task.adopt(steps, then=lambda memory: memory.update(plan=list(steps)))
        case BeginStep(name=name):
            await task.begin_step(name, then=lambda memory: memory.update(step=name))
        case Judge(name=name, passed=passed, reason=reason, change=change):
            await task.check(name, passed, reason=reason, then=change)
        case Checkpoint(name=name, change=change):

            def mark(memory: Any) -> None:  # noqa: ANN401 - a view of the state
                memory.setdefault("marks", []).append(name)
                if change is not None:
                    change(memory)

            await task.checkpoint(name, then=mark)


async def _act_together(task: Task, acts: tuple[Act, ...]) -> None:
    """Make the calls at once. One that leaves the program lets the others come to their ends first."""
    outcomes = await asyncio.gather(*(_act(task, act) for act in acts), return_exceptions=True)
    failed = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    for first in sorted(failed, key=lambda error: isinstance(error, Exception)):  # an unwinding one goes before others
        raise first


async def _act(task: Task, move: Act) -> Outcome:
    """Call the tool under its key; result or failure stands in memory at `into` when this returns."""

    def keep(memory: Any, result: object) -> None:  # noqa: ANN401 - a view of the state
        if move.keep is None:
            _store(memory, move.into, result)
        else:
            move.keep(memory, result)

    using = task.using(
        key=plain_text(move.key),
        timeout_s=move.timeout_s,
        effect=move.effect,
        reserve=move.reserve,
    )
    if move.asked_by is not None:
        using = using.asked_by(*move.asked_by)
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


def _store(memory: Any, into: tuple[str | int, ...], value: object) -> None:  # noqa: ANN401 - a view of the state
    for step in into[:-1]:
        memory = memory.setdefault(step, {}) if isinstance(step, str) else memory[step]
    memory[into[-1]] = value
