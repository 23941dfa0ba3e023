"""What a person sets of the ready-made agent: flags, settings, AutoGPT's files. Used by run and resume."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, Protocol

import typer

from perdure.cli.options import WorkOptions
from perdure.cli.terminal import complain
from perdure.config import ALLOWED, DENIED, Config
from perdure.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.agent import Agent
    from perdure.model.budget import Budget
    from perdure.model.chat import Message

OFFLINE: Final = "offline"

_SET_BY_CONFIG: Final = ("fast_model", "base_url", "prompt_strategy", "search", "mcp")


class AgentOptions(WorkOptions, frozen=True, kw_only=True):
    """What run and resume take that is about the agent."""

    continuous: Annotated[
        bool | None,
        typer.Option("--continuous/--ask", "--yes", "-y", help="Allow what would ask; the journal says so."),
    ] = None
    continuous_limit: Annotated[
        int | None,
        typer.Option(
            "--continuous-limit", "-l", metavar="N", help="So many calls of tools, then ask; 0: no limit.", min=0
        ),
    ] = None
    fast_model: Annotated[str | None, typer.Option(help="What judges and reflects.", show_default=False)] = None
    base_url: Annotated[
        str | None, typer.Option(metavar="URL", help="An OpenAI-compatible service.", show_default=False)
    ] = None
    mcp: Annotated[str | None, typer.Option(metavar="FILE", help="Names MCP servers.", show_default=False)] = None
    own_tools: Annotated[
        list[str] | None, typer.Option("--tools", metavar="MODULE", help="Tools of yours: pkg.mod or file.py.")
    ] = None
    network: Annotated[
        bool | None, typer.Option("--network/--no-network", help="Let sandboxed programs use the network.")
    ] = None


def changes_of(options: AgentOptions, config: Config) -> dict[str, Any]:
    """Return the settings that are given now, by name; whatever is not given stays as it is recorded."""
    given: dict[str, Any] = {name: config.text(name) for name in _SET_BY_CONFIG if config.text(name)}
    if "mcp" in given:
        given["mcp"] = os.path.abspath(given["mcp"])
        if not os.path.isfile(given["mcp"]):
            raise UsageError(f"--mcp {given['mcp']!r} is no file; it names the servers as docs/how-to says")
    flags = ("continuous", "continuous_limit", "network")
    given |= {name: getattr(options, name) for name in flags if getattr(options, name) is not None}
    permissions = config.permissions()
    for name in ("allow", "deny"):
        if config.chosen[name].origin != "default":
            given[name] = getattr(permissions, name)
    if options.own_tools:
        given |= {"own_tools": list(options.own_tools), "folder": os.getcwd()}
    return given


class Start(NamedTuple):
    """A new agent, and what it is to do."""

    agent: Agent
    goal: str
    workspace: str = ""  # "": nothing is said of it
    budget: Budget | None = None
    first: Sequence[Message] = ()  # what its conversation begins with

    @property
    def is_unlimited(self) -> bool:
        """Whether a model is asked again and again without anybody being asked whether it should."""
        from perdure.agent.agent import PLANNED

        settings = self.agent.settings
        return settings.model not in PLANNED and settings.continuous and not settings.continuous_limit

    @property
    def arguments(self) -> dict[str, Any]:
        """What the task is started with."""
        return self.agent.arguments(self.first)


class Wish(Protocol):
    """What is read of the options of a run."""

    @property
    def goal(self) -> str: ...  # noqa: D102
    @property
    def from_autogpt(self) -> str: ...  # noqa: D102
    @property
    def ai_settings(self) -> str: ...  # noqa: D102


def chosen(wish: Wish, config: Config, changes: dict[str, Any]) -> Start:
    """Return the agent that a run asks for: by its flags, the settings, and what AutoGPT's people bring along.

    Raises ConfigInvalid, ExtraMissing, ToolUndeclared where it could not work; UsageError without a goal.
    """
    from perdure.agent import Agent, starting
    from perdure.agent.agent import changed
    from perdure.model.budget import NO_BUDGET

    environ = {**os.environ, **({"AI_SETTINGS_FILE": os.path.abspath(wish.ai_settings)} if wish.ai_settings else {})}
    found = starting.inherit(wish.from_autogpt, environ, goal=wish.goal, model=config.text("model"))
    for remark in found.remarks:
        complain(f"perdure: {remark}")
    os.environ.update(found.variables)
    goal = wish.goal or found.goal
    if not goal.strip():
        raise UsageError('say what to do: perdure run "GOAL" --model offline, or perdure run --program pkg.mod:fn')
    model = config.text("model") or (found.settings.model if found.settings.model != OFFLINE else _told_offline())
    rules = {"allow": found.settings.allow or ALLOWED, "deny": DENIED, **changes}
    denied = tuple(dict.fromkeys((*rules["deny"], *found.settings.deny)))  # no list takes back what another denies
    settings = changed(found.settings, {**rules, "deny": denied, "model": model})
    if settings.prompt_strategy:
        from perdure.agent.approaches import approach_called

        approach_called(settings.prompt_strategy)
    agent = Agent(settings=settings, places=found.variables.places)
    agent.check()
    budget = None if settings.budget == NO_BUDGET else settings.budget
    return Start(agent, starting.place_goal(goal, model), found.workspace, budget, found.messages)


def take_keys() -> dict[str, str]:
    """Take the keys of AutoGPT's `.env` into this process's environment, for a resume; return which file has which."""
    from perdure.agent.autogpt import read_keys

    found = read_keys(os.getcwd(), os.environ)
    os.environ.update(found)
    return found.places


def _told_offline() -> str:
    """Say which models could be used here, since none was chosen; return the one that always can."""
    from perdure.llm.environment import explain_choice

    for line in explain_choice(os.environ):
        complain(line)
    return OFFLINE
