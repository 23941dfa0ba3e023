"""When each part of the state was last changed: what lets a view of the state stand for its content in a digest.

Not the state and not the patches; only sequence numbers by path. A pure function of the patches, so that the live
side and the fold agree. Called by the engine and the fold, after each patch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, cast

from perdure.errors import CodecError
from perdure.model.patch import Op

DEPTH_MAX: Final = 3  # deeper paths count for their ancestor at this depth
NODES_MAX: Final = 1024  # when there are more, all of the state counts as changed just now


class _Node:
    __slots__ = ("at", "below", "children")

    def __init__(self, at: int = 0, below: int = 0) -> None:
        self.at = at  # seq of the last patch of this very path: it counts for all that is under it
        self.below = below  # seq of the last patch at or under this path
        self.children: dict[Any, _Node] = {}


class Touched:
    """For each path, the seq of the last patch at, under or above it; perhaps a later one, never an earlier one.

    In a list, what moves elements (a splice, a reordering) counts for the whole list.
    """

    __slots__ = ("_count", "_root")

    def __init__(self) -> None:
        self._root = _Node()
        self._count = 0

    def mark(self, ops: Iterable[Op], seq: int) -> None:
        """Note that `ops` were done by the entry `seq`."""
        for op in ops:
            self._mark(op.path[:DEPTH_MAX], seq)

    def last(self, path: tuple[Any, ...]) -> int:
        """Return the seq of the last patch that may have changed what stands at `path`; 0 = none."""
        node = self._root
        last = node.at
        for step in path:
            child = node.children.get(step)
            if child is None:
                return last
            node = child
            last = max(last, node.at)
        return max(last, node.below)

    def to_value(self) -> list[Any]:
        """Return all of it as a value: nested `[at, below, [[step, node], …]]`."""
        return _to_value(self._root)

    @classmethod
    def from_value(cls, value: object) -> Touched:
        """Return what `to_value` was called on; raises CodecError for any other shape."""
        touched = cls()
        touched._root = _from_value(value, DEPTH_MAX)
        touched._count = _count_under(touched._root)
        if touched._count > NODES_MAX:
            raise CodecError(f"touched paths: {touched._count} of them, at most {NODES_MAX}")
        return touched

    def _mark(self, path: tuple[Any, ...], seq: int) -> None:
        node = self._root
        node.below = max(node.below, seq)
        for step in path:
            child = node.children.get(step)
            if child is None:
                child = node.children[step] = _Node()
                self._count += 1
            node = child
            node.below = max(node.below, seq)
        node.at = node.below  # what is under it was not changed later than now
        if node.children:
            self._count -= _count_under(node)
            node.children.clear()
        if self._count > NODES_MAX:
            self._root = _Node(self._root.below, self._root.below)
            self._count = 0


def _count_under(node: _Node) -> int:
    return len(node.children) + sum(map(_count_under, node.children.values()))


def _to_value(node: _Node) -> list[Any]:
    return [node.at, node.below, [[step, _to_value(child)] for step, child in node.children.items()]]


def _from_value(value: object, depth: int) -> _Node:
    at, below, pairs = _be_list(value, 3)
    if (type(at), type(below)) != (int, int) or depth < 0:
        raise CodecError("touched paths: a node is not [at, below, children]")
    node = _Node(at, below)
    for pair in _be_list(pairs):
        step, child = _be_list(pair, 2)
        _be_step(step)
        node.children[step] = _from_value(child, depth - 1)
    return node


def _be_step(step: object) -> None:
    try:
        hash(step)
    except TypeError as error:
        raise CodecError(f"touched paths: a step cannot be a key: {error}") from error


def _be_list(value: object, size: int | None = None) -> list[Any]:
    kind = type(value)
    if kind is not list or (size is not None and len(cast("list[Any]", value)) != size):
        raise CodecError(f"touched paths: a {kind.__name__} stands where a list should, or one of another size")
    return cast("list[Any]", value)
