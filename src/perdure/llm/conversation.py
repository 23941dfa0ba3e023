"""A conversation of ours as messages of pydantic-ai, and what of a provider's reply is kept for the next request.

Every call is answered once, right behind the message that made it, in its order, whatever the provider numbers its
calls. What a provider wants back as it was (thinking, signatures, ids) goes back to the same provider only; what
stands in the message itself (text, arguments) is not kept twice. Pure. Called by `provider.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

import pydantic
from pydantic_ai import messages as wire

from perdure.errors import ConversationInvalid
from perdure.model.chat import Call, Message, Result
from perdure.model.ids import plain_text

_EPOCH: Final = "2000-01-01T00:00:00Z"  # parts have a time, which is not sent: the same in each request
_NAME_REFUSED: Final = re.compile(r"[^a-zA-Z0-9_-]")
_NAME_CHARS_MAX: Final = 64
_RESPONSE_FIELDS: Final = ("model_name", "provider_name", "provider_url", "canonical_system", "provider_response_id")


def to_wire(messages: Sequence[Message], system: str) -> list[wire.ModelMessage]:
    """Return the messages for the provider that pydantic-ai calls `system`.

    Raises ConversationInvalid where a call has no result, or where nothing is asked.
    """
    _refuse(messages)
    found: list[wire.ModelMessage] = []
    asked: list[wire.ModelRequestPart] = []
    taken: set[str] = set()
    for message in messages:
        if message["role"] != "assistant":
            asked.extend(_spoken(message))
            continue
        calls = message.get("calls") or []
        response = _response(message, calls, system, taken)
        if response is None:
            continue
        found += [wire.ModelRequest(parts=asked), response] if asked else [response]
        asked = list(_returns(message, response))
    return [*found, wire.ModelRequest(parts=asked)] if asked else found


def kept_of(response: wire.ModelResponse, system: str) -> dict[str, Any]:
    """Return what the provider wants back: the reply's parts without what stands in our message."""
    dumped = wire.ModelMessagesTypeAdapter.dump_python([response], mode="json", exclude_none=True)[0]
    texts = sum(part["part_kind"] == "text" for part in dumped["parts"])
    kept = {name: dumped[name] for name in _RESPONSE_FIELDS if name in dumped}
    whole = {**kept, "system": system, "parts": [_thinned(part, texts) for part in dumped["parts"]]}
    return cast("dict[str, Any]", _plain(whole))


def _plain(value: Any) -> Any:  # noqa: ANN401 - any value of JSON
    """Return a value whose texts can be sent: half a surrogate pair has no bytes."""
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, Mapping):
        members = cast("Mapping[str, Any]", value)
        return {plain_text(name): _plain(inner) for name, inner in members.items()}
    return [_plain(inner) for inner in cast("Sequence[Any]", value)] if isinstance(value, list) else value


def _thinned(part: Mapping[str, Any], texts: int) -> dict[str, Any]:
    left_out = {"timestamp"}
    if part["part_kind"] == "text" and texts == 1:
        left_out.add("content")
    if part["part_kind"] == "tool-call":
        left_out.add("args")
    return {name: value for name, value in part.items() if name not in left_out}


def _refuse(messages: Sequence[Message]) -> None:
    if not messages:
        raise ConversationInvalid(0, "there is none")
    for place, message in enumerate(messages):
        results = message.get("results") or {}
        for call in message.get("calls") or []:
            if call["id"] not in results:
                raise ConversationInvalid(place, f"call {call['id']!r} of {call['name']!r} has no result")
    last = messages[-1]
    if last["role"] == "assistant" and not last.get("calls"):
        raise ConversationInvalid(len(messages) - 1, "the last word is the model's own: nothing is asked")


def _spoken(message: Message) -> Iterator[wire.ModelRequestPart]:
    """Yield what a person or the agent says; a message without a word in it is none."""
    if message["text"].strip():
        if message["role"] == "system":
            yield wire.SystemPromptPart(content=plain_text(message["text"]))
        else:
            yield wire.UserPromptPart(content=plain_text(message["text"]))


def _response(message: Message, calls: Sequence[Call], system: str, taken: set[str]) -> wire.ModelResponse | None:
    """Return the reply as its provider wants it back, or plain. None: there is nothing in it."""
    kept = message.get("kept")
    response = None
    if isinstance(kept, Mapping) and cast("Mapping[str, Any]", kept).get("system") == system:
        response = _restored(cast("Mapping[str, Any]", kept), message, calls)
    if response is None:
        parts: list[wire.ModelResponsePart] = (
            [wire.TextPart(content=plain_text(message["text"]))] if message["text"].strip() else []
        )
        parts += [wire.ToolCallPart(call["name"], _plain(call["arguments"]), "") for call in calls]
        response = wire.ModelResponse(parts=parts)
    if not message["text"].strip() and not calls:
        return None
    for call, part in zip(calls, response.tool_calls, strict=True):
        if not part.tool_call_id or part.tool_call_id in taken:
            part.tool_call_id = _own_id(call, taken)
        taken.add(part.tool_call_id)
        part.tool_name = _sent_name(part.tool_name)
    return response


def _sent_name(name: str) -> str:
    """Return a name that every provider takes: one that a model made up would have all later requests refused."""
    return _NAME_REFUSED.sub("_", name)[:_NAME_CHARS_MAX] or "_"


def _own_id(call: Call, taken: set[str]) -> str:
    """Return an id that every provider takes: letters, digits and `_`, and that is not in use."""
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in call["id"])
    found = f"call_{plain}"
    while found in taken:
        found += "_"
    return found


def _restored(kept: Mapping[str, Any], message: Message, calls: Sequence[Call]) -> wire.ModelResponse | None:
    """Put text and arguments of the message back where they were. None: it does not fit, the message was changed."""
    parts = [dict(part) for part in kept.get("parts", ())]
    places = [part for part in parts if part.get("part_kind") == "tool-call"]
    if [part.get("tool_name") for part in places] != [call["name"] for call in calls]:
        return None
    for part, call in zip(places, calls, strict=True):
        part["args"] = _plain(call["arguments"])
    for part in parts:
        if part.get("part_kind") == "text":
            part.setdefault("content", plain_text(message["text"]))
    head = {name: kept[name] for name in _RESPONSE_FIELDS if name in kept}
    whole = {**head, "kind": "response", "timestamp": _EPOCH, "parts": parts}
    try:
        return cast("wire.ModelResponse", wire.ModelMessagesTypeAdapter.validate_python([whole])[0])
    except pydantic.ValidationError:  # written by another version of pydantic-ai: text and calls do without
        return None


def _returns(message: Message, response: wire.ModelResponse) -> Iterator[wire.ModelRequestPart]:
    results = message.get("results") or {}
    for call, part in zip(message.get("calls") or [], response.tool_calls, strict=True):
        result = results[call["id"]]
        failed = result.get("failed")
        yield wire.ToolReturnPart(
            tool_name=part.tool_name,
            content=_told(result),
            tool_call_id=part.tool_call_id,
            outcome="failed" if failed else "success",
        )


def _told(result: Result) -> str:
    failed = result.get("failed")
    if not failed:
        return plain_text(result.get("text", ""))
    kind = failed.get("type", "").rpartition(".")[2]
    return plain_text(f"{kind}: {failed.get('message', '')}" if kind else failed.get("message", ""))
