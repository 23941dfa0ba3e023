"""A provider's response as a `ModelReply`: text, calls, why it ended, what it cost, what is kept for the next request.

A response that did not come to its end is none: it leaves as a lost connection. Called by `provider.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final, Never, cast

from pydantic_ai import messages as wire

from perdure.limits import ARGUMENTS_NESTING_MAX
from perdure.llm import pricing
from perdure.llm.conversation import kept_of
from perdure.model.budget import Cost
from perdure.model.chat import Call, FinishReason, ModelReply, ModelRequest
from perdure.model.ids import plain_text

_TOKENS_MAX: Final = 1_000_000_000  # more than any model takes: a count above that is none
_SHOWN_CHARS_MAX: Final = 200  # of arguments that are none
_FINISHES: Final[dict[str, FinishReason]] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "refusal",
    "tool_call": "calls",
}


def to_reply(response: wire.ModelResponse, request: ModelRequest, *, model: str, system: str) -> ModelReply:
    """Return the reply. Raises ConnectionError for a response that is not whole."""
    calls = [_call(place, part) for place, part in enumerate(response.tool_calls)]
    said = "".join(part.content for part in response.parts if isinstance(part, wire.TextPart))
    finish = _finish(response, calls, model)
    refusal = str((response.provider_details or {}).get("refusal") or "")
    text = plain_text(said or (refusal if finish == "refusal" else ""))
    return ModelReply(
        text=_without_fence(text) if request.schema is not None else text,
        calls=calls,
        finish=finish,
        model=plain_text(str(response.model_name or model)),
        cost=_cost(response, request, model=model, system=system),
        kept=kept_of(response, system),
    )


def _finish(response: wire.ModelResponse, calls: list[Call], model: str) -> FinishReason:
    # A reason that pydantic-ai does not know, as services on one's own machine have them, is one all the same.
    reason = response.finish_reason or (response.provider_details or {}).get("finish_reason")
    if reason is None or (reason == "error" and not calls) or response.state != "complete":
        raise ConnectionError(f"the reply of model {model!r} ended before it was whole ({reason or 'no reason given'})")
    found = _FINISHES.get(reason, "stop")
    if found in {"stop", "calls"}:
        return "calls" if calls else "stop"
    return found


def _call(place: int, part: wire.ToolCallPart) -> Call:
    """Return the call; `Call.id` is its place until who asked names it."""
    name = plain_text(str(part.tool_name))
    try:
        return {"id": str(place), "name": name, "arguments": _arguments(part.args)}
    except (ValueError, RecursionError) as error:
        shown = plain_text(str(part.args)[:_SHOWN_CHARS_MAX])
        problem = f"the arguments of {name!r} are no JSON object ({plain_text(str(error))}): {shown}"
        return {"id": str(place), "name": name, "arguments": {}, "problem": problem}


def _arguments(given: str | dict[str, Any] | None) -> dict[str, Any]:
    """Return the arguments as plain values. Raises ValueError where they are none."""
    if isinstance(given, str):
        # Models write line breaks into texts as they are; that is no JSON, and says what is meant.
        given = cast("dict[str, Any]", json.loads(given, strict=False, parse_constant=_refuse) if given.strip() else {})
    found = given if given is not None else {}
    if type(found) is not dict:
        raise ValueError(f"{type(found).__name__} instead of an object")
    json.dumps(found, ensure_ascii=False).encode()  # half a surrogate pair cannot be sent on
    if _is_deeper(found, ARGUMENTS_NESTING_MAX):
        raise ValueError(f"nested deeper than {ARGUMENTS_NESTING_MAX} levels")
    return found


def _is_deeper(value: object, levels: int) -> bool:
    """Whether more than so many objects and lists stand in one another."""
    found: list[object] = [value]
    for _ in range(levels + 1):
        found = [inner for one in found for inner in _inside(one)]
        if not found:
            return False
    return True


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return cast("dict[str, object]", value).values()
    return cast("list[object]", value) if isinstance(value, list) else ()


def _refuse(constant: str) -> Never:
    raise ValueError(f"{constant} is no number of JSON")


def _cost(response: wire.ModelResponse, request: ModelRequest, *, model: str, system: str) -> Cost:
    """Return what the provider has counted; one that counts nothing, or nonsense, is charged by our own rule."""
    usage = response.usage
    if not _is_count(usage.input_tokens) or not _is_count(usage.output_tokens) or not usage.total_tokens:
        said = sum(pricing.tokens_of(part.content) for part in response.parts if isinstance(part, wire.TextPart))
        said += sum(pricing.tokens_of(part.args_as_json_str()) for part in response.tool_calls)
        tokens = (pricing.tokens_in(request), said)
        return pricing.cost_of(*tokens, model=model, provider=system, url=response.provider_url or "")
    try:
        money = pricing.money(response.cost().total_price)
    except (AssertionError, LookupError, ValueError):  # no price is known, or what was counted contradicts itself
        tokens = (usage.input_tokens, usage.output_tokens)
        return pricing.cost_of(*tokens, model=model, provider=system, url=response.provider_url or "")
    return Cost(tokens_in=usage.input_tokens, tokens_out=usage.output_tokens, money=money)


def _is_count(tokens: object) -> bool:
    return isinstance(tokens, int) and 0 <= tokens <= _TOKENS_MAX


def _without_fence(text: str) -> str:
    """Take away the fence that models put around JSON when they are asked for nothing but JSON."""
    inner = text.strip()
    if not (inner.startswith("```") and inner.endswith("```") and "\n" in inner):
        return text
    return inner.partition("\n")[2].rpartition("```")[0].strip()
