"""A result as a model sees it: short enough to be paid for each turn. The journal holds the whole of it.

Pure. Called by the agent when it puts a result into the conversation.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import date, time
from typing import Any, Final, cast

from perdure.limits import NESTING_MAX
from perdure.model.ids import plain_text
from perdure.tools.results import dump

_HEAD: Final = 0.6  # of what is shown: the beginning says more often what it is, the end how it went


def shown(value: object, limit: int) -> str:
    """Return what a model sees of a result: text as it is, anything else as compact JSON, at most `limit` letters.

    Of more than that head and tail are shown, and a line between them says how much is left out. With a `limit` that
    is smaller than that line, the line is all.
    """
    text = plain_text(value) if isinstance(value, str) else plain_text(_as_json(value))
    if len(text) <= limit:
        return text
    room = max(0, limit - len(_gap(len(text), len(text))))
    head = math.ceil(room * _HEAD)
    tail = room - head
    return text[:head] + _gap(len(text) - room, len(text)) + text[len(text) - tail :]


def _gap(left_out: int, length: int) -> str:
    return f"\n[… {left_out:,} of {length:,} letters are left out here; the whole is in the journal …]\n"


def _as_json(value: object) -> str:
    return json.dumps(_plain(dump(value), 0), ensure_ascii=False, separators=(",", ":"))


def _plain(value: object, depth: int) -> object:
    """Return what JSON can say: bytes as text where they are text, what it has no word for as that is written."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth > NESTING_MAX:
        return "…"
    if isinstance(value, Mapping):
        members = cast("Mapping[Any, object]", value)
        return {_key(key): _plain(member, depth + 1) for key, member in members.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, depth + 1) for item in cast("list[object]", value)]
    if isinstance(value, set | frozenset):
        return [_plain(item, depth + 1) for item in sorted(cast("set[object]", value), key=repr)]
    return _word(value)


def _key(key: object) -> str:
    return key if isinstance(key, str) else json.dumps(_plain(key, 0), ensure_ascii=False)


def _word(value: object) -> str:
    if isinstance(value, bytes | bytearray):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return f"({len(value)} bytes that are no text)"
    return value.isoformat() if isinstance(value, date | time) else str(value)
