"""The ready-made agent as a program: any process finds it again by the name of its model and its recorded settings.

What it thinks with is opened when the program is called, and closed when that call ends. Called by the command, by
`operations` (resume) and by whoever runs an agent from Python.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from perdure.agent.kit import OpenModel, strategies_of
from perdure.agent.loop import follow, say
from perdure.agent.settings import AgentSettings
from perdure.codec import values
from perdure.engine.report import KeyOfModel
from perdure.engine.task import Task
from perdure.errors import ConfigInvalid, OutfitMissing, UsageError
from perdure.limits import FAILURES_MAX
from perdure.llm.naming import LOCAL, OFFLINE, keys_wanted
from perdure.model.chat import Message
from perdure.model.entry import Driver
from perdure.model.strategy import Strategy
from perdure.tools import Tool, tool

if TYPE_CHECKING:
    from perdure.agent.kit import Kit
    from perdure.agent.outfit import Opened

ENVIRONMENT: Final = "the environment"
PLANNED: Final = (OFFLINE, LOCAL)  # models that follow the plan of the offline policy


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """The ready-made agent: what `Runtime.run` takes for a program."""

    settings: AgentSettings
    open_model: OpenModel | None = None  # instead of the provider that the settings name
    tools: tuple[Tool[..., Any], ...] = ()  # beside those that every agent has
    changes: Mapping[
        str, Any
    ] = {}  # settings that are otherwise from now on; on record with the next call of the program
    places: Mapping[str, str] = {}  # files that this process has keys from, by variable
    failures_max: int = FAILURES_MAX
    state_version: int = 1
    source_digest: str = ""
    reached: Callable[[Any], object] | None = None

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        """The ways that recovery may change between; the offline model knows one."""
        return () if self.settings.model in PLANNED else strategies_of(self.settings)

    @property
    def fn(self) -> Callable[..., Coroutine[Any, Any, Any]]:
        """The function that the engine calls with the task."""
        return self._follow

    @property
    def state(self) -> dict[str, Any]:
        """Memory at the start."""
        return {}

    def driver(self, arguments: Mapping[str, object]) -> Driver:
        """Return how another process finds this agent."""
        recorded = msgspec.Raw(values.encode(dict(arguments)))
        return Driver(kind="agent", target=self.settings.model, arguments=recorded)

    def refuse_models(self) -> None:
        """Raise ModelUnknown, ApiKeyMissing or ExtraMissing where its models cannot be asked. Sends nothing.

        ConfigInvalid for an address with a password in it: settings are on record.
        """
        from perdure.llm.opening import refuse_models

        if "@" in self.settings.base_url.partition("//")[2].partition("/")[0]:
            variable = "the variable that holds the address (OPENAI_BASE_URL)"
            raise ConfigInvalid("base_url", f"it holds a password, and would be on record; give it by {variable}")
        if self.open_model is None:
            names = (self.settings.model, self.settings.fast_model)
            refuse_models(names, base_url=self.settings.base_url, environ=os.environ)

    def refuse_changes(self) -> None:
        """Raise what `check` and `refuse_models` raise where a setting that is otherwise from now on cannot be used."""
        given = changed(self.settings, self.changes)
        if self.changes.get("fast_model") and self.open_model is None:
            from perdure.llm.opening import refuse_models

            refuse_models((given.fast_model,), base_url=given.base_url, environ=os.environ)
        if self.changes.keys() & {"own_tools", "mcp"}:
            msgspec.structs.replace(self, settings=given).check()

    def keys(self, memory: Mapping[Any, Any]) -> tuple[KeyOfModel, ...]:
        """Return the keys that its models need, and where its task found them before (`engine.report.WantsKeys`)."""
        if self.open_model is not None or self.settings.model in PLANNED:
            return ()
        from perdure.agent.outfit import model_names

        settings = changed(self.settings, {**dict(memory.get("settings", {})), **self.changes})
        wanted = {
            variables: model
            for model in reversed(model_names(settings))
            if (variables := keys_wanted(model, os.environ, settings.base_url))
        }
        last: Mapping[str, str] = memory.get("keys", {})
        return tuple(
            KeyOfModel(
                model=model,
                variables=variables,
                is_there=any(os.environ.get(name, "").strip() for name in variables),
                place=next((last[name] for name in variables if name in last), ""),
            )
            for variables, model in wanted.items()
        )

    def arguments(self, first: Sequence[Message] = ()) -> dict[str, Any]:
        """Return what `Runtime.run` takes as `args`: the settings, and what the conversation begins with."""
        if self.settings.model in PLANNED:
            return {}
        plain = msgspec.to_builtins(self.settings)
        return {"settings": plain, **({"first": list(first)} if first else {})}

    async def _follow(self, task: Task, settings: object = None, first: Sequence[Message] = ()) -> object:  # noqa: ARG002 - they are `self.settings`
        if self.settings.model in PLANNED:
            from perdure.agent.offline.policy import OfflinePolicy

            return await follow(task, OfflinePolicy(LOCAL if self.settings.model == LOCAL else ""))
        from perdure.agent.outfit import Opened
        from perdure.agent.policy import ThinkingPolicy

        opened = Opened(self.open_model, self.tools, os.environ)
        try:
            kit = await self._fitted(task, opened, first)
            return await follow(task, ThinkingPolicy(kit))
        finally:
            await opened.close()

    async def _fitted(self, task: Task, opened: Opened, first: Sequence[Message]) -> Kit:
        """Fit out, in one action: with the settings of the start and all changes since, the newest among them."""
        from perdure.agent.outfit import OUTFIT, from_text, to_text

        before = {**dict(task.state.get("settings", {}))}
        settings = changed(self.settings, {**before, **self.changes})
        known = {name: tuple(found) for name, found in task.state.get("models", {}).items()}

        @tool(effect="pure", name=OUTFIT, poll=True)  # the same each time, and no circle
        async def fit_out() -> dict[str, Any]:
            try:
                recorded = await opened.fit_out(settings, known, task.budget.limit)
            except UsageError as error:  # no fault of what was done: nothing of it may be rolled back for that
                raise OutfitMissing(str(error)) from error
            return {
                "settings": {**before, **self.changes},
                "outfit": to_text(recorded),
                "keys": self._found_keys(before),
                "models": recorded.models,
            }

        def keep(memory: Any, fitted: dict[str, Any]) -> None:  # noqa: ANN401 - a view of the state
            memory["settings"] = fitted["settings"]
            memory["keys"], memory["models"] = fitted.get("keys", {}), fitted.get("models", {})

        fitted = await task.using(key=f"{OUTFIT} {task.attempt}").act(fit_out, then=keep)
        recorded = from_text(fitted["outfit"])
        for remark in recorded.remarks:
            if remark not in task.state.get("said", ()):
                await say(task, remark, remark)
        return opened.kit(changed(self.settings, fitted["settings"]), recorded, first)

    def _found_keys(self, before: Mapping[str, Any]) -> dict[str, str]:
        """Return where the keys of its models come from in this process, by variable; never what they are."""
        names = [
            name
            for key in self.keys({"settings": before})
            for name in key.variables
            if os.environ.get(name, "").strip()
        ]
        return {name: self.places.get(name, ENVIRONMENT) for name in names}

    def check(self) -> None:
        """Raise ConfigInvalid, ToolUndeclared or ProgramNotImportable for a tool or a file of servers that is none."""
        if self.settings.model in PLANNED:
            return
        from perdure.agent.outfit import tools_of

        tools_of(self.settings, self.tools, os.environ)
        if self.settings.mcp:
            from perdure.tools.mcp.config import read_servers

            read_servers(self.settings.mcp, os.environ)


def load_agent(
    model: str, arguments: Mapping[str, Any] | None = None, changes: Mapping[str, Any] | None = None
) -> Agent:
    """Return the agent that a task was started with.

    Raises ConfigInvalid where its settings are not understood; ExtraMissing, naming the command, where the model on
    this machine is not installed.
    """
    if model == LOCAL:
        from perdure.llm.local import open_local

        open_local()  # what is missing is said before anything begins
    recorded = (arguments or {}).get("settings", {})
    settings = changed(AgentSettings(model=model), recorded)
    return Agent(settings=settings, changes=dict(changes or {}))


def changed(settings: AgentSettings, changes: Mapping[str, Any]) -> AgentSettings:
    """Return settings with some of them otherwise. Raises ConfigInvalid naming what is not understood."""
    try:
        return msgspec.convert({**msgspec.to_builtins(settings), **changes}, AgentSettings)
    except msgspec.ValidationError as error:
        raise ConfigInvalid("the agent's settings", str(error)) from error
