"""perdure makes autonomous agents survive: durable state, a journal, and resume from both together.

Public names only; each is imported when it is first used (PEP 562), so that `import perdure` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from perdure.codec.known import Secret
    from perdure.core.health import HealthRules
    from perdure.core.recovery import Rules
    from perdure.core.retrying import Patience
    from perdure.core.strategies import variations
    from perdure.engine.inside import charge, emit, request_checkpoint
    from perdure.engine.marking import Milestone, MilestoneView, milestone
    from perdure.engine.migrations import Migration, migration
    from perdure.engine.notifying import CommandHook, Webhook
    from perdure.engine.opening import open_runtime as open
    from perdure.engine.programs import Program, program
    from perdure.engine.runtime import Runtime
    from perdure.engine.spawning import spawn
    from perdure.engine.task import Task
    from perdure.errors import (
        ActionFailed,
        ActionTimedOut,
        CheckFailed,
        CostInvalid,
        CurrencyMismatch,
        NeedsHuman,
        OutcomeUnknown,
        PerdureError,
        ReducerFailed,
        ResumeDiverged,
        RolledBack,
        StoreError,
        TaskBusy,
        TaskCancelled,
        TaskFailed,
        TaskFinished,
        TaskMismatch,
        TaskParked,
        TaskPaused,
        TaskStopped,
        ToolLeftOut,
        Unstorable,
        UsageError,
    )
    from perdure.model.advice import Advice
    from perdure.model.budget import Budget, BudgetState, Cost
    from perdure.model.effect import Effect, EffectKey
    from perdure.model.outcome import Failed, InDoubt, Outcome, Succeeded
    from perdure.model.strategy import Strategy
    from perdure.tools import Tool, tool

__version__: Final = "0.1.0"

_HOME: Final[dict[str, str]] = {
    "open": "perdure.engine.opening:open_runtime",
    "Runtime": "perdure.engine.runtime:Runtime",
    "Task": "perdure.engine.task:Task",
    "spawn": "perdure.engine.spawning:spawn",
    "Webhook": "perdure.engine.notifying:Webhook",
    "CommandHook": "perdure.engine.notifying:CommandHook",
    "Program": "perdure.engine.programs:Program",
    "program": "perdure.engine.programs:program",
    "Migration": "perdure.engine.migrations:Migration",
    "migration": "perdure.engine.migrations:migration",
    "Milestone": "perdure.engine.marking:Milestone",
    "MilestoneView": "perdure.engine.marking:MilestoneView",
    "milestone": "perdure.engine.marking:milestone",
    "request_checkpoint": "perdure.engine.inside:request_checkpoint",
    "charge": "perdure.engine.inside:charge",
    "emit": "perdure.engine.inside:emit",
    "Cost": "perdure.model.budget:Cost",
    "Budget": "perdure.model.budget:Budget",
    "BudgetState": "perdure.model.budget:BudgetState",
    "Tool": "perdure.tools:Tool",
    "tool": "perdure.tools:tool",
    "Effect": "perdure.model.effect:Effect",
    "EffectKey": "perdure.model.effect:EffectKey",
    "Strategy": "perdure.model.strategy:Strategy",
    "variations": "perdure.core.strategies:variations",
    "Advice": "perdure.model.advice:Advice",
    "Rules": "perdure.core.recovery:Rules",
    "Patience": "perdure.core.retrying:Patience",
    "HealthRules": "perdure.core.health:HealthRules",
    "Secret": "perdure.codec.known:Secret",
    "Outcome": "perdure.model.outcome:Outcome",
    "Succeeded": "perdure.model.outcome:Succeeded",
    "Failed": "perdure.model.outcome:Failed",
    "InDoubt": "perdure.model.outcome:InDoubt",
}
_ERRORS: Final = (
    "ActionFailed",
    "ActionTimedOut",
    "CheckFailed",
    "CostInvalid",
    "CurrencyMismatch",
    "NeedsHuman",
    "OutcomeUnknown",
    "PerdureError",
    "ReducerFailed",
    "ResumeDiverged",
    "RolledBack",
    "StoreError",
    "TaskBusy",
    "TaskCancelled",
    "TaskFailed",
    "TaskFinished",
    "TaskMismatch",
    "TaskParked",
    "TaskPaused",
    "TaskStopped",
    "ToolLeftOut",
    "Unstorable",
    "UsageError",
)
_HOME.update({name: f"perdure.errors:{name}" for name in _ERRORS})

__all__ = [
    "ActionFailed",
    "ActionTimedOut",
    "Advice",
    "Budget",
    "BudgetState",
    "CheckFailed",
    "CommandHook",
    "Cost",
    "CostInvalid",
    "CurrencyMismatch",
    "Effect",
    "EffectKey",
    "Failed",
    "HealthRules",
    "InDoubt",
    "Migration",
    "Milestone",
    "MilestoneView",
    "NeedsHuman",
    "Outcome",
    "OutcomeUnknown",
    "Patience",
    "PerdureError",
    "Program",
    "ReducerFailed",
    "ResumeDiverged",
    "RolledBack",
    "Rules",
    "Runtime",
    "Secret",
    "StoreError",
    "Strategy",
    "Succeeded",
    "Task",
    "TaskBusy",
    "TaskCancelled",
    "TaskFailed",
    "TaskFinished",
    "TaskMismatch",
    "TaskParked",
    "TaskPaused",
    "TaskStopped",
    "Tool",
    "ToolLeftOut",
    "Unstorable",
    "UsageError",
    "Webhook",
    "charge",
    "emit",
    "migration",
    "milestone",
    "open",
    "program",
    "request_checkpoint",
    "spawn",
    "tool",
    "variations",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - PEP 562
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'perdure' has no attribute {name!r}")
    module, _, attribute = home.partition(":")
    found = getattr(import_module(module), attribute)
    globals()[name] = found
    return found
