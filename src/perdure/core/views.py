"""Views of the state: dict, list and set as the user knows them, whose writes are recorded.

A view shows one container of the live tree. Reading copies nothing: a container is shown as a view, a leaf as it
is; a tuple is a leaf as a whole (a deep copy where it holds something mutable). What is written is checked and
copied by the codec first, less known secrets, so nothing outside the tree is ever part of it; what is taken out
(`pop`, `copy`, `plain`, `|`, `+`) is a plain copy. Keys are looked up without the secrets in them. A view finds its
path by identity; one whose container has left the tree raises StaleView when written to, and still shows what it had.
Writes to a view that only reads raise ReadOnlyState.

Costs: a change O(depth) and the size of what is inserted or taken out; removing a key in the middle of a dict,
a set's `discard` of a number, date or tuple, `sort` and slices O(container). A slice assignment records only what
differs from its first to its last difference. Writing an equal value (also of equal type) records nothing.
Not thread-safe. Sets are shown in their own order, which differs from process to process.
Not the record of an edit: `core/tracking.py`, which makes the views of a root.
"""
# ruff: noqa: ANN401 - what stands in the state, and what is put there, may be of any type of the codec's domain
# ruff: noqa: SLF001 - a view looks into its children; for users these parts are private

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, MutableSequence, MutableSet
from datetime import date, timedelta
from functools import partial
from itertools import chain
from operator import index as to_index
from types import NoneType
from typing import Any, Final, Self, SupportsIndex, cast
from uuid import UUID

from perdure.codec.redact import redact
from perdure.codec.values import check_key, same
from perdure.core.container import SHOWN, View, clone
from perdure.errors import StaleView

_ABSENT: Final = object()
_ONE_FORM: Final = frozenset((str, bytes, NoneType, UUID, date, timedelta))  # equal ones cannot be told apart
_DIRECT: Final = _ONE_FORM | {int, bool, float}  # keys that are storable for certain, by their type


class MapView(View, MutableMapping[Any, Any]):
    """A dict of the state."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        try:
            item = self._node[key]
        except KeyError:
            item = self._node[redact(key)]
        return self._show(key, item)

    def get(self, key: Any, default: Any = None) -> Any:
        """Return what stands under `key`, or `default`."""
        item = self._node.get(self._stored(key), _ABSENT)
        return default if item is _ABSENT else self._show(key, item)

    def __iter__(self) -> Iterator[Any]:
        return cast("Iterator[Any]", iter(self._node))

    def __reversed__(self) -> Iterator[Any]:
        keys: Iterator[Any] = reversed(self._node)
        return keys

    def __setitem__(self, key: Any, value: Any) -> None:
        keep, path = self._writing()
        node = self._node
        old = node.get(key, _ABSENT)
        if self._shows(value, old):  # what `state["list"] += […]` ends with
            return
        key = redact(key)
        check_key(key, path)
        place = (*path, key)
        item = self._copy_in(value, place)
        if old is _ABSENT:
            undo: Callable[[], object] = partial(node.__delitem__, key)
        elif same(old, item):
            return
        else:
            undo = partial(node.__setitem__, key, old)
        node[key] = item
        keep("put", place, item, undo)

    def __delitem__(self, key: Any) -> None:
        keep, path = self._writing()
        node = self._node
        key = self._stored(key)
        if key not in node:
            raise KeyError(key)
        stored, following = _find_key(node, key)
        undo = partial(_put_back, node, stored, node[stored], following)
        del node[stored]
        keep("remove", (*path, stored), None, undo)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """Return what stands under `key`, after putting `default` there if nothing does."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: Any, *default: Any) -> Any:
        """Remove `key` and return a plain copy of what stood there."""
        key = self._stored(key)
        if default and key not in self._node:
            return default[0]
        item = clone(self._node[key])
        del self[key]
        return item

    def popitem(self) -> tuple[Any, Any]:
        """Remove the last entry and return it as (key, plain copy)."""
        if not self._node:
            raise KeyError("popitem(): dictionary is empty")
        key = next(reversed(self._node))
        return key, self.pop(key)

    def clear(self) -> None:
        """Remove all entries."""
        keep, path = self._writing()
        if self._node:
            undo = partial(self._node.update, dict(self._node))
            self._node.clear()
            keep("clear", path, None, undo)

    def __or__(self, other: Mapping[Any, Any]) -> dict[Any, Any]:
        return cast("dict[Any, Any]", self.plain()) | dict(other)

    def __ror__(self, other: Mapping[Any, Any]) -> dict[Any, Any]:
        return dict(other) | cast("dict[Any, Any]", self.plain())

    def __ior__(self, other: Any) -> Self:  # type: ignore[misc]  # the result of `|` is plain, that of `|=` the view
        self.update(other)
        return self

    def _stored(self, key: Any) -> Any:
        """Return by what `key` is kept: without the secret that it may hold."""
        return key if key in self._node else redact(key)

    def _find(self, child: View) -> object:
        if type(child._hint) in _DIRECT and self._node.get(child._hint) is child._node:
            return child._hint
        for key, item in self._node.items():
            if item is child._node:
                child._hint = key
                return key
        raise StaleView(child._last_path())


