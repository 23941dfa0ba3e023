"""Typed state: what `state_type=` means. The state stays plain underneath; its views show it by the fields of a type.

A dataclass, a `msgspec.Struct` or a pydantic model is shown with attributes, a TypedDict as the dict that it is; lists
and dicts inside are shown by what their types say. What is written is checked by the type of its place and becomes
plain at once. Called by `programs.py` (declarations), `migrations.py` (after each jump), and through the views.
"""
# ruff: noqa: ANN401 - what stands in the state may be of any type
# pyright: reportIncompatibleMethodOverride=false

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final, TypeVar, Union, cast

import msgspec

from perdure.codec.values import Path
from perdure.core.container import SHOWN, View, clone
from perdure.core.views import ListView, MapView
from perdure.errors import CodecError, StateInvalid, UsageError
from perdure.tools.results import dump, needs_rebuild, rebuild, refusal

_SIMPLE: Final = frozenset((str, int, float, bool, type(None)))
_LISTS: Final = (list, collections.abc.Sequence, collections.abc.MutableSequence)
_DICTS: Final = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


def check_type(program: str, state_type: object) -> None:
    """Raise UsageError where no state can be of `state_type`."""
    wrong = ""
    if not _is_record(state_type) and not typing.is_typeddict(state_type):
        wrong = "is no dataclass, msgspec.Struct, TypedDict or pydantic model"
    elif wrong := refusal(state_type):
        pass
    elif getattr(getattr(state_type, "__struct_config__", None), "array_like", False):
        wrong = "is stored as a list, and a state is a dict"
    elif hidden := [name for name in _keys_of(state_type) if name.startswith("_")]:
        wrong = f"has a field {hidden[0]!r}; names that begin with _ belong to the views"
    if wrong:
        raise UsageError(f"program {program!r}: state_type= {_name_of(state_type)} {wrong}")


def fit(value: object, kind: object, path: Path = ()) -> Any:
    """Return a plain value as `kind` wants it, plain again: defaults are filled in. Raises StateInvalid.

    What `kind` does not know is refused, never dropped.
    """
    if kind is Any or isinstance(kind, TypeVar):
        return value
    try:
        typed = rebuild(value, kind) if needs_rebuild(kind) else msgspec.convert(value, cast("type[Any]", kind))
    except (CodecError, msgspec.ValidationError) as error:
        raise StateInvalid(_name_of(kind), path, str(error.__cause__ or error)) from error
    plain = dump(typed)
    lost = _lost_of(value, plain, path)
    if lost is not None:
        raise StateInvalid(_name_of(kind), lost, "it has no such field")
    return plain


def view_of(kind: object, held: type) -> type[View] | None:
    """Return what shows a container of type `held` where `kind` is expected; None: as without a type."""
    try:
        return _cached_view(kind, held)
    except TypeError:  # an annotation may hold what cannot be hashed
        return _make_view(kind, held)


class FieldsView(MapView):
    """A dict of the state with known keys: a TypedDict, or the base of what has attributes."""

    __slots__ = ()
    type_name_: ClassVar[str] = ""
    kinds_: ClassVar[Mapping[Any, object]] = {}  # by key
    required_: ClassVar[frozenset[Any]] = frozenset()

    def _show(self, hint: object, item: object) -> Any:
        return _show_as(type(self).kinds_.get(hint, Any), item, self, hint)

    def _copy_in(self, value: object, path: Path) -> Any:
        if path[-1] not in type(self).kinds_:
            raise StateInvalid(type(self).type_name_, path, "it has no such field")
        return _take_in(super()._copy_in(dump(value), path), type(self).kinds_[path[-1]], path)

    def __delitem__(self, key: Any) -> None:
        if key in type(self).required_:
            raise StateInvalid(type(self).type_name_, (key,), "a field cannot be removed")
        super().__delitem__(key)

    def clear(self) -> None:
        """Remove all entries; refused where there are fields."""
        for key in list(self):
            del self[key]


class RecordView(FieldsView):
    """A dict of the state with attributes. A field hides the method of the same name, `state["field"]` always works."""

    __slots__ = ()
    keys_: ClassVar[Mapping[str, str]] = {}  # by attribute

    def __getattribute__(self, name: str) -> Any:
        key = type(self).keys_.get(name)
        if key is None:
            return super().__getattribute__(name)
        try:
            return self[key]
        except KeyError:
            raise AttributeError(f"{type(self).type_name_}.{name} is not in the state") from None

    def __setattr__(self, name: str, value: Any) -> None:
        key = type(self).keys_.get(name)
        if key is not None:
            self[key] = value
        elif name.startswith("_"):
            super().__setattr__(name, value)
        else:
            raise AttributeError(f"{type(self).type_name_} has no field {name!r}")

    def __dir__(self) -> Iterator[str]:
        return iter(type(self).keys_)

    def __eq__(self, other: object) -> bool:
        return super().__eq__(dump(other))

    __hash__ = None  # type: ignore[assignment]  # as of the container that it shows

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={self[key]!r}" for name, key in type(self).keys_.items() if key in self)
        return f"{type(self).type_name_}({shown})"


