"""The value codec: each value of user code (state, messages, arguments, results) as strict JSON, losslessly.

Domain: None, bool, int of any size, float, str (lone surrogates too), bytes, list, tuple, dict, set,
frozenset, datetime, date, time, timedelta, Decimal, UUID, Secret; keys and members of any hashable one of
these, except NaN, which equals nothing and could never be found again. EXACT types only: a subclass would come
back as something else, so it is refused (Unstorable, with path and type). Refused as well: more than
NESTING_MAX levels (so also what holds itself), a str, bytes or int over LEAF_BYTES_MAX, a time zone that is
neither a fixed offset nor a ZoneInfo with a key.

Wire: plain JSON where JSON is lossless; all else is an object whose only key is `~`: `{"~": [tag, …]}`. No
version of perdure changes what a tag means; new ones may come, and an old version refuses them (UnknownTag).

Not entries and their digests (`codec/entries.py`); not references or blobs: callers make those through `leaf`
and `special`, and read them through `resolve`. Called by the engine, the fold and the views of the state.
Not kept: the payload of a NaN, the order of a set, `UUID.is_safe`, that two places held the *same* object.
Not thread-safe against whoever changes the value meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence, Sized
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from hashlib import sha256
from operator import itemgetter
from types import NoneType
from typing import Any, Final, TypeAlias, cast
from uuid import UUID

import msgspec

from perdure.codec import scalars
from perdure.codec.known import Secret
from perdure.codec.scalars import (
    INT_PLAIN,
    MARK,
    SHORT,
    Leaf,
    Path,
    Special,
    Value,
    Walk,
    Wire,
    write_foreign,
)
from perdure.errors import CodecError, UnknownTag, Unstorable
from perdure.limits import LEAF_BYTES_MAX, NESTING_MAX

__all__ = [
    "LEAF_MIN", "Leaf", "Path", "Resolve", "Special", "Value", "Wire",
    "canonical", "check_key", "copy", "decode", "digest", "encode", "from_wire", "load", "same", "to_wire",
]  # fmt: skip

Resolve: TypeAlias = Callable[[str, list[Any]], Value]  # a tag the codec does not know, its wires -> the value

LEAF_MIN: Final = 64  # characters or bytes from which on `leaf` is asked

_to_json: Final = msgspec.json.Encoder().encode
_from_json: Final[Callable[[bytes], Any]] = msgspec.json.Decoder(Any).decode
_PLAIN: Final = Walk()
_CANONICAL: Final = Walk(is_sorted=True)
_KEY: Final = Walk(is_key=True, is_sorted=True)
_PLAIN_WIRE: Final = frozenset((NoneType, bool, float, str))
_PLAIN_EQUAL: Final = frozenset((NoneType, bool, int, str, bytes))  # for these `==` says what canonical bytes say
_SIZED: Final = frozenset((list, tuple, dict, set, frozenset))
_GROUPS: Final = frozenset(("tuple", "map", "set", "frozenset"))


def to_wire(
    value: Value,
    leaf: Leaf | None = None,
    *,
    leaf_min: int = LEAF_MIN,
    special: Special | None = None,
    path: Path = (),
) -> Wire:
    """Return `value` as wire, sharing no container with it.

    `leaf` is asked about each str and bytes of at least `leaf_min` (not about keys and members of sets),
    `special` about each object outside the domain before it is refused; what they return is written as it is.
    `path` is where the value stands: errors name it, and it counts as nesting. Raises Unstorable.
    """
    small = LEAF_BYTES_MAX + 1 if leaf is None else leaf_min
    return _start(value, path, Walk(leaf=leaf, leaf_min=leaf_min, special=special, small=small))


def from_wire(wire: Wire, resolve: Resolve | None = None) -> Value:
    """Return the value that `to_wire` wrote, sharing no container with `wire`.

    `resolve` is asked about tags that the codec does not know; without it they raise UnknownTag.
    Raises CodecError for any shape that `to_wire` does not write.
    """
    try:
        return _read(wire, resolve)
    except RecursionError as error:
        raise CodecError("a stored value is nested deeper than the call stack allows") from error


def encode(
    value: Value, leaf: Leaf | None = None, *, leaf_min: int = LEAF_MIN, special: Special | None = None
) -> bytes:
    """Return `to_wire(value, …)` as strict JSON in UTF-8, without a line feed. Raises Unstorable."""
    if leaf is None and special is None:
        return _to_json(_start(value, (), _PLAIN))
    return _to_json(to_wire(value, leaf, leaf_min=leaf_min, special=special))


def decode(raw: bytes | msgspec.Raw, resolve: Resolve | None = None) -> Value:
    """Return the value that `encode` wrote. Raises CodecError."""
    return from_wire(load(raw), resolve)


def load(raw: bytes | msgspec.Raw) -> Wire:
    """Return the JSON in `raw`. Raises CodecError, also for an object that has a key twice."""
    stored = bytes(raw)
    try:
        wire = _from_json(stored)
        is_as_written = _to_json(wire) == stored
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise CodecError(f"a stored value is not JSON: {error}") from error
    if not is_as_written:  # as with white space, written by others: allowed
        _refuse_equal_keys(stored)
    return wire


def canonical(value: Value) -> bytes:
    """Return the bytes that stand for `value`, whatever the order of its dicts and sets. Raises Unstorable.

    Equal bytes = equal values of equal types. 1, True and 1.0 differ; so do 0.0 and -0.0, Decimal("1.0") and
    Decimal("1.00"), and one instant in two zones.
    """
    return _to_json(_start(value, (), _CANONICAL))


def digest(value: Value) -> bytes:
    """Return the SHA-256 of `canonical(value)`. Raises Unstorable."""
    return sha256(canonical(value)).digest()


def same(left: object, right: object) -> bool:
    """Tell whether two values of the domain have equal canonical bytes; cheaply where they have not."""
    kind = type(left)
    if kind is not type(right):
        return False
    if kind in _PLAIN_EQUAL:
        return left == right
    if kind in _SIZED and len(cast("Sized", left)) != len(cast("Sized", right)):
        return False
    return canonical(left) == canonical(right)


def copy(value: object, path: Path = (), special: Special | None = None, *, nesting_max: int = NESTING_MAX) -> Value:
    """Return a deep copy of `value` that shares no mutable container with it; `path` is where it will stand.

    `special` is asked about objects outside the domain and returns what stands for them: a value of the
    domain that nobody else holds. Raises Unstorable for what is outside the domain.
    """
    is_plain = special is None and nesting_max == NESTING_MAX
    walk = _PLAIN if is_plain else Walk(special=special, nesting_max=nesting_max)
    try:
        return _COPIERS.get(type(value), write_foreign)(value, path, walk)
    except RuntimeError as error:
        raise Unstorable(path, scalars.type_name(value), str(error)) from error


def check_key(key: Value, path: Path = ()) -> None:
    """Raise Unstorable unless `key` can be a key or member of the container at `path`."""
    if type(key) is not str or len(key) > SHORT:
        _write_key(key, path)


# Writing. `path` grows by one with each level, so that its length is the depth. The writers of containers call
# each other through the table: one frame of the call stack per level, two for what JSON cannot hold.


def _start(value: object, path: Path, walk: Walk) -> Wire:
    try:
        return _WRITERS.get(type(value), write_foreign)(value, path, walk)
    except RuntimeError as error:  # a dict changed meanwhile by another thread, or no room left on the call stack
        raise Unstorable(path, scalars.type_name(value), str(error)) from error


def _check_depth(value: object, path: Path, walk: Walk) -> None:
    if len(path) >= walk.nesting_max:
        reason = f"nested deeper than {walk.nesting_max} levels, or holding itself"
        raise Unstorable(path, scalars.type_name(value), reason)


def _write_list(value: Iterable[object], path: Path, walk: Walk) -> list[Wire]:
    _check_depth(value, path, walk)
    small = walk.small
    wires: list[Wire] = []
    for index, item in enumerate(value):
        if type(item) is str and len(item) < small and item.isascii():
            wires.append(item)
        else:
            wires.append(_WRITERS.get(type(item), write_foreign)(item, (*path, index), walk))
    return wires


def _write_tuple(value: tuple[object, ...], path: Path, walk: Walk) -> Wire:
    return {MARK: ["tuple", *_write_list(value, path, walk)]}


def _write_dict(value: dict[object, object], path: Path, walk: Walk) -> Wire:
    _check_depth(value, path, walk)
    small = walk.small
    wires: dict[str, Wire] = {}
    for key, item in _sorted_items(value) if walk.is_sorted else value.items():
        if type(key) is not str or len(key) > SHORT or not (key.isascii() or scalars.is_utf8(key)):
            return _write_map(value, path, walk, wires)
        if type(item) is str and len(item) < small and item.isascii():
            wires[key] = item
        else:
            wires[key] = _WRITERS.get(type(item), write_foreign)(item, (*path, key), walk)
    if len(wires) == 1 and MARK in wires:
        return _write_map(value, path, walk, wires)
    return wires


def _write_map(value: dict[object, object], path: Path, walk: Walk, done: dict[str, Wire]) -> Wire:
    """Write a dict that is no JSON object; `done` is what was written before that was seen."""
    # To write `done` again would double the work at each level: 2**depth in all.
    pairs: list[tuple[Wire, Wire]] = []
    for key, item in value.items():
        key_wire = _write_key(key, path)
        if type(key) is str and key in done:
            pairs.append((key_wire, done[key]))
        else:
            pairs.append((key_wire, _WRITERS.get(type(item), write_foreign)(item, (*path, key), walk)))
    if walk.is_sorted:
        pairs.sort(key=_key_as_json)
    return {MARK: ["map", *(wire for pair in pairs for wire in pair)]}


def _write_set(value: set[object] | frozenset[object], path: Path, walk: Walk) -> Wire:
    _check_depth(value, path, walk)
    members = sorted((_write_key(member, path) for member in value), key=_to_json)
    return {MARK: [type(value).__name__, *members]}


def _write_key(key: object, path: Path) -> Wire:
    """Write a key or member. Errors name it by its type unless it is simple: it may not be storable."""
    step = key if type(key) in _PLAIN_EQUAL else f"<{type(key).__name__}>"
    return _WRITERS.get(type(key), write_foreign)(key, (*path, step), _KEY)


def _sorted_items(value: dict[Any, object]) -> Iterable[tuple[object, object]]:
    try:
        return sorted(value.items(), key=itemgetter(0))
    except TypeError:  # keys of several types, which `_write_map` sorts
        return value.items()


def _key_as_json(pair: tuple[Wire, Wire]) -> bytes:
    return _to_json(pair[0])


# Reading. What is not exactly as the writers make it is refused.


def _read(wire: object, resolve: Resolve | None) -> Value:
    kind = type(wire)
    if kind is list:
        items: list[Value] = []
        for item in cast("list[object]", wire):
            items.append(item if type(item) is str else _read(item, resolve))  # noqa: PERF401 - one frame less
        return items
    if kind is dict:
        fields = cast("dict[str, object]", wire)
        if len(fields) == 1 and MARK in fields:
            return _read_tagged(fields[MARK], resolve)
        entries: dict[str, Value] = {}
        for key, item in fields.items():
            entries[key] = item if type(item) is str else _read(item, resolve)
        return entries
    if kind in _PLAIN_WIRE or (kind is int and -INT_PLAIN <= cast("int", wire) <= INT_PLAIN):
        return wire
    raise CodecError(f"a stored value holds a {scalars.type_name(wire)} that should be tagged")


def _read_tagged(body: object, resolve: Resolve | None) -> Value:
    kind = type(body)
    tag, *parts = cast("list[Any]", body) if kind is list and body else [None]
    if type(tag) is not str:
        raise CodecError("a stored tag is not a list that begins with its name")
    read = scalars.READERS.get(tag)
    if read is not None:
        try:
            return read(*parts)
        except scalars.MALFORMED as error:
            raise CodecError(f"a stored {tag!r} has the wrong shape: {error}") from error
    if tag not in _GROUPS:
        if resolve is None:
            raise UnknownTag(tag)
        return resolve(tag, parts)
    for index, part in enumerate(parts):
        parts[index] = _read(part, resolve)
    return tuple(parts) if tag == "tuple" else _gather(tag, parts)


def _gather(tag: str, parts: Sequence[Value]) -> Value:
    group: dict[Any, Any] | set[Any] | frozenset[Any]
    try:
        if tag == "map":
            group = dict(zip(parts[::2], parts[1::2], strict=True))
        else:
            group = set(parts) if tag == "set" else frozenset(parts)
    except (TypeError, ValueError) as error:
        raise CodecError(f"a stored {tag!r} has the wrong shape: {error}") from error
    if len(group) != (len(parts) // 2 if tag == "map" else len(parts)):
        raise CodecError(f"a stored {tag!r} has equal keys or members")
    return group


def _refuse_equal_keys(raw: bytes) -> None:
    try:
        json.loads(raw, object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as error:
        raise CodecError(f"a stored value is not JSON: {error}") from error


def _distinct(pairs: list[tuple[str, Wire]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise CodecError("a stored object has two equal keys")


# Copying.


def _copy_same(value: Value, _path: Path, _walk: Walk) -> Value:
    return value


def _copy_checked(value: Value, path: Path, walk: Walk) -> Value:
    """Return a rare immutable value, having written it to see that it can be."""
    _WRITERS[type(value)](value, path, walk)
    return value


def _copy_list(value: Iterable[object], path: Path, walk: Walk) -> list[Value]:
    _check_depth(value, path, walk)
    items: list[Value] = []
    for index, item in enumerate(value):
        if type(item) is str and len(item) <= SHORT:
            items.append(item)
        else:
            items.append(_COPIERS.get(type(item), write_foreign)(item, (*path, index), walk))
    return items


def _copy_tuple(value: tuple[object, ...], path: Path, walk: Walk) -> Value:
    return tuple(_copy_list(value, path, walk))


def _copy_dict(value: dict[object, object], path: Path, walk: Walk) -> dict[Value, Value]:
    _check_depth(value, path, walk)
    entries: dict[Value, Value] = {}
    for key, item in value.items():
        check_key(key, path)
        if type(item) is str and len(item) <= SHORT:
            entries[key] = item
        else:
            entries[key] = _COPIERS.get(type(item), write_foreign)(item, (*path, key), walk)
    return entries


def _copy_set(value: set[object] | frozenset[object], path: Path, walk: Walk) -> Value:
    _check_depth(value, path, walk)
    for member in value:
        check_key(member, path)
    return value.copy()  # a frozenset gives itself, and holds nothing that could change


_WRITERS: Final[dict[type, scalars.Writer]] = {
    **scalars.WRITERS,
    list: _write_list,
    tuple: _write_tuple,
    dict: _write_dict,
    set: _write_set,
    frozenset: _write_set,
}

_COPIERS: Final[dict[type, scalars.Writer]] = {
    **dict.fromkeys((NoneType, bool, float, date, timedelta, Decimal, UUID), _copy_same),
    **dict.fromkeys((int, datetime, time, Secret), _copy_checked),
    str: scalars.check_str,
    bytes: scalars.check_bytes,
    list: _copy_list,
    tuple: _copy_tuple,
    dict: _copy_dict,
    set: _copy_set,
    frozenset: _copy_set,
}
