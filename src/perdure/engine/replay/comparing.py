"""What of an entry is the program's doing, and how two entries differ. Pure.

Not compared: ids (they are given from the record), times, how long things took, traces of errors, and what a tool gave
(that is handed in from the record). Everything else that an entry says was decided by the program or by the library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec

from perdure.codec import leaves
from perdure.errors import CodecError
from perdure.logs.lines import fields_of
from perdure.logs.plain import to_plain
from perdure.model import entry as e
from perdure.model.decision import Decision
from perdure.model.kinds import KINDS

_TEXT_MAX: Final = 300  # characters of one value that are shown
_MOMENTS: Final = frozenset({"at", "until"})  # in decisions: they hang on when it was decided
_NAMES: Final = {kind: name for _, name, kind in KINDS}
_FED: Final[dict[type, frozenset[str]]] = {
    e.ProgramCalled: frozenset({"source_digest", "perdure"}),
    e.ActionIntended: frozenset({"action", "arguments", "timeout_s", "parent", "step", "paid", "reserve"}),
    e.ActionSettled: frozenset(
        {"intent", "result", "error", "started_at", "duration_us", "tokens_in", "tokens_out", "money", "hollow"}
    ),
}

Blobs = Mapping[bytes, bytes]


class Difference(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that is not as recorded."""

    field: str
    expected: str = ""
    came: str = ""


class Divergence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first place at which a replay left the record."""

    seq: int  # of the entry that was expected, or of the last one where none was
    expected: str  # the entry in one line
    came: str
    differences: tuple[Difference, ...] = ()


def differences(expected: e.Payload, came: e.Payload, blobs: Blobs) -> tuple[Difference, ...]:
    """Return how `came` differs from the recorded payload, in the order of the fields; () where it does not."""
    if type(expected) is not type(came):
        return (Difference("kind", name_of(expected), name_of(came)),)
    old, new = _essence(expected), _essence(came)
    names = [name for name in dict.fromkeys((*old, *new)) if old.get(name) != new.get(name)]
    found = [Difference(name, _shown(old.get(name), blobs), _shown(new.get(name), blobs)) for name in names]
    if "digest" in names and isinstance(expected, e.ActionIntended) and isinstance(came, e.ActionIntended):
        told = Difference("arguments", _shown(expected.arguments, blobs), _shown(came.arguments, blobs))
        found[names.index("digest")] = told
    return tuple(found)


def name_of(payload: e.Payload) -> str:
    """Return the name of a payload's kind, as `log` prints it."""
    return _NAMES[type(payload)]


def describe(payload: e.Payload, blobs: Blobs) -> str:
    """Return an entry in one line, for people."""
    match payload:
        case e.ActionIntended(tool=tool, key=key, loop=loop):
            named = f" key {key!r}" if key else ""
            place = f" in loop {loop!r}" if loop else ""
            return _cut(f"action_intended {tool}{named}{place} {_shown(payload.arguments, blobs)}")
        case e.ActionSettled(action=action, outcome=outcome, error=error):
            why = f" ({error.type}: {error.message})" if error else ""
            return _cut(f"action_settled {action} {outcome}{why}")
        case e.ValuesDrawn(values=values):
            return _cut(f"values_drawn {_shown(values, blobs)}")
        case _:
            try:
                fields = fields_of(payload, blobs)
            except (KeyError, CodecError):
                fields = {}
            return _cut(f"{name_of(payload)} {_json(fields) if fields else ''}".rstrip())


def shape_of(arguments: msgspec.Raw) -> Any:  # noqa: ANN401 - a wire
    """Return recorded arguments without the seqs at which views were given: what a tolerant replay compares."""
    return _without_seqs(msgspec.json.decode(bytes(arguments)))


def _essence(payload: e.Payload) -> dict[str, object]:
    """Return what the program or the library has decided of an entry, by field."""
    match payload:
        case e.FailureObserved(failure=failure, counted=counted):
            error = failure.error
            return {
                "type": error.type,
                "message": error.message,
                "class": failure.failure_class,
                "action": failure.action,
                "counted": counted,
            }
        case e.DecisionTaken(decision=raw, row=row):
            decision = msgspec.to_builtins(msgspec.json.decode(bytes(raw), type=Decision))
            return {"row": row, "decision": {name: part for name, part in decision.items() if name not in _MOMENTS}}
        case e.RollbackBegan(moves=moves):  # whether files go back is seen on the disk, which a replay does not look at
            outside = tuple(move for move in moves if not move.startswith("files "))
            return {**_told(payload), "moves": outside}
        case e.TaskParkedEntry(reason=reason):
            return {"reason": reason}
        case _:
            return _told(payload)


def _told(payload: e.Payload) -> dict[str, object]:
    fed = _FED.get(type(payload), frozenset())
    names = [field.name for field in msgspec.structs.fields(payload)]
    return {name: _plain(getattr(payload, name)) for name in names if name not in fed}


def _plain(value: object) -> object:
    return bytes(value) if isinstance(value, msgspec.Raw) else value


def _shown(value: object, blobs: Blobs) -> str:
    """Return a field's value as text; encoded values as plain JSON."""
    match value:
        case None:
            return ""
        case bytes() | msgspec.Raw():
            raw = bytes(value)
            try:
                return _cut(_json(to_plain(raw, blobs))) if raw else ""
            except msgspec.DecodeError:
                return raw.hex()
        case str():
            return _cut(value)
        case _:
            return _cut(_json(msgspec.to_builtins(value)))


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}… [{len(text)} characters]"


def _without_seqs(wire: object) -> Any:  # noqa: ANN401 - a wire of the value codec
    if isinstance(wire, list):
        return [_without_seqs(part) for part in cast("list[object]", wire)]
    if not isinstance(wire, dict):
        return wire
    fields = cast("dict[str, object]", wire)
    tagged = fields.get("~")
    if isinstance(tagged, list) and tagged and tagged[0] in {"state", "run"}:
        return cast("list[object]", tagged)[:-1]
    return {key: _without_seqs(part) for key, part in fields.items()}


def text_of(value: object) -> str:
    """Return any value of the codec's domain as text for people."""
    writer = leaves.LeafWriter()
    return _shown(leaves.encode(value, writer), writer.blobs)
