"""Reading files that other people's programs wrote: bounded, whole or not at all, each complaint with file and key.

Not what AutoGPT's files mean (their modules say that). Called by all readers of this package.
"""

from __future__ import annotations

import contextlib
import math
import os
import stat
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, TypeGuard

import msgspec

from perdure.errors import ConfigInvalid
from perdure.limits import FOREIGN_FILE_BYTES_MAX

Object = Mapping[str, Any]  # of a JSON or YAML file

_KINDS: Final[dict[type, str]] = {
    dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number",
}  # fmt: skip


class Source(msgspec.Struct, frozen=True):
    """A file, as complaints name it. Its readings raise ConfigInvalid with the file and the key."""

    place: str

    def refusal(self, key: str, reason: str) -> ConfigInvalid:
        """Return the error to raise."""
        return ConfigInvalid(self.place, f"{key}: {reason}")

    def object_at(self, value: object, key: str) -> Object:
        """Return `value` if it is an object with text for keys; None is an empty one."""
        if value is None:
            return {}
        if not is_object(value):
            raise self.refusal(key, f"must be an object with names, not {_kind(value)}")
        return value

    def items_at(self, value: object, key: str) -> list[Any]:
        """Return `value` if it is a list; None is an empty one."""
        if value is None:
            return []
        if not is_list(value):
            raise self.refusal(key, f"must be a list, not {_kind(value)}")
        return value

    def text_at(self, value: object, key: str) -> str:
        """Return `value` as text; None is an empty one, and a number is written out."""
        if value is None:
            return ""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self.refusal(key, f"must be text, not {_kind(value)}")
        return str(value)

    def texts_at(self, value: object, key: str) -> tuple[str, ...]:
        """Return the texts of a list, blank ones left out. In YAML, "- a: b" is an object: it is read as it was."""
        lines = (self._line(item, f"{key}[{place}]") for place, item in enumerate(self.items_at(value, key)))
        return tuple(line for line in lines if line.strip())

    def flag_at(self, value: object, key: str) -> bool:
        """Return `value` if it is true or false."""
        if not isinstance(value, bool):
            raise self.refusal(key, f"must be true or false, not {value!r}")
        return value

    def number_at(self, value: object, key: str, highest: float = math.inf) -> float:
        """Return `value`, a number or the text of one, if it lies between 0 and `highest`."""
        number = math.nan
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            with contextlib.suppress(ValueError, OverflowError):
                number = float(value)
        if not 0 <= number <= highest or math.isinf(number):
            between = f" and at most {highest:g}" if math.isfinite(highest) else ""
            raise self.refusal(key, f"must be a number of at least 0{between}, not {value!r}")
        return number

    def count_at(self, value: object, key: str) -> int:
        """Return `value`, a whole number of at least 0 or the text of one."""
        number = self.number_at(value, key)
        if not number.is_integer():
            raise self.refusal(key, f"must be a whole number, not {value!r}")
        return int(number)

    def dollars_at(self, value: object, key: str) -> str:
        """Return an amount of US dollars as a budget says it; "" for 0, which means without a limit."""
        number = self.number_at(value, key)
        return f"{Decimal(repr(number)).normalize():f} USD" if number else ""

    def _line(self, item: object, key: str) -> str:
        if is_object(item) and item:
            return ", ".join(f"{name}: {self.text_at(part, key)}" for name, part in item.items())
        return self.text_at(item, key)


def is_ours(path: str) -> bool:
    """Whether a file that was found, not named, can be trusted: it is this user's, or root's."""
    try:
        owner = os.stat(path).st_uid
    except OSError:
        return True  # whoever reads it says what is wrong
    return os.getuid() == 0 or owner in {0, os.getuid()}


def read_text(path: str) -> str:
    """Return the text of a file. Raises ConfigInvalid where it is no file, too large, or no UTF-8."""
    try:
        with open(path, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigInvalid(path, "is no file")
            raw = file.read(FOREIGN_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigInvalid(path, f"cannot be read: {error.strerror}") from error
    if len(raw) > FOREIGN_FILE_BYTES_MAX:
        raise ConfigInvalid(path, f"has more than {FOREIGN_FILE_BYTES_MAX} bytes, the most that is read")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigInvalid(path, f"is no UTF-8 text (byte {error.start}); save it as UTF-8") from error


def read_json(path: str) -> Object:
    """Return the object of a JSON file. Raises ConfigInvalid; an empty or half-written file is no object."""
    text = read_text(path)
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigInvalid(path, f"is no whole JSON ({error}); take a copy that is") from error
    if not is_object(value):
        raise ConfigInvalid(path, f"must hold a JSON object, not {_kind(value)}")
    return value


def read_yaml(path: str) -> Object:
    """Return the mapping of a YAML file; an empty file is an empty one. Raises ConfigInvalid, for a key twice too."""
    import yaml

    text = read_text(path)
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        value = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigInvalid(path, f"is no YAML: {' '.join(str(error).split())}") from error
    if value is None:
        return {}
    if not is_object(value):
        raise ConfigInvalid(path, f"must hold names with values (`ai_name: …`), not {_kind(value)}")
    names = [key.value for key, _ in root.value] if root else []
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigInvalid(path, f"{twice[0]}: stands there twice; which one is meant?")
    return value


def is_object(value: object) -> TypeGuard[Object]:
    """Whether `value` is a mapping with text for keys."""
    return _is_dict(value) and all(isinstance(name, str) for name in value)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether `value` is a list."""
    return isinstance(value, list)


def _is_dict(value: object) -> TypeGuard[dict[Any, Any]]:
    return isinstance(value, dict)


def _kind(value: object) -> str:
    return "nothing" if value is None else _KINDS.get(type(value), type(value).__name__)
