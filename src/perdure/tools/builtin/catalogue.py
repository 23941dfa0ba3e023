"""All tools that come with the agent, by name and alias. What a run offers of them, the agent decides.

A module of tools is added by its row in `MODULES`. Called by `agent/`, and by whoever opens a task of the agent again:
with the import, its tools are declared.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

from perdure.errors import ToolInvalid
from perdure.tools.declare import Tool, tools_in

MODULES: Final = (
    "perdure.tools.builtin.files",
    "perdure.tools.builtin.git",
    "perdure.tools.builtin.shell",
    "perdure.tools.builtin.web",
)


def catalogue() -> dict[str, Tool[..., Any]]:
    """Return the tools by name and by alias. Raises ToolInvalid where two of them claim the same one."""
    found: dict[str, Tool[..., Any]] = {}
    for module in map(importlib.import_module, MODULES):
        for name, tool in tools_in(module).items():
            other = found.setdefault(name, tool)
            if other is not tool:
                raise ToolInvalid(name, f"{other.module} and {tool.module} both have it; give one of them `name=`")
    return found
