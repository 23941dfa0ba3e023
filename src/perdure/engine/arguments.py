"""A call's arguments as they are recorded, digested, and handed to the tool.

A view of the state is written as its path and seq, never copied into the journal; a list that holds views in a row (a
history with one new message) as runs. So a loop that passes its whole history each turn writes the same bytes each
turn. The tool gets a plain copy. Known secrets are recorded and digested as their masks; the tool gets them whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, Final, cast

import msgspec

from perdure.codec import leaves, values
from perdure.codec.known import process
from perdure.codec.leaves import LeafWriter
from perdure.codec.redact import redact
from perdure.core import container, relative
from perdure.core.touched import Touched
from perdure.core.tracking import ListView, MapView, SetView
from perdure.limits import BLOB_FROM_BYTES

View = MapView | ListView | SetView
VIEWS: Final = (MapView, ListView, SetView)
_LEAVES: Final = frozenset((str, int, bool, NoneType))


def has_views(given: Mapping[str, object]) -> bool:
    """Whether a view of the state stands among the arguments, or directly in a list of theirs."""
    for value in given.values():
        if isinstance(value, VIEWS):
            return True
        if type(value) is list and any(isinstance(item, VIEWS) for item in cast("list[Any]", value)):  # type: ignore[redundant-cast]  # pyright needs it
            return True
    return False


class Recorded(msgspec.Struct, frozen=True):
    """Arguments in their three forms."""

    raw: bytes
    digest: bytes
    plain: dict[str, object]
    blobs: dict[bytes, bytes]


def record(arguments: dict[str, object], touched: Touched, seq: int, *, keyed: bool, base: str = "") -> Recorded:
    """Return `arguments` (by parameter name) as recorded for a call.

    `seq` is the journal's head: a view is the state as of it. In the digest a view counts by path and the seq of the
    last patch at or under it; for a `keyed` call by its path alone, since a resumed program makes the same call when
    its state has grown. `base` is `Ledger.digest_base`. Raises Unstorable naming the argument.
    """
    if _LEAVES.issuperset(map(type, arguments.values())):
        return _record_leaves(arguments, base)
    learned = process.learned
    recorded = _record(arguments, touched, seq, keyed=keyed, base=base)
    if process.learned != learned:  # one of them said that it is secret: its text may stand in others
        return _record(arguments, touched, seq, keyed=keyed, base=base)
    return recorded


def _record(arguments: dict[str, object], touched: Touched, seq: int, *, keyed: bool, base: str) -> Recorded:
    clear = cast("dict[str, object]", redact(arguments))
    shaping = _Shaping(seq)
    shaped = {
        name: shaping.list_of(cast("list[object]", value)) if type(value) is list else value
        for name, value in clear.items()
    }
    raw = leaves.encode(shaped, shaping.writer, special=shaping)
    if not shaping.has_views:
        return Recorded(raw, digest(clear, base), arguments, shaping.writer.blobs)

    def mark(view: View) -> object:
        path = container.View.path_of(view)
        return "view of the state", path, 0 if keyed else touched.last(path)

    plain = _replace(arguments, container.View.plain_of)
    return Recorded(raw, digest(clear, base, mark), plain, shaping.writer.blobs)


def digest(value: object, base: str, mark: Callable[[View], object] | None = None) -> bytes:
    """Return the digest by which a call's arguments, or an item of a loop, are told from others.

    Texts of workspace `base` count by their place in it, "" leaves them as they are; a view counts as `mark` says.
    A secret counts by its name: the digest tells nothing of its text, and a changed one makes no other call.
    """
    value = redact(value)
    marked = value if mark is None else _replace(value, mark)
    return _digest_of(values.canonical(marked), value, base, mark)


def _record_leaves(arguments: dict[str, object], base: str) -> Recorded:
    """Record arguments without containers: where they are small and in order, their canonical bytes serve twice."""
    writer = LeafWriter()
    clear = cast("dict[str, object]", redact(arguments))
    canonical = values.canonical(clear)
    is_as_recorded = len(canonical) <= BLOB_FROM_BYTES and list(clear) == sorted(clear)
    raw = canonical if is_as_recorded else leaves.encode(clear, writer)
    return Recorded(raw, _digest_of(canonical, clear, base), arguments, writer.blobs)


class _Run(msgspec.Struct, frozen=True):
    """Consecutive elements `first` to `end` (not included) of the list at `path`."""

    path: tuple[object, ...]
    first: int
    end: int


class _Segments(msgspec.Struct, frozen=True):
    """A list of arguments, its views gathered into runs."""

    parts: list[object]


class _Shaping:
    """Writes what the codec does not know: views, and lists with views in a row."""

    def __init__(self, seq: int) -> None:
        self.writer = LeafWriter()
        self.has_views = False
        self._seq = seq

    def list_of(self, items: list[object]) -> object:
        """Return `items`, or their segments where elements of a list of the state stand among them."""
        if not any(isinstance(item, VIEWS) for item in items):
            return items
        parts: list[object] = []
        for item in items:
            path = container.View.path_of(item) if isinstance(item, VIEWS) else ()
            if not path or type(path[-1]) is not int:
                parts.append(item)
            elif parts and isinstance(last := parts[-1], _Run) and (last.path, last.end) == (path[:-1], path[-1]):
                parts[-1] = _Run(last.path, last.first, last.end + 1)
            else:
                parts.append(_Run(path[:-1], path[-1], path[-1] + 1))
        return _Segments(parts)

    def __call__(self, value: object, _path: tuple[object, ...]) -> object:
        """Return the wire form of a view, run or list of segments, NotImplemented for anything else."""
        if isinstance(value, VIEWS):
            self.has_views = True
            return {"~": ["state", values.to_wire(list(container.View.path_of(value))), self._seq]}
        if isinstance(value, _Run):
            self.has_views = True
            return {"~": ["run", values.to_wire(list(value.path)), value.first, value.end, self._seq]}
        if isinstance(value, _Segments):
            return {"~": ["list", *(values.to_wire(part, leaf=self.writer, special=self) for part in value.parts)]}
        return NotImplemented


def _digest_of(canonical: bytes, value: object, base: str, mark: Callable[[View], object] | None = None) -> bytes:
    """Return the digest of `value`, whose canonical bytes without regard to `base` are known."""
    if base and relative.is_concerned(canonical, base):
        placed = relative.placed(value, base)  # before its views are marked: their paths are none of the disk
        canonical = values.canonical(placed if mark is None else _replace(placed, mark))
    return hashlib.sha256(canonical).digest()


def _replace(value: Any, change: Callable[[View], object]) -> Any:  # noqa: ANN401 - any value of the domain
    """Return `value` with each view replaced by what `change` makes of it."""
    if isinstance(value, VIEWS):
        return change(value)
    if type(value) is list:
        return [_replace(item, change) for item in cast("list[Any]", value)]  # type: ignore[redundant-cast]  # pyright needs it
    if type(value) is tuple:
        return tuple(_replace(item, change) for item in cast("tuple[Any, ...]", value))  # type: ignore[redundant-cast]  # as above
    if type(value) is dict:
        return {key: _replace(item, change) for key, item in cast("dict[Any, Any]", value).items()}  # type: ignore[redundant-cast]  # as above
    return value