class TypedListView(ListView):
    """A list of the state whose elements have a type."""

    __slots__ = ()
    kind_: ClassVar[object] = Any

    def _show(self, hint: object, item: object) -> Any:
        return _show_as(type(self).kind_, item, self, hint)

    def _copy_in(self, value: object, path: Path) -> Any:
        return _take_in(super()._copy_in(dump(value), path), type(self).kind_, path)


class TypedMapView(MapView):
    """A dict of the state whose values have a type."""

    __slots__ = ()
    kind_: ClassVar[object] = Any

    def _show(self, hint: object, item: object) -> Any:
        return _show_as(type(self).kind_, item, self, hint)

    def _copy_in(self, value: object, path: Path) -> Any:
        return _take_in(super()._copy_in(dump(value), path), type(self).kind_, path)


def _take_in(plain: object, kind: object, path: Path) -> Any:
    """Return what is put at `path` as its type wants it; `plain` is a copy of what was given."""
    return fit(plain, kind, path)


def _show_as(kind: object, item: object, parent: View, hint: object) -> Any:
    held = type(item)
    if held in SHOWN and held is not tuple:
        view = view_of(kind, held)
        return SHOWN[held](item, parent, hint) if view is None else view(item, parent, hint)
    if held in _SIMPLE and kind is held:
        return item
    return rebuild(clone(item), kind) if needs_rebuild(kind) else clone(item)


def _lost_of(given: object, kept: object, path: Path) -> Path | None:
    """Return the path of a key of `given` that is not in `kept`, None where nothing is lost."""
    pairs: list[tuple[object, object, object]] = []
    if isinstance(given, dict) and isinstance(kept, dict):
        there = cast("dict[object, object]", kept)
        for key, item in cast("dict[object, object]", given).items():
            if key not in there:
                return (*path, key)
            pairs.append((key, item, there[key]))
    elif isinstance(given, list | tuple) and isinstance(kept, list | tuple):
        left, right = cast("list[object]", given), cast("list[object]", kept)
        pairs = [(place, *both) for place, both in enumerate(zip(left, right, strict=False))]
    found = (_lost_of(item, other, (*path, step)) for step, item, other in pairs)
    return next((lost for lost in found if lost is not None), None)


# --- reading types --------------------------------------------------------------------------------------------------
def _make_view(kind: object, held: type) -> type[View] | None:
    members = _members_of(kind)
    records = [one for one in members if _is_record(one) or typing.is_typeddict(_origin_of(one))]
    of_kind = _DICTS if held is dict else _LISTS if held is list else ()
    containers = [one for one in members if _origin_of(one) in of_kind]
    if held is dict and len(records) == 1 and not containers:
        return _record_view(records[0])
    if len(containers) != 1 or (held is dict and records):
        return None
    inner = typing.get_args(containers[0])
    base: type[View] = TypedMapView if held is dict else TypedListView
    return type(base.__name__, (base,), {"__slots__": (), "kind_": inner[-1]}) if inner else None


_cached_view = functools.lru_cache(maxsize=1024)(_make_view)


def _record_view(kind: object) -> type[View]:
    owner = _origin_of(kind)
    hints = typing.get_type_hints(owner)
    keys = _keys_of(owner)
    named: dict[str, object] = {
        "__slots__": (),
        "type_name_": _name_of(owner),
        "kinds_": {key: hints.get(name, Any) for name, key in keys.items()},
        "required_": getattr(owner, "__required_keys__", frozenset(keys.values())),
    }
    if typing.is_typeddict(owner):
        return type("FieldsView", (FieldsView,), named)
    return type("RecordView", (RecordView,), named | {"keys_": keys})


def _keys_of(owner: Any) -> dict[str, str]:
    """Return the key of each field: the name under which it is stored."""
    if issubclass(owner, msgspec.Struct):
        return dict(zip(owner.__struct_fields__, owner.__struct_encode_fields__, strict=True))
    if dataclasses.is_dataclass(owner):
        return {field.name: field.name for field in dataclasses.fields(owner)}
    names: Mapping[str, object] = getattr(owner, "model_fields", None) or typing.get_type_hints(owner)
    return {name: name for name in names}


def _members_of(kind: object) -> list[object]:
    """Return what a value of `kind` may be: the members of a union, what is behind names and annotations."""
    inner = getattr(kind, "__supertype__", None) or getattr(kind, "__value__", None)
    if inner is not None:
        return _members_of(inner)
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        return _members_of(typing.get_args(kind)[0])
    if origin in {Union, types.UnionType}:
        return [one for member in typing.get_args(kind) for one in _members_of(member)]
    return [kind]


def _origin_of(kind: object) -> Any:
    return typing.get_origin(kind) or kind


def _is_record(kind: object) -> bool:
    owner: object = _origin_of(kind)
    if not isinstance(owner, type):
        return False
    known = cast("type[object]", owner)
    return dataclasses.is_dataclass(known) or issubclass(known, msgspec.Struct) or hasattr(known, "model_fields")


def _name_of(kind: object) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)
