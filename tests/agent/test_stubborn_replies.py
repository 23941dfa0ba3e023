"""Replies that no sensible model gives: too many calls, the same for ever, claims that are none. Each has an end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import perdure
from perdure.limits import REPLY_CALLS_MAX
from perdure.model.chat import ModelReply, ModelRequest
from perdure.testing import Death
from tests.agent.scenes import APPROVED, REFUSED, Scene, fills, form_of, planned, says
from tests.worlds import DEAD

ENOUGH = 120  # requests: far more than any of these takes
FINISH: tuple[str, dict[str, Any]] = ("finish", {"result": "done"})
FOR_EVER: list[list[tuple[str, dict[str, Any]]]] = [
    [("sc_glance", {"place": "here"})],
    [("todo_read", {})],
    [("finish", {})],
    [("step_done", {"result": "done"}), ("finish", {"outcome": "done"})],
    [("nosuch" * 1_000, {})],
    [("todo_read", {f"key {number}": 1 for number in range(10_000)})],
    [("sc_glance", {"place": "here"})] * 300,
    [FINISH],
]
SEEN: list[str] = []


@perdure.tool(effect="pure", name="sc_glance")
def glance(place: str) -> str:
    """Look at a place; each look is noted."""
    SEEN.append(place)
    return f"seen {place}"


@perdure.tool(effect="workspace", name="sc_mark", paths=("{name}",))
def mark(name: str) -> str:
    """Change something."""
    SEEN.append(f"marked {name}")
    return "marked"


@pytest.fixture(autouse=True)
def unseen() -> None:
    """Begin without a look."""
    SEEN.clear()


def fills_in(request: ModelRequest) -> ModelReply:
    """Fill whatever form is asked for; nothing is ever reached."""
    step = {"title": "look around"}
    return {
        "verdict": REFUSED,
        "plan": planned("look around"),
        "reflection": fills({"lesson": "none"}),
        "candidates": fills({"approaches": [{"idea": "one", "steps": [step]}, {"idea": "two", "steps": [step]}]}),
        "scores": fills({"scores": [1, 2]}),
        "blueprint": fills({"errands": [{"id": "E1", "tool": "sc_glance", "arguments": {"place": "afar"}}]}),
    }[form_of(request)]


def stubborn(*calls: tuple[str, Mapping[str, Any]], text: str = "") -> Scene:
    """An agent whose model gives this one reply for ever, as a provider sends it: its own ids differ each time."""

    def speaks(request: ModelRequest) -> ModelReply:
        assert len(scene.forms) < ENOUGH, "nobody stops it"
        if form_of(request):
            return fills_in(request)
        reply = says(text, *calls)
        return ModelReply(text=reply.text, calls=reply.calls, kept={"id": f"reply-{len(scene.forms)}"})

    scene = Scene(speaks, tools=[glance])
    return scene


@pytest.mark.parametrize(
    "calls",
    FOR_EVER,
    ids=["tool", "notes", "unfit", "claims", "unknown", "arguments", "many", "refused"],
)
def test_the_same_reply_for_ever_goes_to_a_person(calls: list[tuple[str, dict[str, Any]]]) -> None:
    """Other ways are tried, and then somebody is asked: nothing is paid without end."""
    scene = stubborn(*calls)
    said = scene.ask()
    assert "exhausted" in said
    assert len(said) < 4_000


def once(*calls: tuple[str, Mapping[str, Any]]) -> Scene:
    """An agent whose model makes these calls in its first reply, and is done then."""

    def speaks(request: ModelRequest) -> ModelReply:
        if form_of(request):
            return APPROVED
        return says("", *calls) if len(scene.forms) == 1 else says("", FINISH)

    scene = Scene(speaks, tools=[glance, mark])
    return scene


def brought(scene: Scene) -> list[str]:
    """Return what the calls of the first reply have brought, as the next request has it."""
    reply = scene.model.requests[1].messages[2]
    answers = [reply.get("results", {})[call["id"]] for call in reply.get("calls", [])]
    return [str(answer.get("text", answer.get("failed", {}).get("message"))) for answer in answers]


def test_equal_calls_of_a_reply_are_made_once() -> None:
    """Two hundred of them are no circle: nobody has seen an answer between."""
    scene = once(*[("sc_glance", {"place": "here"})] * 90, ("sc_glance", {"place": "there"}))
    assert "done" == scene.live()
    assert ["here", "there"] == sorted(SEEN)
    assert ["seen here", "As the equal call before it in this reply.", "seen there"] == list(
        dict.fromkeys(brought(scene))
    )


def test_an_equal_call_behind_a_change_is_made_again(tmp_path: Any) -> None:
    """What stands between may have changed the answer."""
    look = ("sc_glance", {"place": "here"})
    scene = once(look, ("sc_mark", {"name": "a"}), look, look)
    scene.workspace = tmp_path
    scene.live()
    assert ["here", "marked a", "here"] == SEEN


def test_more_calls_than_are_made_of_one_reply_are_answered() -> None:
    """So many are made; the others are told so, and the conversation is whole."""
    scene = once(*(("sc_glance", {"place": str(number)}) for number in range(REPLY_CALLS_MAX + 9)))
    assert "done" == scene.live()
    assert REPLY_CALLS_MAX == len(SEEN)
    answers = brought(scene)
    assert {f"seen {number}" for number in range(REPLY_CALLS_MAX)} == set(answers[:REPLY_CALLS_MAX])
    assert {f"only {REPLY_CALLS_MAX} calls of one reply are made: make this one again, if it is still needed"} == set(
        answers[REPLY_CALLS_MAX:]
    )


@perdure.tool(effect="pure", name="sc_still")
def still() -> str:
    """Take no arguments."""
    return "still here"


def test_a_call_of_a_tool_that_is_gone_after_a_kill_is_answered() -> None:
    """As a server's may be: the model is told so, and goes on where it was."""

    def speaks(request: ModelRequest) -> ModelReply:
        if form_of(request):
            return APPROVED
        return says("", ("sc_still", {})) if len(request.messages) == 2 else says("", FINISH)

    scene = Scene(speaks, tools=[still])
    assert DEAD is scene.live(death=Death("after_outcome", 2))
    scene.tools = ()
    assert "done" == scene.live()
    assert ["the tool 'sc_still' is gone since it was offered to you: nothing was called; go on without it"] == brought(
        scene
    )
