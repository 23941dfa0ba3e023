"""The agent's task in the hands of a person: what they write is what it goes by when they hand it back."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.agent.checks import GOAL
from perdure.engine.runtime import Runtime
from perdure.model.chat import ModelReply, ModelRequest
from tests.agent.scenes import APPROVED, JUDGED, Scene, fills, form_of, says
from tests.agent.test_approvals import answer

CHECK = {"kind": "file_exists", "path": "second"}
STEPS = [{"title": "first", "check": JUDGED}, {"title": "second", "check": CHECK}]
PLANS = {
    "plan": fills({"steps": STEPS, "goal_check": JUDGED}),
    "candidates": fills({"approaches": [{"idea": "go", "steps": STEPS}], "goal_check": JUDGED}),
    "scores": fills({"scores": [5]}),
}


def speaks(request: ModelRequest) -> ModelReply:
    """Plan two steps, ask a person once, and claim whatever is to be done next."""
    form = form_of(request)
    if form:
        return PLANS.get(form, APPROVED)
    has_asked = any(message.get("calls") for message in request.messages)
    return says("it is done") if has_asked else says("", ("ask_user", {"question": "Go on?"}))


def in_hand(scene: Scene, *steps: str) -> None:
    """Take the task over, write a plan, and hand it back."""

    async def work(runtime: Runtime) -> None:
        task = (await runtime.store.find("job")).task
        await runtime.take_over(task, by="ann")
        await runtime.adopt_plan(task, steps)
        await runtime.hand_back(task)

    scene.world.do(work)


@pytest.mark.parametrize("name", ["plan_execute", "tree_of_thoughts"])
def test_the_plan_of_a_person_is_followed(name: str, tmp_path: Path) -> None:
    """Its steps are worked on in their order, one that was planned before keeps its check; a left out one is not."""
    (tmp_path / "second").touch()
    scene = Scene(speaks, prompt_strategy=name, workspace=tmp_path)
    scene.ask()
    in_hand(scene, "zeroth", "second")
    answer(scene, "yes")
    assert "it is done" == scene.live()
    fold = scene.world.fold()
    assert ("zeroth", "second") == fold.document.plan
    assert ["zeroth", "second", GOAL] == list(fold.document.checks)
    assert [{}, CHECK] == [step["check"] for step in scene.memory["ahead"]["steps"]]
    assert "Work on this step of the plan now: zeroth." in str(scene.model.requests[-4].messages)
