"""Each prompt strategy asks models for other things, in another order: that is what tells them apart."""

from __future__ import annotations

import pytest

import perdure
from perdure.agent.approaches import APPROACHES
from perdure.model.chat import ModelReply, ModelRequest
from tests.agent.scenes import APPROVED, JUDGED, REFUSED, Scene, fills, form_of, planned, says


@perdure.tool(effect="pure", name="ap_read")
def read(name: str) -> str:
    """Read what is called so."""
    return f"text of {name}"


WAYS = fills({
    "approaches": [
        {"idea": "by foot", "steps": [{"title": "walk", "check": JUDGED}]},
        {"idea": "by boat", "steps": [{"title": "row", "check": JUDGED}, {"title": "land", "check": JUDGED}]},
    ],
    "goal_check": JUDGED,
})  # fmt: skip
ERRANDS = fills({
    "errands": [
        {"id": "E1", "tool": "ap_read", "arguments": {"name": "a"}, "why": "it is the first"},
        {"id": "E2", "tool": "ap_read", "arguments": {"name": "what #E1 says"}, "why": "it hangs on the first"},
    ],
    "goal_check": JUDGED,
})  # fmt: skip
EXPECTED = {
    "one_shot": ["turn", "turn", "verdict"],
    "plan_execute": ["plan", "turn", "turn", "verdict", "turn", "verdict", "verdict"],
    "reflexion": ["turn", "turn", "verdict", "reflection", "turn", "verdict"],
    "rewoo": ["blueprint", "turn", "verdict"],
    "tree_of_thoughts": ["candidates", "scores", "turn", "turn", "verdict", "turn", "verdict", "verdict"],
}


@pytest.mark.parametrize("name", sorted(APPROACHES))
def test_the_requests_of_a_strategy_are_its_own(name: str) -> None:
    """Which forms are asked for, in order, and what the strategy's manner is."""
    verdicts: list[str] = []

    def speaks(request: ModelRequest) -> ModelReply:
        match form_of(request):
            case "plan":
                return planned("first", "second")
            case "candidates":
                return WAYS
            case "scores":
                return fills({"scores": [2, 9]})
            case "blueprint":
                return ERRANDS
            case "reflection":
                return fills({"lesson": "look twice"})
            case "verdict":
                verdicts.append(name)
                return REFUSED if name == "reflexion" and len(verdicts) == 1 else APPROVED
        if name != "rewoo" and not any(message.get("calls") for message in request.messages):
            return says("I look", ("ap_read", {"name": "a"}))
        return says("it is done")

    scene = Scene(speaks, tools=[read], prompt_strategy=name)
    assert scene.live() == "it is done"
    assert scene.forms == EXPECTED[name]
    turns = [request for request in scene.model.requests if not form_of(request)]
    assert all(APPROACHES[name].manner in turn.messages[0]["text"] for turn in turns)
    said = "\n".join(message["text"] for message in turns[-1].messages)
    match name:
        case "plan_execute":
            assert scene.world.fold().document.plan == ("first", "second")
        case "tree_of_thoughts":
            assert "The way to go: by boat" in said
            assert scene.world.fold().document.plan == ("row", "land")
        case "reflexion":
            assert "What is to be learned from it: look twice" in said
        case "rewoo":
            brought = [one["results"][call["id"]]["text"] for one in turns[0].messages for call in one.get("calls", ())]
            assert brought == ["text of a", "text of what text of a says"]


def test_a_way_that_fails_twice_is_left_for_the_next() -> None:
    """tree_of_thoughts: the second best is followed."""

    def speaks(request: ModelRequest) -> ModelReply:
        match form_of(request):
            case "candidates":
                return WAYS
            case "scores":
                return fills({"scores": [2, 9]})
            case "verdict":
                return APPROVED if "walk" in request.messages[-1]["text"] or "by foot" in walked(scene) else REFUSED
        return says("it is done")

    def walked(scene: Scene) -> str:
        turns = [request for request in scene.model.requests if not form_of(request)]
        return str(turns[-1].messages)

    scene = Scene(speaks, tools=[read], prompt_strategy="tree_of_thoughts")
    assert scene.live() == "it is done"
    assert "The way to go: by foot" in walked(scene)
    assert "tree_of_thoughts" == scene.world.fold().ledger.strategies[scene.world.fold().document.strategy].name


