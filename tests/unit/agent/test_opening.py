"""How a conversation is opened, and anew when the strategy has changed: what is kept, and what is not said twice."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.agent import AgentSettings
from perdure.agent.approaches import approach_called
from perdure.agent.context import LOW, condense, heard, opened, renewed
from perdure.agent.kit import Kit
from perdure.model.advice import Advice
from perdure.model.chat import Message
from perdure.model.move import PolicyView, Remember
from perdure.model.strategy import Strategy

ONE_SHOT = approach_called("one_shot")
FIRST = Message(role="user", text="what was before")
KIT = Kit(settings=AgentSettings(model="scripted:one"), models={}, tools={}, offers=(), first=(FIRST,))


def view(memory: dict[str, Any], **shown: Any) -> PolicyView:
    """Return what a policy is shown of a task whose strategy is called "second" by now."""
    usual: dict[str, Any] = {
        "goal": "go",
        "workspace": "",
        "strategy": Strategy("second", prompt="one_shot"),
        "brief": lambda: "brief",
    }
    return PolicyView(memory=memory, **{**usual, **shown})


def make(moves: Any, memory: dict[str, Any]) -> bool:
    """Make the first move, a change of memory; return whether there was one."""
    move = next(moves, None)
    if move is None:
        return False
    assert isinstance(move, Remember)
    move.change(memory)
    return True


def texts(memory: dict[str, Any]) -> list[str]:
    """Return what is said in the conversation, but for who the agent is."""
    return [message["text"] for message in memory["messages"][1:]]


def test_what_a_conversation_begins_with_stands_in_its_first_opening_only() -> None:
    """Anew it is opened from the brief, in which the words of people stand already; claim and warning are over."""
    memory: dict[str, Any] = {}
    assert make(opened(view(memory), KIT, ONE_SHOT), memory)
    assert ["brief", FIRST["text"]] == texts(memory)
    assert not make(opened(view(memory), KIT, ONE_SHOT), memory)
    memory |= {"claim": {}, "is_warned": True, "turn": 7}
    anew = view(memory, messages=("mind the step",), lessons=("look twice",))
    assert make(opened(anew, KIT, ONE_SHOT), memory)
    assert ["brief"] == texts(memory)
    assert (1, 7) == (memory["heard"], memory["turn"])
    assert not {"claim", "is_warned"} & memory.keys()
    assert not make(heard(anew), memory)


@pytest.mark.parametrize(("kind", "is_said"), [("reask", True), ("observe", True), ("person", False)])
def test_advice_is_heard_once_in_a_call_of_the_program(kind: Any, is_said: bool) -> None:
    """What a person has said comes as their word, and not as advice beside it."""
    memory: dict[str, Any] = {}
    make(opened(view(memory), KIT, ONE_SHOT), memory)
    advised = view(memory, advice=Advice(kind, "do it otherwise"), attempt=2)
    assert is_said == make(heard(advised), memory)
    assert not make(heard(advised), memory)
    assert is_said == (texts(memory)[-1] == "do it otherwise")
    again = view(memory, advice=Advice(kind, "and otherwise again"), attempt=3)
    assert is_said == make(heard(again), memory)


def test_a_budget_that_comes_to_an_end_is_said_once() -> None:
    """Until it was raised."""
    memory: dict[str, Any] = {}
    make(opened(view(memory), KIT, ONE_SHOT), memory)
    make(renewed(view(memory), KIT, ONE_SHOT), memory)
    for is_low, count in ((True, 1), (True, 1), (False, 1), (True, 2)):
        make(renewed(view(memory, is_budget_low=is_low), KIT, ONE_SHOT), memory)
        assert count == texts(memory).count(LOW)


def test_what_stands_for_older_messages_is_not_condensed_itself() -> None:
    """Condensed again and again there is one such message, with a line for each that was said."""
    memory: dict[str, Any] = {}
    make(opened(view(memory), KIT, ONE_SHOT), memory)
    for number in range(4):
        memory["messages"].append(Message(role="user", text=f"word {number}"))
        condense(memory, 0)
    lines = [
        "What went before, in short:",
        *(f"- user: {said}" for said in (FIRST["text"], "word 0", "word 1", "word 2")),
    ]
    assert ["brief", "\n".join(lines), "word 3"] == texts(memory)
