"""How other providers stream an answer: Anthropic's messages, Google's generateContent, OpenAI's responses.

The events that a client library needs to take an answer for whole, and what these providers want back with the next
request: thinking with its signature, reasoning that is encrypted. Pure. Called by `modelserver.py`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.agent.modelserver import Answer

SIGNATURE = base64.b64encode(b"signed by the provider").decode()
Usage = tuple[int, int]


def dialect_of(path: str) -> str:
    """Return which interface a path belongs to, or ""."""
    bare = path.partition("?")[0]
    ends = {
        "/chat/completions": "chat",
        "/messages": "anthropic",
        ":streamGenerateContent": "google",
        "/responses": "responses",
    }
    return next((name for end, name in ends.items() if bare.endswith(end)), "")


def turns_in(body: Mapping[str, Any]) -> int:
    """Return how many replies of the model a request of any dialect has in it."""
    said = body.get("messages") or body.get("contents") or body.get("input") or []
    return sum(each.get("role") in {"assistant", "model"} for each in said if isinstance(each, Mapping))


def events_of(dialect: str, answer: Answer, key: str, usage: Usage) -> Iterator[bytes]:
    """Yield the events of a stream, each as it goes over the wire."""
    speak = {"anthropic": _anthropic, "google": _google, "responses": _responses}[dialect]
    for event in speak(answer, key, usage):
        head = f"event: {event['type']}\n" if "type" in event else ""
        yield f"{head}data: {json.dumps(event)}\n\n".encode()


def _anthropic(answer: Answer, key: str, usage: Usage) -> Iterator[dict[str, Any]]:
    message = {"id": f"msg_{key}", "type": "message", "role": "assistant", "model": "claude-haiku-4-5", "content": []}
    counted = {"input_tokens": usage[0], "output_tokens": 1}
    yield {
        "type": "message_start",
        "message": {**message, "stop_reason": None, "stop_sequence": None, "usage": counted},
    }
    for index, (block, deltas) in enumerate(_blocks(answer, key)):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    reason = {"": "tool_use" if answer.calls else "end_turn", "length": "max_tokens"}.get(answer.finish, answer.finish)
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": None},
        "usage": {"output_tokens": usage[1]},
    }
    yield {"type": "message_stop"}


def _blocks(answer: Answer, key: str) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    if answer.thinking:
        yield (
            {"type": "thinking", "thinking": "", "signature": ""},
            [
                {"type": "thinking_delta", "thinking": answer.thinking},
                {"type": "signature_delta", "signature": SIGNATURE},
            ],
        )
    if answer.text:
        yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": answer.text}]
    for place, (name, arguments) in enumerate(answer.calls):
        block = {"type": "tool_use", "id": f"toolu_{key}_{place}", "name": name, "input": {}}
        yield block, [{"type": "input_json_delta", "partial_json": _text(arguments)}]


def _google(answer: Answer, key: str, usage: Usage) -> Iterator[dict[str, Any]]:
    parts: list[dict[str, Any]] = [{"text": answer.thinking, "thought": True}] if answer.thinking else []
    if answer.text:
        parts.append({"text": answer.text})
    for name, arguments in answer.calls:
        parts.append({"functionCall": {"name": name, "args": arguments}, "thoughtSignature": SIGNATURE})
    reason = {"": "STOP", "length": "MAX_TOKENS"}.get(answer.finish, answer.finish)
    counts = {"promptTokenCount": usage[0], "candidatesTokenCount": usage[1], "totalTokenCount": sum(usage)}
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": reason, "index": 0}
    yield {
        "candidates": [candidate],
        "usageMetadata": counts,
        "modelVersion": "gemini-2.5-flash",
        "responseId": key,
    }


def _responses(answer: Answer, key: str, usage: Usage) -> Iterator[dict[str, Any]]:
    base = {"id": f"resp_{key}", "object": "response", "created_at": 1, "model": "gpt-5-mini", "tools": []}
    base |= {"parallel_tool_calls": True, "tool_choice": "auto", "error": None, "incomplete_details": None}
    number = iter(range(1_000))
    yield {
        "type": "response.created",
        "sequence_number": next(number),
        "response": {**base, "status": "in_progress", "output": []},
    }
    output: list[dict[str, Any]] = []
    for place, (begun, events, item) in enumerate(_items(answer, key)):
        where = {"output_index": place, "sequence_number": next(number)}
        yield {"type": "response.output_item.added", **where, "item": begun}
        for event in events:
            yield {**event, "item_id": item["id"], "output_index": place, "sequence_number": next(number)}
        yield {"type": "response.output_item.done", **where, "sequence_number": next(number), "item": item}
        output.append(item)
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    counted = {"input_tokens": usage[0], "output_tokens": usage[1], "total_tokens": sum(usage), **details}
    whole = {**base, "status": "completed", "output": output, "usage": counted}
    yield {"type": "response.completed", "sequence_number": next(number), "response": whole}


def _items(answer: Answer, key: str) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any]]]:
    """Yield each item of output as it begins, what comes of it, and as it is in the end."""
    if answer.thinking:
        item = {"id": f"rs_{key}", "type": "reasoning", "encrypted_content": SIGNATURE}
        summary = [{"type": "summary_text", "text": answer.thinking}]
        told = [
            {"type": "response.reasoning_summary_part.added", "summary_index": 0, "part": {**summary[0], "text": ""}},
            {"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": answer.thinking},
            {"type": "response.reasoning_summary_text.done", "summary_index": 0, "text": answer.thinking},
            {"type": "response.reasoning_summary_part.done", "summary_index": 0, "part": summary[0]},
        ]
        yield {**item, "summary": []}, told, {**item, "summary": summary}
    if answer.text:
        item = {"id": f"msg_{key}", "type": "message", "role": "assistant"}
        part = {"type": "output_text", "text": answer.text, "annotations": []}
        told = [
            {"type": "response.content_part.added", "content_index": 0, "part": {**part, "text": ""}},
            {"type": "response.output_text.delta", "content_index": 0, "delta": answer.text, "logprobs": []},
            {"type": "response.output_text.done", "content_index": 0, "text": answer.text, "logprobs": []},
            {"type": "response.content_part.done", "content_index": 0, "part": part},
        ]
        yield {**item, "status": "in_progress", "content": []}, told, {**item, "status": "completed", "content": [part]}
    for place, (name, arguments) in enumerate(answer.calls):
        text = _text(arguments)
        item = {"id": f"fc_{key}_{place}", "type": "function_call", "call_id": f"call_{key}_{place}", "name": name}
        told = [
            {"type": "response.function_call_arguments.delta", "delta": text},
            {"type": "response.function_call_arguments.done", "arguments": text, "name": name},
        ]
        yield (
            {**item, "status": "in_progress", "arguments": ""},
            told,
            {**item, "status": "completed", "arguments": text},
        )


def _text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)
