"""Which tools an agent has, and how they are offered to its model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.agent.people import NAMES
from perdure.agent.settings import AgentSettings
from perdure.engine.programs import load_tools
from perdure.errors import ConfigInvalid, ToolUndeclared
from perdure.model.chat import Offer
from perdure.tools import Tool
from perdure.tools.builtin.catalogue import catalogue
from perdure.tools.offering import offer


def outfit(
    settings: AgentSettings, own: Sequence[Tool[..., Any]]
) -> tuple[Mapping[str, Tool[..., Any]], tuple[Offer, ...]]:
    """Return the tools by every name they are called by, and the offers of those that the settings do not leave out.

    Raises ToolUndeclared for one of `own` that is not declared, ConfigInvalid for a name in the settings that is none.
    """
    tools: dict[str, Tool[..., Any]] = dict(catalogue())
    for module in settings.own_tools:
        tools |= load_tools(module, settings.folder)
    for tool in own:
        if not isinstance(tool, Tool):
            raise ToolUndeclared(getattr(tool, "__name__", repr(tool)))
        tools |= dict.fromkeys((tool.name, *tool.aliases), tool)
    unknown = [name for name in (*settings.tools, *settings.left_out) if name not in tools and name not in NAMES]
    if unknown:
        raise ConfigInvalid(
            "the agent's tools", f"there is no tool {unknown[0]!r}; there are {', '.join(sorted(tools))}"
        )
    wanted = {tools[name].name for name in settings.tools if name in tools} or {tool.name for tool in tools.values()}
    left_out = {tools[name].name if name in tools else name for name in settings.left_out}
    offered = {tool.name: tool for tool in tools.values() if tool.name in wanted - left_out}
    known = {name: tool for name, tool in tools.items() if tool.name in offered}
    return known, tuple(offer(tool) for tool in offered.values())
