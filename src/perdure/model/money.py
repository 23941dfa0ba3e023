"""Money as text: an amount and a currency, "0.0042 USD"; several currencies side by side, "3 EUR + 0.5 USD".

Amounts are decimals, never floats, and are added with a context of their own: what a program sets for its decimals
changes no sum. Currencies are never converted. Nothing here knows what a model costs. Called wherever costs are added.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Final

from perdure.errors import CostInvalid

Amounts = dict[str, Decimal]  # by currency

_PARTS: Final = " + "
_AMOUNT: Final = re.compile(r"(\d{1,15}(?:\.\d{0,20})?(?:[eE](?:-\d{1,2}|\+?\d))?) ([A-Z][A-Z0-9]{1,9})\Z")
_EXACT: Final = Context(prec=150, rounding=ROUND_HALF_EVEN)  # more digits than any sum of the amounts above has


def amounts_of(text: str) -> Amounts:
    """Return what a text says, by currency; "" says nothing. Raises CostInvalid."""
    found: Amounts = {}
    for part in text.split(_PARTS) if text else ():
        match = _AMOUNT.match(part)
        if match is None:
            raise CostInvalid(f"{text!r} is no money; write an amount and a currency, such as '0.0042 USD'")
        add(found, {match[2]: Decimal(match[1])})
    return found


def recorded_amounts(text: str) -> Amounts:
    """As `amounts_of`, of a journal: what cannot be read, and no writer of ours has written, is nothing."""
    try:
        return amounts_of(text)
    except CostInvalid:
        return {}


def text_of(amounts: Mapping[str, Decimal]) -> str:
    """Return amounts as text, by currency in order; those that are nothing are left out."""
    return _PARTS.join(f"{plain(amount)} {currency}" for currency, amount in sorted(amounts.items()) if amount)


def add(total: Amounts, amounts: Mapping[str, Decimal]) -> None:
    """Add `amounts` to `total`, each currency for itself."""
    for currency, amount in amounts.items():
        total[currency] = _EXACT.add(total.get(currency, Decimal()), amount)


def take_away(total: Amounts, amounts: Mapping[str, Decimal]) -> None:
    """Take `amounts` away from `total`; nothing falls below zero."""
    for currency, amount in amounts.items():
        total[currency] = max(Decimal(), _EXACT.subtract(total.get(currency, Decimal()), amount))


def times(amount: Decimal, factor: Decimal) -> Decimal:
    """Return the product, exactly."""
    return _EXACT.multiply(amount, factor)


def plain(amount: Decimal) -> str:
    """Return an amount without exponent and without zeros at its end: "0.00005", "10"."""
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
