"""What a task may cost, what of it is used, and what a change would make of it. Called by `perdure budget`."""

from __future__ import annotations

import msgspec

from perdure.core.allowance import budget_text
from perdure.engine.budgeting import changed_budget
from perdure.engine.loading import load_fold
from perdure.errors import TaskFinished
from perdure.model.budget import NO_BUDGET
from perdure.model.money import text_of
from perdure.ports import Store
from perdure.views.showing import Limit, limits_of


class Allowed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The budget of a task, and what the task has cost."""

    task: str
    name: str
    text: str = ""  # as `--budget` reads it; "" where there is none
    budget: tuple[Limit, ...] = ()
    money: tuple[str, ...] = ()  # spent, one amount per currency
    tokens_in: int = 0
    tokens_out: int = 0


async def budget_of(store: Store, name: str) -> Allowed:
    """Return how the task called `name` stands to its budget. Raises TaskUnknown, TaskAmbiguous, Damaged."""
    fold = await load_fold(store, (await store.find(name)).task)
    ledger = fold.ledger
    return Allowed(
        task=fold.task,
        name=ledger.name,
        text=budget_text(ledger.budget or NO_BUDGET),
        budget=limits_of(fold),
        money=tuple(text_of({currency: amount}) for currency, amount in sorted(ledger.money.items()) if amount),
        tokens_in=ledger.tokens_in,
        tokens_out=ledger.tokens_out,
    )


async def refuse_change(store: Store, name: str, text: str) -> None:
    """Raise CostInvalid or CurrencyMismatch where `text` changes nothing that could be, TaskFinished."""
    summary = await store.find(name)
    if summary.is_finished:
        raise TaskFinished(summary.name, summary.status)
    changed_budget(await load_fold(store, summary.task), text)
