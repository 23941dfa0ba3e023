"""What a journal shows of a task's budget: the accounts are kept once more, from the entries alone. Pure.

What is used is, of each call that went out, what it has cost, or what was reserved for it as long as that is not known.
No fold and no ledger is asked, so that `verify` and the property tests hold one way of counting against another. Time
is not counted here. Called by `judging`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from perdure.errors import CostInvalid
from perdure.model import entry as e
from perdure.model.budget import NO_BUDGET, NO_COST, Budget, Cost
from perdure.model.money import amounts_of

_NOTHING: Final = ""


class _Held(msgspec.Struct, frozen=True):
    """What is reserved for a call, and under which lease it went out."""

    cost: Cost
    epoch: int


class Accounts:
    """Takes the entries of one task in order."""

    def __init__(self) -> None:
        self.calls = 0
        self.budget: Budget = NO_BUDGET
        self._settled = NO_COST  # and what is lost: reserved by calls that were made again
        self._held: dict[str, _Held] = {}  # by action that is not over

    @property
    def used(self) -> Cost:
        """What is spent, and what may still turn out to be."""
        return sum((held.cost for held in self._held.values()), self._settled)

    def take(self, payload: e.Payload, epoch: int, *, is_undo: bool = False) -> str:
        """Take an entry in; return what is wrong with it, "" where nothing is."""
        try:
            match payload:
                case e.BudgetSet(budget=budget):
                    amounts_of(budget.money)
                    self.budget = budget
                case e.ActionIntended():
                    return self._intended(payload, epoch, is_undo=is_undo)
                case e.ActionSettled():
                    self._held.pop(payload.action, None)
                    if payload.money or payload.tokens_in or payload.tokens_out:
                        self._settled += Cost(payload.tokens_in, payload.tokens_out, payload.money)
                case _:
                    pass
        except CostInvalid as error:
            return str(error)
        return _NOTHING

    def _intended(self, intent: e.ActionIntended, epoch: int, *, is_undo: bool) -> str:
        name = f"{intent.tool} (action {intent.action})"
        wrong = _NOTHING if is_undo or self.budget == NO_BUDGET else self._over(intent, epoch, name)
        if earlier := self._held.pop(intent.action, None):
            self._settled += earlier.cost
        self.calls += 1
        if intent.reserve != NO_COST:
            self._held[intent.action] = _Held(intent.reserve, epoch)
            if not intent.paid:
                return f"{name} reserves, and is not declared to be paid"
        return wrong

    def _over(self, intent: e.ActionIntended, epoch: int, name: str) -> str:
        """Return why the call should not have gone out: one without a reservation may, as long as something is left."""
        limit = self.budget
        if limit.actions and self.calls >= limit.actions:
            return f"{name} is call {self.calls + 1}, and the budget has {limit.actions}"
        asked = intent.reserve
        here = [held.cost for held in self._held.values() if asked != NO_COST or held.epoch < epoch]
        used = sum(here, self._settled)
        tokens, asks = used.tokens_in + used.tokens_out, asked.tokens_in + asked.tokens_out
        if limit.tokens and (tokens + asks > limit.tokens or tokens >= limit.tokens):
            return f"{name} went out with {tokens} tokens used, may cost {asks}, and the budget has {limit.tokens}"
        for currency, most in amounts_of(limit.money).items():
            spent, more = (amounts_of(cost.money).get(currency, 0) for cost in (used, asked))
            if spent + more > most or spent >= most:
                return f"{name} went out with {used.money} used, may cost {asked.money or 0}, and {limit.money} is all"
        return _NOTHING
