"""The agent: a program like any user's. It asks the model for a call, makes it, and has each sub-goal checked.

It knows nothing of the faults and nothing of the arms, with one exception: under the oracle the world tells which
strategy is right. Three variants differ in `failures_max` only. Called by the stage, through the engine.
"""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any, Final

import perdure
from benchmarks.recbench import errors, model, tools
from benchmarks.recbench.kits import Kit
from benchmarks.recbench.truth import GOALS

BACK_OFF_S: Final = 2.0
_KEPT_AFTER_CONDENSING: Final = 2
_MESSAGE_TOKENS: Final = 200
_READERS: Final = tuple(f"recbench.{name}" for name in ("lantern", "map", "compass"))
STRATEGIES: Final = tuple(
    perdure.Strategy(
        name,
        prompt=model.PROMPTS[place],
        tools=(*_READERS[place:], *_READERS[:place]),  # in the maze the first one is what it trusts
        source=str(place),
        model=errors.MODELS[place],
    )
    for place, name in enumerate(("straight", "outlined", "doubting"))
)


async def _work(task: perdure.Task) -> list[str]:
    kit: Kit = tools.here.get()
    while (goal := task.state["done"]) < GOALS:
        if kit.knows and kit.truth.right_for(goal) is None:
            await task.ask(f"nothing that I know leads to {kit.goal_word} {goal}; what shall I do?")
        await _solve(task, kit, goal)
    return _receipts(task.state)


async def _solve(task: perdure.Task, kit: Kit, goal: int) -> None:
    """One sub-goal: moves until the model says that it is done, the batch, the check, the checkpoint."""
    await _heed(task)
    while True:
        await _audit(task, kit, goal)
        strategy = _strategy(task, kit, goal)
        place = STRATEGIES.index(strategy)
        answer = await task.act(tools.THINK[place], _request(task, strategy, goal))
        move = json.loads(answer)
        if move["tool"] == "finish":
            break
        await _make(task, kit, goal, move)
    async for label in task.each(f"labels {goal}", kit.labels(goal)):
        await task.act(tools.tag, goal, label)
    name = f"{kit.goal_word} {goal}"
    await task.check(name, await task.act(tools.inspect, goal))
    async with task.edit() as state:
        state["receipts"].append(f"{name}: {state['work']['prepare']['value']}")
        state.update(done=goal + 1, messages=[], work={})
    await task.checkpoint(f"{name} is done")


async def _make(task: perdure.Task, kit: Kit, goal: int, move: dict[str, Any]) -> None:
    """Make the call that the model wants, and have checked what is to be checked before it costs something."""
    tool, step = tools.TOOLS[move["tool"]], tools.STEP_OF[move["tool"]]
    then = partial(_note, move=move, step=step)
    if step in {"commit", "tell"}:
        await task.using(key=f"{step} {goal}").act(tool, **move["arguments"], then=then)
        return
    answer = await task.act(tool, **move["arguments"], then=then)
    if step == "wait":
        await _wait(task, kit, tool, answer, then)


async def _wait(task: perdure.Task, kit: Kit, tool: Any, answer: str, then: Any) -> None:
    """Every other sub-goal is waited for here; else it is the model that asks again and again."""
    goal = task.state["done"]
    while answer == "pending":
        await asyncio.sleep(BACK_OFF_S * kit.pace)
        if goal % 2:
            return
        answer = await task.act(tool, goal, then=then)


async def _audit(task: perdure.Task, kit: Kit, goal: int) -> None:
    """What is prepared must be right before anything final is done; where it is not, it is read anew."""
    work = task.state["work"]
    if "prepare" not in work or "audited" in work:
        return
    is_right = await task.act(tools.audit, goal)
    async with task.edit() as state:
        state["work"] = {**state["work"], "audited": True} if is_right else {}
    await task.check(f"what is prepared for {kit.goal_word} {goal}", is_right)


def _note(state: Any, answer: Any, *, move: dict[str, Any], step: str) -> None:
    """Take an answer into the transcript, and what it is worth into the work."""
    if step == "wait" and answer == "pending" and move["arguments"]["goal"] % 2 == 0:
        return
    if step and answer != "pending":
        state["work"][step] = answer
    tokens = answer["tokens"] if step == "read" else _MESSAGE_TOKENS
    state["messages"].append({"call": json.dumps(move), "answer": json.dumps(answer), "tokens": tokens})


def _strategy(task: perdure.Task, kit: Kit, goal: int) -> perdure.Strategy:
    right = kit.truth.right_for(goal) if kit.knows else None
    return task.strategy if right is None else STRATEGIES[right]


def _request(task: perdure.Task, strategy: perdure.Strategy, goal: int) -> dict[str, Any]:
    """What the model gets to see."""
    state, advice = task.state, task.advice
    return {
        "goal": goal,
        "prompt": strategy.prompt,
        "model": strategy.model,
        "source": int(strategy.source),
        "tools": list(strategy.tools),
        "brief": task.brief(),
        "advice": [advice.kind, advice.text],
        "work": state["work"],
        "messages": state["messages"],
    }


async def _heed(task: perdure.Task) -> None:
    """Shorten the transcript where that is the advice."""
    if task.advice.kind == "condense":
        async with task.edit() as state:
            kept = [dict(message, tokens=_MESSAGE_TOKENS) for message in state["messages"][-_KEPT_AFTER_CONDENSING:]]
            state["messages"] = kept


def _receipts(state: Any) -> list[str]:
    return list(state["receipts"])


def reached(state: Any) -> list[str] | None:
    """Whether all that was wanted is done although nobody has said so: the verifier of the goal."""
    kit: Kit = tools.here.get()
    is_last = state["done"] == GOALS - 1 and all(step in state["work"] for step in (*kit.steps(GOALS - 1), "audited"))
    return [*_receipts(state), f"{kit.goal_word} {GOALS - 1}: {state['work']['prepare']['value']}"] if is_last else None


def _declare(name: str, failures_max: int) -> Any:
    state = {"done": 0, "work": {}, "messages": [], "receipts": []}
    return perdure.program(state=state, strategies=STRATEGIES, failures_max=failures_max, name=name, reached=reached)(
        _work
    )


agent: Final = _declare("agent", 3)
hasty: Final = _declare("hasty", 1)  # gives up at the first failure
patient: Final = _declare("patient", 1_000)  # for those who know better than to change
