"""What an action costs, what a task may cost, and how the two stand to each other. The rules are `core/spending.py`.

Money is text, an amount and a currency (`model/money.py`). A cost may be in several currencies, a budget is in one.
"""

from __future__ import annotations

from decimal import Decimal

import msgspec

from perdure.model import money as coins


class Cost(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Tokens and money. `money` is decimal text and currency, such as "0.0042 USD"; "" where it is not known."""

    tokens_in: int = 0
    tokens_out: int = 0
    money: str = ""

    def __add__(self, other: Cost) -> Cost:
        amounts = coins.amounts_of(self.money)
        coins.add(amounts, coins.amounts_of(other.money))
        return Cost(self.tokens_in + other.tokens_in, self.tokens_out + other.tokens_out, coins.text_of(amounts))

    def without(self, other: Cost) -> Cost:
        """Return what is left of this cost beyond `other`; nothing falls below zero."""
        amounts = coins.amounts_of(self.money)
        coins.take_away(amounts, coins.amounts_of(other.money))
        tokens_in, tokens_out = self.tokens_in - other.tokens_in, self.tokens_out - other.tokens_out
        return Cost(max(0, tokens_in), max(0, tokens_out), coins.text_of(amounts))


NO_COST = Cost()


class Budget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a task may cost in all, over every restart and rollback. 0 or "": without a limit."""

    money: str = ""  # "5 USD"
    tokens: int = 0  # in and out together
    actions: int = 0  # calls of tools that go out; one that is made again after a kill counts again
    wall_s: float = 0.0  # while it works, not while it waits for people, is parked, paused, or lies dead
    soft: float = 0.8  # from this share on the agent is told to come to an end


NO_BUDGET = Budget()


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """An amount of each of the things that a budget limits."""

    money: dict[str, Decimal] = {}  # by currency
    tokens_in: int = 0
    tokens_out: int = 0
    actions: int = 0
    wall_s: float = 0.0

    @property
    def tokens(self) -> int:
        """In and out together."""
        return self.tokens_in + self.tokens_out


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """What may still be used before a limit is reached, never below zero. None: without a limit."""

    money: Decimal | None = None  # in the budget's currency
    tokens: int | None = None
    actions: int | None = None
    wall_s: float | None = None


class BudgetState(msgspec.Struct, frozen=True, kw_only=True):
    """How a task stands to its budget (`task.budget`)."""

    limit: Budget = NO_BUDGET
    spent: Used = Used()
    reserved: Used = Used()  # by calls that are under way; what a call that was killed had reserved is spent
    left: Left = Left()  # neither spent nor reserved
    is_low: bool = False  # of something that is limited, the share `limit.soft` is used: come to an end
