"""What no model should say and some do: nothing of it stops a task for good."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

import perdure
from perdure.agent import Agent
from perdure.agent.approaches.planning import TITLE_MAX
from perdure.limits import NAME_BYTES_MAX, QUESTIONS_MAX
from perdure.model import entry as e
from perdure.model.chat import ModelReply, ModelRequest
from perdure.testing import ScriptedModel
from tests.agent.scenes import APPROVED, JUDGED, Scene, fills, form_of, planned, says
from tests.agent.test_turns import last_results, say
from tests.worlds import World

ODD = [
    "ends with a blank where it is cut, " * 9,
    "😀" * TITLE_MAX,
    "a\0b\x1b[2J",
    "two\nlines\u2028three",
    "",
    " ",
    "x" * (TITLE_MAX - 1) + " y",
    "y" * 79 + " z",
]


@perdure.tool(effect="irreversible", name="od_ring")
def ring(place: str) -> str:
    """Ring a bell."""
    return f"rang {place}"


@pytest.mark.parametrize("name", ODD)
def test_any_text_makes_a_name_of_a_step_and_of_a_checkpoint(name: str) -> None:
    """Cut, on one line, without control characters; two that are alike are told apart."""

    def speaks(request: ModelRequest) -> ModelReply:
        if form_of(request) == "plan":
            return planned(name, name)
        if form_of(request):
            return APPROVED
        is_first = not any(message.get("calls") for message in request.messages)
        return says("", ("checkpoint", {"name": name})) if is_first else says("done")

    scene = Scene(speaks, prompt_strategy="plan_execute")
    assert scene.live() == "done"
    document = scene.world.fold().document
    marks = [mark.name for mark in document.checkpoints if mark.reason == "program"]
    assert (2, 1) == (len(set(document.plan)), len(marks))
    assert all(len(one.encode()) <= NAME_BYTES_MAX and one.isprintable() and one for one in (*document.plan, *marks))


def test_more_questions_than_can_be_asked_at_once_are_asked_in_several_goes() -> None:
    """Of a reply that asks so often, and of one that calls so much that needs a permission."""
    many = QUESTIONS_MAX + 1

    def speaks(request: ModelRequest) -> ModelReply:
        if form_of(request):
            return APPROVED
        match sum(bool(message.get("calls")) for message in request.messages):
            case 0:
                return says("", *(("ask_user", {"question": f"q{number}"}) for number in range(many)))
            case 1:
                return says("", *(("od_ring", {"place": f"{number}"}) for number in range(many)))
            case _:
                return says("done")

    scene = Scene(speaks, tools=[ring], continuous=False)
    for asked in (many, QUESTIONS_MAX, many, QUESTIONS_MAX):
        scene.ask()
        questions = scene.world.fold().document.asking
        assert (QUESTIONS_MAX if asked == many else 1) == len(questions)
        for key in questions:
            answer(scene.world, key)
    assert scene.live() == "done"
    assert [f"rang {number}" for number in range(many)] == last_results(scene)


def answer(world: World, key: str) -> None:
    """Be the person: say yes."""
    from perdure import operations

    world.do(lambda runtime: operations.answer(runtime, "job", "y", f"yes {key}", question=key))


@pytest.mark.parametrize(
    "asked",
    [
        ("ask_user", {"question": ""}),
        ("ask_yes_no", {"question": " \n"}),
        ("ask_choice", {"question": "Which?", "choices": []}),
    ],
)
def test_a_question_that_nobody_can_answer_is_not_asked(asked: tuple[str, Mapping[str, Any]]) -> None:
    """The model is told so."""

    def speaks(request: ModelRequest) -> ModelReply:
        if form_of(request):
            return APPROVED
        return says("", asked) if len(request.messages) == 2 else says("done")

    scene = Scene(speaks)
    assert scene.live() == "done"
    assert "can be answered by nobody" in str(scene.model.requests[1].messages[-1])


@pytest.mark.parametrize(
    "check", [{"kind": "command_succeeds"}, {"kind": "text_contains", "path": "note.txt"}, {"kind": "file_exists"}]
)
def test_a_check_that_does_not_say_what_to_look_for_is_left_to_a_judge(
    check: Mapping[str, Any], tmp_path: Path
) -> None:
    """An empty command succeeds always, and an empty text stands in every file."""
    (tmp_path / "note.txt").write_text("hello")

    def speaks(request: ModelRequest) -> ModelReply:
        if form_of(request) == "plan":
            return planned("write it", check=check)
        return APPROVED if form_of(request) else says("done")

    scene = Scene(speaks, workspace=tmp_path, prompt_strategy="plan_execute")
    assert scene.live() == "done"
    assert ["plan", "turn", "verdict", "verdict"] == scene.forms


@pytest.mark.parametrize("continuous", [True, False])
def test_a_list_and_an_object_reach_a_tool_as_they_were_given(*, continuous: bool) -> None:
    """Of a tool with annotations, and of one with a schema, as servers have; where a person is asked, too."""
    schema = {"type": "object", "properties": {"rows": {"type": "array"}, "more": {"type": "object"}}}
    got: list[object] = []

    @perdure.tool(effect="pure", name="od_rows")
    def rows(rows: list[dict[str, int]]) -> None:
        """Take rows."""
        got.append(rows)

    @perdure.tool(effect="pure", name="od_served", schema=schema)
    def served(arguments: dict[str, Any]) -> None:
        got.append(arguments)

    given = {"rows": [{"a": 1}, {"a": 2}]}, {"rows": [1, [2]], "more": {"b": [3]}}

    def speaks(request: ModelRequest) -> ModelReply:
        if form_of(request):
            return APPROVED
        return says("", ("od_rows", given[0]), ("od_served", given[1])) if len(request.messages) == 2 else says("done")

    scene = Scene(speaks, tools=[rows, served], continuous=continuous)
    if not continuous:
        assert '{"a":1}' in scene.ask()
        for key in scene.world.fold().document.asking:
            answer(scene.world, key)
    assert scene.live() == "done"
    assert [given[0]["rows"], given[1]] == sorted(got, key=str)


def test_a_path_that_no_file_can_have_is_told_to_the_model(tmp_path: Path) -> None:
    """Each tool that writes in the workspace refuses it before the call."""
    odd = (
        ("write_to_file", {"filename": "a\0b", "contents": "x"}),
        ("move_file", {"source": "a\0b", "destination": "c"}),
    )

    def speaks(request: ModelRequest) -> ModelReply:
        if form_of(request):
            return APPROVED
        return says("", *odd) if len(request.messages) == 2 else says("done")

    scene = Scene(speaks, workspace=tmp_path)
    assert scene.live() == "done"
    assert 2 == str(scene.model.requests[1].messages[-1]).count("zero byte")


def test_errands_of_the_same_number_are_all_made_and_none_is_made_of_nothing() -> None:
    """The newest of them is meant from there on; what hangs on one that has failed is told to the model instead."""
    made: list[str] = []

    @perdure.tool(effect="pure", name="od_read")
    def read(name: str) -> str:
        """Read."""
        if name == "nowhere":
            raise FileNotFoundError(name)
        made.append(name)
        return f"<{name}>"

    errands = [("E1", "a"), ("E1", "b"), ("#e2", "#E1"), ("E3", "nowhere"), ("E4", "of #E3"), ("E5", "#E9 #E1F #e2")]
    blueprint = fills({
        "errands": [{"id": one, "tool": "od_read", "arguments": {"name": name}} for one, name in errands],
        "goal_check": JUDGED,
    })  # fmt: skip

    def speaks(request: ModelRequest) -> ModelReply:
        if form_of(request) == "blueprint":
            return blueprint
        return APPROVED if form_of(request) else says("done")

    scene = Scene(speaks, tools=[read], prompt_strategy="rewoo")
    assert scene.live() == "done"
    assert ["a", "b", "<b>", "#E9 #E1F <<b>>"] == made
    turn = next(request for request in scene.model.requests if not form_of(request))
    came: list[Any] = [one for message in turn.messages for one in message.get("results", {}).values()]
    assert len(errands) == len(came)
    assert "hangs on E3" in came[4]["failed"]["message"]


RUNS = ("execute_shell", {"command_line": "true"})
LOOKS, RINGS = ("od_look", {"place": "there"}), ("od_ring", {"place": "here"})


@perdure.tool(effect="pure", name="od_look")
def look(place: str) -> str:
    """Look at a place."""
    return f"seen {place}"


@pytest.mark.parametrize(
    ("script", "asked"),
    [([[RUNS]], 1), ([[RUNS, LOOKS]], 1), ([[RUNS, RINGS]], 2), ([[RUNS], [LOOKS]], 2)],
    ids=["at once", "beside a look", "before an effect", "a while ago"],
)
def test_a_check_by_the_command_that_has_just_run_takes_what_that_has_come_to(
    script: list[list[tuple[str, Mapping[str, Any]]]], asked: int, tmp_path: Path
) -> None:
    """Nobody is asked a second time; where something was done since, or another reply came between, somebody is."""
    check = {"kind": "command_succeeds", "command": "true "}

    def speaks(request: ModelRequest) -> ModelReply:
        if form_of(request) == "plan":
            return fills({"steps": [{"title": "try it", "check": check}], "goal_check": JUDGED})
        if form_of(request):
            return APPROVED
        turn = sum(message["role"] == "assistant" for message in request.messages)
        return says("", *(script[turn] if turn < len(script) else [("step_done", {"result": "done"})]))

    scene = Scene(
        speaks,
        tools=[ring, look],
        workspace=tmp_path,
        continuous=False,
        prompt_strategy="plan_execute",
        allow=("od_ring(*)", "od_look(*)"),
    )
    for number in range(asked):
        assert "execute_shell" in scene.ask()
        say(scene, "answer", ("y", "yes")[number])
    assert scene.live() == "done"
    intents = [entry.payload for entry in scene.world.journal() if isinstance(entry.payload, e.ActionIntended)]
    assert asked == [intent.tool for intent in intents].count("execute_shell")


def test_a_step_that_is_called_done_beside_a_call_for_a_new_plan_is_not_the_goal() -> None:
    """There is no step then: the model is told so, and nothing is judged."""

    def speaks(request: ModelRequest) -> ModelReply:
        if form_of(request) == "plan":
            return planned(f"plan {len(scene.forms)}")
        if form_of(request):
            return APPROVED
        if "a new plan is asked for" in str(request.messages):
            return says("", ("step_done", {"result": "the new step"}))
        return says("", ("step_done", {"result": "the old step"}), ("replan", {"reason": "a wall"}))

    scene = Scene(speaks, prompt_strategy="plan_execute")
    assert scene.live() == "the new step"
    assert ["plan", "turn", "plan", "turn", "verdict", "verdict"] == scene.forms


def test_a_pipe_is_no_file_that_a_check_waits_for(tmp_path: Path) -> None:
    """A program of the agent may have made one."""
    os.mkfifo(tmp_path / "pipe")
    check = {"kind": "text_contains", "path": "pipe", "text": "x"}

    def speaks(request: ModelRequest) -> ModelReply:
        if form_of(request) == "plan":
            return planned("write", check=check if len(scene.forms) == 1 else JUDGED)
        if form_of(request):
            return APPROVED
        is_told = "no file that can be read" in str(request.messages)
        return says("", ("replan", {"reason": "a pipe"}) if is_told else ("step_done", {"result": "written"}))

    scene = Scene(speaks, workspace=tmp_path, prompt_strategy="plan_execute")
    assert scene.live() == "written"


def test_a_strategy_whose_model_was_changed_since_goes_by_the_one_in_its_place() -> None:
    """`fast_model` is what recovery falls back on; it may be another when the task is resumed."""
    asked: list[str] = []

    def speaks(name: str) -> Any:
        def reply(request: ModelRequest) -> ModelReply:
            asked.append(f"{name} {form_of(request) or 'turn'}")
            if form_of(request):
                return APPROVED
            if len(asked) == 1:
                return says("", ("ask_user", {"question": "Go on?"}))
            return ModelReply(text="No.", finish="refusal") if name == "one" else says("done")

        return reply

    scene = Scene(speaks("one"), fast_model="scripted:two")
    models = {name: ScriptedModel(speaks(name), name=f"scripted:{name}") for name in ("one", "two", "three")}

    def agent(**changes: str) -> Agent:
        opened = Agent(settings=scene.settings, open_model=lambda name: models[name.partition(":")[2]])
        return msgspec.structs.replace(opened, changes=changes)

    def live(agent: Agent) -> object:
        return scene.world.do(lambda runtime: runtime.run(agent, "job", goal="do it", args=agent.arguments()))

    with pytest.raises(perdure.NeedsHuman):
        live(agent())
    say(scene, "answer", "yes")
    assert live(agent(fast_model="scripted:three")) == "done"
    assert ["three turn", "three verdict"] == asked[-2:]
    assert all(one.startswith("one") for one in asked[:-2])