class ListView(View, MutableSequence[Any]):
    """A list of the state."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._show(place, self._node[place]) for place in range(len(self))[index]]
        place = self._to_place(index)
        return self._show(place, self._node[place])

    def __iter__(self) -> Iterator[Any]:
        for place, item in enumerate(self._node):
            yield self._show(place, item)

    def __setitem__(self, index: Any, value: Any) -> None:
        if not isinstance(index, slice):
            self._put(self._to_place(index), value)
            return
        items = list(value)
        start, stop, step = index.indices(len(self))
        places = range(start, stop, step)
        if step == 1:
            self._splice(start, max(start, stop), items)
        elif len(places) != len(items):
            raise ValueError(f"{len(items)} items for an extended slice of {len(places)}")
        else:
            for place, item in zip(places, items, strict=True):
                self._put(place, item)

    def __delitem__(self, index: Any) -> None:
        if not isinstance(index, slice):
            place = self._to_place(index)
            self._splice(place, place + 1, ())
            return
        start, stop, step = index.indices(len(self))
        if step == 1:
            self._splice(start, max(start, stop), ())
        else:
            gone = set(range(start, stop, step))
            self._reorder([place for place in range(len(self)) if place not in gone])

    def insert(self, index: SupportsIndex, value: Any) -> None:
        """Insert `value` before `index`."""
        start, _, _ = slice(to_index(index), None).indices(len(self))
        self._splice(start, start, (value,))

    def append(self, value: Any) -> None:
        """Insert `value` at the end."""
        end = len(self._node)
        self._splice(end, end, (value,))

    def extend(self, values: Iterable[Any]) -> None:
        """Insert `values` at the end, as one operation."""
        items = list(values)
        end = len(self._node)
        self._splice(end, end, items)

    def pop(self, index: SupportsIndex = -1) -> Any:
        """Remove the element at `index` and return a plain copy of it."""
        if not self._node:
            raise IndexError("pop from empty list")
        place = self._to_place(index)
        item = clone(self._node[place])
        self._splice(place, place + 1, ())
        return item

    def remove(self, value: Any) -> None:
        """Remove the first element equal to `value`."""
        del self[self._node.index(value)]

    def clear(self) -> None:
        """Remove all elements."""
        self._splice(0, len(self), ())

    def index(self, value: Any, *bounds: int) -> int:
        """Return the place of the first element equal to `value`."""
        return int(self._node.index(value, *bounds))

    def count(self, value: Any) -> int:
        """Return how many elements are equal to `value`."""
        return int(self._node.count(value))

    def reverse(self) -> None:
        """Turn the order round."""
        self._reorder(list(reversed(range(len(self)))))

    def sort(self, *, key: Callable[[Any], Any] | None = None, reverse: bool = False) -> None:
        """Sort stably; `key` is given views."""
        ranks = self._node[:] if key is None else list(map(key, self))
        order = sorted(range(len(ranks)), key=ranks.__getitem__, reverse=reverse)
        if len(order) != len(self):
            raise ValueError("list modified during sort")
        self._reorder(order)

    def __add__(self, other: Iterable[Any]) -> list[Any]:
        return [*self.plain(), *other]

    def __radd__(self, other: Iterable[Any]) -> list[Any]:
        return [*other, *self.plain()]

    def __iadd__(self, values: Iterable[Any]) -> Self:
        self.extend(values)
        return self

    def __mul__(self, times: SupportsIndex) -> list[Any]:
        return [clone(item) for _ in range(to_index(times)) for item in self._node]

    def __imul__(self, times: SupportsIndex) -> Self:
        if to_index(times) <= 0:
            self.clear()
        else:
            self.extend(self * (to_index(times) - 1))
        return self

    def _to_place(self, index: SupportsIndex) -> int:
        place, size = int(to_index(index)), len(self._node)
        if not -size <= place < size:
            raise IndexError("list index out of range")
        return place + size if place < 0 else place

    def _put(self, place: int, value: Any) -> None:
        keep, path = self._writing()
        node = self._node
        old = node[place]
        if self._shows(value, old):
            return
        item = self._copy_in(value, (*path, place))
        if not same(old, item):
            node[place] = item
            keep("put", (*path, place), item, partial(node.__setitem__, place, old))

    def _splice(self, start: int, stop: int, added: Iterable[Any]) -> None:
        """Put copies of `added` in place of the elements from `start` to `stop`, less what stays the same."""
        keep, path = self._writing()
        node = self._node
        items = [self._copy_in(item, (*path, place)) for place, item in enumerate(added, start)]
        old = node[start:stop]
        if old:
            head = _count_same(old, items)
            tail = _count_same(old[: head - 1 if head else None : -1], items[: head - 1 if head else None : -1])
            old, items = old[head : len(old) - tail], items[head : len(items) - tail]
            start += head
        if old or items:
            node[start : start + len(old)] = items
            undo = partial(node.__setitem__, slice(start, start + len(items)), old)
            keep("splice", path, (start, len(old), items), undo)

    def _reorder(self, order: list[int]) -> None:
        keep, path = self._writing()
        node = self._node
        if order != list(range(len(node))):
            old = node[:]
            node[:] = [old[place] for place in order]
            keep("reorder", path, order, partial(node.__setitem__, slice(None), old))

    def _find(self, child: View) -> object:
        place, node = cast("int", child._hint), self._node
        if place < len(node) and node[place] is child._node:
            return place
        for found, item in enumerate(node):
            if item is child._node:
                child._hint = found
                return found
        raise StaleView(child._last_path())


class SetView(View, MutableSet[Any]):
    """A set of the state. Its methods with several arguments are one operation each."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        return cast("Iterator[Any]", iter(self._node))

    def add(self, value: Any) -> None:
        """Make `value` a member."""
        self.update((value,))

    def discard(self, value: Any) -> None:
        """Remove `value` if it is a member."""
        self.difference_update((value,))

    def pop(self) -> Any:
        """Remove any member and return it."""
        if not self._node:
            raise KeyError("pop from an empty set")
        member = next(iter(self._node))
        self.discard(member)
        return member

    def clear(self) -> None:
        """Remove all members."""
        keep, path = self._writing()
        if self._node:
            undo = partial(self._node.update, frozenset(self._node))
            self._node.clear()
            keep("clear", path, None, undo)

    def update(self, *others: Iterable[Any]) -> None:
        """Add the members of `others`."""
        node = self._node
        added = frozenset(member for member in redact(list(chain(*others))) if member not in node)
        keep, path = self._writing()
        for member in added:
            check_key(member, path)
        if added:
            node.update(added)
            keep("add", path, added, partial(node.difference_update, added))

    def difference_update(self, *others: Iterable[Any]) -> None:
        """Remove the members of `others`."""
        node = self._node
        gone = _find_members(node, set(chain(*others)))
        keep, path = self._writing()
        if gone:
            node.difference_update(gone)
            keep("discard", path, gone, partial(node.update, gone))

    def intersection_update(self, *others: Iterable[Any]) -> None:
        """Remove what is not in each of `others`."""
        self.difference_update(self._node - self.intersection(*others))

    def symmetric_difference_update(self, other: Iterable[Any]) -> None:
        """Remove the members of `other`, and add those of its members that were none."""
        members = set(other)
        added = members - self._node
        self.difference_update(members)
        self.update(added)

    def union(self, *others: Iterable[Any]) -> set[Any]:
        """Return a plain set of all members."""
        return cast("set[Any]", self._node).union(*others)

    def intersection(self, *others: Iterable[Any]) -> set[Any]:
        """Return a plain set of what is also in each of `others`."""
        return cast("set[Any]", self._node).intersection(*others)

    def difference(self, *others: Iterable[Any]) -> set[Any]:
        """Return a plain set of what is in none of `others`."""
        return cast("set[Any]", self._node).difference(*others)

    def symmetric_difference(self, other: Iterable[Any]) -> set[Any]:
        """Return a plain set of what is in one of the two."""
        return cast("set[Any]", self._node).symmetric_difference(other)

    def issubset(self, other: Iterable[Any]) -> bool:
        """Tell whether all members are in `other`."""
        return cast("set[Any]", self._node).issubset(other)

    def issuperset(self, other: Iterable[Any]) -> bool:
        """Tell whether all of `other` are members."""
        return cast("set[Any]", self._node).issuperset(other)

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> set[Any]:
        return set(it)

    def __ior__(self, other: Iterable[Any]) -> Self:  # type: ignore[misc]  # as above
        self.update(other)
        return self

    def __isub__(self, other: Iterable[Any]) -> Self:
        self.difference_update(other)
        return self

    def __iand__(self, other: Iterable[Any]) -> Self:
        self.intersection_update(other)
        return self

    def __ixor__(self, other: Iterable[Any]) -> Self:  # type: ignore[misc]  # as above
        self.symmetric_difference_update(other)
        return self


