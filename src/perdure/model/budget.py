"""What an action costs, and what a task may cost."""

from __future__ import annotations

import msgspec


class Cost(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens and money. `money` is decimal text and currency, such as "0.0042 USD"; "" where it is not known."""

    tokens_in: int = 0
    tokens_out: int = 0
    money: str = ""


NO_COST = Cost()


class Budget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a task may cost in all, over every restart and rollback. 0 or "": without a limit."""

    money: str = ""  # "5 USD"
    tokens: int = 0  # in and out together
    actions: int = 0
    wall_s: float = 0.0  # while it works, not while it waits for people
    soft: float = 0.8  # from this share on the agent is told to come to an end


NO_BUDGET = Budget()
