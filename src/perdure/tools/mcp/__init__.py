"""MCP servers as tools: what a file names is started, listed, declared with its effect, and called.

| module | what is in it |
|---|---|
| `config.py` | the file that names servers, and the variables in it |
| `effects.py` | what a server's hints, or the operator's word, make of a tool |
| `rendering.py` | what a server answers, as text |
| `failures.py` | what an error means for the call that came back with it |
| `connection.py` | one server: opened, watched, opened again, closed |
| `servers.py` | all of them: `mcp_tools` |
"""

from __future__ import annotations

from perdure.tools.mcp.servers import McpServers, mcp_tools

__all__ = ["McpServers", "mcp_tools"]
