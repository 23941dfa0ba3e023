"""What a running tool may say of its own call: what it costs, what it hears, and that a checkpoint is reached.

Functions for the bodies of tools, on the loop or in a thread. Outside of a tool they raise UsageError. What they say of
costs and checkpoints is written with the outcome of the call; what is emitted is told to the hooks and never recorded.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Final

from perdure.core import spending
from perdure.core.allowance import check_cost
from perdure.engine.session import Running, current_tool
from perdure.errors import CurrencyMismatch, UsageError
from perdure.model.budget import NO_COST, Cost
from perdure.model.ids import check_name

# What the library itself tells hooks: whoever hears one of these may rely on it.
EVENTS: Final = frozenset({
    "action_found", "action_reused", "action_settled", "action_started", "budget_low", "checkpoint_marked", "decision",
    "handed_back", "health_changed", "message", "note", "plan_adopted", "probe_failed", "program_called",
    "reached_failed", "rollback_abandoned", "rollback_began", "rollback_refused", "rolled_back", "step_began",
    "stopped", "strategy_chosen", "stuck", "succeeded", "taken_over", "task_forked", "task_resumed", "task_started",
    "undone", "waiting", "workspace_restored",
})  # fmt: skip
_charging: Final = threading.Lock()  # a tool may charge from threads of its own


def charge(cost: Cost) -> None:
    """Say what the running call has cost, on top of what it has charged before.

    It is written in the append that settles the call, whether that succeeds or fails, and takes the place of what was
    reserved for it. A tool that charges nothing is taken to have cost what was reserved; `charge(perdure.Cost())` says
    that it cost nothing. Raises CostInvalid; CurrencyMismatch, when it is noted, where the task's budget is in another
    currency; UsageError outside of a tool.
    """
    job = _job("charge")
    check_cost(cost)
    with _charging:
        job.charged = (job.charged or NO_COST) + cost
    ledger = job.session.fold.ledger
    if (foreign := spending.foreign(ledger, cost)) and ledger.budget is not None:
        raise CurrencyMismatch(job.session.task, ledger.budget.money, foreign)


def emit(event: str, **fields: Any) -> None:  # noqa: ANN401 - plain values for people
    """Tell the runtime's hooks of something while the call runs: `hook(task, event, fields)`.

    With `fields` come the `action` and the `tool`. It is never recorded: what was emitted before a kill is gone. Hooks
    are called on the runtime's loop. Raises UsageError outside of a tool, and for a name that perdure itself uses.
    """
    job = _job("emit")
    if check_name(event, "event") in EVENTS:
        raise UsageError(f"{event!r} is what perdure itself tells hooks; choose another name for the event")
    session = job.session
    if not session.world.hooks:
        return
    told = {**fields, "action": job.action, "tool": job.tool.name}
    runner = session.running.get(job.action)
    loop = runner.get_loop() if runner is not None else None
    if loop is None or loop is _loop_here():
        session.tell(event, **told)
    elif not loop.is_closed():
        loop.call_soon_threadsafe(lambda: session.tell(event, **told))


def request_checkpoint(name: str) -> None:
    """Ask for a checkpoint from inside a running tool: it is marked in the append of the call's success.

    A call that fails marks none, and one that succeeds while another effect is open neither. Raises UsageError outside
    of a tool.
    """
    job = current_tool.get()
    if job is None:
        raise UsageError("request_checkpoint is for tools; in a program write `await task.checkpoint(name)`")
    job.requested = (*job.requested, check_name(name, "checkpoint name"))


def _job(what: str) -> Running:
    job = current_tool.get()
    if job is None:
        raise UsageError(f"{what} is for tools: call it in the body of a function declared with `@perdure.tool`")
    return job


def _loop_here() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