def test_a_model_may_ask_for_a_new_plan_a_few_times() -> None:
    """The reason stands in the request for it; at some number the answer is no."""

    def speaks(request: ModelRequest) -> ModelReply:
        if form_of(request) == "plan":
            return planned(f"plan {len(scene.forms)}")
        if form_of(request):
            return APPROVED
        if "NoNewPlan" in str(request.messages):
            return says("it is done")
        return says("", ("replan", {"reason": f"wall {len(scene.forms)}"}))

    scene = Scene(speaks, prompt_strategy="plan_execute")
    assert scene.live() == "it is done"
    plans = [request.messages[-1]["text"] for request in scene.model.requests if form_of(request) == "plan"]
    assert len(plans) == 6
    assert "wall 2" in plans[1]


def test_no_way_at_all_is_no_answer() -> None:
    """tree_of_thoughts: the model is asked again, and told why."""

    def speaks(request: ModelRequest) -> ModelReply:
        match form_of(request):
            case "candidates":
                is_told = scene.forms.count("candidates") > 1
                return WAYS if is_told else fills({"approaches": [], "goal_check": JUDGED})
            case "scores":
                return fills({"scores": [2, 9]})
            case "verdict":
                return APPROVED
        return says("it is done")

    scene = Scene(speaks, tools=[read], prompt_strategy="tree_of_thoughts")
    assert scene.live() == "it is done"
    assert ["candidates", "candidates", "scores"] == scene.forms[:3]
    assert "names no approach" in scene.model.requests[1].messages[-1]["text"]


def test_a_step_of_a_new_plan_is_not_done_because_one_of_that_name_was() -> None:
    """It is told apart, worked on and checked by itself."""

    def speaks(request: ModelRequest) -> ModelReply:
        if form_of(request) == "plan":
            return planned("look", "run") if len(scene.forms) == 1 else planned("look")
        if form_of(request):
            return APPROVED
        if "the plan now: run" in request.messages[-1]["text"]:
            return says("", ("replan", {"reason": "the wind has turned"}))
        return says("done")

    scene = Scene(speaks, prompt_strategy="plan_execute")
    assert scene.live() == "done"
    assert ["plan", "turn", "verdict", "turn", "plan", "turn", "verdict", "verdict"] == scene.forms
    assert ("look (2)",) == scene.world.fold().document.plan


def test_each_claim_that_is_not_met_is_reflected_on() -> None:
    """reflexion: the second as well as the first, and both lessons stand in the conversation."""
    lessons = iter(("look twice", "ask somebody"))

    def speaks(request: ModelRequest) -> ModelReply:
        match form_of(request):
            case "reflection":
                return fills({"lesson": next(lessons)})
            case "verdict":
                return APPROVED if scene.forms.count("verdict") == 3 else REFUSED
        return says("it is done")

    scene = Scene(speaks, prompt_strategy="reflexion")
    assert scene.live() == "it is done"
    assert ["turn", "verdict", "reflection"] * 2 + ["turn", "verdict"] == scene.forms
    said = str([request for request in scene.model.requests if not form_of(request)][-1].messages)
    assert all(f"What is to be learned from it: {lesson}" in said for lesson in ("look twice", "ask somebody"))


def test_each_way_has_its_own_two_claims() -> None:
    """tree_of_thoughts: what the way before it has missed does not count against the next one."""
    ways = [
        {"idea": f"way {way}", "steps": [{"title": f"{step} of {way}", "check": JUDGED} for step in ("begin", "end")]}
        for way in range(3)
    ]
    verdicts = iter([REFUSED, REFUSED, APPROVED, REFUSED, APPROVED, APPROVED])

    def speaks(request: ModelRequest) -> ModelReply:
        match form_of(request):
            case "candidates":
                return fills({"approaches": ways, "goal_check": JUDGED})
            case "scores":
                return fills({"scores": [3, 2, 1]})
            case "verdict":
                return next(verdicts)
        return says("it is done")

    scene = Scene(speaks, prompt_strategy="tree_of_thoughts")
    assert scene.live() == "it is done"
    assert ("begin of 1", "end of 1") == scene.world.fold().document.plan
