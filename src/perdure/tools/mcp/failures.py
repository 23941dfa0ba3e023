"""What an error that a call came back with means for that call: it was not sent, it was refused, or nobody knows.

Pure. A tool whose calls may be made again is refused in any case: not knowing does no harm there. `connection` asks,
and judges the end of a connection itself.
"""

from __future__ import annotations

from typing import Final

import msgspec

from perdure.errors import ServerLost, ServerRefused, ServerUnavailable, SourceError
from perdure.tools.mcp.config import ServerConfig

CLOSED: Final = "Connection closed"  # what the client says where a connection ended; its code is used for much
_FORGOTTEN: Final = "Session terminated"
_LATE: Final = -32001
# Codes of JSON-RPC and of MCP that say that the call was wrong, and so that nothing was done.
_WRONG_CALL: Final = frozenset({-32601, -32602, -32002, -32003, -32004, -32020, -32021, -32022, -32042})
# These too, where a server says them. Over HTTP, the client makes them of any answer that it cannot read.
_WRONG_BYTES: Final = frozenset({-32700, -32600})


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """An error of JSON-RPC."""

    code: int
    text: str  # without secrets
    failure_class: str  # as the classifier has it


def meaning(server: ServerConfig, tool: str, error: Told, *, is_free: bool) -> SourceError:
    """Return what to raise for `error`; `is_free` says that the call may be made again whatever became of it."""
    code, text = error.code, error.text
    if text == _FORGOTTEN:
        return ServerUnavailable(server.name, "it has forgotten this session; the next call opens another")
    if is_free and code != _LATE:
        return ServerRefused(server.name, tool, text, error.failure_class)
    if code in _WRONG_CALL or (code in _WRONG_BYTES and server.transport == "stdio"):
        return ServerRefused(server.name, tool, text, error.failure_class)
    return ServerLost(server.name, tool, text)
