"""What is said between an agent and a model: messages, calls, a request, a reply. Provider-neutral plain values.

A conversation is a list of messages in the task's state (`Message` below is how one reads); a request names it as a
view, so that what was sent stands in the journal by reference. The results of a reply's calls stand in the reply
itself, by call: a call can be answered only once, and always right behind it. `llm/` turns this into what a provider
wants, and back; `agent/` writes it.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

import msgspec

from perdure.model.budget import NO_COST, Cost

FinishReason = Literal["stop", "calls", "length", "refusal"]


class Call(TypedDict):
    """A tool call that a model asks for."""

    id: str  # ours: "TURN.PLACE", unique in the conversation whatever the provider numbers its calls
    name: str
    arguments: dict[str, Any]
    problem: NotRequired[str]  # why what the provider sent is no call: arguments that are no JSON object


class Result(TypedDict, total=False):
    """What came of a call: `text` as it is shown to the model, or `failed`."""

    text: str
    failed: dict[str, str]  # {"type", "message"}


class Message(TypedDict):
    """One message. `calls` and `results` (by call id) are those of an assistant."""

    role: Literal["system", "user", "assistant"]
    text: str
    calls: NotRequired[list[Call]]
    results: NotRequired[dict[str, Result]]
    kept: NotRequired[Any]  # what the same provider wants back as it was: thinking, signatures, ids of its calls
    is_cut: NotRequired[bool]  # it reached its greatest length
    pinned: NotRequired[bool]  # stays when the conversation is condensed
    condensed: NotRequired[bool]  # stands for messages that are left out


class Offer(TypedDict):
    """A tool as a model sees it."""

    name: str
    description: str
    schema: dict[str, Any]  # JSON Schema of its arguments


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a model. Every call in `messages` but none of the last message's has its result."""

    messages: list[Message]
    offers: list[Offer] = []
    schema: dict[str, Any] | None = None  # the reply's text must be JSON of this schema
    temperature: float | None = None
    output_max: int = 4096  # tokens


class ModelReply(msgspec.Struct, frozen=True, kw_only=True):
    """One reply. `calls` have the provider's numbering in `kept`; `Call.id` is given by who asked."""

    text: str
    calls: list[Call] = []
    finish: FinishReason = "stop"
    model: str = ""  # as the provider names what has answered
    cost: Cost = NO_COST
    kept: Any = None
