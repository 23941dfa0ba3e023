"""The tool by which an agent asks a model: one request, paid, on record with its reply in one append.

Made anew for each model; always called "think", so that a log reads alike whatever thinks. Called through the moves of
the policies; retries are the engine's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from perdure.agent.forms import read_form, schema_of
from perdure.engine.inside import charge, emit
from perdure.model.chat import Message, ModelReply, ModelRequest, Offer
from perdure.model.failure import FailureClass
from perdure.ports import Model
from perdure.tools import Tool, tool

THINK: Final = "think"
THINK_TIMEOUT_S: Final = 600.0
REPLY_TOKENS_MAX: Final = 4096


class ReplyUseless(ValueError):
    """A model has answered, and there is nothing in the answer to go on with."""

    failure_class: FailureClass = "output"


class ReplyRefused(ValueError):
    """A model, or a filter behind it, has refused to answer."""

    failure_class: FailureClass = "refusal"


def thinking(model: Model) -> Tool[..., Any]:
    """Return the tool that asks `model`."""

    async def think(
        model_name: str,  # noqa: ARG001 - for the record; `model` is it
        messages: list[Message],
        offers: list[Offer],
        form: str = "",
        temperature: float | None = None,
    ) -> dict[str, Any]:
        request = request_of(messages, offers, form, temperature)
        reply = await model.reply(request, lambda piece: emit("text_streamed", text=piece))
        charge(reply.cost)
        return _said(reply, form)

    made = tool(effect="pure", paid=True, provider=model.provider, name=THINK, timeout_s=THINK_TIMEOUT_S)(think)
    return cast("Tool[..., Any]", made)


def request_of(
    messages: Sequence[Mapping[str, Any]], offers: Sequence[Mapping[str, Any]], form: str, temperature: float | None
) -> ModelRequest:
    """Return the request that the tool would send."""
    return ModelRequest(
        messages=cast("list[Message]", list(messages)),
        offers=cast("list[Offer]", list(offers)),
        schema=schema_of(form) if form else None,
        temperature=temperature,
        output_max=REPLY_TOKENS_MAX,
    )


def _said(reply: ModelReply, form: str) -> dict[str, Any]:
    """Return a reply as it is recorded. Raises ReplyRefused, ReplyUseless, FormNotFilled."""
    if reply.finish == "refusal":
        raise ReplyRefused(reply.text or "the model refused to answer")
    if reply.finish == "length" and not reply.calls and form:
        raise ReplyUseless("the answer was cut off at its greatest length; answer more briefly")
    if not reply.text.strip() and not reply.calls:
        raise ReplyUseless("the answer was empty")
    said: dict[str, Any] = {"text": reply.text, "calls": msgspec.to_builtins(reply.calls), "model": reply.model}
    if form:
        said["filled"] = read_form(form, reply.text)
    if reply.finish == "length":
        said["is_cut"] = True
    if reply.kept is not None:
        said["kept"] = reply.kept
    return said
