"""An agent killed between any two appends: its failures are counted, its checkpoints marked and its notes said once."""

from __future__ import annotations

from collections import Counter

import perdure
from perdure.model import entry as e
from perdure.model.chat import ModelReply, ModelRequest
from perdure.testing import Death
from tests.agent.scenes import APPROVED, REFUSED, Scene, form_of, planned, says
from tests.worlds import DEAD


@perdure.tool(effect="pure", name="mo_look")
def look(place: str) -> str:
    """Look at a place."""
    return f"seen {place}"


def _stumbles(request: ModelRequest) -> ModelReply:
    """Mark two moments alike, fail two turns in a row, claim in vain, then claim in earnest."""
    turn = sum(message["role"] == "assistant" for message in request.messages)
    if form_of(request):
        return APPROVED if "seen there" in str(request.messages) else REFUSED
    replies = [
        says("", ("checkpoint", {"name": "half"}), ("mo_look", {"place": "here"}), ("checkpoint", {"name": "half"})),
        says("", ("nosuch", {"n": 1})),
        says("", ("nosuch", {"n": 2})),
        says("", ("mo_look", {"place": "here"})),
        says("", ("finish", {"result": "too early"})),
        says("", ("mo_look", {"place": "there"})),
    ]
    return replies[turn] if turn < len(replies) else says("", ("finish", {"result": "done"}))


def history(scene: Scene) -> Counter[str]:
    """Return what is to be on record once, however often the agent was killed."""
    found: Counter[str] = Counter()
    for entry in scene.world.journal():
        match entry.payload:
            case e.CheckpointMarked(name=name, reason="program"):
                found[f"mark {name}"] += 1
            case e.CheckJudged(name=name, passed=passed):
                found[f"check {name} {passed}"] += 1
            case e.FailureObserved(failure=failure):
                found[f"failure {failure.error.message}"] += 1
            case e.NoteWritten(text=text):
                found[f"note {text}"] += 1
            case _:
                pass
    return found


def test_a_verdict_a_checkpoint_and_a_note_are_on_record_once() -> None:
    """Killed before each append: what was counted, marked and said is as in an undisturbed run."""
    undisturbed = Scene(_stumbles, tools=[look])
    assert undisturbed.live() == "done"
    expected = history(undisturbed)
    assert {"mark half": 2, "failure check 'the goal is reached' was not met: nothing was done": 1}.items() <= {
        **expected
    }.items()
    killed = 0
    for number in range(1, 200):
        scene = Scene(_stumbles, tools=[look])
        if scene.live(death=Death("before_append", number)) != DEAD:
            break
        killed += 1
        assert scene.live() == "done"
        assert history(scene) == expected, number
    assert killed > 35


def _plans(request: ModelRequest) -> ModelReply:
    """Plan, do the first step, plan anew, do both steps of that."""
    said = str(request.messages)
    if form_of(request) == "plan":
        return planned("walk", "sit") if "too far" in said else planned("look", "run")
    if form_of(request):
        return APPROVED
    steps = sum(message["text"].startswith("Work on this step") for message in request.messages)
    if "this step of the plan now: run" in said and "too far" not in said:
        return says("", ("replan", {"reason": "it is too far"}))
    return says("", ("step_done", {"result": f"step {steps}"}))


def test_plans_and_steps_are_on_record_as_they_are_followed() -> None:
    """Killed before each append: the plans that were adopted and the steps that were begun, each once, in order."""
    undisturbed = Scene(_plans, prompt_strategy="plan_execute")
    assert undisturbed.live() == "step 4"
    expected = followed(undisturbed)
    assert ["look > run", "look", "run", "walk > sit", "walk", "sit"] == expected
    killed = 0
    for number in range(1, 200):
        scene = Scene(_plans, prompt_strategy="plan_execute")
        if scene.live(death=Death("before_append", number)) != DEAD:
            break
        killed += 1
        assert scene.live() == "step 4"
        assert followed(scene) == expected, number
    assert killed > 20


def followed(scene: Scene) -> list[str]:
    """Return the plans and steps of a journal, in order."""
    found = [entry.payload for entry in scene.world.journal()]
    return [
        " > ".join(one.steps) if isinstance(one, e.PlanAdopted) else one.name
        for one in found
        if isinstance(one, e.PlanAdopted | e.StepBegan)
    ]
