"""The verb that says, and changes, what a task may cost: budget. Also of a task that a process works on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from perdure.cli.moving import open_for, say_done
from perdure.cli.options import TaskOptions, opened, taking, wait_for
from perdure.cli.terminal import say, say_json

if TYPE_CHECKING:
    from perdure.views.allowing import Allowed


class BudgetOptions(TaskOptions, frozen=True, kw_only=True):
    """Of `budget`."""

    text: Annotated[
        str | None, typer.Argument(metavar="[BUDGET]", help="'5 USD', '+5 USD', 'tokens=none'.", show_default=False)
    ] = None


@taking(BudgetOptions)
def budget(options: BudgetOptions) -> None:
    """Show what a task may cost and has cost, or change what it may cost, even while it runs."""
    wait_for(_show(options) if options.text is None else _change(options, options.text))


async def _show(options: BudgetOptions) -> None:
    from perdure.views.allowing import budget_of

    async with opened(options.place) as store:
        allowed = await budget_of(store, options.name)
    if options.as_json:
        say_json(allowed)
    else:
        say(f"task {allowed.name}: {_in_words(allowed)}")


async def _change(options: BudgetOptions, text: str) -> None:
    from perdure.cli.talking import is_taken
    from perdure.errors import TaskBusy
    from perdure.ids_source import SystemIds
    from perdure.ports import Message
    from perdure.views.allowing import budget_of, refuse_change
    from perdure.views.showing import show

    async with open_for(options) as runtime:
        await refuse_change(runtime.store, options.name, text)
        task = (await runtime.store.find(options.name)).task
        is_set = True
        try:
            await runtime.set_budget(task, text)
        except TaskBusy:
            message = Message(id=SystemIds().short_id(), what="budget", text=text)
            await runtime.leave(task, message)
            is_set = await is_taken(runtime.store, task, message.id)
        allowed = await budget_of(runtime.store, task)
        following = (await show(runtime.store, task)).next_command
    fields: dict[str, Any] = msgspec.to_builtins(allowed) | {"status": "set" if is_set else "sent"}
    if not is_set:
        say_done(options, fields, f"the budget of task {allowed.name} is set as soon as its process looks")
        return
    next_ = f"; next: {following}" if following.startswith("perdure resume") else ""
    fields |= {"next_command": following} if next_ else {}
    say_done(options, fields, f"task {allowed.name}: {_in_words(allowed)}{next_}")


def _in_words(allowed: Allowed) -> str:
    if allowed.budget:
        return "; ".join(limit.text for limit in allowed.budget)
    tokens = allowed.tokens_in + allowed.tokens_out
    spent = ", ".join((*allowed.money, *([f"{tokens} tokens"] if tokens else [])))
    return f"no budget; it has cost {spent}" if spent else "no budget; it has cost nothing"
