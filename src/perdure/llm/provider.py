"""A provider's model behind `ports.Model`, over the direct interface of pydantic-ai: one request, one reply.

The client library never sends a request again (`max_retries=0`): the engine does, and knows what it cost. Text is
handed on as it comes. Belongs to the event loop of its first request. Opened by `opening.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from pydantic_ai import messages as wire
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from perdure.llm import pricing
from perdure.llm.conversation import to_wire
from perdure.llm.replies import to_reply
from perdure.llm.service import explained, watch
from perdure.model.budget import Cost
from perdure.model.chat import ModelReply, ModelRequest
from perdure.model.ids import plain_text


class ProviderModel:
    """`ports.Model` of a provider. `aclose` when it is no longer needed."""

    def __init__(self, model: Model, *, name: str, provider: str) -> None:
        self.name = name
        self.provider = provider
        self._profile = cast("Mapping[str, Any]", model.profile)
        self.context_tokens: int = self._profile.get("context_window") or 0
        self._model = model
        self._address = _without_user(model.base_url or "its service")
        self._is_entered = False

    async def reply(self, request: ModelRequest, heard: Callable[[str], None]) -> ModelReply:
        """See `ports.Model.reply`."""
        messages = to_wire(request.messages, self._model.system)
        settings, parameters = self._settings(request), self._parameters(request)
        if not self._is_entered:
            self._is_entered = True
            await self._model.__aenter__()
            watch(self._model)
        with explained(self.name, self._address):
            response = await self._response(messages, settings, parameters, heard)
            self._refuse_cut(response)
            return to_reply(response, request, model=self._model.model_name, system=self._model.system)

    def estimate(self, request: ModelRequest) -> Cost:
        """See `ports.Model.estimate`; by the rule of `pricing.py`, with as long a reply as is allowed."""
        return pricing.cost_of(
            pricing.tokens_in(request),
            request.output_max,
            model=self._model.model_name,
            provider=self._model.system,
            url=self._model.base_url or "",
        )

    async def aclose(self) -> None:
        """Close the client's connections; a reply that is under way is lost."""
        if self._is_entered:
            self._is_entered = False
            await self._model.__aexit__(None, None, None)

    async def _response(
        self,
        messages: list[wire.ModelMessage],
        settings: ModelSettings,
        parameters: ModelRequestParameters,
        heard: Callable[[str], None],
    ) -> wire.ModelResponse:
        try:
            return await self._stream(messages, settings, parameters, heard)
        except NotImplementedError:  # a model that cannot stream says so before it sends anything
            response = await model_request(
                self._model, messages, model_settings=settings, model_request_parameters=parameters
            )
            heard(plain_text(response.text or ""))
            return response

    async def _stream(
        self,
        messages: list[wire.ModelMessage],
        settings: ModelSettings,
        parameters: ModelRequestParameters,
        heard: Callable[[str], None],
    ) -> wire.ModelResponse:
        stream = model_request_stream(
            self._model, messages, model_settings=settings, model_request_parameters=parameters
        )
        async with stream as events:
            async for event in events:
                piece = _text_in(event)
                if piece:
                    heard(plain_text(piece))
            return events.get()

    def _refuse_cut(self, response: wire.ModelResponse) -> None:
        """pydantic-ai takes a stream of chat completions that just ends for one that stopped; we do not."""
        details = response.provider_details or {}
        if self._is_a("OpenAIChatModel") and "finish_reason" not in details and "refusal" not in details:
            raise ConnectionError(f"the stream of model {self.name!r} ended before it said why")

    def _is_a(self, kind: str) -> bool:
        """By name: importing the classes of all providers would need all their libraries."""
        return any(base.__name__ == kind for base in type(self._model).__mro__)

    def _settings(self, request: ModelRequest) -> ModelSettings:
        settings = ModelSettings(max_tokens=request.output_max)
        if self._is_a("OpenAIResponsesModel"):
            # What a provider keeps of replies is gone after a month, and a task may be resumed after two: it keeps
            # nothing, and all goes along with each request. Reasoning does so encrypted.
            settings.update(cast("ModelSettings", {"openai_store": False}))
        if "max_retries" not in self._model.unsupported_settings:
            settings["max_retries"] = 0
        if request.temperature is not None and _takes_temperature(self._profile):
            settings["temperature"] = request.temperature
        if self._model.system == "anthropic":
            settings["cache"] = True  # the others do so by themselves
        return settings

    def _parameters(self, request: ModelRequest) -> ModelRequestParameters:
        tools = [
            ToolDefinition(name=offer["name"], parameters_json_schema=offer["schema"], description=offer["description"])
            for offer in request.offers
        ]
        if request.schema is None:
            return ModelRequestParameters(function_tools=tools)
        is_native = self._profile.get("supports_json_schema_output", False)
        return ModelRequestParameters(
            function_tools=tools,
            output_mode="native" if is_native else "prompted",
            output_object=OutputObjectDefinition(json_schema=request.schema, name="reply"),
        )


def _without_user(url: str) -> str:
    """Return an address without the password that may stand in it."""
    scheme, mark, rest = url.partition("//")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"


def _takes_temperature(profile: Mapping[str, Any]) -> bool:
    """Models that reason refuse a temperature: there a setting that asks for one is without effect."""
    if profile.get("anthropic_disallows_sampling_settings") or profile.get("bedrock_disallows_sampling_settings"):
        return False
    if not profile.get("openai_supports_reasoning"):
        return True
    efforts = profile.get("openai_reasoning_efforts")
    can_do_without = "none" in efforts if efforts is not None else profile.get("openai_supports_reasoning_effort_none")
    return bool(can_do_without) and not profile.get("thinking_enabled_by_default")


def _text_in(event: object) -> str:
    match event:
        case wire.PartStartEvent(part=wire.TextPart(content=text)):
            return text
        case wire.PartDeltaEvent(delta=wire.TextPartDelta(content_delta=text)):
            return text
        case _:
            return ""
