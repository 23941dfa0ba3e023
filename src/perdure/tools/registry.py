"""The tools that are declared in this process, by name: how a rollback finds the tool of an action on record.

Weak: a tool that nobody else knows any more is forgotten. Of the same place in the source (a module that is loaded
again, a function that makes tools) the newest declaration counts. `declare.py` writes here, the engine reads.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Final

from perdure.errors import ToolNotFound

if TYPE_CHECKING:
    from perdure.tools.declare import Tool

_declared: Final[dict[str, dict[tuple[str, str], weakref.ref[Tool[..., Any]]]]] = {}  # by name, then by place


def register(tool: Tool[..., Any]) -> None:
    """Note a declared tool under its name and its aliases."""
    for name in (tool.name, *tool.aliases):
        places = _declared.setdefault(name, {})
        places[tool.module, tool.qualname] = weakref.ref(tool)


def find_tool(name: str, module: str = "") -> Tool[..., Any]:
    """Return the declared tool called `name`; where several are, the one that stands in `module`.

    Raises ToolNotFound where there is none, or where it cannot be told which is meant.
    """
    found = [tool for reference in _declared.get(name, {}).values() if (tool := reference()) is not None]
    own = [tool for tool in found if tool.module == module]
    for candidates in (own, found):
        if len(candidates) == 1:
            return candidates[0]
    places = tuple(sorted(f"{tool.module}.{tool.qualname}" for tool in found))
    raise ToolNotFound(name, places)
