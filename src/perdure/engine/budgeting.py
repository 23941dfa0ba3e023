"""Keeps a task within its budget: a call that does not fit is refused before anything of it is sent.

What fits is said by `core/spending.py`. Calls under way hold what they have reserved; a call that would fit beside what
they really cost waits until they have ended. One that does not fit stops the task: it needs a person, who raises the
budget (`perdure resume TASK --budget …`) or ends it. Called by `action` (each call) and by those who set a budget.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import NoReturn

from perdure.core import spending
from perdure.core.allowance import read_budget
from perdure.core.fold import Fold
from perdure.engine.outcomes import Work
from perdure.engine.session import Session
from perdure.errors import CostInvalid, CurrencyMismatch, StopRequested
from perdure.limits import TICK_S
from perdure.model import entry as e
from perdure.model.budget import NO_BUDGET, Budget, Cost


async def make_room(session: Session, work: Work) -> None:
    """Return when the call fits the budget; nothing is awaited between the last look and the return.

    Raises StopRequested where it does not, CurrencyMismatch where what is reserved is in another currency.
    """
    if not session.marks_milestones:
        return  # a replay stops where the record does
    fold, reserve = session.fold, work.options.reserve
    _refuse_foreign(session, reserve)
    while True:
        running = session.running.keys() - {work.action}
        found = spending.refusal(fold.ledger, fold.at, work.call.tool, reserve, running)
        if found is None:
            return
        if not found.may_wait:
            _stop(session, found)
        await asyncio.sleep(TICK_S)
        session.gate(f"act {work.call.tool!r}", work.lap)


async def set_budget(session: Session, given: Budget | str, by: str) -> None:
    """Set a budget, durably (`put_budget`)."""
    put_budget(session, given, by)
    await session.commit()


def put_budget(session: Session, given: Budget | str, by: str = "") -> None:
    """Put a budget that is given whole, or as text that changes the one there is. The same again writes nothing.

    Raises as `changed_budget`.
    """
    budget = changed_budget(session.fold, given)
    if budget != (session.fold.ledger.budget or NO_BUDGET):
        session.put(e.BudgetSet(budget=budget, by=by))


def changed_budget(fold: Fold, given: Budget | str) -> Budget:
    """Return what a budget that is given whole, or as text, makes of the one there is.

    Raises CostInvalid, CurrencyMismatch where costs are on record in another currency.
    """
    budget = read_budget(given, fold.ledger.budget or NO_BUDGET)
    if foreign := spending.foreign_to(fold.ledger, budget):
        raise CurrencyMismatch(fold.task, budget.money, foreign)
    return budget


def take_budget(session: Session, given: str) -> None:
    """Put what a person has left in the inbox. What cannot be any more leaves the budget as it is.

    An entry is written in any case: with it the message leaves the inbox, and is never taken in again.
    """
    budget = session.fold.ledger.budget or NO_BUDGET
    with contextlib.suppress(CostInvalid, CurrencyMismatch):  # it was looked at before it was sent
        budget = changed_budget(session.fold, given)
    session.put(e.BudgetSet(budget=budget, by="person"))
    session.has_told_low = False


def _refuse_foreign(session: Session, reserve: Cost) -> None:
    ledger = session.fold.ledger
    if (foreign := spending.foreign(ledger, reserve)) and ledger.budget is not None:
        raise CurrencyMismatch(session.task, ledger.budget.money, foreign)


def _stop(session: Session, found: spending.Refusal) -> NoReturn:
    """Stop the whole task: what its program still asks for is refused, and what is under way comes to its end."""
    session.stop = session.stop or StopRequested(session.task, "limit", found.text, found.raise_to)
    raise session.stop
