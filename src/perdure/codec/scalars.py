"""The single values of the codec (all but containers): how each becomes wire, and how its tag is read back.

Not containers, not the public functions: those are in `codec/values.py`, the only caller.
A writer takes (value, path, walk) and raises Unstorable. A reader takes the parts of its tag and raises one
of `MALFORMED` for any shape that its writer does not make: each value has one wire.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import b2a_base64
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from math import isfinite
from types import NoneType
from typing import Any, Final, TypeAlias, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec

from perdure.codec.known import Secret, process, sealed_name
from perdure.codec.masks import mask_of
from perdure.codec.spelling import SPELLING_BYTES_MIN
from perdure.errors import Unstorable
from perdure.limits import LEAF_BYTES_MAX, NESTING_MAX

Value: TypeAlias = Any  # a value of the domain
Wire: TypeAlias = Any  # what JSON knows: None, bool, int, float, str, list, dict with str keys
Path: TypeAlias = tuple[object, ...]  # dict keys and list indexes, from the outside in
Leaf: TypeAlias = Callable[[Any], Wire]  # a str or bytes -> the wire that replaces it, or None
Special: TypeAlias = Callable[[Any, Path], Any]  # a foreign object -> what stands for it, or NotImplemented

MARK: Final = "~"
SHORT: Final = LEAF_BYTES_MAX // 4  # a str of so many characters is within the limit, whatever they are
INT_PLAIN: Final = 2**53  # the integers up to here are exact for every JSON reader
MALFORMED: Final = (ValueError, TypeError, ArithmeticError, AttributeError, LookupError)
_OVERSIZE: Final = f"over {LEAF_BYTES_MAX} bytes; keep it in a file"
_NAN_KEY: Final = "NaN as a key or member equals nothing and could never be found again"
_HEX: Final = re.compile(r"-?[1-9a-f][0-9a-f]*")

Moment = TypeVar("Moment", date, datetime, time)
Zoned = TypeVar("Zoned", datetime, time)


class Walk(msgspec.Struct, frozen=True, kw_only=True):
    """How one walk over a value goes."""

    leaf: Leaf | None = None
    leaf_min: int = 0
    special: Special | None = None
    nesting_max: int = NESTING_MAX
    small: int = LEAF_BYTES_MAX + 1  # an ASCII str shorter than this stands as it is
    is_sorted: bool = False
    is_key: bool = False


Writer: TypeAlias = Callable[[Any, Path, Walk], Wire]
_PLAIN: Final = Walk()


def tagged(tag: str, *parts: Wire) -> Wire:
    """Return the wire of what JSON cannot hold."""
    return {MARK: [tag, *parts]}


def write_foreign(value: object, path: Path, walk: Walk) -> Wire:
    """Return what `special` puts in place of an object outside the domain, or refuse it."""
    if walk.special is not None:
        replaced = walk.special(value, path)
        if replaced is not NotImplemented:
            return replaced
    if hasattr(type(value), "get_secret_value"):
        return _write_sealed(value, path)
    raise Unstorable(path, type_name(value), "as a key or member" if walk.is_key else "")


def _write_sealed(value: Any, path: Path) -> str:  # noqa: ANN401 - pydantic's SecretStr or SecretBytes
    """Return the mask of a value that says of itself that it is secret, and see to it that it is masked everywhere."""
    name, secret = sealed_name(path), value.get_secret_value()
    if len(secret.strip()) >= SPELLING_BYTES_MIN:  # a shorter one cannot be looked for in other texts
        process.know(name, secret)
    return mask_of(name)


def check_str(value: str, path: Path, _walk: Walk) -> str:
    """Return `value`, or refuse it as too large."""
    if len(value) > SHORT and len(value.encode("utf-8", "surrogatepass")) > LEAF_BYTES_MAX:
        raise Unstorable(path, "str", _OVERSIZE)
    return value


def check_bytes(value: bytes, path: Path, _walk: Walk) -> bytes:
    """Return `value`, or refuse it as too large."""
    if len(value) > LEAF_BYTES_MAX:
        raise Unstorable(path, "bytes", _OVERSIZE)
    return value


def is_utf8(text: str) -> bool:
    """Tell whether `text` is free of lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def type_name(value: object) -> str:
    """Return the name of the type of `value`, with its module unless it is a builtin."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _write_same(value: Value, _path: Path, _walk: Walk) -> Wire:
    return value


def _write_int(value: int, path: Path, _walk: Walk) -> Wire:
    if -INT_PLAIN <= value <= INT_PLAIN:
        return value
    if value.bit_length() > LEAF_BYTES_MAX * 8:
        raise Unstorable(path, "int", _OVERSIZE)
    return tagged("int", format(value, "x"))  # hexadecimal: the interpreter's limit of digits does not apply


def _write_float(value: float, path: Path, walk: Walk) -> Wire:
    if isfinite(value):
        return value
    if walk.is_key and value != value:  # noqa: PLR0124 - NaN
        raise Unstorable(path, "float", _NAN_KEY)
    return tagged("float", repr(value))


def _write_str(value: str, path: Path, walk: Walk) -> Wire:
    replaced = _ask_leaf(value, walk)
    if replaced is not None:
        return replaced
    check_str(value, path, walk)
    if is_utf8(value):
        return value
    return tagged("text", _base64(value.encode("utf-8", "surrogatepass")))


def _write_bytes(value: bytes, path: Path, walk: Walk) -> Wire:
    replaced = _ask_leaf(value, walk)
    if replaced is not None:
        return replaced
    return tagged("bytes", _base64(check_bytes(value, path, walk)))


def _ask_leaf(value: str | bytes, walk: Walk) -> Wire:
    return walk.leaf(value) if walk.leaf is not None and len(value) >= walk.leaf_min else None


def _write_moment(value: datetime | time, path: Path, _walk: Walk) -> Wire:
    zone, tag = value.tzinfo, type(value).__name__
    if zone is None:
        return tagged(tag, value.isoformat(), value.fold, None)
    if type(zone) is timezone:
        name = zone.tzname(None)
        is_named = name != timezone(zone.utcoffset(None)).tzname(None)
        return tagged(tag, value.isoformat(), value.fold, None, *([_write_str(name, path, _PLAIN)] if is_named else ()))
    if type(zone) is ZoneInfo and zone.key:
        return tagged(tag, value.replace(tzinfo=None).isoformat(), value.fold, zone.key)
    raise Unstorable(path, tag, f"its time zone is a {type_name(zone)}, not a fixed offset or a named ZoneInfo")


def _write_decimal(value: Decimal, path: Path, walk: Walk) -> Wire:
    if walk.is_key and value.is_nan():
        raise Unstorable(path, "decimal.Decimal", _NAN_KEY)
    return tagged("decimal", _decimal_text(value))


def _write_secret(value: Secret, path: Path, _walk: Walk) -> Wire:
    if type(value.name) is not str:
        raise Unstorable(path, "Secret", "its name is not text")
    return tagged("secret", _write_str(value.name, path, _PLAIN))


def _base64(raw: bytes) -> str:
    return b2a_base64(raw, newline=False).decode("ascii")


def _decimal_text(value: Decimal) -> str:
    return str(value).replace("e", "E")  # a context with capitals=0 writes a small one


def _read_int(text: str) -> int:
    if not _HEX.fullmatch(text):
        raise ValueError("not a hexadecimal number")
    value = int(text, 16)
    if -INT_PLAIN <= value <= INT_PLAIN:
        raise ValueError("small enough to stand plain")
    return value


def _read_float(text: str) -> float:
    return {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}[text]


def _read_text(text: str) -> str:
    value = _read_bytes(text).decode("utf-8", "surrogatepass")
    if is_utf8(value):
        raise ValueError("it could stand plain")
    return value


def _read_bytes(text: str) -> bytes:
    raw = b64decode(text, validate=True)
    if _base64(raw) != text:
        raise ValueError("not base64 in its normal form")
    return raw


def _read_datetime(text: str, fold: int, zone: str | None, *name: Wire) -> datetime:
    return _place(_exactly(datetime.fromisoformat(text), text), fold, zone, *name)


def _read_time(text: str, fold: int, zone: str | None, *name: Wire) -> time:
    return _place(_exactly(time.fromisoformat(text), text), fold, zone, *name)


def _place(value: Zoned, fold: int, zone: str | None, *name: Wire) -> Zoned:
    """Return the parsed `value` in its fold and zone; `name` is a fixed offset's, where it was given one."""
    if type(fold) is not int:
        raise TypeError("its fold is not an int")
    if value.tzinfo is not None and zone is not None:
        raise ValueError("both an offset and a zone")
    if name:
        offset = value.utcoffset()
        if offset is None or zone is not None:
            raise ValueError("a name without an offset")
        return value.replace(fold=fold, tzinfo=timezone(offset, *map(_read_str, name)))
    return value.replace(fold=fold, tzinfo=value.tzinfo if zone is None else ZoneInfo(zone))


