"""The live state and its edits: views write the live tree and record operations; `apply` does them again.

`apply` is the fold's way. Both ways give equal states, which tests hold. An edit that is undone leaves nothing, the
order of keys included. Not the views (`core/views.py`), not the storing of patches. Not thread-safe.
Called by the engine (which owns the lock of the state) and the fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from perdure.codec.values import Path
from perdure.core.container import View, clone
from perdure.core.views import ListView, MapView, SetView
from perdure.errors import CodecError, EditClash, ReadOnlyState
from perdure.model.patch import Kind, Op

__all__ = ["Edit", "ListView", "MapView", "SetView", "StateTree", "View", "apply"]

_CONTAINERS: Final = frozenset((dict, list, set))
_MISFITS: Final = (LookupError, TypeError, ValueError)


class StateTree:
    """The live state of a task: a dict of values of the codec's domain, which from now on belongs to the tree."""

    __slots__ = ("_edit", "root", "shown")

    def __init__(self, root: dict[Any, Any]) -> None:
        self.root = root
        self.shown: type[MapView] = MapView  # what shows the root: one with fields where the state has a type
        self._edit: Edit | None = None

    @property
    def is_open(self) -> bool:
        """Whether an edit is open, whose changes are in no journal yet."""
        return self._edit is not None and self._edit.is_open

    def view(self) -> MapView:
        """Return a view that only reads. It shows an open edit's changes while they are made."""
        return self.shown(self.root)

    def begin(self) -> Edit:
        """Open an edit; raises EditClash while another one is open."""
        if self._edit is not None:
            if self._edit.is_open:
                raise EditClash
            self._edit.is_final = True
        self._edit = Edit(self.root, self.shown)
        return self._edit


class Edit:
    """One set of changes, kept as a whole by `finish` or taken back as a whole by `undo`."""

    __slots__ = ("_ops", "_undo", "fresh", "is_final", "is_open", "view")

    def __init__(self, root: dict[Any, Any], shown: type[MapView] = MapView) -> None:
        self.is_open = True
        self.is_final = False  # another edit has been begun: to take this one back would take back half of that one
        self.fresh: set[int] = set()  # ids of containers that it inserted, all of them kept alive by `_ops`
        self.view = shown(root, edit=self)
        self._ops: list[tuple[Kind, Path, Any]] = []
        self._undo: list[Callable[[], object]] = []

    def finish(self) -> tuple[Op, ...]:
        """Close the edit and return what it did; its views only read from now on.

        No operations = nothing changed. Writing something and taking it back may leave operations all the same.
        """
        if not self.is_open:
            raise ReadOnlyState
        self.is_open = False
        return tuple(Op(kind=kind, path=path, value=clone(value)) for kind, path, value in self._ops)

    def undo(self) -> None:
        """Close the edit and take back all that it did, the order of keys included.

        Also after `finish`, until the next edit is begun; from then on it raises ReadOnlyState.
        """
        if self.is_final:
            raise ReadOnlyState
        self.is_open = False
        while self._undo:
            self._undo.pop()()

    def keep(self, kind: Kind, path: Path, value: Any, undo: Callable[[], object]) -> None:  # noqa: ANN401 - as Op
        """Record a change that a view has made, and how to take it back."""
        self._ops.append((kind, path, value))
        self._undo.append(undo)
        for item in (value,) if kind == "put" else value[2] if kind == "splice" else ():
            if type(item) in _CONTAINERS:
                self.fresh.add(id(item))


def apply(root: dict[Any, Any], ops: Iterable[Op]) -> None:
    """Do `ops` on `root`, in place; it shares nothing with them afterwards.

    Raises CodecError when one does not fit the state: they are from another state, and `root` is then half changed.
    """
    for op in ops:
        try:
            _APPLY[op.kind](root, op)
        except _MISFITS as error:
            raise CodecError(f"operation {op.kind!r} at {op.path!r:.200} does not fit the state: {error}") from error


def _descend(root: dict[Any, Any], path: Path) -> Any:  # noqa: ANN401 - any value of the codec's domain
    node: object = root
    for step in path:
        kind = type(node)
        node = _be(list, node)[_check_index(step, node)] if kind is list else _be(dict, node)[step]
    return node


def _be(kind: type, node: object) -> Any:  # noqa: ANN401 - as above
    found = type(node)
    if found is not kind:
        raise TypeError(f"{kind.__name__} expected, {found.__name__} found")
    return node


def _check_index(step: object, node: object) -> int:
    size = len(cast("list[Any]", node))
    if type(step) is not int or not 0 <= step < size:
        raise IndexError(f"no index {step!r} in a list of {size}")
    return step


def _apply_put(root: dict[Any, Any], op: Op) -> None:
    node: object = _descend(root, op.path[:-1])
    kind, step = type(node), op.path[-1]
    if kind is list:
        _be(list, node)[_check_index(step, node)] = clone(op.value)
    else:
        _be(dict, node)[step] = clone(op.value)


def _apply_remove(root: dict[Any, Any], op: Op) -> None:
    del _be(dict, _descend(root, op.path[:-1]))[op.path[-1]]


def _apply_splice(root: dict[Any, Any], op: Op) -> None:
    node = _be(list, _descend(root, op.path))
    start, count, items = op.value
    if not 0 <= start <= start + count <= len(node):
        raise IndexError(f"no elements {start} to {start + count} in a list of {len(node)}")
    node[start : start + count] = clone(items)


def _apply_reorder(root: dict[Any, Any], op: Op) -> None:
    node = _be(list, _descend(root, op.path))
    order = [_check_index(step, node) for step in op.value]
    if len(set(order)) != len(order):
        raise ValueError("an element stands in two places")
    node[:] = [node[step] for step in order]


def _apply_add(root: dict[Any, Any], op: Op) -> None:
    node, members = _be(set, _descend(root, op.path)), _be(frozenset, op.value)
    if node & members:
        raise ValueError("a member is there already")
    node.update(members)


def _apply_discard(root: dict[Any, Any], op: Op) -> None:
    node, members = _be(set, _descend(root, op.path)), _be(frozenset, op.value)
    if not node >= members:
        raise KeyError("a member is not there")
    node.difference_update(members)


def _apply_clear(root: dict[Any, Any], op: Op) -> None:
    node: object = _descend(root, op.path)
    kind = type(node)
    _be(set if kind is set else dict, node).clear()


_APPLY: Final[dict[Kind, Callable[[dict[Any, Any], Op], None]]] = {
    "put": _apply_put,
    "remove": _apply_remove,
    "splice": _apply_splice,
    "reorder": _apply_reorder,
    "add": _apply_add,
    "discard": _apply_discard,
    "clear": _apply_clear,
}
