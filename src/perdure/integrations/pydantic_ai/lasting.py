"""How requests and calls are led through the task: one capability, hung into an agent for the time of a block.

It is innermost: what other capabilities make of requests and tools is part of the program. Called by `durable`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from contextvars import ContextVar
from typing import Any, cast

from pydantic_ai import RunContext
from pydantic_ai._utils import Some
from pydantic_ai.agent.abstract import AbstractAgent
from pydantic_ai.agent.wrapper import WrapperAgent
from pydantic_ai.capabilities import AbstractCapability, CombinedCapability
from pydantic_ai.capabilities.abstract import CapabilityOrdering, WrapOutputProcessHandler, WrapRunHandler
from pydantic_ai.models import Model
from pydantic_ai.output import OutputContext
from pydantic_ai.run import AgentRunResult
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset

from perdure.engine.session import current_tool
from perdure.errors import UsageError
from perdure.integrations.pydantic_ai.calls import DurableToolset, answered
from perdure.integrations.pydantic_ai.effects import PROGRAM, Effects
from perdure.integrations.pydantic_ai.requests import DurableModel
from perdure.integrations.pydantic_ai.runs import Run, Runs


def unwrapped(agent: AbstractAgent[Any, Any]) -> AbstractAgent[Any, Any]:
    """Return the agent that others may have wrapped: it is the one that runs."""
    while isinstance(agent, WrapperAgent):
        agent = agent.wrapped
    return agent


@contextlib.contextmanager
def hung(agent: AbstractAgent[Any, Any], runs: Runs, effects: Effects) -> Generator[None]:
    """Within the block, every run of `agent` in this context goes through the task. Raises ToolUndeclared, UsageError.

    Pydantic AI has a public way to replace what an agent has, and none to add to it; its own variable for the first is
    used. So the agent's own name stays good, also in the tool of another agent.
    """
    for toolset in agent.toolsets:
        for name in toolset.tools if isinstance(toolset, FunctionToolset) else ():
            effects.refuse_undeclared(name)
    variable: ContextVar[Any] | None = getattr(agent, "_override_root_capability", None)
    if variable is None:
        raise UsageError(f"{type(agent).__name__} cannot be made durable with this version of pydantic-ai; try 2.68")
    before = variable.get()
    root: CombinedCapability[Any] = agent.root_capability if before is None else before.value
    if any(isinstance(one, _Lasting) for one in root.capabilities):
        raise UsageError("the agent is durable here already: run it, without another block")
    token = variable.set(Some(CombinedCapability([root, _Lasting(runs, effects)])))
    try:
        yield
    finally:
        variable.reset(token)


class _Lasting(AbstractCapability[Any]):
    """Of an agent in a block; `for_run` makes that of one run."""

    def __init__(self, runs: Runs, effects: Effects, run: Run | None = None) -> None:
        self._runs = runs
        self._effects = effects
        self._of = run

    @property
    def _run(self) -> Run:
        return cast("Run", self._of)

    def get_ordering(self) -> CapabilityOrdering:
        """Nothing stands between it and what it calls."""
        return CapabilityOrdering(position="innermost")

    async def for_run(self, ctx: RunContext[Any]) -> AbstractCapability[Any]:
        """Return that of the run that begins. Raises ResumeDiverged; UsageError inside of a tool."""
        if (job := current_tool.get()) is not None:
            raise UsageError(
                f"the agent is run inside of the tool {job.tool.name!r}, which is an action of its own: to have on "
                f'record what each of them does, write effects={{{job.tool.name!r}: "{PROGRAM}"}}'
            )
        return _Lasting(self._runs, self._effects, self._runs.begin(ctx.prompt, ctx.messages))

    async def wrap_run(self, ctx: RunContext[Any], *, handler: WrapRunHandler) -> AgentRunResult[Any]:  # noqa: ARG002
        """Let the run be, and note its end."""
        try:
            return await handler()
        finally:
            self._runs.end()

    async def on_run_error(self, ctx: RunContext[Any], *, error: BaseException) -> AgentRunResult[Any]:  # noqa: ARG002
        """Let what failed in the run leave it as what failed in the task."""
        raise self._run.failure_of(error)

    def get_wrapper_model(self, model: Model) -> Model:
        """Return `model` asked through the task."""
        return DurableModel(model, self._run)

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """Return all tools of the run, called through the task."""
        return DurableToolset(wrapped=toolset, run=self._run, effects=self._effects)

    async def wrap_output_process(
        self,
        ctx: RunContext[Any],
        *,
        output_context: OutputContext,
        output: Any,  # noqa: ANN401 - what the model has given
        handler: WrapOutputProcessHandler,
    ) -> Any:  # noqa: ANN401 - what is made of it
        """Call an output function as a tool; a pure one is called in each life, for what it returns may be no JSON."""
        call = output_context.tool_call
        name = output_context.function_name or (call.tool_name if call is not None else "final_result")
        if not output_context.has_function or ctx.partial_output or self._effects.is_program(name):
            return await handler(output)
        if self._effects.is_free(name):
            return await handler(output)
        identity = f"output {call.tool_call_id}" if call is not None else "output"
        return await answered(self._run, self._effects, (name, identity), output, lambda: handler(output))
