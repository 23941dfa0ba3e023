"""What an agent is to work with is not here: nothing that it has done may be given up for that."""

from __future__ import annotations

import pytest

import perdure
from perdure.agent import Agent
from perdure.errors import ApiKeyMissing, ConfigInvalid, ModelUnknown, ProgramNotImportable
from perdure.model.chat import ModelReply, ModelRequest
from perdure.ports import Model
from tests.agent.scenes import APPROVED, Scene, form_of, says
from tests.agent.test_approvals import answer


def speaks(request: ModelRequest) -> ModelReply:
    """Mark a checkpoint, ask a person, and be done."""
    if form_of(request):
        return APPROVED
    match sum(message["role"] == "assistant" for message in request.messages):
        case 0:
            return says("", ("checkpoint", {"name": "far"}))
        case 1:
            return says("", ("ask_user", {"question": "Go on?"}))
    return says("", ("finish", {"result": "ok"}))


def keyless(name: str) -> Model:
    """Open no model, as where the key is not in the environment: under a timer, after a reboot."""
    raise ApiKeyMissing(name, ("OPENAI_API_KEY",))


@pytest.mark.parametrize("unattended", [False, True])
def test_without_a_key_a_person_is_asked_and_nothing_is_given_up(unattended: bool) -> None:
    """Again and again: no rollback, no change of strategy, answers are kept; with the key it goes on where it was."""
    scene = Scene(speaks)
    scene.ask()
    answer(scene, "yes")
    without = Agent(settings=scene.settings, open_model=keyless)
    for _ in range(4):
        with pytest.raises(perdure.TaskFailed if unattended else perdure.NeedsHuman, match="set OPENAI_API_KEY"):
            scene.world.do(lambda runtime: runtime.resume("job", without, again=unattended), unattended=unattended)
    assert "ok" == scene.world.do(lambda runtime: runtime.resume("job", scene.agent, again=unattended))
    assert (3, "RollbackBegan" in scene.world.kinds()) == (sum(form == "turn" for form in scene.forms), False)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"fast_model": "nobody:x"}, ModelUnknown),
        ({"own_tools": ["no/such/file.py"], "folder": "/"}, ProgramNotImportable),
        ({"mcp": "/no/such/file.toml"}, ConfigInvalid),
    ],
)
def test_changes_that_cannot_be_are_refused(changes: dict[str, object], error: type[Exception]) -> None:
    """By whoever resumes, before the task is touched."""
    scene = Scene(speaks)
    with pytest.raises(error):
        Agent(settings=scene.settings, changes=changes).refuse_changes()


@pytest.mark.parametrize(
    ("budget", "is_said"), [("5 USD", True), ("5 USD, tokens=900000", False), ("actions=90", False), ("", False)]
)
def test_a_budget_in_money_that_a_model_without_a_price_cannot_meet_is_said(budget: str, is_said: bool) -> None:
    """Nobody knows what such a model costs: whoever relies on the budget hears of it, once, at the start."""
    scene = Scene(lambda request: APPROVED if form_of(request) else says("", ("finish", {"result": "ok"})))
    agent = scene.agent
    given = {"budget": budget} if budget else {}
    scene.world.do(lambda runtime: runtime.run(agent, "job", goal="do it", args=agent.arguments(), **given))
    said = [text for text in scene.memory.get("said", ()) if "no price is known" in text]
    assert is_said == any("--budget tokens=" in text and scene.settings.model in text for text in said)
    assert len(said) == is_said
