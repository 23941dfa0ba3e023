"""What all views of the state have in common: which container they show, where it stands, who records its changes.

Not the views themselves (`core/views.py`, the only caller), not the recording (`core/tracking.py`).
"""
# ruff: noqa: ANN401 - what stands in the state, and what is put there, may be of any type of the codec's domain
# ruff: noqa: SLF001 - views of one tree look into each other; for their users these parts are private

from __future__ import annotations

from collections.abc import Callable
from operator import is_not
from typing import Any, Final, Protocol, TypeAlias, cast

from perdure.codec import values
from perdure.codec.redact import redact
from perdure.codec.values import Path
from perdure.errors import ReadOnlyState
from perdure.limits import NESTING_MAX
from perdure.model.patch import Kind

STATE_NESTING_MAX: Final = NESTING_MAX - 8  # a patch wraps what it inserts, and must be storable too

Keep: TypeAlias = Callable[[Kind, Path, Any, Callable[[], object]], None]
Show: TypeAlias = Callable[[Any, "View", object], Any]

_WITH_PARTS: Final = frozenset((dict, list, tuple, set))  # of the codec's domain, what is cloned by its parts
SHOWN: Final[dict[type, Show]] = {}  # how each kind of container is shown; the views enter themselves


class Recorder(Protocol):
    """The edit that a writable view belongs to."""

    @property
    def is_open(self) -> bool:
        """Whether it still takes writes."""
        ...

    @property
    def fresh(self) -> set[int]:
        """The ids of the containers that this edit has put into the tree."""
        ...

    def keep(self, kind: Kind, path: Path, value: Any, undo: Callable[[], object]) -> None:
        """Record a change that was made, and how to take it back."""
        ...


def clone(value: object) -> Any:
    """Return a deep copy of a value that is known to be in the codec's domain."""
    kind = type(value)
    if kind is dict:
        entries = cast("dict[object, object]", value).items()
        return {key: item if type(item) is str else clone(item) for key, item in entries}
    if kind is list:
        return [item if type(item) is str else clone(item) for item in cast("list[object]", value)]
    if kind is tuple:
        old = cast("tuple[object, ...]", value)
        new = tuple([clone(item) if type(item) in _WITH_PARTS else item for item in old])
        return new if any(map(is_not, new, old)) else old
    return cast("set[object]", value).copy() if kind is set else value


class View:
    """One container of the state."""

    __slots__ = ("_edit", "_hint", "_node", "_parent")

    _node: Any  # the container that is shown
    _parent: View | None  # None: the root
    _hint: object  # where it last stood in its parent
    _edit: Recorder | None  # None: only reads

    def __init__(
        self, node: Any, parent: View | None = None, hint: object = None, edit: Recorder | None = None
    ) -> None:
        self._node = node
        self._parent = parent
        self._hint = hint
        self._edit = edit if parent is None else parent._edit

    @property
    def path(self) -> Path:
        """Where in the state it stands now. Raises StaleView."""
        return self._place()[0]

    @staticmethod
    def path_of(view: View) -> Path:
        """Return where in the state `view` stands now, whatever names its fields have. Raises StaleView."""
        return view._place()[0]

    @staticmethod
    def plain_of(view: View) -> Any:
        """Return a deep copy of what `view` shows, whatever names its fields have."""
        return clone(view._node)

    def plain(self) -> Any:
        """Return a deep copy made of plain containers."""
        return clone(self._node)

    def copy(self) -> Any:
        """Return the same as `plain`."""
        return clone(self._node)

    def __copy__(self) -> Any:
        return clone(self._node)

    def __deepcopy__(self, _memo: object) -> Any:
        return clone(self._node)

    def __len__(self) -> int:
        return len(self._node)

    def __contains__(self, item: object) -> bool:
        return item in self._node or redact(item) in self._node

    def __eq__(self, other: object) -> bool:
        return bool(self._node == (other._node if isinstance(other, View) else other))

    __hash__ = None  # type: ignore[assignment]  # as of the container that it shows

    def __repr__(self) -> str:
        return repr(self._node)

    def _show(self, hint: object, item: object) -> Any:
        show = SHOWN.get(type(item))
        return item if show is None else show(item, self, hint)

    def _copy_in(self, value: object, path: Path) -> Any:
        """Return a checked copy of what is to stand at `path`, less known secrets; of a view, what it shows."""
        return values.copy(redact(value), path, View._copy_shown, nesting_max=STATE_NESTING_MAX)

    @staticmethod
    def _copy_shown(value: object, path: Path) -> Any:
        if not isinstance(value, View):
            return NotImplemented
        return values.copy(value._node, path, View._copy_shown, nesting_max=STATE_NESTING_MAX)

    @staticmethod
    def _shows(value: object, node: object) -> bool:
        return isinstance(value, View) and value._node is node

    def _find(self, child: View) -> object:
        """Return the key or index at which the container of `child` stands."""
        raise NotImplementedError

    def _place(self) -> tuple[Path, bool]:
        """Return the path, and whether it leads through a container that this very edit has inserted."""
        fresh: set[int] | tuple[()] = () if self._edit is None else self._edit.fresh
        is_fresh, steps, view = False, list[object](), self
        while view._parent is not None:
            is_fresh = is_fresh or id(view._node) in fresh
            steps.append(view._parent._find(view))
            view = view._parent
        steps.reverse()
        return tuple(steps), is_fresh

    def _last_path(self) -> Path:
        return () if self._parent is None else (*self._parent._last_path(), self._hint)

    def _writing(self) -> tuple[Keep, Path]:
        """Return how to record a change, and the path. Raises ReadOnlyState, StaleView.

        What is inside a fresh container need not be recorded: the operation that inserted it holds it as it is
        when the edit ends, and taking that one back removes it.
        """
        edit = self._edit
        if edit is None or not edit.is_open:
            raise ReadOnlyState
        path, is_fresh = self._place()
        return (_forget if is_fresh else edit.keep), path


def _forget(_kind: Kind, _path: Path, _value: object, _undo: Callable[[], object]) -> None:
    """Record nothing."""
