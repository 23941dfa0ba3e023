"""What a thinking agent does with replies: every call is answered once, claims are judged, people are heard."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from pathlib import Path

import pytest

import perdure
from perdure.agent.approaches.one_shot import MANNER as ONE_SHOT
from perdure.model import entry as e
from perdure.model.chat import ModelReply, ModelRequest
from perdure.testing import Death
from tests.agent.scenes import APPROVED, JUDGED, REFUSED, Scene, fills, form_of, planned, says
from tests.worlds import DEAD


@perdure.tool(effect="pure", name="sc_look")
def look(place: str) -> str:
    """Look at a place."""
    if place == "nowhere":
        raise FileNotFoundError(f"there is no {place}")
    return f"seen {place}"


def last(request: ModelRequest) -> str:
    """Return the text of the newest message, or what its calls brought."""
    message = request.messages[-1]
    results = message.get("results", {}).values()
    return " | ".join(str(one.get("text", one.get("failed"))) for one in results) or message["text"]


def test_every_call_of_a_reply_is_answered_right_behind_it() -> None:
    """Known and unknown tools, wrong arguments, things that are no tools: each has its result before the next turn."""
    calls = [
        ("sc_look", {"place": "here"}),
        ("sc_look", {"place": "nowhere"}),
        ("sc_look", {"plaice": "here"}),
        ("nosuch", {}),
        ("todo_write", {"items": ["a", "b"]}),
        ("todo_read", {}),
        ("checkpoint", {"name": "half"}),
        ("todo_write", {"items": "a"}),
    ]

    def speaks(request: ModelRequest) -> ModelReply:
        if form_of(request):
            return APPROVED
        return says("", *calls) if len(request.messages) == 2 else says("", ("finish", {"result": "done"}))

    scene = Scene(speaks, tools=[look])
    assert scene.live() == "done"
    reply = scene.model.requests[1].messages[2]
    results = [reply["results"][call["id"]] for call in reply["calls"]]
    assert [result.get("text", result.get("failed", {}).get("type")) for result in results] == [
        "seen here", "FileNotFoundError", "CallRefused", "CallRefused", "noted, 2 things", "- a\n- b", "marked 'half'",
        "CallRefused",
    ]  # fmt: skip
    assert [mark.name for mark in scene.world.fold().document.checkpoints if mark.reason == "program"] == ["half"]


def test_a_claim_is_judged_in_a_request_of_its_own_and_the_model_is_told_why_it_is_not_met() -> None:
    """The judge sees calls and results, not the conversation; a second claim that is met ends the task."""

    def speaks(request: ModelRequest) -> ModelReply:
        if form_of(request) == "verdict":
            return APPROVED if "seen here" in request.messages[-1]["text"] else REFUSED
        if "nothing was done" in str(request.messages[-2:]):
            return says("", ("sc_look", {"place": "here"})) if "seen here" not in str(request.messages) else says("ok")
        return says("", ("finish", {"result": "done"})) if len(request.messages) == 2 else says("I am done")

    scene = Scene(speaks, tools=[look])
    assert scene.live() == "ok"
    assert scene.forms == ["turn", "verdict", "turn", "turn", "verdict"]
    assert scene.world.fold().ledger.failures == 0  # counted once, and taken back by the goal that was reached


def test_three_claims_that_are_not_met_change_the_strategy() -> None:
    """The conversation is opened anew from goal and lessons, in the manner of the next strategy."""

    def speaks(request: ModelRequest) -> ModelReply:
        if form_of(request) == "plan":
            return planned("look around")
        if form_of(request) == "verdict":
            return REFUSED if ONE_SHOT in scene.systems() else APPROVED
        return says("I am done")

    class Watched(Scene):
        def systems(self) -> str:
            return next(r.messages[0]["text"] for r in reversed(self.model.requests) if not form_of(r))

    scene = Watched(speaks)
    assert scene.live() == "I am done"
    turns = [request for request in scene.model.requests if not form_of(request)]
    assert [ONE_SHOT in turn.messages[0]["text"] for turn in turns] == [True, True, True, False]
    assert "What was tried and did not work" in turns[-1].messages[1]["text"]
    assert len(turns[-1].messages) == 3  # who it is, the brief, the step: nothing of what was said before


def test_what_a_person_says_is_in_the_next_request_once() -> None:
    """Also where the task was interrupted in between."""

    def speaks(request: ModelRequest) -> ModelReply:
        if form_of(request):
            return APPROVED
        if len(request.messages) == 2:
            return says("", ("ask_user", {"question": "What now?"}))
        return says(" / ".join(message["text"] for message in request.messages[3:]))

    scene = Scene(speaks)
    scene.ask()
    say(scene, "tell", "mind the step")
    scene.ask()
    say(scene, "answer", "go on")
    assert scene.live() == "A person says: mind the step"
    assert last_results(scene) == ["go on"]


def test_calls_that_fail_in_two_turns_in_a_row_count_as_failures() -> None:
    """Four turns in which nothing succeeds: the strategy is changed, and not by the model's own insight."""

    def speaks(request: ModelRequest) -> ModelReply:
        if form_of(request) == "plan":
            return planned("look around")
        if form_of(request):
            return APPROVED
        if ONE_SHOT in request.messages[0]["text"]:
            return says("", ("sc_look", {"place": "nowhere"}), ("nosuch", {"n": len(request.messages)}))
        return says("found another way")

    scene = Scene(speaks, tools=[look])
    assert scene.live() == "found another way"
    assert 3 <= scene.forms.index("plan") <= 5


