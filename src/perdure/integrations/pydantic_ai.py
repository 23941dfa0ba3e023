"""An existing Pydantic AI agent made durable, inside a program of perdure.

    async with durable(task, agent, effects={"look_up": "pure", "send": "idempotent"}) as lasting:
        answer = await lasting.run(question)

Each request to the model is one paid action, each call of a tool one action under its effect class. The agent itself
is run again by a resumed program, from its top; what it asks for and is on record is answered from there. Failures
leave the program: recovery calls it anew. Called by users' programs.

Not carried: results that are no JSON, `ToolReturn`, deferred tools and approvals (use `task.ask`).
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, cast, get_args

import msgspec
from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse
from pydantic_ai.models import CompletedStreamedResponse, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.toolsets import FunctionToolset, ToolsetTool, WrapperToolset
from pydantic_core import PydanticSerializationError, to_jsonable_python

from perdure.engine.inside import charge
from perdure.engine.task import Task
from perdure.errors import ToolInvalid, ToolUndeclared, UsageError
from perdure.llm import pricing
from perdure.model.budget import Cost
from perdure.model.effect import EffectKey
from perdure.model.ids import check_name
from perdure.tools import tool
from perdure.tools.declare import Preset

PASSING: Final = frozenset({"timestamp", "run_id", "conversation_id"})  # of messages: other in each run
REPLY_TOKENS: Final = 4096  # reserved for a reply where the agent sets no `max_tokens`
EFFECTS: Final = ("idempotent", *(name for name in get_args(Preset) if name not in {"verifiable", "compensable"}))

_key: ContextVar[str] = ContextVar("perdure_pydantic_ai_key", default="")


@asynccontextmanager
async def durable(
    task: Task, agent: Agent[Any, Any], *, effects: Mapping[str, str], name: str = "agent"
) -> AsyncGenerator[Agent[Any, Any]]:
    """Within the block, requests and tool calls of `agent` are actions of `task`.

    `effects`: by name of a tool, what it does to the world: pure, idempotent (its key is `effect_key()`), irreversible,
    workspace. `name`: another one for each block of a program. Raises ToolUndeclared for a tool without an effect, with
    nothing run; UsageError for an effect that does not exist, or an agent without a model.
    """
    check_name(name, "name of the agent")
    for called, effect in effects.items():
        if effect not in EFFECTS:
            raise UsageError(f"effects[{called!r}] = {effect!r} is not one of {', '.join(EFFECTS)}")
    if agent.model is None:
        raise UsageError("the agent has no model: give it one where it is made")
    counted = _Counted(task, name, dict(effects))
    lasting = [_DurableToolset(wrapped=one, counted=counted) for one in agent.toolsets]
    for one in agent.toolsets:
        for called in one.tools if isinstance(one, FunctionToolset) else ():
            counted.effect_of(called)
    with agent.override(model=_DurableModel(agent.model, counted), toolsets=lasting, tools=[]):
        yield agent


def effect_key() -> str:
    """Return the key of the running call of an idempotent tool: the same each time that it is sent.

    Raises UsageError outside of one.
    """
    key = _key.get()
    if not key:
        raise UsageError('effect_key() is for tools that are declared "idempotent", while they run')
    return key


class _Counted:
    """What requests and calls of one block share."""

    def __init__(self, task: Task, name: str, effects: dict[str, str]) -> None:
        self.task = task
        self.name = name
        self.requests = 0
        self._effects = effects

    def effect_of(self, called: str) -> str:
        """Return the effect of a tool. Raises ToolUndeclared."""
        if called not in self._effects:
            raise ToolUndeclared(called)
        return self._effects[called]


class _DurableModel(WrapperModel):
    """Asks through the task. Requests of one block are numbered in the order in which the agent makes them."""

    def __init__(self, wrapped: Any, counted: _Counted) -> None:  # noqa: ANN401 - a model, or the name of one
        super().__init__(wrapped)
        self._counted = counted
        self._seen = 0  # messages that stand in earlier requests

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Return the reply on record, or ask: one request, without retries of the client's own."""
        counted = self._counted
        counted.requests += 1
        plain = [_lasting(one) for one in ModelMessagesTypeAdapter.dump_python(messages, mode="json")]
        seen = self._seen if len(plain) > self._seen else 0  # a shorter one is another conversation
        new = [one for one in plain[seen:] if one["kind"] == "request"]
        self._seen = len(messages)
        settings = _unrepeated(self.wrapped, model_settings)

        @tool(effect="pure", paid=True, provider=self.wrapped.system, name="ask_model")
        async def ask_model(model: str, new: list[Any], digest: str, tools: list[str]) -> Any:  # noqa: ANN401, ARG001 - for the record
            response = await self.wrapped.request(messages, settings, model_request_parameters)
            charge(_cost_of(response))
            return ModelMessagesTypeAdapter.dump_python([response], mode="json")[0]

        digest = hashlib.sha256(msgspec.json.encode(plain, order="deterministic")).hexdigest()
        offered = sorted(model_request_parameters.tool_defs)
        most = _most_of(self.wrapped, plain, settings)
        asking = counted.task.using(key=f"{counted.name} request {counted.requests}", reserve=most)
        recorded = await asking.act(ask_model, self.wrapped.model_name, new, digest, offered)
        (response,) = ModelMessagesTypeAdapter.validate_python([recorded])
        return cast("ModelResponse", response)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,  # noqa: ARG002 - as the class above
    ) -> AsyncGenerator[StreamedResponse]:
        """Yield the whole reply as one stream, once it is on record."""
        response = await self.request(messages, model_settings, model_request_parameters)
        yield CompletedStreamedResponse(response, model_request_parameters=model_request_parameters, replay_events=True)


