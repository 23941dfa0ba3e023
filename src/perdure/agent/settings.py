"""What a run of the ready-made agent is set to. Recorded in the task, so that any process goes on with the same.

Never holds a secret: keys of providers are read from the environment by whoever makes the request.
"""

from __future__ import annotations

import msgspec

from perdure.model.budget import NO_BUDGET, Budget


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Plain values. Empty: the usual."""

    model: str = "offline"  # "offline", "local", "openai:NAME", "anthropic:NAME", "google-gla:NAME", "ollama:NAME" …
    fast_model: str = ""  # for judging and reflecting; empty: `model`
    base_url: str = ""  # of an OpenAI-compatible service
    prompt_strategy: str = ""  # one_shot, plan_execute, rewoo, reflexion, tree_of_thoughts; empty: plan_execute
    temperature: float | None = None
    context_max: int = 0  # tokens of a request; 0: what the model's window allows

    name: str = ""  # of the agent, as its prompt says it
    role: str = ""
    constraints: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    best_practices: tuple[str, ...] = ()

    tools: tuple[str, ...] = ()  # names of the tools that are offered; empty: all there are
    own_tools: tuple[str, ...] = ()  # modules whose tools it has as well: "pkg.mod", "file.py"
    folder: str = ""  # where these are, and whatever else is named by a relative path
    left_out: tuple[str, ...] = ()  # names of tools that are not
    allow: tuple[str, ...] = ()  # patterns of calls that need no permission: "read_file({workspace}/**)"
    deny: tuple[str, ...] = ()  # patterns of calls that are refused
    only: tuple[str, ...] = ()  # of a tool that one of these names, a call that fits none of them is refused
    continuous: bool = False  # what would ask is allowed, and the journal says so
    continuous_limit: int = 0  # so many calls of tools, then a person is asked; 0: without a limit
    network: bool = False  # whether programs in the sandbox may use it
    allow_private_network: bool = False  # whether tools of the web may read addresses of this machine and its network
    sandbox: str = ""  # "required": nothing is run where it cannot be isolated; "off": nothing is isolated
    restrict_to_workspace: bool = True
    search: str = ""  # "ddgs", "tavily", "serper"; empty: what there is a key for, else ddgs
    mcp: str = ""  # path of the file that names MCP servers

    budget: Budget = NO_BUDGET
