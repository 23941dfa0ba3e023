"""A real MCP server (the official SDK's) for tests: keeps a ledger of what it did, and can be held in mid-call.

`python desk.py FOLDER` speaks over stdio, `python desk.py FOLDER PORT streamable-http` (or `sse`) over
HTTP. Each call is one line of
FOLDER/ledger: tool, what was asked, effect key, pid. Where FOLDER/hold exists, the next call writes its line, takes the
file away, leaves its pid in FOLDER/held and never answers. Run by tests only, as a process of its own.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ImageContent, TextContent, ToolAnnotations

FOLDER = Path(sys.argv[1])
server = MCPServer("desk")


async def _done(tool: str, name: str, context: Context[Any, Any] | None = None) -> str:
    meta: dict[str, Any] = dict(context.request_context.meta or {}) if context is not None else {}
    with (FOLDER / "ledger").open("a") as ledger:
        ledger.write(f"{tool} {name} {meta.get('perdure/effectKey', '-')} {os.getpid()}\n")
    if (FOLDER / "hold").exists():
        (FOLDER / "hold").unlink()
        (FOLDER / "held").write_text(str(os.getpid()))
        await anyio.sleep_forever()
    return f"{tool} {name}: done"


@server.tool(annotations=ToolAnnotations(read_only_hint=True), structured_output=False)
async def look(name: str, context: Context[Any, Any]) -> str:
    """Look at something.

    It stays as it is.
    """
    return await _done("look", name, context)


@server.tool(annotations=ToolAnnotations(idempotent_hint=True, destructive_hint=True), structured_output=False)
async def stamp(name: str, context: Context[Any, Any]) -> str:
    """Put a stamp on something; a second one changes nothing."""
    return await _done("stamp", name, context)


@server.tool(structured_output=False)
async def send(name: str, context: Context[Any, Any]) -> str:
    """Send something away. The server says nothing of what that does."""
    return await _done("send", name, context)


@server.tool(structured_output=False)
async def refuse(name: str) -> str:
    """Fail, and say what is in the environment."""
    raise ToolError(f"no {name} today: {os.environ.get('DESK_TOKEN', '')}")


@server.tool(structured_output=False, annotations=ToolAnnotations(read_only_hint=True))
async def picture() -> list[Any]:
    """Give a picture with a word."""
    return [TextContent(type="text", text="a dot:"), ImageContent(type="image", data="AAAA", mime_type="image/png")]


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def count(key: str, then: int = 0) -> dict[str, int]:
    """Count; its parameters are called as those of others are."""
    return {key: then + 1}


def main() -> None:
    """Serve until stdin ends, or until killed."""
    print(f"desk {os.getpid()} is open", file=sys.stderr, flush=True)
    if len(sys.argv) > 2:
        server.run(sys.argv[3], host="127.0.0.1", port=int(sys.argv[2]))  # type: ignore[call-overload]
    else:
        server.run("stdio")


if __name__ == "__main__":
    main()
