"""A model of a provider whose client library is loaded with the first request that is really sent.

Loading one takes a second of work, and a task that is resumed may only wait, ask or come to its end. What has to be
known of the model meanwhile is on record since it was first opened. Called by `agent/outfit.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from perdure.llm.environment import is_installed
from perdure.llm.naming import ALIASES, KNOWN, base_url_in, key_in, keys_wanted, label_of, split_name
from perdure.model.budget import Cost
from perdure.model.chat import ModelReply, ModelRequest
from perdure.ports import Model


def is_as_before(name: str, provider: str, *, base_url: str, environ: Mapping[str, str]) -> bool:
    """Whether opening the model would find what it has found before (`provider`), as far as tables tell.

    Not where a key or a package is gone, or the address is another one: then it is opened at once, and says so.
    """
    whose, _ = split_name(name)
    known = KNOWN.get(ALIASES.get(whose, whose))
    if known is None or not is_installed(known):
        return False
    has_key = bool(key_in(environ, whose)) or not keys_wanted(name, environ, base_url)
    return has_key and provider == label_of(name, base_url or base_url_in(environ, whose))


class LaterModel:
    """`ports.Model`; `opening` opens the real one, once."""

    def __init__(self, name: str, provider: str, context_tokens: int, opening: Callable[[str], Model]) -> None:
        self.name = name
        self.provider = provider
        self.context_tokens = context_tokens
        self._opening = opening
        self._model: Model | None = None

    async def reply(self, request: ModelRequest, heard: Callable[[str], None]) -> ModelReply:
        """See `ports.Model.reply`."""
        if self._model is None:
            self._model = await asyncio.to_thread(self._opening, self.name)
        return await self._model.reply(request, heard)

    def estimate(self, request: ModelRequest) -> Cost:
        """See `ports.Model.estimate`. The first one loads the library where it stands: leases are kept meanwhile."""
        if self._model is None:
            self._model = self._opening(self.name)
        return self._model.estimate(request)

    async def aclose(self) -> None:
        """Close the model where it was opened."""
        if self._model is not None:
            await self._model.aclose()
