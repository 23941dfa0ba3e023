"""Typed results: plain values out of them for the journal, and back to what the annotation says. Called by the engine.

Not a codec: bytes, and the refusal of what cannot be stored, are `codec.values`' business. A value is only ever rebuilt
to a type that the running program names, never to one that a stored record names. pydantic is used where the program
already uses it (2.11 or later), and is never imported from here.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, Literal, cast
from uuid import UUID

import msgspec

from perdure.codec.known import Secret
from perdure.errors import CodecError
from perdure.limits import NESTING_MAX

_Way = Literal["as it is", "msgspec", "pydantic"]
_LEAVES: Final = frozenset(
    {types.NoneType, bool, int, float, str, bytes, datetime, date, time, timedelta, Decimal, UUID, Secret}
)


def dump(value: object) -> object:
    """Return `value` as plain values: fields of objects as dicts, members of enums as their values.

    The same object where nothing in it needs that. What is neither plain nor known stays where it is, and is refused by
    the codec with its path.
    """
    return value if type(value) in _LEAVES else _dump(value, 0)


def rebuild(value: object, result_type: object | None) -> Any:  # noqa: ANN401 - of `result_type`
    """Return a recorded value as `result_type`; at no cost for plain types. Raises CodecError where it does not fit."""
    way = _way_to(result_type)
    if way == "as it is":
        return value
    try:
        return _convert(value, result_type) if way == "msgspec" else _validate(value, result_type)
    except (ValueError, TypeError) as error:  # msgspec.ValidationError and pydantic's are ValueErrors
        name = _type_name(result_type)
        raise CodecError(
            f"the recorded result does not fit {name}: {error}; restore the annotation or give `result_type=`"
        ) from error


def needs_rebuild(result_type: object | None) -> bool:
    """Whether values of `result_type` are anything else than the plain values they are stored as."""
    return _way_to(result_type) != "as it is"


def refusal(result_type: object | None) -> str:
    """Say why no value could ever be rebuilt to `result_type`; empty where it can be."""
    way = _way_to(result_type)
    try:
        if way == "msgspec":
            _convert(_NOTHING_FITS, result_type)
        elif way == "pydantic":
            _adapter(result_type)
    except msgspec.ValidationError:
        return ""
    except (TypeError, ValueError, RuntimeError) as error:  # pydantic's schema errors are TypeErrors and RuntimeErrors
        return str(error)
    return ""


# --- out of objects -------------------------------------------------------------------------------------------------
def _dump(value: object, depth: int) -> object:
    kind = type(value)
    if kind in _LEAVES or depth > NESTING_MAX:
        return value
    walk = _WALKS.get(kind)
    if walk is not None:
        return walk(value, depth + 1)
    if isinstance(value, enum.Enum):
        return _dump(value.value, depth + 1)
    if isinstance(value, msgspec.Struct):
        return _dump_struct(value, depth + 1)
    if dataclasses.is_dataclass(kind):
        return {field.name: _dump(getattr(value, field.name), depth + 1) for field in dataclasses.fields(kind)}
    if hasattr(kind, "__pydantic_validator__"):
        return _dump(cast("Any", value).model_dump(round_trip=True), depth + 1)
    return value


def _dump_items(items: Iterable[object], depth: int) -> list[object] | None:
    """Return the items as plain values, None where they already are."""
    plain: list[object] = []
    is_changed = False
    for item in items:
        made = item if type(item) in _LEAVES else _dump(item, depth)
        is_changed = is_changed or made is not item
        plain.append(made)
    return plain if is_changed else None


def _dump_list(value: Any, depth: int) -> object:  # noqa: ANN401 - a list, by `_WALKS`
    plain = _dump_items(value, depth)
    return value if plain is None else plain


def _dump_tuple(value: Any, depth: int) -> object:  # noqa: ANN401 - a tuple, by `_WALKS`
    plain = _dump_items(value, depth)
    return value if plain is None else tuple(plain)


def _dump_set(value: Any, depth: int) -> object:  # noqa: ANN401 - a set or frozenset, by `_WALKS`
    """A member that becomes a dict cannot be in a set: such a set stays as it is, for the codec to refuse."""
    plain = _dump_items(value, depth)
    if plain is None or any(type(item) in {dict, list, set} for item in plain):
        return value
    return type(value)(plain)


def _dump_dict(value: Any, depth: int) -> object:  # noqa: ANN401 - a dict, by `_WALKS`
    keys = _dump_items(value, depth)
    members = _dump_items(value.values(), depth)
    if keys is None and members is None:
        return value
    return dict(zip(value if keys is None else keys, value.values() if members is None else members, strict=True))


def _dump_struct(value: msgspec.Struct, depth: int) -> object:
    config = value.__struct_config__
    members = [getattr(value, name) for name in value.__struct_fields__]
    plain = [_dump(member, depth) for member in members]
    if config.array_like:
        return [*([] if config.tag is None else [config.tag]), *plain]
    tag = {} if config.tag is None else {cast("str", config.tag_field): config.tag}
    fields = zip(value.__struct_encode_fields__, plain, strict=True)
    return tag | {name: member for name, member in fields if member is not msgspec.UNSET}


_WALKS: Final[dict[type, Callable[[object, int], object]]] = {
    list: _dump_list,
    tuple: _dump_tuple,
    dict: _dump_dict,
    set: _dump_set,
    frozenset: _dump_set,
}


# --- back to objects ------------------------------------------------------------------------------------------------
class _Nothing:
    """Its one instance fits no type."""


_NOTHING_FITS: Final = _Nothing()


def _convert(value: object, result_type: object) -> object:
    return msgspec.convert(value, cast("type[Any]", result_type))


def _validate(value: object, result_type: object) -> object:
    return _adapter(result_type).validate_python(value, by_alias=False, by_name=True)


def _adapter(result_type: object) -> Any:  # noqa: ANN401 - a pydantic.TypeAdapter; pydantic is not ours to import
    return _cached_adapter(result_type) if _can_be_hashed(result_type) else _make_adapter(result_type)


def _make_adapter(result_type: object) -> Any:  # noqa: ANN401 - as above
    return cast("Any", sys.modules["pydantic"]).TypeAdapter(result_type)


_cached_adapter = functools.lru_cache(maxsize=256)(_make_adapter)


def _can_be_hashed(result_type: object) -> bool:
    """`Annotated` may hold metadata that cannot; what is given there is looked at anew each time."""
    try:
        hash(result_type)
    except TypeError:
        return False
    return True


def _way_to(result_type: object | None) -> _Way:
    if result_type is None:
        return "as it is"
    try:
        return _cached_way(result_type)
    except TypeError:  # it cannot be hashed
        return _find_way(result_type)


def _find_way(result_type: object | None) -> _Way:
    ways = {_way_of(part) for part in _parts_of(result_type)}
    if "pydantic" in ways:
        return "pydantic"
    return "msgspec" if "msgspec" in ways else "as it is"


_cached_way = functools.lru_cache(maxsize=1024)(_find_way)


def _way_of(part: object) -> _Way:
    if hasattr(part, "__pydantic_validator__"):
        return "pydantic"
    if not isinstance(part, type):
        return "as it is"
    if dataclasses.is_dataclass(part) or issubclass(part, enum.Enum | msgspec.Struct):
        return "msgspec"
    return "as it is"


def _parts_of(result_type: object) -> list[object]:
    """Return all types inside `result_type`, itself first, fields of classes included."""
    found: list[object] = []
    seen: set[int] = set()
    pending = [result_type]
    while pending:
        part = pending.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        found.append(part)
        pending.extend(_next_parts(part))
    return found


def _next_parts(part: object) -> list[object]:
    aliased = getattr(part, "__supertype__", None) or getattr(part, "__value__", None)  # NewType, `type X = …`
    if aliased is not None and not isinstance(part, type):
        return [aliased]
    if typing.get_origin(part) is Literal:
        return []
    inner: list[object] = [*typing.get_args(part), typing.get_origin(part)]
    return [*inner, *_field_types(part).values()] if _has_fields(part) else inner


def _has_fields(part: object) -> bool:
    if not isinstance(part, type):
        return False
    kind = cast("type[object]", part)
    return dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct) or typing.is_typeddict(kind)


def _field_types(kind: object) -> Mapping[str, object]:
    try:
        return typing.get_type_hints(kind)
    except (NameError, AttributeError, TypeError):
        return {}


def _type_name(result_type: object) -> str:
    return result_type.__qualname__ if isinstance(result_type, type) else str(result_type)
