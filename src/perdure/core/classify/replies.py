"""Reads answers of models that came with status 200: the error inside, why it ended, whether anything is in it.

Knows the shapes of OpenAI (chat and responses), Anthropic, Google, Bedrock and Ollama, whole answers and events of a
stream. Called by `classify`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, cast

from perdure.core.classify.reading import named

Reply = Mapping[str, object]

ANSWERS_MAX: Final = 32
_ENDINGS: Final = ("stop_reason", "stopReason", "done_reason", "finish_reason", "finishReason")
_SAID_CHARS_MAX: Final = 300  # a longer text is an answer, whatever it speaks of
# Some gateways and command lines say with status 200, as if the model had spoken, that there is no answer.
_SAID_INSTEAD: Final = re.compile(
    r"\s*(?:api error\b|error code: \d{3}|(?:the )?(?:prompt|input|context|conversation) is too long|"
    r"(?:your )?credit balance is too low)",
    re.IGNORECASE,
)


def error_in(reply: Reply) -> Reply | None:
    """Return the part of an answer, or event, that is an error."""
    for name in ("response", "result"):
        inner = _mapping(reply.get(name))
        if inner.get("error"):
            return error_in(inner)
    if reply.get("type") == "error" or reply.get("object") == "error" or reply.get("event_type") == "error":
        return reply
    if reply.get("error"):
        return {"error": reply["error"]}
    for name, value in reply.items():
        if str(name).endswith("Exception") and isinstance(value, Mapping):  # a text may hold a dict of numbers
            return {"error": {"code": name, **cast("Reply", value)}}
    for choice in _mappings(reply.get("choices")):
        if choice.get("error"):
            return {"error": choice["error"]}
    return None


def endings(reply: Reply) -> list[str]:
    """Return why each of the answers ended, in snake case; "" for one that does not say."""
    choices = [*_mappings(reply.get("choices")), *_mappings(reply.get("candidates"))]
    if choices:
        return [_ending_of_choice(choice) for choice in choices]
    for name in ("response", "delta", "message", "messageStop", "message_stop"):
        inner = _mapping(reply.get(name))
        if {*_ENDINGS, "incomplete_details"} & set(inner):
            return endings(inner)
    feedback = _mapping(reply.get("promptFeedback") or reply.get("prompt_feedback"))
    if feedback.get("blockReason") or feedback.get("block_reason"):
        return ["prohibited_content"]
    details = _mapping(reply.get("incomplete_details"))
    if details:
        return [_word(details.get("reason"))]
    told = (reply.get(name) for name in _ENDINGS)
    return [next((_word(reason) for reason in told if reason), "")]


def is_empty(reply: Reply) -> bool:
    """Whether a whole answer (no event of a stream) has nothing in it."""
    if not reply:
        return True
    if reply.get("object") == "chat.completion.chunk" or str(reply.get("type", "")).endswith(("_delta", "_start")):
        return False
    if reply.get("object") == "response" and _word(reply.get("status")) in {"queued", "in_progress"}:
        return False  # to be asked for again
    if reply.get("type") == "message" or reply.get("object") == "response":
        return not (reply.get("content") or reply.get("output"))
    if "choices" in reply:
        return not any(_has_content(choice.get("message", choice)) for choice in _mappings(reply["choices"]))
    if "candidates" in reply:
        return not any(_has_content(candidate.get("content")) for candidate in _mappings(reply["candidates"]))
    if "message" in reply and reply.get("done") is True:
        return not _has_content(reply["message"])
    return False


def has_refusal(reply: Reply) -> bool:
    """Whether the model has said, in the field that is there for it, that it refuses."""
    if any(_mapping(choice.get("message")).get("refusal") for choice in _mappings(reply.get("choices"))):
        return True
    return any(
        part.get("type") == "refusal"
        for item in _mappings(reply.get("output"))
        for part in _mappings(item.get("content"))
    )


def said_instead(reply: Reply) -> str:
    """Return the text of an answer that is only an error put in words; else ""."""
    text = next(_texts(reply), "")
    return text if len(text) <= _SAID_CHARS_MAX and _SAID_INSTEAD.match(text) else ""


def _ending_of_choice(choice: Reply) -> str:
    return _word(choice.get("finish_reason") or choice.get("finishReason"))


def _word(reason: object) -> str:
    return named(reason.rpartition(".")[2]) if isinstance(reason, str) else ""  # also as "FinishReason.SAFETY"


def _has_content(message: object) -> bool:
    """Whether a message, or a choice of old, has text, a call, a sound or a refusal in it."""
    if not isinstance(message, Mapping):
        return bool(message)
    known = ("content", "tool_calls", "function_call", "audio", "refusal", "parts", "text", "images")
    return any(cast("Reply", message).get(name) for name in known)


def _texts(reply: Reply) -> Iterator[str]:
    yield from _texts_of(reply.get("content"))
    for choice in _mappings(reply.get("choices")):
        yield from _texts_of(_mapping(choice.get("message")).get("content"))
    result = reply.get("result")
    if isinstance(result, str):
        yield result


def _texts_of(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for part in _mappings(content):
        text = part.get("text")
        if isinstance(text, str):
            yield text


def _mapping(value: object) -> Reply:
    return cast("Reply", value) if isinstance(value, Mapping) else {}


def _mappings(value: object) -> list[Reply]:
    if not isinstance(value, list | tuple):
        return []
    return [cast("Reply", item) for item in cast("list[object]", value)[:ANSWERS_MAX] if isinstance(item, Mapping)]
