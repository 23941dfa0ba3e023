"""The file that names MCP servers, in the form that the usual clients share. Starts nothing.

`${NAME}` and `${NAME:-otherwise}` stand for variables of the environment. They are filled in when a server is opened
(`filled`) and kept nowhere: what is read here holds the file's own text, so that it can be shown. Called by `servers`.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Mapping
from typing import Any, Final, Literal, cast, get_args

import msgspec

from perdure.errors import ConfigInvalid
from perdure.limits import ACTION_TIMEOUT_S

Transport = Literal["stdio", "http", "sse"]
Word = Literal["pure", "idempotent", "irreversible"]  # what an operator may say of a tool
EVERY: Final = "*"  # in `effects`: all tools of the server that are not named

_KEYS: Final = ("command", "args", "env", "cwd", "url", "headers", "type", "effects", "timeout_s", "disabled")
# What other clients keep in the same place. Permissions and the like are perdure's own business.
_OTHERS: Final = frozenset(
    {"alwaysAllow", "autoApprove", "description", "disabledTools", "gallery", "name", "timeout", "trust", "version"}
)
_TYPES: Final[Mapping[str, Transport]] = {
    "stdio": "stdio", "http": "http", "streamable-http": "http", "streamableHttp": "http", "sse": "sse",
}  # fmt: skip
_SECRET_LETTERS_MIN: Final = 6  # shorter values guard nothing, and stand in many an honest word
_VARIABLE: Final = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One server as the file names it; variables are not filled in."""

    name: str
    transport: Transport
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = {}
    effects: Mapping[str, Word] = {}  # by tool, in the operator's words
    timeout_s: float = ACTION_TIMEOUT_S  # of one call


def read_servers(path: str, environ: Mapping[str, str]) -> tuple[ServerConfig, ...]:
    """Return the servers that the file at `path` names, without those that are disabled.

    Raises ConfigInvalid naming file, server and key: a file that cannot be read, an unknown key, a wrong value, a
    variable that the environment does not have.
    """
    try:
        with open(path, encoding="utf-8") as file:
            content: object = json.load(file)
    except (OSError, ValueError) as error:
        raise ConfigInvalid(path, f"cannot be read: {error}") from error
    listed = cast("dict[str, object]", content).get("mcpServers") if isinstance(content, dict) else None
    if not isinstance(listed, dict):
        raise ConfigInvalid(path, 'names no servers; write {"mcpServers": {"NAME": {"command": "…", "args": […]}}}')
    found = (_read(path, name, row) for name, row in cast("dict[str, object]", listed).items())
    servers = tuple(server for server in found if server is not None)
    for server in servers:
        filled(server, environ)
    return servers


def filled(server: ServerConfig, environ: Mapping[str, str]) -> ServerConfig:
    """Return `server` with its variables filled in. Raises ConfigInvalid naming one that is missing.

    What comes back holds secrets: it is for whoever opens the server, and for nobody else.
    """

    def fill(text: str) -> str:
        return _VARIABLE.sub(value_of, text)

    def value_of(found: re.Match[str]) -> str:
        otherwise = cast("str | None", found[2])
        value = environ.get(found[1], otherwise)
        if value is None:
            reason = f"names the variable {found[1]}, which the environment does not have; set it"
            raise ConfigInvalid(f"MCP server {server.name!r}", reason)
        return value

    return msgspec.structs.replace(
        server,
        command=fill(server.command),
        args=tuple(map(fill, server.args)),
        env={name: fill(value) for name, value in server.env.items()},
        cwd=os.path.expanduser(fill(server.cwd)),
        url=fill(server.url),
        headers={name: fill(value) for name, value in server.headers.items()},
    )


def secrets_of(server: ServerConfig, environ: Mapping[str, str]) -> frozenset[str]:
    """Return the values that `filled` puts in and that could be secrets: errors of the server are told without them."""
    texts = (server.command, server.cwd, server.url, *server.args, *server.env.values(), *server.headers.values())
    names = {found[1] for text in texts for found in _VARIABLE.finditer(text)}
    return frozenset(value for value in map(environ.get, names) if value and len(value) >= _SECRET_LETTERS_MIN)


# --- one server -----------------------------------------------------------------------------------------------------
def _read(path: str, name: str, row: object) -> ServerConfig | None:
    place = f"{path}: mcpServers.{name}"
    if not isinstance(row, dict):
        raise ConfigInvalid(place, "is no object of settings")
    given = cast("dict[str, object]", row)
    for key in given:
        if key not in _KEYS and key not in _OTHERS:
            near = difflib.get_close_matches(key, _KEYS, n=1)
            raise ConfigInvalid(
                place, f"{key!r} is not known; " + (f"write {near[0]!r}" if near else f"known: {', '.join(_KEYS)}")
            )
    if given.get("disabled") is True:
        return None
    transport = _transport(place, given)
    return ServerConfig(
        name=name,
        transport=transport,
        command=_text(place, given, "command"),
        args=_texts(place, given, "args"),
        env=_pairs(place, given, "env"),
        cwd=_text(place, given, "cwd"),
        url=_text(place, given, "url"),
        headers=_pairs(place, given, "headers"),
        effects=_effects(place, given),
        timeout_s=_seconds(place, given),
    )


def _transport(place: str, given: Mapping[str, object]) -> Transport:
    """Return how the server is reached: as it says, else by what it has."""
    if bool(given.get("command")) == bool(given.get("url")):
        raise ConfigInvalid(place, "has either a command, to be started, or a url, to be reached; write one of them")
    said = given.get("type")
    if said is None:
        return "stdio" if given.get("command") else "http"
    found = _TYPES.get(said) if isinstance(said, str) else None
    if found is None:
        raise ConfigInvalid(place, f"type {said!r} is not one of {', '.join(_TYPES)}")
    if (found == "stdio") != bool(given.get("command")):
        raise ConfigInvalid(place, f"type {said!r} does not go with {'a command' if given.get('command') else 'a url'}")
    return found


def _text(place: str, given: Mapping[str, object], key: str) -> str:
    value = given.get(key, "")
    if not isinstance(value, str):
        raise ConfigInvalid(place, f"{key} is no text")
    return value


def _texts(place: str, given: Mapping[str, object], key: str) -> tuple[str, ...]:
    value: Any = given.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in cast("list[object]", value)):
        raise ConfigInvalid(place, f"{key} is no list of texts")
    return tuple(cast("list[str]", value))


def _pairs(place: str, given: Mapping[str, object], key: str) -> Mapping[str, str]:
    value: Any = given.get(key, {})
    if not isinstance(value, dict) or not all(
        isinstance(item, str) for item in cast("dict[str, object]", value).values()
    ):
        raise ConfigInvalid(place, f"{key} is no object of texts")
    return cast("dict[str, str]", value)


def _effects(place: str, given: Mapping[str, object]) -> Mapping[str, Word]:
    said = _pairs(place, given, "effects")
    for tool, word in said.items():
        if word not in get_args(Word):
            known = ", ".join(get_args(Word))
            raise ConfigInvalid(
                place, f"effects.{tool}: {word!r} is not one of {known}; MCP has neither probe nor undo"
            )
    return cast("Mapping[str, Word]", said)


def _seconds(place: str, given: Mapping[str, object]) -> float:
    value = given.get("timeout_s", ACTION_TIMEOUT_S)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise ConfigInvalid(place, f"timeout_s={value!r} is no number of seconds")
    return float(value)
