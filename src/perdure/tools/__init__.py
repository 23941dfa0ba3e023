"""Tools: how they are declared, how results and errors become values. Not how they are run (that is the engine's)."""

from __future__ import annotations

from perdure.tools.declare import Tool, tool, tools_in

__all__ = ["Tool", "tool", "tools_in"]
