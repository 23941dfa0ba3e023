"""A plan in memory: how its steps are adopted, begun and left behind. For the approaches that have one. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from perdure.agent import checks, results
from perdure.agent.asking import Question, asked
from perdure.agent.kit import Kit
from perdure.agent.memory import plain
from perdure.agent.people import offer_of
from perdure.agent.prompts import planner
from perdure.limits import NAME_BYTES_MAX
from perdure.model.ids import make_name
from perdure.model.move import AdoptPlan, BeginStep, Move, PolicyView, Remember

TITLE_MAX: Final = 120  # letters of a step
TITLE_BYTES_MAX: Final = NAME_BYTES_MAX - 20  # a number may come behind it
REPLAN_MAX: Final = 5  # plans that the model may ask for, on one branch

STEP_DONE: Final = offer_of(
    "step_done",
    "Say that the step you work on is done. It is checked; you are told when something is missing.",
    {"result": {"type": "string", "description": "What was done in it."}},
)


def planned(view: PolicyView, kit: Kit) -> Iterator[Move]:
    """Make a plan where there is none."""
    yield from _overruled(view)
    ahead = view.memory["ahead"]
    if "steps" in ahead:
        return
    number = view.memory.get("plans", 0) + 1

    def keep(memory: Any, said: Mapping[str, Any]) -> None:  # noqa: ANN401 - a view of the state
        memory["plans"] = number
        hold(memory, said["filled"]["steps"], said["filled"]["goal_check"])

    smaller = view.strategy.change == "smaller_steps"
    yield asked(view, kit, Question(form="plan", messages=planner(view, smaller=smaller), key=f"plan {number}"), keep)


def hold(memory: Any, steps: Sequence[Mapping[str, Any]], check: Mapping[str, Any]) -> None:  # noqa: ANN401 - as above
    """Keep a plan: titles are made short, and told apart where two are alike."""
    steps, titles = plain(steps), list[str]()
    taken = {*memory.get("done", ()), *checks.ALL}  # what was verified before is not what is planned now
    for step in steps:
        title = make_name(step["title"][:TITLE_MAX], TITLE_BYTES_MAX) or "step"
        titles.append(_free(title, {*titles, *taken}))
    memory["ahead"]["steps"] = [
        {"title": title, "check": step.get("check", {})} for title, step in zip(titles, steps, strict=True)
    ]
    memory["ahead"]["goal_check"] = plain(check)


def _free(title: str, taken: set[str]) -> str:
    """Return `title`, with a number behind it where it is taken."""
    number, free = 1, title
    while free in taken:
        number += 1
        free = f"{title} ({number})"
    return free


def followed(view: PolicyView) -> Iterator[Move]:
    """Adopt the plan, and begin its first step that is not done."""
    yield from _overruled(view)
    memory = view.memory
    titles = tuple(step["title"] for step in memory["ahead"]["steps"])
    if tuple(memory.get("plan", ())) != titles:
        yield AdoptPlan(steps=titles)
    left = next_step(view)
    if not left and not memory["ahead"].get("is_claimed"):
        claim = claim_of(memory["turn"], "", memory["ahead"].get("result", ""))

        def take(memory: Any) -> None:  # noqa: ANN401 - as above
            memory["ahead"]["is_claimed"] = True
            memory["claim"] = claim

        yield Remember(change=take)
    if left and memory.get("step") != left:
        yield BeginStep(name=left)
    if left and memory["ahead"].get("told") != left:
        told = f"Work on this step of the plan now: {left}. Call `step_done` when it is done."

        def tell(memory: Any) -> None:  # noqa: ANN401 - as above
            memory["ahead"]["told"] = left
            memory["messages"].append({"role": "user", "text": told})

        yield Remember(change=tell)


def _overruled(view: PolicyView) -> Iterator[Move]:
    """Go by the plan that a person has written, where there is one; a step that was planned before keeps its check."""
    written, adopted = tuple(view.plan), tuple(view.memory.get("plan", ()))
    known = {step["title"]: plain(step["check"]) for step in view.memory["ahead"].get("steps", ())}
    if not written or written in {adopted, tuple(known)}:  # the latter: ours, of which memory does not know yet
        return
    steps = [{"title": title, "check": known.get(title, {})} for title in written]

    def take(memory: Any) -> None:  # noqa: ANN401 - as above
        memory["plan"] = list(written)
        memory["ahead"]["steps"] = steps
        memory["ahead"].pop("is_claimed", None)

    yield Remember(change=take)


def claim_of(turn: int, title: str, result: str) -> dict[str, Any]:
    """Return the claim that a step is done, or (without a title) that the goal is reached."""
    return {"id": f"{turn} {'step' if title else 'goal'}", "title": title, "result": result}


def replanned(view: PolicyView, place: int, call: Mapping[str, Any]) -> Remember:
    """Return the move that gives the plan up for a new one, for the reason that a call of `replan` names."""
    asked_for = view.memory.get("replans", 0) + 1
    if asked_for > REPLAN_MAX:
        why = f"a new plan was made {REPLAN_MAX} times already; go on with the one there is"
        return results.given(place, {call["id"]: results.failed("NoNewPlan", why)})

    def change(memory: Any) -> None:  # noqa: ANN401 - as above
        memory["replans"] = asked_for
        memory["ahead"] = {"why": call["arguments"]["reason"]}
        results.put(memory, place, {call["id"]: results.text("A new plan is made.")})

    return Remember(change=change)


def next_step(view: PolicyView) -> str:
    """Return the first step that is not done, "" where all are."""
    done = set(view.checks) | set(view.memory.get("done", ()))
    return next((step["title"] for step in view.memory["ahead"].get("steps", ()) if step["title"] not in done), "")
