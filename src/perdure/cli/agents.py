"""What a person sets of the ready-made agent: flags, settings, AutoGPT's files. Used by run and resume."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from perdure.cli.options import WorkOptions
from perdure.config import ALLOWED, DENIED, Config
from perdure.errors import UsageError

if TYPE_CHECKING:
    from perdure.agent import AgentSettings

_SET_BY_CONFIG: Final = ("fast_model", "base_url", "prompt_strategy", "search", "mcp")


class AgentOptions(WorkOptions, frozen=True, kw_only=True):
    """What run and resume take that is about the agent."""

    continuous: Annotated[
        bool, typer.Option("--continuous", "--yes", "-y", help="Allow what would ask; the journal says so.")
    ] = False
    continuous_limit: Annotated[
        int, typer.Option("--continuous-limit", "-l", metavar="N", help="So many calls of tools, then ask.", min=0)
    ] = 0
    fast_model: Annotated[str | None, typer.Option(help="What judges and reflects.", show_default=False)] = None
    base_url: Annotated[
        str | None, typer.Option(metavar="URL", help="An OpenAI-compatible service.", show_default=False)
    ] = None
    mcp: Annotated[str | None, typer.Option(metavar="FILE", help="Names MCP servers.", show_default=False)] = None
    own_tools: Annotated[
        list[str] | None, typer.Option("--tools", metavar="MODULE", help="Tools of yours: pkg.mod or file.py.")
    ] = None
    network: Annotated[bool, typer.Option("--network", help="Let sandboxed programs use the network.")] = False


def changes_of(options: AgentOptions, config: Config) -> dict[str, Any]:
    """Return the settings that are given now, by name; whatever is not given stays as it is recorded."""
    given: dict[str, Any] = {name: config.text(name) for name in _SET_BY_CONFIG if config.text(name)}
    if "mcp" in given:
        given["mcp"] = os.path.abspath(given["mcp"])
        if not os.path.isfile(given["mcp"]):
            raise UsageError(f"--mcp {given['mcp']!r} is no file; it names the servers as docs/how-to says")
    given |= {name: True for name in ("continuous", "network") if getattr(options, name)}
    permissions = config.permissions()
    for name in ("allow", "deny"):
        if config.chosen[name].origin != "default":
            given[name] = getattr(permissions, name)
    if options.own_tools:
        given |= {"own_tools": list(options.own_tools), "folder": os.getcwd()}
    if options.continuous_limit:
        given["continuous_limit"] = options.continuous_limit
    return given


def settings_of(model: str, changes: dict[str, Any]) -> AgentSettings:
    """Return the settings of a new agent.

    Raises ConfigInvalid, also for a prompt strategy that does not exist; ModelUnknown, ApiKeyMissing or ExtraMissing
    for models that cannot be asked.
    """
    from perdure.agent import AgentSettings
    from perdure.agent.agent import changed
    from perdure.llm.opening import refuse_models

    settings = changed(AgentSettings(model=model, allow=ALLOWED, deny=DENIED), changes)
    if settings.prompt_strategy:
        from perdure.agent.approaches import approach_called

        approach_called(settings.prompt_strategy)
    refuse_models((settings.model, settings.fast_model), base_url=settings.base_url, environ=os.environ)
    return settings
