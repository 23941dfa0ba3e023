"""An agent killed between any two appends: its failures are counted, its checkpoints marked and its notes said once."""

from __future__ import annotations

from collections import Counter

import perdure
from perdure.model import entry as e
from perdure.model.chat import ModelReply, ModelRequest
from perdure.testing import Death
from tests.agent.scenes import APPROVED, REFUSED, Scene, form_of, says
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
