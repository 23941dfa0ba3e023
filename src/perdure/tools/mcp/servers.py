"""All MCP servers that a file names, as tools: `mcp_tools` opens them, `close` ends them.

Each tool is declared as any tool is: named `server__tool`, with the schema and the words of its server, and with its
effect by the operator's word or the server's hints. What becomes of it on resume follows from that effect alone. Called
by the ready-made agent, and by whoever wants a server's tools in a program.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self, cast

from perdure.errors import ConfigInvalid, ServerUnavailable
from perdure.model.effect import PRESETS, EffectKey
from perdure.tools.declare import Tool, tool
from perdure.tools.mcp.config import EVERY, ServerConfig, Word, read_servers
from perdure.tools.mcp.connection import Connection
from perdure.tools.mcp.effects import effect_of
from perdure.tools.offering import offer

if TYPE_CHECKING:
    import mcp_types

    from perdure.model.chat import Offer

_BETWEEN: Final = "__"
_NAME_MAX: Final = 64  # letters, of a tool's name with all providers
_DESCRIPTION_MAX: Final = 4_000
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")
_BLANK_LINES: Final = re.compile(r"\n\s*\n")


class McpServers:
    """Servers that were opened, and their tools. Belongs to one event loop; close it there."""

    def __init__(self, connections: Iterable[Connection]) -> None:
        self.tools: tuple[Tool[..., Any], ...] = ()
        self.problems: tuple[str, ...] = ()  # which servers are not there, which words of the file fit nothing
        self._connections = tuple(connections)

    async def open(self) -> None:
        """Open all servers side by side, and declare what they list."""
        opened = await asyncio.gather(*map(_listed, self._connections))
        for connection, (listed, problem) in zip(self._connections, opened, strict=True):
            self.problems += (problem,) if problem else _unmet(connection.config, listed)
            self.tools += tuple(_declare(connection, one) for one in listed)

    def __getitem__(self, name: str) -> Tool[..., Any]:
        """Return the tool of that name, as in `servers["desk__stamp"]`. Raises ConfigInvalid with those there are."""
        found = {tool.name: tool for tool in self.tools}
        if name not in found:
            there = "; ".join([f"no tool {name!r}; there are {', '.join(found) or 'none'}", *self.problems])
            raise ConfigInvalid("MCP servers", there)
        return found[name]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End all servers. Closing twice does nothing."""
        await asyncio.gather(*(connection.close() for connection in self._connections))

    def changed(self, offers: Iterable[Offer]) -> tuple[str, ...]:
        """Say which of the recorded offers are no longer what the servers have: a warning each.

        Offers that are of no server in the file are passed over.
        """
        now = {tool.name: tool for tool in self.tools}
        starts = tuple(_clean(connection.config.name) + _BETWEEN for connection in self._connections)
        found = (_difference(one, now.get(one["name"])) for one in offers if one["name"].startswith(starts))
        return tuple(filter(None, found))


async def mcp_tools(config_path: str, environ: Mapping[str, str]) -> McpServers:
    """Open the servers that the file at `config_path` names, and return them with their tools.

    `environ` fills the variables of the file; their values are recorded nowhere. A server that cannot be opened is a
    sentence in `problems`, and the others are there. Raises ConfigInvalid for a file that cannot be used.
    """
    try:
        importlib.import_module("mcp")
    except ImportError as error:
        raise ConfigInvalid(config_path, "its servers need the MCP library; pip install 'perdure[mcp]'") from error
    servers = McpServers([Connection(server, environ) for server in read_servers(config_path, environ)])
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(servers.close)  # where this is cancelled, no process stays
        await servers.open()
        stack.pop_all()
    return servers


async def _listed(connection: Connection) -> tuple[list[mcp_types.Tool], str]:
    try:
        return await connection.tools(), ""
    except ServerUnavailable as error:
        return [], str(error)


def _unmet(config: ServerConfig, listed: Iterable[mcp_types.Tool]) -> tuple[str, ...]:
    """Say of which tools the operator speaks that the server has not: a slip there would leave a hint standing."""
    names = {one.name for one in listed} | {EVERY}
    unmet = (name for name in config.effects if name not in names)
    return tuple(
        f"MCP server {config.name!r} has no tool {name!r}, of which `effects` in its file speaks" for name in unmet
    )


def _declare(connection: Connection, listed: mcp_types.Tool) -> Tool[..., Any]:
    config, name = connection.config, _name(connection.config.name, listed.name)
    effect = effect_of(listed.name, listed.annotations, config.effects)
    declare = tool(
        effect=PRESETS[effect],
        name=name,
        timeout_s=config.timeout_s,
        provider=f"mcp:{_clean(config.name)}",
        source=effect == "pure",
        schema=_schema(listed),
    )
    return cast("Tool[..., Any]", declare(_function(connection, listed, name, effect)))


def _function(connection: Connection, listed: mcp_types.Tool, name: str, effect: Word) -> Any:  # noqa: ANN401 - by effect
    """Return the function behind a tool, with the words that a model reads."""

    async def call(arguments: dict[str, Any]) -> str:
        return await connection.call(listed.name, arguments, is_free=effect == "pure")

    async def call_again(arguments: dict[str, Any], key: EffectKey) -> str:
        return await connection.call(listed.name, arguments, key)

    function = call_again if effect == "idempotent" else call
    function.__name__ = function.__qualname__ = name
    said = listed.description or listed.title or listed.name
    function.__doc__ = _BLANK_LINES.sub("\n", said.strip())[:_DESCRIPTION_MAX]
    return function


def _schema(listed: mcp_types.Tool) -> dict[str, Any]:
    return {"type": "object", "properties": {}, **listed.input_schema}


def _name(server: str, listed: str) -> str:
    """Return the name of a tool: made of these two alone, within what all providers take, and no other's.

    Where they do not fit as they are, a mark of them takes the place of what is lost.
    """
    name = f"{_clean(server)}{_BETWEEN}{_clean(listed)}"
    if len(name) <= _NAME_MAX and name == f"{server}{_BETWEEN}{listed}" and _BETWEEN not in server:
        return name
    mark = hashlib.sha256(f"{server}\n{listed}".encode()).hexdigest()[:8]
    return f"{name[: _NAME_MAX - len(mark) - 1]}_{mark}"


def _clean(name: str) -> str:
    return _NOT_IN_NAMES.sub("_", name)


def _difference(recorded: Offer, now: Tool[..., Any] | None) -> str:
    if now is None:
        return f"tool {recorded['name']!r} was offered before, and its server no longer has it"
    offered = offer(now)
    if recorded["schema"] != offered["schema"]:
        return f"tool {recorded['name']!r} takes other arguments than when it was offered before"
    if recorded["description"] != offered["description"]:
        return f"tool {recorded['name']!r} describes itself otherwise than when it was offered before"
    return ""