SHOWN[dict] = MapView
SHOWN[list] = ListView
SHOWN[set] = SetView
SHOWN[tuple] = lambda item, _parent, _hint: clone(item)


def _count_same(left: list[Any], right: list[Any]) -> int:
    """Return how many elements from the start on are the same."""
    count = 0
    for one, other in zip(left, right, strict=False):
        if not same(one, other):
            break
        count += 1
    return count


def _find_key(node: dict[Any, Any], key: object) -> tuple[Any, tuple[Any, ...]]:
    """Return `key` as it is stored in `node` (1 for True), and the key after it, if there is one."""
    last = next(reversed(node))
    if last == key:
        return last, ()
    keys = iter(node)
    stored = next(stored for stored in keys if stored == key)
    return stored, (next(keys),)


def _put_back(node: dict[Any, Any], key: object, value: object, following: tuple[Any, ...]) -> None:
    """Insert a removed entry where it was: before the key `following`."""
    keys = list(node)
    node[key] = value
    for later in keys[keys.index(following[0]) :] if following else ():
        node[later] = node.pop(later)


def _find_members(node: set[Any], wanted: set[Any]) -> frozenset[Any]:
    """Return the members equal to one of `wanted`, as they are stored (1 for True)."""
    if all(type(member) in _ONE_FORM for member in wanted):
        return frozenset(member for member in wanted if member in node)
    return frozenset(member for member in node if member in wanted)
