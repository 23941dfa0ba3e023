"""A budget as people write it: "5 USD, tokens=200000, actions=500, wall=2h, soft=80%". Pure.

Each part sets one limit, and leaves the others as they are. With a plus it adds to the limit there is ("+5 USD"),
`none` takes a limit away. Called by the CLI through operations, and wherever a budget is given as text.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any, Final

import msgspec

from perdure.errors import CostInvalid
from perdure.model import money as coins
from perdure.model.budget import NO_BUDGET, Budget, Cost

_NUMBERS_MAX: Final = 10**15
_UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_TIME: Final = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)([smhd])\Z")
_SHARE: Final = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)(%?)\Z")
_COUNT: Final = re.compile(r"\d{1,15}\Z")
_AMOUNT: Final = re.compile(r"(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)(?:\s+([A-Za-z][A-Za-z0-9]{1,9})|([A-Za-z]{3}))\Z")
# What people write elsewhere: it is not read, but told how it is written here. "$" is not read, because a shell takes
# "$5" for a variable, and what is left of it may be an amount as well.
_ELSEWHERE: Final = re.compile(r"([$€£]?)\s*(\d+(?:\.\d+)?)\s*([kKM]?)\s*([A-Za-z]*|[$€£%])\Z")
_SIGNS: Final = {"$": "USD", "€": "EUR", "£": "GBP"}
_TIMES_AS_MANY: Final = {"": 1, "k": 1_000, "m": 1_000_000}
_UNITS: Final[dict[str, str]] = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "day", "days"), "d"),
}
_COUNTED: Final[dict[str, str]] = {
    **dict.fromkeys(("tok", "token", "tokens"), "tokens"),
    **dict.fromkeys(("action", "actions", "call", "calls"), "actions"),
}
_FORMS: Final = "5 USD, tokens=200000, actions=500, wall=2h, soft=80%; +5 USD adds, money=none takes away"
_NAMES: Final = ("money", "tokens", "actions", "wall", "soft")


def parse_budget(text: str, on: Budget | None = NO_BUDGET) -> Budget:
    """Return `on` with the limits that `text` sets. Raises CostInvalid, saying how a budget is written.

    None: it is not known yet what the text will change, and only looked whether it can be read.
    """
    if not text.strip():
        raise _refused(text, "it is empty; between double quotes a shell takes $5 for a variable")
    found = on or NO_BUDGET
    parts = [part.strip() for part in text.split(",")]
    seen: set[str] = set()
    for part in parts:
        name, given = _split(part, text)
        if name in seen:
            raise _refused(text, f"{name} is given twice")
        seen.add(name)
        found = msgspec.structs.replace(found, **_read(name, given, on and found, text))
    return check_budget(found)


def read_budget(given: object, on: Budget | None = NO_BUDGET) -> Budget:
    """Return a budget that is given as one, or as text (`parse_budget`). Raises CostInvalid."""
    if isinstance(given, str):
        return parse_budget(given, on)
    if not isinstance(given, Budget):
        raise CostInvalid(f"{given!r} is no budget; write perdure.Budget(money='5 USD'), or as text: {_FORMS}")
    return check_budget(given)


def check_budget(budget: Budget) -> Budget:
    """Return the budget. Raises CostInvalid where it can be none."""
    try:
        msgspec.convert(msgspec.to_builtins(budget), Budget)
    except msgspec.ValidationError as error:
        raise CostInvalid(f"{budget!r} is no budget: {error}") from None
    amounts = coins.amounts_of(budget.money)
    if len(amounts) > 1 or not all(amounts.values()):
        raise CostInvalid(f"a budget of {budget.money!r} is none: it is in one currency, and above 0")
    if not (0 <= budget.tokens <= _NUMBERS_MAX and 0 <= budget.actions <= _NUMBERS_MAX):
        raise CostInvalid(f"a budget has no tokens={budget.tokens}, actions={budget.actions}: write 1 or more")
    if not 0 <= budget.wall_s <= _NUMBERS_MAX:
        raise CostInvalid(f"a budget has no wall_s={budget.wall_s!r}: write seconds")
    if not 0 < budget.soft <= 1:
        raise CostInvalid(f"a budget has no soft={budget.soft!r}: write a share, more than 0 and not more than 1")
    return budget


def check_cost(cost: object) -> Cost:
    """Return the cost. Raises CostInvalid where it can be none."""
    if not isinstance(cost, Cost):
        raise CostInvalid(f"{cost!r} is no cost; write perdure.Cost(tokens_in=…, tokens_out=…, money='0.01 USD')")
    for name in ("tokens_in", "tokens_out"):
        number = getattr(cost, name)
        if type(number) is not int or not 0 <= number <= _NUMBERS_MAX:
            raise CostInvalid(f"{name}={number!r} is no number of tokens")
    if type(cost.money) is not str:
        raise CostInvalid(f"money={cost.money!r} is no text; write an amount and a currency, such as '0.0042 USD'")
    coins.amounts_of(cost.money)
    return cost


def budget_text(budget: Budget) -> str:
    """Return the limits of a budget as `parse_budget` reads them; "" where it has none."""
    parts = (
        budget.money,
        f"tokens={budget.tokens}" if budget.tokens else "",
        f"actions={budget.actions}" if budget.actions else "",
        f"wall={time_text(budget.wall_s)}" if budget.wall_s else "",
        f"soft={coins.plain(Decimal(str(budget.soft)) * 100)}%" if budget.soft != NO_BUDGET.soft else "",
    )
    return ", ".join(filter(None, parts))


def time_text(seconds: float) -> str:
    """Return a length of time in the largest unit in which it is a whole number: "90s", "2h"."""
    for unit in ("d", "h", "m"):
        if seconds and math.isclose(seconds % _UNITS_S[unit], 0):
            return f"{int(seconds // _UNITS_S[unit])}{unit}"
    return f"{round(seconds, 3):g}s" if seconds < _UNITS_S["h"] else f"{round(seconds)}s"


def _split(part: str, text: str) -> tuple[str, str]:
    name, is_named, given = part.partition("=")
    if not is_named:
        return "money", part
    name = name.strip()
    if name not in _NAMES:
        raise _refused(text, f"there is no {name!r} in it")
    return name, given.strip()


def _read(name: str, given: str, on: Budget | None, text: str) -> dict[str, Any]:
    field = "wall_s" if name == "wall" else name
    if given == "none" and name != "soft":
        return {field: getattr(NO_BUDGET, field)}
    adds, given = given.startswith("+"), given.removeprefix("+").strip()
    plus = "+" if adds else ""
    if name == "soft":
        match = _SHARE.match(given)
        if adds or match is None:
            raise _refused(text, f"{given!r} is no share, such as 80%")
        return {"soft": float(match[1]) / (100 if match[2] else 1)}
    before: Any = getattr(on or NO_BUDGET, field)
    if adds and not before and on is not None:
        raise _refused(text, f"there is no limit of {name} to add to")
    if name == "money":
        return {"money": _money(given, before if adds else "", text, plus)}
    number = _time_s(given, text, plus) if name == "wall" else _count(name, given, text, plus)
    _refuse_nothing(number, name, text)
    return {field: number + (before if adds else 0)}


def _money(given: str, before: str, text: str, plus: str) -> str:
    match = _AMOUNT.match(given)
    currency = (match[2] or match[3]).upper() if match is not None else ""
    if match is None or currency.lower() in _UNITS.keys() | _COUNTED.keys():  # "500 tokens" is no money
        how = _instead("", given, plus) or "such as '5 USD'"
        raise _refused(text, f"{given!r} is no amount of money, {how}")
    total = coins.amounts_of(before)
    try:
        added = coins.amounts_of(f"{match[1]} {currency}")
    except CostInvalid:
        raise _refused(text, f"{given!r} is no amount of money, such as '5 USD'") from None
    if total and total.keys() != added.keys():
        raise _refused(text, f"the budget so far is {before}")
    _refuse_nothing(all(added.values()), "money", text)
    coins.add(total, added)
    return coins.text_of(total)


def _count(name: str, given: str, text: str, plus: str) -> int:
    if given.isdecimal() and _COUNT.match(given) is None:
        raise _refused(text, f"{given!r} is too large; leave {name} out for no limit")
    if _COUNT.match(given) is None:
        how = _instead(name, given, plus) or f"such as {name}=500"
        raise _refused(text, f"{given!r} is no whole number, {how}")
    return int(given)


def _time_s(given: str, text: str, plus: str) -> float:
    match = _TIME.match(given)
    if match is None:
        how = _instead("wall", given, plus) or "such as 90s, 30m, 2h or 1d"
        raise _refused(text, f"{given!r} is no length of time, {how}")
    return float(match[1]) * _UNITS_S[match[2]]


def _instead(name: str, given: str, plus: str) -> str:
    """Return how to write what a person seems to mean, "" where that is not plain.

    `name`: the limit, "" where none is named. `plus`: "+" where it is to be added.
    """
    match = _ELSEWHERE.match(given)
    if match is None:
        return ""
    sign, word = _SIGNS.get(match[1] or match[4], ""), match[4].lower()
    number = coins.plain(Decimal(match[2]) * _TIMES_AS_MANY[match[3].lower()])
    meant = "money" if sign else "soft" if word == "%" else "wall" if word in _UNITS else _COUNTED.get(word, "")
    meant = meant or ("money" if word else name or "money")
    if name not in {"", meant}:
        return ""
    match meant:
        case "money":
            currency = sign or word.upper() or "USD"
            return f"write '{plus}{number} {currency}'" + ("" if sign or word or name else f" or tokens={plus}{number}")
        case "soft":
            return f"write soft={number}%"
        case "wall":
            return f"write wall={plus}{number}{_UNITS[word]}" if word else ""
        case _:
            return f"write {meant}={plus}{number}" if number.isdecimal() else ""


def _refuse_nothing(amount: object, name: str, text: str) -> None:
    """A limit of nothing is written as no limit: nobody shall come to that by a slip."""
    if not amount:
        raise _refused(text, f"a limit of 0 would stop it at once; `{name}=none` takes the limit away")


def _refused(text: str, why: str) -> CostInvalid:
    return CostInvalid(f"budget {text!r} cannot be read: {why}; a budget is written so: {_FORMS}")