def _read_date(text: str) -> date:
    return _exactly(date.fromisoformat(text), text)


def _exactly(value: Moment, text: str) -> Moment:
    if value.isoformat() != text:
        raise ValueError(f"{text!r} is not in its normal form")
    return value


def _read_timedelta(days: int, seconds: int, microseconds: int) -> timedelta:
    value = timedelta(days=days, seconds=seconds, microseconds=microseconds)
    if {int} != {type(days), type(seconds), type(microseconds)} or (value.days, value.seconds) != (days, seconds):
        raise ValueError("not in its normal form")
    return value


def _read_decimal(text: str) -> Decimal:
    value = Decimal(text)
    if _decimal_text(value) != text:
        raise ValueError("not in its normal form")
    return value


def _read_uuid(text: str) -> UUID:
    value = UUID(text)
    if str(value) != text:
        raise ValueError("not in its normal form")
    return value


def _read_secret(name: Wire) -> Secret:
    return Secret.recorded(_read_str(name))


def _read_str(wire: Wire) -> str:
    match wire:
        case str():
            return wire
        case {"~": ["text", str() as text], **others} if not others:
            return _read_text(text)
        case _:
            raise TypeError("not text where text should stand")


WRITERS: Final[dict[type, Writer]] = {
    NoneType: _write_same,
    bool: _write_same,
    int: _write_int,
    float: _write_float,
    str: _write_str,
    bytes: _write_bytes,
    datetime: _write_moment,
    time: _write_moment,
    date: lambda value, _path, _walk: tagged("date", value.isoformat()),
    timedelta: lambda value, _path, _walk: tagged("timedelta", value.days, value.seconds, value.microseconds),
    Decimal: _write_decimal,
    UUID: lambda value, _path, _walk: tagged("uuid", str(value)),
    Secret: _write_secret,
}

READERS: Final[dict[str, Callable[..., Value]]] = {
    "int": _read_int,
    "float": _read_float,
    "text": _read_text,
    "bytes": _read_bytes,
    "datetime": _read_datetime,
    "time": _read_time,
    "date": _read_date,
    "timedelta": _read_timedelta,
    "decimal": _read_decimal,
    "uuid": _read_uuid,
    "secret": _read_secret,
}