@pytest.mark.parametrize("claim", [("step_done", {"result": "all"}), ("finish", {"outcome": "all"})])
def test_a_claim_that_cannot_be_made_fails_as_any_other_call(claim: tuple[str, dict[str, str]]) -> None:
    """One that is not on offer, or has other arguments, is judged by nothing: it is counted all the same."""

    def speaks(request: ModelRequest) -> ModelReply:
        if form_of(request) == "plan":
            return planned("look around")
        if form_of(request):
            return APPROVED
        assert len(request.messages) < 20
        return says("", claim) if ONE_SHOT in request.messages[0]["text"] else says("found another way")

    scene = Scene(speaks, tools=[look])
    assert scene.live() == "found another way"
    assert 3 <= scene.forms.index("plan") <= 5


def test_a_turn_in_which_something_succeeds_is_no_failure() -> None:
    """However often something else fails beside it."""

    def speaks(request: ModelRequest) -> ModelReply:
        if form_of(request):
            return APPROVED
        turn = sum(message["role"] == "assistant" for message in request.messages)
        return says("", ("sc_look", {"place": f"{turn}"}), ("nosuch", {"n": turn})) if turn < 4 else says("done")

    scene = Scene(speaks, tools=[look])
    assert scene.live() == "done"
    assert [True] == [
        entry.payload.passed for entry in scene.world.journal() if isinstance(entry.payload, e.CheckJudged)
    ]


def test_an_answer_that_is_empty_or_cut_off_is_asked_for_again() -> None:
    """Empty: recovery asks again, and says why. Cut off: the model goes on from there, and all of it is the result."""
    replies = iter([says(""), ModelReply(text="I begin", finish="length"), says("and say all of it"), APPROVED])
    scene = Scene(lambda _: next(replies))
    assert scene.live() == "I begin and say all of it"
    texts = [request.messages[-1]["text"] for request in scene.model.requests]
    assert "the answer was empty" in texts[1]
    assert "cut off" in texts[2]


@pytest.mark.parametrize("point", ["before_intent", "after_intent", "after_effect", "after_outcome"])
def test_no_finished_request_is_made_again(point: str) -> None:
    """Killed at every moment of every action: a request that is on record is not sent a second time."""
    killed = 0
    for number in range(1, 40):
        scene = Scene(_walks, tools=[look])
        if scene.live(death=Death(point, number)) != DEAD:
            break
        killed += 1
        recorded = sum(kind == "ActionSettled" for kind in scene.world.kinds())
        assert scene.live() == "done"
        twice = len(scene.model.requests) - UNDISTURBED
        assert 0 <= twice <= (point in {"after_intent", "after_effect"}), (number, recorded)
    assert killed > UNDISTURBED
    print(f"killed {killed} times {point}")


