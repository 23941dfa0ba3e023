"""The model of a durable agent: each request is one paid action of the task, streamed or not.

It decides nothing about retries: the client's own are switched off, a failure leaves the run. Made by `lasting.py`, for
whatever model is to serve a request.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, cast

import msgspec
from pydantic_ai import RunContext
from pydantic_ai.messages import (
    FinalResultEvent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ModelResponseStreamEvent,
    SystemPromptPart,
)
from pydantic_ai.models import (
    CompletedStreamedResponse,
    Model,
    ModelRequestContext,
    ModelRequestParameters,
    StreamedResponse,
)
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from perdure.engine.boundary import Boundary
from perdure.engine.inside import charge
from perdure.integrations.pydantic_ai.runs import Attempt, Run, conversation_of, digest_of
from perdure.limits import ACTION_TIMEOUT_S
from perdure.llm import pricing
from perdure.model.budget import Cost
from perdure.tools import tool

REPLY_TOKENS: Final = 4096  # reserved for a reply where the agent sets no `max_tokens`

Send = Callable[[ModelSettings], Awaitable[ModelResponse]]


class DurableModel(WrapperModel):
    """Asks through the task."""

    def __init__(self, wrapped: Model, run: Run) -> None:
        super().__init__(wrapped)
        self._run = run

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Return the reply on record, or ask."""
        return await self._asked(
            messages,
            model_settings,
            model_request_parameters,
            lambda settings: self.wrapped.request(messages, settings, model_request_parameters),
        )

    async def compact_messages(
        self, request_context: ModelRequestContext, *, instructions: str | None = None
    ) -> ModelResponse:
        """Return the summary on record, or ask for one: a request like any other."""
        return await self._asked(
            request_context.messages,
            request_context.model_settings,
            request_context.model_request_parameters,
            lambda _: self.wrapped.compact_messages(request_context, instructions=instructions),
        )

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Yield the reply piece by piece as it comes, or whole where it is on record.

        Whoever leaves the stream early leaves it to the end: the reply is paid for, and put on record whole. What has
        come of a reply that breaks off is no answer, and is asked for again.
        """
        pieces = _Pieces()

        async def send(settings: ModelSettings) -> ModelResponse:
            opened = self.wrapped.request_stream(messages, settings, model_request_parameters, run_context)
            async with opened as stream:
                return await pieces.taken_from(stream)

        asking = asyncio.create_task(self._asked(messages, model_settings, model_request_parameters, send))
        asking.add_done_callback(pieces.end)
        try:
            await pieces.begun.wait()
            if pieces.source is not None:
                yield _Live(model_request_parameters, pieces, pieces.source, asking)
            else:
                whole = await asking
                parameters = model_request_parameters
                yield CompletedStreamedResponse(whole, model_request_parameters=parameters, replay_events=True)
        except GeneratorExit:
            await _heard_out(asking, pieces)
            raise
        except BaseException:
            asking.cancel()
            with contextlib.suppress(asyncio.CancelledError), Boundary():
                await asking
            raise
        await _heard_out(asking, pieces)

    async def _asked(
        self,
        messages: Sequence[ModelMessage],
        given: ModelSettings | None,
        parameters: ModelRequestParameters,
        send: Send,
    ) -> ModelResponse:
        run, model = self._run, self.wrapped
        settings = _unrepeated(model, given)
        said, evaluated = conversation_of(messages), _evaluated(messages)
        asked = {
            "model": model.model_name,
            "before": run.unheard(said[:-1]),
            "instructions": run.unheard(evaluated),
            "offers": run.unheard([sorted(parameters.tool_defs)]),
        }
        attempt = Attempt(run)

        @tool(effect="pure", paid=True, provider=model.system, name="ask_model", timeout_s=_timeout_of(settings))
        async def ask_model(said: Any, digest: str) -> Any:  # noqa: ANN401, ARG001 - for the record
            response = await attempt.of(send(settings))
            charge(_cost_of(response))
            return {"reply": ModelMessagesTypeAdapter.dump_python([response], mode="json")[0], "asked": asked}

        asking = run.task.using(key=run.request_key, reserve=_most_of(model, [said, evaluated], settings))
        recorded = await attempt.answer_of(asking.act(ask_model, said[-1:], digest_of(said)))
        (response,) = ModelMessagesTypeAdapter.validate_json(msgspec.json.encode([recorded["reply"]]))
        run.unheard(conversation_of([response]))
        run.replies += 1
        return cast("ModelResponse", response)


class _Pieces:
    """A streamed reply, handed from the action that reads it to whoever listens: one piece for each that is asked for.

    In step, since the source shows in `get` what has been read, and the listener trusts it to be what he has heard.
    """

    def __init__(self) -> None:
        self.begun = asyncio.Event()  # a reply has begun, or it is known that none will
        self.source: StreamedResponse | None = None
        self._is_heard = True
        self._wanted = asyncio.Semaphore(0)
        self._read: asyncio.Queue[ModelResponseStreamEvent | None] = asyncio.Queue()

    async def taken_from(self, stream: StreamedResponse) -> ModelResponse:
        """Read a stream to its end and return the whole."""
        self.source = stream
        self.begun.set()
        pieces = aiter(stream)
        while True:
            if self._is_heard:
                await self._wanted.acquire()
            piece = await anext(pieces, None)
            if piece is None:
                return stream.get()
            self._read.put_nowait(piece)

    def leave(self) -> None:
        """Nobody listens any more: let the rest be read in one go."""
        self._is_heard = False
        self._wanted.release()

    def end(self, _asking: object) -> None:
        """Say that nothing more will come."""
        self._read.put_nowait(None)
        self.begun.set()

    async def __aiter__(self) -> AsyncIterator[ModelResponseStreamEvent]:
        self._wanted.release()
        while (piece := await self._read.get()) is not None:
            yield piece
            self._wanted.release()


class _Live(StreamedResponse):
    """A reply while it comes; once it is on record, what stands there."""

    def __init__(
        self,
        parameters: ModelRequestParameters,
        pieces: _Pieces,
        source: StreamedResponse,
        asking: asyncio.Task[ModelResponse],
    ) -> None:
        super().__init__(parameters)
        self._pieces = pieces
        self._source = source
        self._asking = asking
        self._whole: ModelResponse | None = None

    def __aiter__(self) -> AsyncIterator[ModelResponseStreamEvent]:
        """The pieces are as the source gives them: ends of parts and of the search for a result are among them."""
        if self._event_iterator is None:
            self._event_iterator = self._get_event_iterator()
        return self._event_iterator

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        deadline = self._request_deadline
        async for piece in aiter(self._pieces) if deadline is None else deadline.iterate(aiter(self._pieces)):
            self._first_chunk_monotonic = self._source._first_chunk_monotonic  # noqa: SLF001 - of the same class
            if isinstance(piece, FinalResultEvent):
                self.final_result_event = piece
            yield piece
        if not self._cancelled:
            self._whole = await self._asking
            self._finished = True

    def get(self) -> ModelResponse:
        """Return what has come so far, or the whole."""
        if self._whole is not None:
            return self._whole
        return replace(self._source.get(), state="interrupted" if self._cancelled else "incomplete")

    async def close_stream(self) -> None:
        """End the request: what has come is no answer, and a resumed program asks again."""
        self._asking.cancel()
        await asyncio.wait([self._asking])

    def get_stream_cancel_errors(self) -> tuple[type[BaseException], ...]:
        """None: what the service does when it is left stays in the action."""
        return ()

    @property
    def usage(self) -> RequestUsage:
        """Of what has come so far."""
        return self._source.usage if self._whole is None else self._whole.usage

    @property
    def model_name(self) -> str:
        """As the service says it."""
        return self._source.model_name

    @property
    def provider_name(self) -> str | None:
        """As above."""
        return self._source.provider_name

    @property
    def provider_url(self) -> str | None:
        """As above."""
        return self._source.provider_url

    @property
    def timestamp(self) -> datetime:
        """As above."""
        return self._source.timestamp


async def _heard_out(asking: asyncio.Task[ModelResponse], pieces: _Pieces) -> None:
    """Let a reply that nobody listens to any more come to its end, unless it was cancelled."""
    pieces.leave()
    if not asking.cancelled():
        await asking


def _unrepeated(model: Model, given: ModelSettings | None) -> ModelSettings:
    """Return settings by which the client sends nothing again of itself, where it has such a setting."""
    settings = cast("ModelSettings", dict(given or {}))
    if "max_retries" not in model.unsupported_settings:
        settings["max_retries"] = 0
    return settings


def _timeout_of(settings: ModelSettings) -> float:
    """Return how long a request may take: as long as its own settings allow, if that is longer than usual."""
    asked = [settings.get("timeout"), settings.get("request_timeout")]
    return max([ACTION_TIMEOUT_S, *(float(one) for one in asked if isinstance(one, int | float))])


def _most_of(model: Model, sent: list[Any], settings: ModelSettings) -> Cost:
    """Return what a request costs at most, by the rule of `llm/pricing.py`: killed in the call, that stays spent."""
    return pricing.cost_of(
        pricing.tokens_of(sent),
        settings.get("max_tokens") or REPLY_TOKENS,
        model=model.model_name,
        provider=model.system,
        url=model.base_url or "",
    )


def _cost_of(response: ModelResponse) -> Cost:
    """Return tokens, and money where the prices of the model are known."""
    usage = response.usage
    money = ""
    try:
        money = f"{response.cost().total_price} USD"
    except (LookupError, ValueError, AssertionError):
        money = ""  # no price is known for it
    return Cost(tokens_in=usage.input_tokens, tokens_out=usage.output_tokens, money=money)


def _evaluated(messages: Sequence[ModelMessage]) -> list[str]:
    """Return the instructions and system prompts of a request, as they are in this life."""
    last = messages[-1] if messages else None
    if not isinstance(last, ModelRequest):
        return []
    prompts = [part.content for one in messages for part in one.parts if isinstance(part, SystemPromptPart)]
    return [*prompts, last.instructions] if last.instructions else prompts
