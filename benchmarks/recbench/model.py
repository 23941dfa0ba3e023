"""The model's stand-in: it sees the request and nothing else of the agent, and answers as the hidden truth says.

Which strategy is followed it reads from the prompt, the model and the order of the tools in the request; where these do
not fit each other, it can solve nothing. Called by the `think` tools.
"""

from __future__ import annotations

import json
from typing import Any, Final

from benchmarks.recbench import errors
from benchmarks.recbench.kits import READERS
from benchmarks.recbench.truth import GOALS
from benchmarks.recbench.world import Loop, World

PROMPTS: Final = (
    "Go straight from what is known to what is asked.",
    "Write an outline of the steps first, then follow it.",
    "Look for what contradicts the first answer, then decide.",
)
CONTEXT_TOKENS: Final = 128_000


async def answer(world: World, provider: int, request: dict[str, Any]) -> str:
    """Return the model's text, or raise what the provider's client raises."""
    goal = request["goal"]
    nth = world.nth("model", goal)
    world.count("think")
    world.progress(goal, len(request["work"]))
    await world.interrupt_model(provider, goal, nth)
    if sum(message["tokens"] for message in request["messages"]) > CONTEXT_TOKENS:
        raise errors.of_model(provider, "context", world.inject("context", goal).number)
    if world.truth.holds(world.truth.scenario.garbage, "garbage", goal, nth):
        return _garbage(world, goal, nth)
    strategy = recognise(request)
    repeated = _repeat(world, request, strategy, nth)
    if repeated is not None:
        return json.dumps(repeated)
    return _next_move(world, request, strategy, provider)


def recognise(request: dict[str, Any]) -> int:
    """Return the strategy that the request follows, -1 where it is none of them."""
    if request["prompt"] not in PROMPTS:
        return -1
    strategy = PROMPTS.index(request["prompt"])
    is_right_tool = request["tools"][0].endswith(READERS[strategy])
    fits = errors.MODELS[strategy] == request["model"] and request["source"] == strategy and is_right_tool
    return strategy if fits else -1


def _next_move(world: World, request: dict[str, Any], strategy: int, provider: int) -> str:
    goal, work = request["goal"], request["work"]
    step = next((name for name in world.steps(goal) if name not in work), "finish")
    if step == "finish":
        return json.dumps({"tool": "finish", "arguments": {}})
    is_able = strategy >= 0 and world.truth.solves[goal][strategy]
    wrong = "" if is_able or step != world.decisive else world.symptom(goal, strategy)
    if wrong:
        world.note_dead_end()
    if wrong == "refusal":
        raise errors.of_model(provider, "refusal", world.inject("refusal", goal).number)
    if wrong == "garbage":
        return _garbage(world, goal, 0)
    return json.dumps(world.move(step, goal, work, strategy, wrong))


def _garbage(world: World, goal: int, nth: int) -> str:
    """Return an answer that is none: cut off, empty, prose, or a tool that does not exist."""
    world.inject("garbage", goal)
    whole = json.dumps({"tool": "finish", "arguments": {"because": "everything is as it should be"}})
    texts = (
        whole[: len(whole) // 2],
        "",
        "I would now look at the next item.",
        '{"tool": "teleport", "arguments": {}}',
    )
    return texts[nth % len(texts)]


# --- repeating itself -----------------------------------------------------------------------------------------------
def _repeat(world: World, request: dict[str, Any], strategy: int, nth: int) -> dict[str, Any] | None:
    """Return the move with which the model repeats itself, None where it does not."""
    if world.loop is not None and _is_over(world, world.loop, request, strategy):
        world.end_loop()
    if world.loop is None:
        _may_begin(world, request, strategy, nth)
    loop = world.loop
    if loop is None:
        return None
    loop.turn += 1
    return loop.turns[loop.turn % len(loop.turns)]


def _is_over(world: World, loop: Loop, request: dict[str, Any], strategy: int) -> bool:
    if request["goal"] != loop.injected.goal or (world.knows and loop.turn > 1):
        return True
    if loop.grip == "never":
        return False
    is_other = strategy != loop.strategy
    is_fresh = len(request["messages"]) < loop.length
    if loop.grip == "strategy":
        return is_other
    return is_other or is_fresh or (loop.grip == "light" and request["advice"][0] == "nudge")


def _may_begin(world: World, request: dict[str, Any], strategy: int, nth: int) -> None:
    """Begin to repeat the reads of this sub-goal, by chance or because the strategy leads there."""
    goal, work, truth = request["goal"], request["work"], world.truth
    steps = world.steps(goal)
    if steps[0] not in work:
        return
    is_done = all(name in work for name in steps)
    step = next((name for name in steps if name not in work), "finish")
    cannot = strategy >= 0 and not truth.solves[goal][strategy] and step == world.decisive
    if is_done and goal == GOALS - 1 and truth.overruns and not world.knows:
        grip, what = "never", "overrun"
    elif cannot and world.symptom(goal, strategy) == "loop":
        grip, what = "strategy", "unable"
    elif truth.holds(truth.scenario.loop, "loop", goal, nth):
        grip, what = truth.grip(goal, nth), "chance"
    else:
        return
    first = world.move(steps[0], goal, {}, strategy, "")
    second = {"tool": "look_around", "arguments": {"goal": goal}}
    turns = (first,) if truth.chance("turns", goal, nth, what).holds(0.6) else (first, second)
    length = len(request["messages"])
    world.begin_loop(
        Loop(grip=grip, strategy=strategy, length=length, turns=turns, injected=world.inject("loop", goal))
    )
