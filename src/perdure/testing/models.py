"""A model whose replies are written down beforehand: for tests of agents without a provider and without a network.

Not a stand-in for a provider's interface (for that, let a real client talk to a local service). Called by tests, as
`ports.Model`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec

from perdure.errors import UsageError
from perdure.llm import pricing
from perdure.model.budget import NO_COST, Cost
from perdure.model.chat import ModelReply, ModelRequest


class CutReply(msgspec.Struct, frozen=True):
    """A reply that breaks off: `text` is heard, then `error` is raised."""

    text: str
    error: BaseException


Scripted = ModelReply | CutReply | BaseException | str
Script = Sequence[Scripted] | Callable[[ModelRequest], Scripted | Awaitable[Scripted]]

_WORDS: Final = re.compile(r"\s*\S+\s*|\s+")


class ScriptedModel:
    """`ports.Model` that replies by a script.

    A list answers one request after the other. A function of the request, plain or `async`, may decide by what it is
    asked, and wait for something: an agent that is resumed meets the same model again. A reply is a `ModelReply`, or
    its text; an exception is raised, a `CutReply` after some of it was heard. A reply without a cost is charged by the
    rule by which requests are estimated; money is unknown unless a reply says it.
    """

    provider = "scripted"

    def __init__(self, script: Script, *, name: str = "scripted:test", context_tokens: int = 0) -> None:
        self.name = name
        self.context_tokens = context_tokens
        self.requests: list[ModelRequest] = []  # that were sent, in order
        self.is_closed = False
        self._script = script

    async def reply(self, request: ModelRequest, heard: Callable[[str], None]) -> ModelReply:
        """Reply by the script; `heard` is told word by word. Raises UsageError when a list has no more replies."""
        self.requests.append(request)
        found = await self._scripted(request)
        if isinstance(found, BaseException):
            raise found
        text = found if isinstance(found, str) else found.text
        for piece in _WORDS.findall(text):
            heard(piece)
        if isinstance(found, CutReply):
            raise found.error
        reply = ModelReply(text=text) if isinstance(found, str) else found
        return self._finished(request, reply)

    def estimate(self, request: ModelRequest) -> Cost:
        """Return tokens by the rule, with as long a reply as is allowed."""
        return Cost(tokens_in=pricing.tokens_in(request), tokens_out=request.output_max)

    async def aclose(self) -> None:
        """Note that it was closed."""
        self.is_closed = True

    async def _scripted(self, request: ModelRequest) -> Scripted:
        if callable(self._script):
            found = self._script(request)
            return await found if isinstance(found, Awaitable) else found
        count = len(self.requests)
        if count > len(self._script):
            raise UsageError(f"the script of model {self.name!r} has {len(self._script)} replies; this is one more")
        return self._script[count - 1]

    def _finished(self, request: ModelRequest, reply: ModelReply) -> ModelReply:
        """Fill in what a script leaves out: the model's name, that there are calls, the cost."""
        changed: dict[str, Any] = {} if reply.model else {"model": self.name}
        if reply.calls and reply.finish == "stop":
            changed["finish"] = "calls"
        if reply.cost == NO_COST:
            tokens_out = pricing.tokens_of(reply.text) + sum(map(pricing.tokens_of, reply.calls))
            changed["cost"] = Cost(tokens_in=pricing.tokens_in(request), tokens_out=tokens_out)
        return msgspec.structs.replace(reply, **changed)
