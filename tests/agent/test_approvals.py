"""The agent and the people who approve its calls: asked together, answered in any order, run once, as approved."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import operations
from perdure.agent.permits import UNASKED
from perdure.core.questions import open_questions
from perdure.model.chat import ModelReply, ModelRequest
from perdure.model.entry import NoteWritten
from perdure.testing import Death
from tests.agent.scenes import APPROVED, Scene, form_of, planned, says
from tests.worlds import DEAD

done: list[str] = []


@perdure.tool(effect="irreversible", name="ap_send")
async def send(to: str) -> str:
    """Send something to somebody."""
    done.append(to)
    return f"sent to {to}"


@pytest.fixture(autouse=True)
def nothing_done():
    """No call of another test is left."""
    done.clear()


def sending(*names: str, then: tuple[str, ...] = ()) -> Any:
    """Return a model that sends to `names` at once, then to those of `then` one by one, and is done."""

    def speaks(request: ModelRequest) -> ModelReply:
        if form_of(request):
            return APPROVED
        turn = sum(message["role"] == "assistant" for message in request.messages)
        if turn == 0:
            return says("", *(("ap_send", {"to": name}) for name in names))
        return (
            says("", ("ap_send", {"to": then[turn - 1]}))
            if turn <= len(then)
            else says("", ("finish", {"result": "ok"}))
        )

    return speaks


def scene_of(*names: str, then: tuple[str, ...] = (), **settings: Any) -> Scene:
    """Return a scene in which a person is asked."""
    return Scene(sending(*names, then=then), tools=[send], **{"continuous": False, **settings})


def answer(scene: Scene, text: str, question: str = "") -> None:
    """Answer a question of the agent."""
    ids = scene.world.ids
    scene.world.do(lambda runtime: operations.answer(runtime, "job", text, ids.short_id(), question))


def resume(scene: Scene, **options: Any) -> Any:
    """Go on with it by hand, in a new life."""
    return scene.world.do(lambda runtime: runtime.resume("job", scene.agent), options.pop("death", None), **options)


def texts(scene: Scene) -> list[str]:
    """Return the texts of the open questions."""
    fold = scene.world.fold()
    return [one.text.partition("?")[0] for one in open_questions(fold.document, fold.ledger)]


def told(scene: Scene) -> list[str]:
    """Return what came of the calls of the first reply, as the next request has it."""
    reply = scene.model.requests[1].messages[2]
    return [str(reply["results"][call["id"]].get("text") or reply["results"][call["id"]]["failed"]["message"])
            for call in reply["calls"]]  # fmt: skip


def test_two_approvals_in_reverse_order_reach_their_calls_after_two_restarts() -> None:
    """Nothing runs before both are answered; no model is asked again; the refused one is told to the model."""
    scene = scene_of("ada", "bob")
    assert "[1]" in scene.ask()
    assert ['Allow ap_send(to="ada")', 'Allow ap_send(to="bob")'] == texts(scene)
    answer(scene, "not on a Sunday", "2")
    with pytest.raises(perdure.NeedsHuman, match="ada"):
        resume(scene)
    assert ([], 1) == (done, len(scene.model.requests))
    answer(scene, "y", "1")
    assert "ok" == resume(scene)
    assert (["ada"], ["turn", "turn", "verdict"]) == (done, scene.forms)
    sent, refused = told(scene)
    assert (True, True) == ("sent to ada" in sent, refused.endswith("They say: not on a Sunday"))


def test_y_n_lets_the_next_calls_run_and_then_asks_again() -> None:
    """Over turns and restarts."""
    scene = scene_of("ada", then=("bob", "eve", "kim"))
    scene.ask()
    answer(scene, "y -3")
    with pytest.raises(perdure.NeedsHuman, match="kim"):
        resume(scene)
    assert ["ada", "bob", "eve"] == done
    answer(scene, "n")
    assert "ok" == resume(scene)
    assert ["ada", "bob", "eve"] == done


def test_y_n_to_the_first_of_several_calls_covers_the_others_of_the_reply() -> None:
    """They are made one after the other, as effects are, and none is asked in between."""
    scene = scene_of("ada", "bob", "eve")
    scene.ask()
    answer(scene, "y -3", "1")
    assert "ok" == resume(scene)
    assert ["ada", "bob", "eve"] == done


def test_y_n_answers_what_waits_behind_it_and_keeps_the_rest_for_later() -> None:
    """The call before it is still asked; what waits behind is answered at once, and counts as granted."""
    scene = scene_of("ada", "bob", "eve", then=("kim", "lee", "max"))
    scene.ask()
    answer(scene, "y -4", "2")
    assert ['Allow ap_send(to="ada")'] == texts(scene)
    answer(scene, "n")
    with pytest.raises(perdure.NeedsHuman, match="max"):
        resume(scene)
    assert ["bob", "eve", "kim", "lee"] == done


@pytest.mark.parametrize("number", range(1, 14))
def test_killed_after_an_approval_each_call_is_made_once_at_most(number: int) -> None:
    """Whatever append is the last: what was approved runs, what was not does not, and an unsure one asks a person."""
    scene = scene_of("ada", "bob", "eve")
    scene.ask()
    answer(scene, "y -2", "1")
    answer(scene, "n", "3")
    if DEAD != resume(scene, death=Death("before_append", number)):
        assert ["ada", "bob"] == done
        return
    with contextlib.suppress(perdure.NeedsHuman):  # whether a call was made may not be known: that asks as well
        assert "ok" == resume(scene)
    assert (len(set(done)), set()) == (len(done), set(done) - {"ada", "bob"})


def test_rules_come_first_and_continuous_says_what_it_allows() -> None:
    """An allowed call asks nobody, a denied one is told to the model even so, and the journal names the others."""
    scene = scene_of("ada", "bob", "eve", continuous=True, allow=("ap_send(ada)",), deny=("ap_send(eve)",))
    assert "ok" == scene.live()
    assert ["ada", "bob"] == done
    assert "rule: ap_send(eve)" in told(scene)[2]
    notes = [entry.payload.text for entry in scene.world.journal() if isinstance(entry.payload, NoteWritten)]
    assert ['allowed by --continuous: ap_send(to="bob")'] == [text for text in notes if "continuous" in text]


def test_continuous_limit_asks_after_so_many_calls() -> None:
    """Then `y -N` is so many more."""
    scene = scene_of("ada", then=("bob", "eve", "kim"), continuous=True, continuous_limit=2)
    assert "2 calls are made, as --continuous-limit allows" in scene.ask()
    assert ["ada", "bob"] == done
    answer(scene, "y -2")
    assert "ok" == resume(scene)
    assert ["ada", "bob", "eve", "kim"] == done


@pytest.mark.parametrize("rollbacks", [1, 3])
def test_a_rollback_takes_no_call_back_that_the_limit_has_counted(rollbacks: int) -> None:
    """However often it is rolled back by hand: as many calls as the limit says, then a person is asked."""
    scene = scene_of("ada", then=("bob", "eve"), continuous=True, continuous_limit=2)
    assert "2 calls are made" in scene.ask()
    for _ in range(rollbacks):
        scene.world.do(lambda runtime: runtime.rollback("job", "start", force=True))
        with pytest.raises(perdure.NeedsHuman, match="2 calls are made"):
            resume(scene)
    assert ["ada", "bob"] == done
    assert {UNASKED: 2} == scene.world.fold().ledger.counts


def test_a_rollback_to_behind_an_answer_grants_nothing_anew() -> None:
    """`y -3` has granted two further calls: one that was made before the rollback is one of them."""
    scene = scene_of("ada", then=("bob", "eve", "kim"))
    scene.ask()
    answer(scene, "y -3")
    scene.world.do(lambda runtime: runtime.checkpoint("job", "answered"))
    with pytest.raises(perdure.NeedsHuman, match="kim"):
        resume(scene)
    assert ["ada", "bob", "eve"] == done
    scene.world.do(lambda runtime: runtime.rollback("job", "answered", force=True))
    with pytest.raises(perdure.NeedsHuman, match="bob"):
        resume(scene)
    assert {"ada", "bob", "eve"} == set(done)


def test_unattended_the_question_is_the_reason_of_the_failure() -> None:
    """Nothing has run."""
    with pytest.raises(perdure.TaskFailed, match="Allow ap_send"):
        scene_of("ada").live(unattended=True)
    assert [] == done


def test_what_is_told_while_an_approval_is_open_is_seen_when_it_goes_on() -> None:
    """It answers nothing, and stands in the next request."""
    scene = scene_of("ada")
    scene.ask()
    ids = scene.world.ids
    scene.world.do(lambda runtime: operations.tell(runtime, "job", "mention the weather", ids.short_id()))
    assert ['Allow ap_send(to="ada")'] == texts(scene)
    answer(scene, "y")
    assert "ok" == resume(scene)
    assert "mention the weather" in str(scene.model.requests[1].messages)


def test_who_is_asked_for_the_command_of_a_check_is_told_so(tmp_path: Path) -> None:
    """No model has called it: the plan has."""
    check = {"kind": "command_succeeds", "command": "true"}

    def speaks(request: ModelRequest) -> ModelReply:
        return planned("first", check=check) if form_of(request) else says("it is done")

    scene = Scene(speaks, continuous=False, prompt_strategy="plan_execute", workspace=tmp_path)
    assert 'To check what was said to be done. Allow execute_shell(command_line="true")?' in scene.ask()
