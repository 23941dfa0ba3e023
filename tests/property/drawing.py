"""Hypothesis strategies for values of the codec's domain, and an equality that knows nothing of the codec."""

import math
from datetime import datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from perdure.codec.known import Secret

ZONES = [ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York"), ZoneInfo("UTC"), ZoneInfo("Asia/Kathmandu")]
TEXT = st.text(st.characters(exclude_categories=[]), max_size=8)  # lone surrogates, NUL, line separators
FLOATS = st.floats() | st.sampled_from([-0.0, 5e-324, 1.7976931348623157e308, 1e16, 0.1 + 0.2])
INTS = st.integers() | st.sampled_from([2**53, 2**53 + 1, -(2**53) - 1, 2**63, 2**64, -(2**256), 10**25])

_OFFSETS = st.builds(
    timezone,
    st.timedeltas(timedelta(hours=-23), timedelta(hours=23)),
)
_NAMED_OFFSETS = st.builds(timezone, st.just(timedelta(hours=1)), st.sampled_from(["CET", "\ud800", ""]))
_TZINFO = st.none() | _OFFSETS | _NAMED_OFFSETS | st.sampled_from(ZONES)
_FOLD = st.sampled_from([0, 1])
_DATETIMES = st.builds(
    lambda moment, zone, fold: moment.replace(tzinfo=zone, fold=fold), st.datetimes(), _TZINFO, _FOLD
)
_TIMES = st.builds(lambda moment, zone, fold: moment.replace(tzinfo=zone, fold=fold), st.times(), _TZINFO, _FOLD)
_DECIMALS = st.decimals() | st.sampled_from([Decimal("1.10"), Decimal("-0"), Decimal("1E+5"), Decimal("sNaN7")])
_PLAIN = st.none() | st.booleans() | INTS | TEXT

LEAVES = (
    _PLAIN
    | FLOATS
    | st.binary(max_size=8)
    | _DATETIMES
    | _TIMES
    | st.dates()
    | st.timedeltas()
    | _DECIMALS
    | st.uuids()
    | st.builds(Secret.recorded, TEXT)
)
_KEY_LEAVES = LEAVES.filter(lambda leaf: not is_nan(leaf))
KEYS = TEXT | st.recursive(
    _KEY_LEAVES,
    lambda inner: st.tuples(inner) | st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=3,
)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Every kind of container around `inner`."""
    return (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(TEXT | st.just("~"), inner, max_size=4)
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.sets(KEYS, max_size=3)
        | st.frozensets(KEYS, max_size=3)
    )


VALUES = st.recursive(LEAVES, containers, max_leaves=12)


def is_nan(leaf: object) -> bool:
    """True of NaN as float or Decimal."""
    return (isinstance(leaf, float) and math.isnan(leaf)) or (isinstance(leaf, Decimal) and leaf.is_nan())


def face(value: Any) -> Any:
    """What tells `value` from all others: types, digits, zones, and the order of dicts; not that of sets."""
    kind = type(value)
    if kind in (list, tuple):
        return kind, [face(item) for item in value]
    if kind is dict:
        return kind, [(face(key), face(item)) for key, item in value.items()]
    if kind in (set, frozenset):
        return kind, sorted((face(item) for item in value), key=repr)
    if kind in (datetime, time):
        return kind, value.replace(tzinfo=None).isoformat(), value.fold, repr(value.tzinfo)
    if kind is int:
        return kind, hex(value)
    return kind, repr(value)