@dataclass
class _DurableToolset(WrapperToolset[Any]):
    """Calls tools through the task."""

    counted: _Counted

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return the tools; one that only a running toolset knows is refused here, before the model is asked."""
        found = await super().get_tools(ctx)
        for called in found:
            self.counted.effect_of(called)
        return found

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:  # noqa: ANN401 - whatever the tool gives
        """Return the result on record, or call. What asks the model to try again is a result, and raised again."""
        counted = self.counted
        effect = counted.effect_of(name)

        async def call() -> Any:  # noqa: ANN401 - as above
            return await _called(name, lambda: self.wrapped.call_tool(name, tool_args, ctx, tool))

        calling = counted.task.using(key=f"{counted.name} call {counted.requests} {ctx.tool_call_id}")
        result = await calling.act(_declared(name, effect, call), _plain(name, tool_args))
        if "retry" in result:
            raise ModelRetry(result["retry"])
        return result["value"]


def _declared(name: str, effect: str, call: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401 - a declared tool
    """Return `call` as a tool of that name and effect."""
    if effect != "idempotent":

        async def plainly(arguments: Any) -> Any:  # noqa: ANN401, ARG001 - for the record
            return await call()

        return tool(effect=cast("Preset", effect), name=name)(plainly)

    async def keyed(arguments: Any, key: EffectKey) -> Any:  # noqa: ANN401, ARG001 - as above
        token = _key.set(key)
        try:
            return await call()
        finally:
            _key.reset(token)

    return tool(effect="idempotent", name=name)(keyed)


async def _called(name: str, call: Callable[[], Awaitable[Any]]) -> dict[str, Any]:
    try:
        return {"value": _plain(name, await call())}
    except ModelRetry as again:
        return {"retry": again.message}


def _plain(name: str, value: Any) -> Any:  # noqa: ANN401 - JSON
    try:
        return to_jsonable_python(value)
    except PydanticSerializationError as error:
        raise ToolInvalid(name, f"what goes in and out of it must be JSON: {error}") from error


def _unrepeated(model: Any, given: ModelSettings | None) -> ModelSettings:  # noqa: ANN401 - a model
    """Return settings by which the client sends nothing again of itself, where it has such a setting."""
    settings = cast("ModelSettings", dict(given or {}))
    if "max_retries" not in model.unsupported_settings:
        settings["max_retries"] = 0
    return settings


def _most_of(model: Any, sent: list[Any], settings: ModelSettings) -> Cost:  # noqa: ANN401 - a model
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


def _lasting(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a message without what is other in each run."""
    if isinstance(value, dict):
        return {key: _lasting(item) for key, item in value.items() if key not in PASSING}  # pyright: ignore[reportUnknownVariableType] - JSON
    if isinstance(value, list):
        return [_lasting(item) for item in value]  # pyright: ignore[reportUnknownVariableType] - JSON
    return value


__all__ = ["durable", "effect_key"]
