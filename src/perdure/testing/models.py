"""A model whose replies are scripted. Public; imported by tests only."""

from __future__ import annotations

from collections.abc import Callable

from perdure.model.budget import NO_COST, Cost
from perdure.model.chat import ModelReply, ModelRequest


class ScriptedModel:
    """`ports.Model` that answers by `script(request)`; what it was asked stands in `requests`."""

    provider = "scripted"
    context_tokens = 0

    def __init__(self, script: Callable[[ModelRequest], ModelReply], *, name: str = "scripted:one") -> None:
        self.name = name
        self.requests: list[ModelRequest] = []
        self._script = script

    async def reply(self, request: ModelRequest, heard: Callable[[str], None]) -> ModelReply:
        """Answer as scripted."""
        self.requests.append(request)
        reply = self._script(request)
        heard(reply.text)
        return reply

    def estimate(self, request: ModelRequest) -> Cost:  # noqa: ARG002 - nothing costs anything
        """Return nothing."""
        return NO_COST

    async def aclose(self) -> None:
        """Do nothing."""
