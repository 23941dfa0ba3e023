"""Places in a state as a person types them: `orders[0].price`, `prices["a.b"]`, `queue[+]` (behind the last). Pure.

A name between dots is a key; what stands in brackets is JSON: the index of a list, or a key of any other kind. Not the
paths of patches, which are tuples already. Called by the engine for edits by hand, and by the command.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from perdure.codec.values import Path
from perdure.core.container import View
from perdure.core.views import ListView, MapView
from perdure.errors import StatePathInvalid

_NAME: Final = re.compile(r"[^.\[\]=]+")
_BRACKET: Final = re.compile(r'\[((?:"(?:[^"\\]|\\.)*"|[^\]"])*)\]')


class End(msgspec.Struct, frozen=True):
    """The place behind the last element of a list, as a step of a path."""

    def __str__(self) -> str:
        return "+"


END: Final = End()


def parse(text: str) -> Path:
    """Return the path that `text` means. Raises StatePathInvalid."""
    path, end = _read(text)
    if end != len(text):
        raise StatePathInvalid(text, f"it cannot be read from {text[end:]!r} on")
    return path


def parse_assignment(text: str) -> tuple[Path, str]:
    """Return path and value, as text, of `PATH=VALUE`. Raises StatePathInvalid."""
    path, end = _read(text)
    if text[end : end + 1] != "=":
        raise StatePathInvalid(text, "write PATH=JSON")
    return path, text[end + 1 :]


def spell(path: Path) -> str:
    """Return `path` as a person would type it."""
    text = ""
    for step in path:
        if isinstance(step, str) and _NAME.fullmatch(step):
            text += f".{step}"
        elif step is None or isinstance(step, str | bool):
            text += f"[{msgspec.json.encode(step).decode()}]"
        else:
            text += f"[{step}]"
    return text.removeprefix(".")


def put(state: View, path: Path, value: object) -> None:
    """Put `value` at `path` of a writable state. Raises StatePathInvalid; what the views raise."""
    parent, step = _lead(state, path), path[-1]
    if isinstance(parent, ListView) and step is END:
        parent.append(value)
        return
    if isinstance(parent, ListView):
        _check_index(parent, step, path)
    elif step is END:
        raise StatePathInvalid(spell(path), "only a list has a place behind its last element")
    parent[step] = value


def remove(state: View, path: Path) -> None:
    """Remove what stands at `path` of a writable state. Raises as `put`."""
    parent, step = _lead(state, path), path[-1]
    if isinstance(parent, ListView):
        _check_index(parent, step, path)
    elif step not in parent:
        raise StatePathInvalid(spell(path), "nothing stands there")
    del parent[step]


def find(root: Any, path: Path, default: object = None) -> object:  # noqa: ANN401 - a plain state
    """Return what stands at `path` of a plain state, or `default`."""
    found = root
    for step in path:
        try:
            found = found[step]
        except (LookupError, TypeError):
            return default
    return found


def _read(text: str) -> tuple[Path, int]:
    """Return the path with which `text` begins, and where it ends."""
    path: list[object] = []
    end = 0
    while end < len(text):
        is_named = not path or text[end] == "."
        name = _NAME.match(text, end + bool(path)) if is_named else None
        found = name or _BRACKET.match(text, end)
        if found is None:
            break
        path.append(found[0] if name else _key_in(text, found[1]))
        end = found.end()
    if not path:
        raise StatePathInvalid(text, "it begins with no key")
    return tuple(path), end


def _key_in(text: str, inner: str) -> object:
    if inner == "+":
        return END
    try:
        key: object = msgspec.json.decode(inner)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise StatePathInvalid(text, f"[{inner}] is neither an index nor a key in JSON") from error
    if isinstance(key, list | dict):
        raise StatePathInvalid(text, f"[{inner}] can be no key")
    return key


def _lead(state: View, path: Path) -> Any:  # noqa: ANN401 - a ListView or MapView
    """Return the view of the container in which the last step of `path` is to be made."""
    found: Any = state
    for number, step in enumerate(path[:-1]):
        here = path[: number + 1]
        if isinstance(found, ListView):
            _check_index(found, step, here)
        elif not isinstance(found, MapView) or step not in found:
            raise StatePathInvalid(spell(path), f"nothing stands at {spell(here)}")
        found = found[step]
    if not isinstance(found, ListView | MapView):
        raise StatePathInvalid(spell(path), f"what stands at {spell(path[:-1])} has no places inside; put it whole")
    return found


def _check_index(view: ListView, step: object, path: Path) -> None:
    if type(step) is not int or not 0 <= step < len(view):
        raise StatePathInvalid(spell(path), f"the list there has {len(view)} element(s), counted from 0")
