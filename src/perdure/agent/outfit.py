"""What an agent is fitted out with at a call of its program: settings, offers of tools, models. One action, on record.

Opening models and MCP servers is the work of that action (of a model that is on record, the first request's), so a
replay opens nothing: it takes what is on record, and for what is not there a stand-in that is never called. Called by
`agent.py`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from perdure.agent.kit import Kit, OpenModel, strategies_of
from perdure.agent.people import NAMES
from perdure.agent.settings import AgentSettings
from perdure.engine.programs import load_tools
from perdure.errors import ConfigInvalid, ToolUndeclared
from perdure.llm.opening import open_model
from perdure.model.budget import NO_COST, Budget, Cost
from perdure.model.chat import Message, ModelReply, ModelRequest, Offer
from perdure.model.effect import Effect
from perdure.ports import Model
from perdure.tools import Tool, tool
from perdure.tools.builtin.catalogue import catalogue
from perdure.tools.builtin.sandbox import isolation_of
from perdure.tools.builtin.shell import effect_of
from perdure.tools.builtin.web import searching
from perdure.tools.offering import offer

if TYPE_CHECKING:
    from perdure.tools.mcp import McpServers

OUTFIT: Final = "outfit"
RUNNING: Final = ("execute_shell", "execute_python_code", "execute_python_file")


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """What is on record of an outfit, beside the settings."""

    offers: list[Offer]
    models: dict[str, tuple[str, int]]  # by name: provider, tokens of its window
    effects: dict[str, Effect]  # of tools whose effect hangs on settings and machine
    served: dict[str, Effect] = {}  # effects of tools that a server has declared: it may not be there next time
    remarks: list[str] = []  # for people


class Opened:
    """What this process has opened: nothing in a replay."""

    def __init__(self, open_model: OpenModel | None, own: Sequence[Tool[..., Any]], environ: Mapping[str, str]) -> None:
        self._open_model = open_model
        self._own = own
        self._environ = environ
        self.models: dict[str, Model] = {}
        self.servers: McpServers | None = None
        self.tools: Mapping[str, Tool[..., Any]] = {}

    async def fit_out(self, settings: AgentSettings, known: Mapping[str, tuple[str, int]], budget: Budget) -> Recorded:
        """Open what the settings name; return what is to be recorded of it. Raises ConfigInvalid, ExtraMissing.

        Models that are `known` (as `Recorded.models`) are opened with their first request.
        """
        for name in model_names(settings):
            self.models[name] = await self._opened(name, settings, known.get(name))
        if settings.mcp:
            from perdure.tools.mcp import mcp_tools

            self.servers = await mcp_tools(settings.mcp, self._environ)
        own = (*self._own, *(self.servers.tools if self.servers else ()))
        self.tools = tools_of(settings, own, self._environ)
        hidden = msgspec.to_builtins(settings)
        one_each = {found.name: found for found in self.tools.values()}
        return Recorded(
            offers=[offer(found) for found in one_each.values()],
            models={name: (model.provider, model.context_tokens) for name, model in self.models.items()},
            effects={
                name: effect for name, found in one_each.items() if (effect := effect_of(found, hidden)) != found.effect
            },
            served={name: found.effect for name, found in one_each.items() if found.schema is not None},
            remarks=[
                *(self.servers.problems if self.servers else ()),
                *_warning(self.tools, hidden),
                *(_unpriced({name: self.models[name] for name in self.models if name not in known}, budget)),
            ],
        )

    async def _opened(self, name: str, settings: AgentSettings, known: tuple[str, int] | None) -> Model:
        opening = self._open_model or _provider(settings, self._environ)
        if known is not None and self._open_model is None:
            from perdure.llm.later import LaterModel, is_as_before

            provider, window = known
            if is_as_before(name, provider, base_url=settings.base_url, environ=self._environ):
                return LaterModel(name, provider, window, opening)
        return await asyncio.to_thread(opening, name)  # client libraries take a second to load

    def kit(self, settings: AgentSettings, recorded: Recorded, first: Sequence[Message]) -> Kit:
        """Return what the policy works with."""
        tools = dict(self.tools or _at_hand(settings, self._own, {one["name"] for one in recorded.offers}))
        for one in recorded.offers:
            tools.setdefault(one["name"], _absent(one, recorded.served.get(one["name"])))
        models = {
            name: self.models.get(name) or Absent(name, provider, window)
            for name, (provider, window) in recorded.models.items()
        }
        return Kit(
            settings=settings,
            models=models,
            tools=tools,
            offers=tuple(recorded.offers),
            effects=recorded.effects,
            first=tuple(first),
        )

    async def close(self) -> None:
        """Free all of it."""
        for model in self.models.values():
            await model.aclose()
        if self.servers is not None:
            await self.servers.close()


class Absent:
    """A model that is on record and not here: its replies are, too."""

    def __init__(self, name: str, provider: str, context_tokens: int) -> None:
        self.name = name
        self.provider = provider
        self.context_tokens = context_tokens

    async def reply(self, request: ModelRequest, heard: Any) -> ModelReply:  # noqa: ANN401, ARG002 - as the port's
        """Raise ConfigInvalid: nobody can be asked."""
        raise ConfigInvalid("the agent's model", f"{self.name!r} is not open in this process")

    def estimate(self, request: ModelRequest) -> Cost:  # noqa: ARG002 - nothing is sent
        """Return nothing."""
        return NO_COST

    async def aclose(self) -> None:
        """Do nothing."""


def model_names(settings: AgentSettings) -> list[str]:
    """Return the models that an agent may ask, each once."""
    others = (strategy.model for strategy in strategies_of(settings))
    return list(dict.fromkeys(filter(None, (settings.model, settings.fast_model, *others))))


def tools_of(
    settings: AgentSettings, own: Sequence[Tool[..., Any]], environ: Mapping[str, str]
) -> Mapping[str, Tool[..., Any]]:
    """Return the tools that the settings do not leave out, by every name they are called by.

    Raises ToolUndeclared for one of `own` that is not declared, ConfigInvalid for a name in the settings that is none,
    or for a search engine that cannot be used.
    """
    tools: dict[str, Tool[..., Any]] = dict(catalogue())
    engine = searching(msgspec.to_builtins(settings), environ)
    tools |= dict.fromkeys((engine.name, *engine.aliases), engine)
    for module in settings.own_tools:
        tools |= load_tools(module, settings.folder)
    for one in own:
        if not isinstance(one, Tool):  # pyright: ignore[reportUnnecessaryIsInstance] - users hand in what they like
            raise ToolUndeclared(getattr(one, "__name__", repr(one)))
        tools |= dict.fromkeys((one.name, *one.aliases), one)
    unknown = [name for name in settings.tools if name not in tools and name not in NAMES]
    if unknown:
        raise ConfigInvalid("the agent's tools", f"there is no {unknown[0]!r}; there are {', '.join(sorted(tools))}")
    wanted = {tools[name].name for name in settings.tools if name in tools} or {found.name for found in tools.values()}
    left_out = {tools[name].name if name in tools else name for name in settings.left_out}
    return {name: found for name, found in tools.items() if found.name in wanted - left_out}


def _at_hand(
    settings: AgentSettings, own: Sequence[Tool[..., Any]], offered: Collection[str]
) -> Mapping[str, Tool[..., Any]]:
    """Return the tools that were offered and need nothing opened, by every name: a replay reads calls by their shape.

    Whatever keys and servers there are: none of these is called.
    """
    tools: dict[str, Tool[..., Any]] = dict(catalogue())
    engine = searching({}, {})
    tools |= dict.fromkeys((engine.name, *engine.aliases), engine)
    for module in settings.own_tools:
        tools |= load_tools(module, settings.folder)
    for one in own:
        tools |= dict.fromkeys((one.name, *one.aliases), one)
    return {name: found for name, found in tools.items() if found.name in offered}


def _provider(settings: AgentSettings, environ: Mapping[str, str]) -> OpenModel:
    def opened(name: str) -> Model:
        return open_model(name, base_url=settings.base_url, environ=environ)

    return opened


def _warning(tools: Mapping[str, Tool[..., Any]], hidden: Mapping[str, Any]) -> Iterator[str]:
    """Say where programs that the agent runs are not kept apart from the rest of this machine."""
    reason = isolation_of(hidden).reason
    if reason and any(name in tools for name in RUNNING):
        yield f"programs that the agent runs are not isolated: {reason}"


def _unpriced(models: Mapping[str, Model], budget: Budget) -> Iterator[str]:
    """Say where a budget in money, and nothing else, limits a model of which nobody knows what it costs."""
    if not budget.money or budget.tokens:
        return
    for name, model in models.items():
        if not model.estimate(ModelRequest(messages=[Message(role="user", text="?")])).money:
            yield (
                f"no price is known for model {name!r}: a budget in money does not limit what it costs; give one in "
                "tokens too, such as --budget tokens=200000"
            )


def to_text(recorded: Recorded) -> str:
    """Return one text: as a leaf of its own it is stored once, however often the program is called."""
    return msgspec.json.encode(recorded).decode()


def from_text(text: str) -> Recorded:
    """Return what `to_text` was given."""
    return msgspec.convert(json.loads(text), Recorded)


def _absent(one: Offer, effect: Effect | None) -> Tool[..., Any]:
    """Return a tool that is on record and not here: a server that does not answer, or a replay elsewhere."""

    def absent(arguments: dict[str, Any]) -> str:  # noqa: ARG001 - they go nowhere
        raise ConfigInvalid("the agent's tools", f"{one['name']!r} is not there now; it was when it was offered")

    return tool(effect=effect or "irreversible", name=one["name"], schema=one["schema"])(absent)
