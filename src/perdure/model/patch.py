"""A patch: what an edit did to the state, as operations. Plain facts, and their shape as a value for the journal.

Not how they are recorded or applied: that is `core/tracking.py`. Called by it, by the engine and the fold.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal, TypeAlias, cast, get_args

import msgspec

from perdure.errors import CodecError

Kind: TypeAlias = Literal["put", "remove", "splice", "reorder", "add", "discard", "clear"]

_WITHOUT_VALUE: Final = frozenset(("remove", "clear"))
_PARTS: Final = dict.fromkeys(get_args(Kind), 1) | {"splice": 3, "remove": 0, "clear": 0}


class Op(msgspec.Struct, frozen=True, kw_only=True):
    """One change of the state at `path`: dict keys and list indexes from the root on.

    kind      path leads to     value
    put       a key, an index   what stands there from now on; the key may be new, the index not
    remove    a key             None
    splice    a list            (start, count, items): `items` in place of `count` elements from `start` on
    reorder   a list            the old indexes of what stays, in the new order, each at most once
    add       a set             frozenset of members
    discard   a set             frozenset of members
    clear     a dict or set     None
    """

    kind: Kind
    path: tuple[Any, ...]
    value: Any = None


def ops_to_value(ops: Iterable[Op]) -> list[Any]:
    """Return `ops` as lists for the value codec: `[kind, path, value]`; it shares the values with them."""
    return [_to_list(op) for op in ops]


def ops_from_value(value: object) -> tuple[Op, ...]:
    """Return the operations that `ops_to_value` was given; raises CodecError for any other shape."""
    return tuple(_from_list(_be_list(item)) for item in _be_list(value))


def _to_list(op: Op) -> list[Any]:
    parts = op.value if op.kind == "splice" else () if op.kind in _WITHOUT_VALUE else (op.value,)
    return [op.kind, list(op.path), *parts]


def _from_list(fields: list[Any]) -> Op:
    kind, path, *parts = fields if len(fields) > 1 else (None, None)
    if type(kind) is not str or kind not in _PARTS or len(parts) != _PARTS[kind]:
        raise CodecError(f"an operation of a patch has the wrong shape: {fields!r:.200}")
    if kind == "splice":
        if [int, int, list] != [type(part) for part in parts]:
            raise CodecError(f"a splice of a patch has the wrong shape: {fields!r:.200}")
        value: Any = tuple(parts)
    else:
        value = parts[0] if parts else None
    return Op(kind=cast("Kind", kind), path=tuple(_be_list(path)), value=value)


def _be_list(value: object) -> list[Any]:
    kind = type(value)
    if kind is not list:
        raise CodecError(f"a {kind.__name__} stands in a patch where a list should")
    return cast("list[Any]", value)
