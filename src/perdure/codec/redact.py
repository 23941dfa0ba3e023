"""Takes known secrets out of what is recorded or shown: values, texts, payloads of entries, streams of text.

Each known secret gives way to its mask, `[secret NAME]`, in all spellings that `codec/spelling.py` knows, inside longer
texts and bytes, in keys and members. Where nothing is known to be secret everything is returned as it came, at the cost
of one look. What was recorded before a secret was known stays as it is. Not the registry (`codec/known.py`).
Called where values enter: arguments, results, the state, names and texts of the API, errors, messages, notices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import is_not
from typing import Any, Final, TypeVar, cast
from uuid import UUID

import msgspec

from perdure.codec.known import process
from perdure.codec.masks import Masks
from perdure.limits import NESTING_MAX
from perdure.model.ids import cut_text

Payload = TypeVar("Payload", bound=msgspec.Struct)

# Fields that name what a program or the disk calls so: with a mask in them nothing would be found again.
_KEPT_FIELDS: Final = frozenset({"kind", "target", "folder", "workspace", "holder", "tool", "action", "paths", "bases"})


def redact(value: Any) -> Any:  # noqa: ANN401 - of the same type, in each case
    """Return `value` without known secrets; the same object where it holds none."""
    masks = process.masks
    return value if masks is None else _without(value, masks, 0)


def redact_text(text: str) -> str:
    """Return `text` without known secrets. Before it is cut: half a secret is not recognised."""
    masks = process.masks
    return text if masks is None else masks.in_text(text)


def cut_redacted(text: str, size_max: int) -> str:
    """Return `text` without known secrets, and of that the head of at most `size_max` bytes (`model.ids.cut_text`)."""
    return cut_text(redact_text(text), size_max)


def redact_payload(payload: Payload) -> Payload:
    """Return the payload of an entry without known secrets in its texts; `Raw` fields were redacted as values.

    The last look before an entry is sequenced: no text that anybody puts into one can go round it.
    """
    masks = process.masks
    return payload if masks is None else cast("Payload", _struct_without(payload, masks))


class TextStream:
    """Takes secrets out of a text that comes in pieces; what may be the beginning of one is held back."""

    def __init__(self) -> None:
        self._held = ""

    def take(self, piece: str) -> str:
        """Return what can be shown now of all that has come."""
        masks = process.masks
        text, self._held = self._held + piece, ""
        if masks is None or not text:
            return text
        clear = masks.in_text(text)
        begun = masks.begun_in(text)  # before anything is masked: one secret may be the beginning of another
        if begun and masks.in_text(text[:-begun]) + masks.in_text(text[-begun:]) == clear:
            self._held = text[-begun:]
            return masks.in_text(text[:-begun])
        begun = masks.begun_in(clear)
        if begun:
            clear, self._held = clear[:-begun], clear[-begun:]
        return clear

    def finish(self) -> str:
        """Return what was held back: nothing more comes."""
        text, self._held = self._held, ""
        return redact_text(text)


def _without(value: Any, masks: Masks, depth: int) -> Any:  # noqa: ANN401 - any value
    kind = cast("type[Any]", type(value))  # type: ignore[redundant-cast]  # pyright needs it
    walk = _WALKS.get(kind)
    return value if walk is None or depth > NESTING_MAX else walk(value, masks, depth + 1)


def _items_without(items: Iterable[Any], masks: Masks, depth: int) -> list[Any] | None:
    """Return the items without secrets, None where there are none in them."""
    made: list[Any] = []
    is_changed = False
    for item in items:
        clear = _without(item, masks, depth)
        is_changed = is_changed or clear is not item
        made.append(clear)
    return made if is_changed else None


def _dict_without(value: dict[Any, Any], masks: Masks, depth: int) -> dict[Any, Any]:
    keys = _items_without(value, masks, depth)
    items = _items_without(value.values(), masks, depth)
    if keys is None and items is None:
        return value
    made: dict[Any, Any] = {}
    for key, item in zip(value if keys is None else keys, value.values() if items is None else items, strict=True):
        made[_told_apart(key, made)] = item
    return made


def _told_apart(key: Any, taken: dict[Any, Any]) -> Any:  # noqa: ANN401 - any key
    """Return `key`, or it with a number where another one has the same mask: no item is to be lost."""
    count, found = 1, key
    while found in taken:
        count += 1
        found = f"{key} {count}" if isinstance(key, str) else (key, count)
    return found


def _group_without(value: Any, masks: Masks, depth: int) -> Any:  # noqa: ANN401 - a list, tuple, set or frozenset
    made = _items_without(value, masks, depth)
    return value if made is None else type(value)(made)


def _uuid_without(value: UUID, masks: Masks, _depth: int) -> UUID | str:
    text = str(value)
    made = masks.in_text(text)
    return value if made is text else made


def _struct_without(value: msgspec.Struct, masks: Masks) -> msgspec.Struct:
    changed: dict[str, Any] = {}
    for name in value.__struct_fields__:
        if name not in _KEPT_FIELDS:
            found = getattr(value, name)
            clear = _field_without(found, masks)
            if clear is not found:
                changed[name] = clear
    return msgspec.structs.replace(value, **changed) if changed else value


def _field_without(found: Any, masks: Masks) -> Any:  # noqa: ANN401 - what stands in a payload
    if isinstance(found, msgspec.Struct):
        return _struct_without(found, masks)
    if isinstance(found, tuple):
        items = cast("tuple[Any, ...]", found)  # type: ignore[redundant-cast]  # pyright needs it
        made = tuple(_field_without(item, masks) for item in items)
        return made if any(map(is_not, made, items)) else items
    return masks.in_text(found) if type(found) is str else found


_WALKS: Final[dict[type, Callable[[Any, Masks, int], Any]]] = {
    str: lambda value, masks, _: masks.in_text(value),
    bytes: lambda value, masks, _: masks.in_bytes(value),
    UUID: _uuid_without,
    dict: _dict_without,
    list: _group_without,
    tuple: _group_without,
    set: _group_without,
    frozenset: _group_without,
}
