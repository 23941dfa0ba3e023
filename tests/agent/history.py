"""What a strict provider finds wrong with a request of chat completions. Pure. Called by `modelserver.py`.

The rules are those of OpenAI's interface, and two that are stricter: answers stand in the order of the calls, and the
id of a call is used once in a conversation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool"})
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def problems_of(body: Mapping[str, Any]) -> list[str]:
    """Return all that is wrong with the request, a sentence each; nothing: it is valid."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return ["messages: a list with at least one message is needed"]
    found = [*_tools(body.get("tools") or []), *_each(messages), *_pairs(messages)]
    if not body.get("model"):
        found.append("model: missing")
    if messages[-1].get("role") == "assistant":
        found.append("the last message is the assistant's: nothing is asked")
    return found


def _tools(tools: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    names = [tool.get("function", {}).get("name", "") for tool in tools]
    if len(set(names)) != len(names):
        yield "tools: a name is given twice"
    for tool, name in zip(tools, names, strict=True):
        if not _NAME.fullmatch(name):
            yield f"tools: {name!r} is no name of a function"
        if tool.get("function", {}).get("parameters", {"type": "object"}).get("type") != "object":
            yield f"tools: the parameters of {name!r} are no object"


def _each(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    used: set[str] = set()
    for place, message in enumerate(messages):
        role = message.get("role")
        if role not in ROLES:
            yield f"messages[{place}]: {role!r} is no role"
        if not message.get("content") and not (role == "assistant" and message.get("tool_calls")) and role != "tool":
            yield f"messages[{place}]: no content"
        if role == "tool" and not isinstance(message.get("content"), str | list):
            yield f"messages[{place}]: the answer of a call has no content"
        for call in message.get("tool_calls") or []:
            yield from _call(place, call, used)


def _call(place: int, call: Mapping[str, Any], used: set[str]) -> Iterator[str]:
    name = call["function"]["name"]
    if not call.get("id"):
        yield f"messages[{place}]: a call without an id"
    if call["id"] in used:
        yield f"messages[{place}]: the id {call['id']!r} is used twice"
    used.add(call["id"])
    if not _NAME.fullmatch(name):
        yield f"messages[{place}]: {name!r} is no name of a function"
    try:
        is_object = isinstance(json.loads(call["function"]["arguments"]), dict)
    except ValueError:
        is_object = False
    if not is_object:
        yield f"messages[{place}]: the arguments of {name!r} are no JSON object"


def _pairs(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Each call is answered once, right behind it and in order; nothing is answered that was not called."""
    waiting: list[str] = []
    for place, message in enumerate(messages):
        if message.get("role") == "tool":
            answered = message.get("tool_call_id", "")
            if answered not in waiting:
                yield f"messages[{place}]: an answer to {answered!r}, which waits for none"
            elif waiting[0] != answered:
                yield f"messages[{place}]: {answered!r} is answered before {waiting[0]!r}"
            waiting = [call for call in waiting if call != answered]
            continue
        if waiting:
            yield f"messages[{place}]: an assistant message with 'tool_calls' must be followed by answers to {waiting}"
        waiting = [call.get("id", "") for call in message.get("tool_calls") or []]
    if waiting:
        yield f"the last calls are not answered: {waiting}"
