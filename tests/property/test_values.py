"""The value codec, for any value of its domain."""

import enum
import json
from collections import Counter, OrderedDict, defaultdict, deque
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.codec import values
from perdure.errors import CodecError, Unstorable
from tests.property.drawing import KEYS, LEAVES, TEXT, VALUES, containers, face


class Colour(enum.IntEnum):
    """An int and more."""

    RED = 1


FOREIGN = [
    object(), Colour.RED, Counter("a"), OrderedDict(a=1), defaultdict(list), deque([1], maxlen=3), bytearray(b"a"),
    memoryview(b"a"), Path("a"), len, type("Text", (str,), {})("a"), 1j, range(3),
]  # fmt: skip


@given(VALUES)
def test_round_trip_is_lossless(value: Any) -> None:
    """What is encoded comes back with equal values, types and order of dicts, from strict JSON without a line feed."""
    raw = values.encode(value)

    assert face(value) == face(values.decode(raw))
    assert b"\n" not in raw
    json.loads(raw, parse_constant=pytest.fail)


@given(VALUES)
def test_writing_is_stable(value: Any) -> None:
    """A decoded value is encoded to the very same bytes."""
    raw = values.encode(value)
    assert raw == values.encode(values.decode(raw))


def _turned(value: Any) -> Any:
    """The same value with all its dicts and sets built in another order."""
    kind = type(value)
    if kind is dict:
        return {key: _turned(item) for key, item in reversed(value.items())}
    if kind in (list, tuple):
        return kind(_turned(item) for item in value)
    return kind(reversed(list(value))) if kind in (set, frozenset) else value


@given(VALUES)
def test_canonical_ignores_order(value: Any) -> None:
    """Canonical bytes do not depend on the order in which dicts and sets were filled."""
    assert values.canonical(value) == values.canonical(_turned(value))
    assert values.digest(value) == values.digest(_turned(value))
    assert values.same(value, _turned(value))


@given(LEAVES | VALUES, LEAVES | VALUES)
def test_canonical_tells_apart(left: Any, right: Any) -> None:
    """Canonical bytes are equal exactly when value and types are, and `same` says the same."""
    expected = _sorted_face(left) == _sorted_face(right)
    assert expected == (values.canonical(left) == values.canonical(right))
    assert expected == values.same(left, right)


def _sorted_face(value: Any) -> Any:
    kind, *rest = face(value)
    if kind is dict:
        return kind, sorted(((face(key), _sorted_face(item)) for key, item in value.items()), key=repr)
    return (kind, [_sorted_face(item) for item in value]) if kind in (list, tuple) else (kind, *rest)


def _mutable_ids(value: Any) -> set[int]:
    kind = type(value)
    inner = list(value.values()) if kind is dict else list(value) if kind in (list, tuple) else []
    own = {id(value)} if kind in (dict, list, set) else set()
    return own.union(*map(_mutable_ids, inner))


@given(VALUES)
def test_copy_is_independent(value: Any) -> None:
    """A copy, a wire and what is read from it are equal to the value and share no mutable container with it."""
    copied = values.copy(value)
    wire = values.to_wire(value)
    read = values.from_wire(wire)

    assert face(value) == face(copied) == face(read)
    assert set() == _mutable_ids(value) & _mutable_ids(copied)
    assert set() == _mutable_ids(value) & _mutable_ids(wire)
    assert set() == _mutable_ids(wire) & _mutable_ids(read)


@given(
    st.lists(st.tuples(st.sampled_from([list, tuple, dict]), KEYS, st.lists(LEAVES, max_size=2)), max_size=30),
    st.sampled_from(FOREIGN),
)
def test_refusal_names_the_path(levels: list[tuple[type, Any, list[Any]]], foreign: Any) -> None:
    """Something foreign at any depth is refused by every function, with its path and its type."""
    value, path = foreign, []
    for kind, key, before in levels:
        if kind is dict:
            value = {**{("before", index): item for index, item in enumerate(before)}, key: value}
        else:
            value = kind([*before, value])
        path.append(key if kind is dict else len(before))

    for refuse in (values.encode, values.to_wire, values.canonical, values.digest, values.copy):
        with pytest.raises(Unstorable) as caught:
            refuse(value)
        assert tuple(reversed(path)) == caught.value.path
        assert type(foreign).__qualname__ == caught.value.type_name.rpartition(".")[2]


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.just("~"), containers))
def test_foreign_json_is_read_or_refused(value: Any) -> None:
    """Any JSON at all is read to a value that can be written again, or refused as CodecError."""
    try:
        raw = json.dumps(value, default=repr).encode("utf-8")
    except TypeError:
        raw = json.dumps({"~": [repr(value), 1]}).encode("utf-8")
    try:
        read = values.decode(raw)
    except CodecError:
        return
    assert face(read) == face(values.decode(values.encode(read)))


@given(st.sampled_from(["int", "float", "text", "bytes", "tuple", "map", "set", "frozenset", "datetime", "time",
                        "date", "timedelta", "decimal", "uuid", "secret"]),
       st.lists(st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
                | st.sampled_from(["", "x", "AA==", "2024-01-01", "12:00:00", "Europe/Berlin", "../etc", "nan"])
                | st.lists(st.integers(), max_size=2) | st.dictionaries(st.just("~"), st.just(["set", 1, 1])),
                max_size=4))  # fmt: skip
def test_malformed_tags_are_refused(tag: str, parts: list[Any]) -> None:
    """A known tag with any parts is read to a value that is written in the very same way, or refused as CodecError."""
    try:
        read = values.from_wire({"~": [tag, *parts]})
    except CodecError:
        return
    assert face(read) == face(values.decode(values.encode(read)))
    if tag not in ("set", "frozenset", "map", "tuple"):
        assert {"~": [tag, *parts]} == values.to_wire(read)
