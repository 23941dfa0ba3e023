"""Texts of the workspace, by their place in it: what makes a call of a fork equal to the call of its parent.

A digest of arguments covers them as `placed` returns them: a text that is the workspace, or lies below it, stands
without the path of the workspace, behind a mark that no other text can begin with. So the digest is the same wherever
the workspace is. Only digests are made this way: what is recorded and what the tool is handed keep the whole path.
Called by `engine/arguments.py` only.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, cast

from perdure.codec import values

_MARK: Final = "\0"  # "\0", "\0/rest": the workspace and below; a text of the caller's that begins so gets one more
_MARKED: Final = b'"\\u0000'  # such a text in canonical bytes
_IN_BASE64: Final = b'{"~":["text",'  # there a text with lone surrogates cannot be seen
_GROUPS: Final = frozenset((list, tuple, set, frozenset))


def is_concerned(canonical: bytes, base: str) -> bool:
    """Whether `placed` may change the value with these canonical bytes; False is certain."""
    return _opening(base) in canonical or _MARKED in canonical or _IN_BASE64 in canonical


def placed(value: object, base: str) -> Any:  # noqa: ANN401 - any value of the domain
    """Return `value` with each text of workspace `base` by its place there, at any depth, in keys and members too.

    No two values become equal. What is no plain container and no text is handed through, a view of the state as well.
    """
    kind = type(value)
    if kind is str:
        return _placed_text(cast("str", value), base)
    if kind is dict:
        pairs = cast("dict[Any, Any]", value).items()
        return {placed(key, base): placed(item, base) for key, item in pairs}
    if kind in _GROUPS:
        return kind(placed(item, base) for item in cast("list[Any]", value))  # type: ignore[call-arg]  # one of the four
    return value


def _placed_text(text: str, base: str) -> str:
    if text.startswith(_MARK):
        return _MARK + text
    is_inside = text == base or text.startswith(base + "/")
    return _MARK + text[len(base) :] if is_inside else text


@lru_cache(maxsize=64)
def _opening(base: str) -> bytes:
    """Return how texts that begin with `base` begin in canonical bytes."""
    return values.canonical(base)[:-1]
