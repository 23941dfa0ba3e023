"""What a tool of an MCP server does to the world: by the operator's word, else by the server's hints. Pure.

The two answers are those of every tool (`model/effect.py`), and the hints speak of them one by one:

| hint | speaks of | makes |
|---|---|---|
| `readOnlyHint` true | both | `pure`: made again, nothing to undo |
| `idempotentHint` true | `retry` | `idempotent`: sent again with the same arguments, and with the same key in `_meta` |
| neither, or no hints | `retry` | `irreversible`: never sent again by itself; interrupted, it is in doubt |
| `destructiveHint`, either way | `undo` | nothing: what a server adds or destroys, MCP has no way to take back |

A hint is what the server says of itself. Background: docs/decisions/0016.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from perdure.tools.mcp.config import EVERY, Word


class Hints(Protocol):
    """What `mcp_types.ToolAnnotations` has."""

    read_only_hint: bool | None
    idempotent_hint: bool | None


def effect_of(tool: str, hints: Hints | None, said: Mapping[str, Word]) -> Word:
    """Return the effect of `tool`; `said` are the operator's words, by tool."""
    word = said.get(tool) or said.get(EVERY)
    if word is not None:
        return word
    if hints is not None and hints.read_only_hint is True:
        return "pure"
    if hints is not None and hints.idempotent_hint is True:
        return "idempotent"
    return "irreversible"
