"""A model writes a sentence or two that introduce the digest: the only words on its page that stand nowhere else.

What the model is told are the counts and terms that stand on the page anyway, no document. What it says is put on one
line, without anything that Markdown or HTML would take for its own, below a line that names who wrote it. Pure, but for
the tool, which `policy.py` calls where a model was chosen.
"""

import os
import re
from collections.abc import Mapping
from typing import Any

from perdure.agent.offline.grouping import Comparison
from perdure.engine.inside import charge, emit
from perdure.llm.opening import open_model
from perdure.model.chat import Message, ModelRequest
from perdure.tools import tool

TOKENS_MAX = 60
GROUPS_MAX = 4
TERMS_MAX = 3
CHARS_MAX = 600

_SYSTEM = "You are a librarian. You answer with one complete sentence."
_MARKUP = re.compile(r"[`*_#<>|\[\]\\~&]|https?://\S*")
_SENTENCES = re.compile(r".*[.!?](?=\s|$)", re.DOTALL)


@tool(effect="pure", paid=True, provider="local")
async def write_introduction(model: str, messages: list[Message]) -> dict[str, str]:
    """Let `model` write; what it writes is emitted as it comes. An empty text is an answer too."""
    opened = open_model(model, environ=os.environ)
    try:
        reply = await opened.reply(request_of(messages), lambda text: emit("text_streamed", text=text))
    finally:
        await opened.aclose()
    charge(reply.cost)
    return {"text": one_line(reply.text, is_cut=reply.finish == "length"), "model": reply.model}


def request_of(messages: list[Message]) -> ModelRequest:
    """Return the request: greedy, and short."""
    return ModelRequest(messages=messages, temperature=0.0, output_max=TOKENS_MAX)


def messages_of(comparison: Comparison, documents: Mapping[str, Any]) -> list[Message]:
    """Return what the model is asked, from what was found."""
    read = sum("failed" not in document for document in documents.values())
    subjects = [", ".join(group["terms"][:TERMS_MAX]) for group in comparison["groups"][:GROUPS_MAX]]
    terms = f" whose key words are {'; '.join(subjects)}" if subjects else ""
    asked = f"Complete this sentence about a collection of {read} documents{terms}: This collection is about"
    return [{"role": "system", "text": _SYSTEM}, {"role": "user", "text": asked}]


def one_line(text: str, *, is_cut: bool) -> str:
    """Return whole sentences on one line, without markup; of a reply that was cut off, those that are whole."""
    plain = " ".join(_MARKUP.sub(" ", text).split())
    plain = "".join(letter for letter in plain if letter.isprintable())
    whole = _SENTENCES.match(plain[:CHARS_MAX])
    if whole is not None and (is_cut or len(plain) > CHARS_MAX):
        return whole[0]
    return plain[:CHARS_MAX]