UNDISTURBED = 5  # requests: the plan-less turns of `_walks` and its judge


def _walks(request: ModelRequest) -> ModelReply:
    if form_of(request):
        return APPROVED
    turn = sum(message["role"] == "assistant" for message in request.messages)
    if turn < 3:
        return says(f"turn {turn}", ("sc_look", {"place": f"{turn}a"}), ("sc_look", {"place": f"{turn}b"}))
    return says("", ("finish", {"result": "done"}))


def say(scene: Scene, what: str, text: str) -> None:
    """Be the person: tell or answer."""
    from perdure import operations

    async def speak(runtime: perdure.Runtime) -> None:
        word = operations.tell if what == "tell" else operations.answer
        await word(runtime, "job", text, f"{what} {text}")

    scene.world.do(speak)


def last_results(scene: Scene) -> list[str]:
    """Return what the calls of the last reply that has made some have brought."""
    reply = next(one for one in reversed(scene.memory["messages"]) if one.get("calls"))
    return [reply["results"][call["id"]]["text"] for call in reply["calls"]]


def test_a_goal_that_is_reached_already_ends_the_task(tmp_path: Path) -> None:
    """Found in the workspace before the first turn: a plan is asked for, and nothing else."""
    (tmp_path / "note.txt").write_text("hello")
    seen = {"kind": "text_contains", "path": "note.txt", "text": "hello"}
    scene = Scene(lambda _: planned("write it", check=seen), workspace=tmp_path, prompt_strategy="plan_execute")
    assert scene.live() == "The goal was reached already."
    assert scene.forms == ["plan"]


def test_an_agent_that_goes_in_circles_is_asked_whether_it_is_done_before_it_is_told_off(tmp_path: Path) -> None:
    """It reads the same again and again, while another writes what was wanted: the task ends as reached."""
    seen = {"kind": "file_exists", "path": "note.txt"}

    def speaks(request: ModelRequest) -> ModelReply:
        if form_of(request) == "plan":
            return planned("write it", check=seen)
        if len(scene.forms) == 4:
            (tmp_path / "note.txt").write_text("hello")
        return says("", ("sc_look", {"place": "here"}))

    scene = Scene(speaks, tools=[look], workspace=tmp_path, prompt_strategy="plan_execute")
    assert scene.live() == "The goal was reached already."
    assert "turn" == scene.forms[-1]
    assert len(scene.forms) < 15


def test_replies_that_are_always_cut_off_change_the_strategy() -> None:
    """They are gone on with once; from then on they count, and nothing is paid without end."""

    def speaks(request: ModelRequest) -> ModelReply:
        if form_of(request) == "plan":
            return planned("look around")
        if form_of(request):
            return APPROVED
        if ONE_SHOT in request.messages[0]["text"]:
            return ModelReply(text=f"and {len(scene.forms)} ", finish="length")
        return says("found another way")

    scene = Scene(speaks)
    assert scene.live() == "found another way"
    assert scene.forms.index("plan") <= 6


def test_of_several_claims_in_one_reply_one_is_judged() -> None:
    """The other is told so, and nothing that nobody has judged is called done."""

    def speaks(request: ModelRequest) -> ModelReply:
        if form_of(request) == "plan":
            return planned("look around")
        if form_of(request):
            return APPROVED
        return says("", ("step_done", {"result": "looked"}), ("finish", {"result": "all of it"}))

    scene = Scene(speaks, prompt_strategy="plan_execute")
    scene.live()
    reply = next(message for message in scene.memory["messages"] if message.get("calls"))
    told = [reply["results"][call["id"]] for call in reply["calls"]]
    assert [one.get("text", one.get("failed", {}).get("type")) for one in told] == ["It is done.", "OneAtATime"]


def test_a_check_that_cannot_be_made_is_one_that_is_not_met(tmp_path: Path) -> None:
    """The model is told why; the next plan's check is another."""

    def speaks(request: ModelRequest) -> ModelReply:
        if form_of(request) == "plan":
            odd = {"kind": "file_exists", "path": "a\0b"}
            return planned("write it", check=odd if len(scene.forms) == 1 else JUDGED)
        if form_of(request):
            return APPROVED
        if "could not be made" in str(request.messages):
            return says("", ("replan", {"reason": "the check is odd"}))
        return says("", ("step_done", {"result": "written"}))

    scene = Scene(speaks, workspace=tmp_path, prompt_strategy="plan_execute")
    assert scene.live() == "written"


