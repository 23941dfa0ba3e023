"""An MCP server of the kind that most are, by hand: no SDK, the old handshake, a list of tools in pages.

`python old.py FOLDER` speaks over stdio. `work` writes a line to FOLDER/ledger and then fails as servers do that do not
report a failed tool: with an error of their own. Run by tests only, as a process of its own.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

LEDGER = Path(sys.argv[1]) / "ledger"
ANY = {"type": "object"}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return what one request is answered with: a result or an error."""
    if method == "initialize":
        said = {
            "protocolVersion": "2024-11-05",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "old", "version": "1"},
        }
        return {"result": said}
    if method == "tools/list":
        if "cursor" not in params:
            return {"result": {"tools": [{"name": "work", "inputSchema": ANY}], "nextCursor": "2"}}
        return {"result": {"tools": [{"name": "read", "inputSchema": ANY, "annotations": {"readOnlyHint": True}}]}}
    if method == "tools/call" and params["name"] == "read":
        return {"result": {"content": [{"type": "text", "text": "read"}]}}
    if method == "tools/call":
        with LEDGER.open("a") as ledger:
            ledger.write("work\n")
        token = os.environ.get("DESK_TOKEN", "")
        return {"error": {"code": -32603, "message": f"cannot read property of undefined {token}"}}
    return {"error": {"code": -32601, "message": f"no method {method}"}}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        reply = {"jsonrpc": "2.0", "id": message["id"], **answer(message["method"], message.get("params", {}))}
        print(json.dumps(reply), flush=True)