def test_calls_that_write_files_are_made_one_after_the_other(tmp_path: Path) -> None:
    """In the order of the reply; those that only look are made at once."""
    running: list[str] = []
    most = 0

    @perdure.tool(effect="workspace", name="tu_write", paths=("note.txt",))
    async def write(text: str, workspace: str) -> None:
        """Write behind what stands there."""
        note = Path(workspace) / "note.txt"
        before = note.read_text() if note.exists() else ""
        await asyncio.sleep(0)
        note.write_text(before + text)

    @perdure.tool(effect="pure", name="tu_look")
    async def wait(place: str) -> None:
        """Look, together with others."""
        nonlocal most
        running.append(place)
        most = max(most, len(running))
        await asyncio.sleep(0)
        running.remove(place)

    def speaks(request: ModelRequest) -> ModelReply:
        if form_of(request):
            return APPROVED
        looks = [("tu_look", {"place": place}) for place in "abc"]
        writes = [("tu_write", {"text": text}) for text in "123"]
        return says("", *looks, *writes, *looks) if len(request.messages) == 2 else says("done")

    scene = Scene(speaks, tools=[write, wait], workspace=tmp_path)
    assert scene.live() == "done"
    assert ("123", 3) == ((tmp_path / "note.txt").read_text(), most)


def test_what_a_provider_wants_back_goes_back_with_the_reply_that_brought_it() -> None:
    """As it was, in each later request."""
    kept = {"thinking": "signed"}

    def speaks(request: ModelRequest) -> ModelReply:
        if form_of(request):
            return APPROVED
        looks = {"id": "", "name": "sc_look", "arguments": {"place": "here"}}
        return ModelReply(text="", calls=[looks], kept=kept) if len(request.messages) == 2 else says("done")

    scene = Scene(speaks, tools=[look])
    assert scene.live() == "done"
    assert kept == scene.model.requests[1].messages[2]["kept"]


def test_a_look_that_cannot_be_made_is_not_made_again(tmp_path: Path) -> None:
    """Whether the goal is reached already is asked of the files once; the turn comes all the same."""
    odd = {"kind": "file_exists", "path": "a\0b"}

    def speaks(request: ModelRequest) -> ModelReply:
        if form_of(request) == "plan":
            return fills({"steps": [{"title": "write it", "check": JUDGED}], "goal_check": odd})
        return APPROVED if form_of(request) else says("done")

    scene = Scene(speaks, workspace=tmp_path, prompt_strategy="plan_execute")
    with contextlib.suppress(perdure.NeedsHuman):
        scene.live()
    intents = [entry.payload for entry in scene.world.journal() if isinstance(entry.payload, e.ActionIntended)]
    assert ["outfit", "think", "look", "think"] == [intent.tool for intent in intents[:4]]


def test_answers_of_people_are_read_as_they_are_meant() -> None:
    """A yes is "yes", the number of a choice is the choice, and a number that none has stays what it is."""
    asked = [
        ("ask_yes_no", {"question": "Go?"}),
        ("ask_choice", {"question": "Which?", "choices": ["red", "green"]}),
        ("ask_choice", {"question": "And?", "choices": ["red", "green"]}),
    ]

    def speaks(request: ModelRequest) -> ModelReply:
        if form_of(request):
            return APPROVED
        return says("", *asked) if len(request.messages) == 2 else says("done")

    scene = Scene(speaks)
    scene.ask()
    for key, word in zip(scene.world.fold().document.asking, ("Y", "2", "0"), strict=True):
        scene.world.do(partial(answered, key=key, word=word))
    assert scene.live() == "done"
    assert ["yes", "green", "0"] == last_results(scene)


async def answered(runtime: perdure.Runtime, *, key: str, word: str) -> None:
    """Be the person: answer one of several questions."""
    from perdure import operations

    await operations.answer(runtime, "job", word, f"{key} {word}", question=key)
