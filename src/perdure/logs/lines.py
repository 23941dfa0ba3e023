"""Lines of the log: one settled action is one line that stands alone, other entries are one line each.

The contract, field by field, is docs/reference/log.md and `schema.json`. What is kept in memory is the actions that are
open. Called by `copying` (the files) and by `views.history` (from the store).
"""

from __future__ import annotations

import base64
import functools
import zlib
from typing import Final, cast

import msgspec

from perdure.codec.entries import kind_name, read_header
from perdure.errors import Damaged
from perdure.logs.plain import Blobs, Plain, fetch_blobs, moment, to_line, to_plain
from perdure.logs.walking import Step, walk
from perdure.model import entry as e
from perdure.model.budget import Cost
from perdure.model.entry import Entry, Header
from perdure.model.failure import ErrorRecord
from perdure.ports import Store

VERSION: Final = 1
Line = dict[str, Plain]

_MOMENTS: Final = frozenset({"until"})
_EMPTY: Final = ("", b"", (), None)


class _Intent(msgspec.Struct, frozen=True):
    """An action that has begun, and the entry that says so."""

    entry: Entry
    payload: e.ActionIntended


class Joiner:
    """Makes the lines of one task, entry by entry in order; joins outcomes to their intents."""

    def __init__(self, store: Store, task: str, checkpoint: str = "") -> None:
        self._store = store
        self._task = task
        self._intents: dict[str, _Intent] = {}  # by action id, of those that are open or in doubt
        self._checkpoint = checkpoint  # the newest one before the entry at hand

    async def take(self, step: Step) -> Line | None:
        """Return the line of the next step of a walk, None for an intent. Raises Damaged."""
        if step.damage or step.header is None:
            raise Damaged(self._task, step.seq, step.damage)
        if step.entry is None:
            digest = read_header(step.frame, self._task, step.seq)[1].hex()
            raw = base64.b64encode(step.frame).decode()
            return self._head(step.header, "warning") | {"raw": raw, "digest": digest}
        return await self._line(step.entry)

    async def still_open(self) -> list[Line]:
        """Return a line for each action that has no outcome, in journal order."""
        lines: list[Line] = []
        for intent in self._intents.values():
            blobs = await fetch_blobs(self._store, [bytes(intent.payload.arguments)])
            line = self._head(intent.entry.header, "warning") | _asked(intent, blobs) | {"outcome": "open"}
            lines.append(line | {"digest": intent.entry.digest.hex()})
        return lines

    async def _line(self, entry: Entry) -> Line | None:
        payload = entry.payload
        match payload:
            case e.ActionIntended():
                self._intents[payload.action] = _Intent(entry, payload)
                return None
            case e.ActionSettled():
                line = await self._action(entry, payload)
            case _:
                self._note(payload)
                blobs = await fetch_blobs(self._store, raws_of(payload))
                line = {"fields": fields_of(payload, blobs)}
        return self._head(entry.header, _level(payload)) | line | {"digest": entry.digest.hex()}

    def _note(self, payload: e.Payload) -> None:
        match payload:
            case e.CheckpointMarked():
                self._checkpoint = payload.name
            case e.RolledBackEntry():
                self._checkpoint = payload.checkpoint
            case _:
                pass

    async def _action(self, entry: Entry, settled: e.ActionSettled) -> Line:
        intent = await self._intent_of(settled)
        raws = [bytes(settled.result), *([bytes(intent.payload.arguments)] if intent else ())]
        blobs = await fetch_blobs(self._store, raws)
        asked = _asked(intent, blobs) if intent else {}
        attempts = intent.payload.attempt if intent else 1
        return asked | _settled(settled, entry.header, blobs, attempts) | _present(checkpoint=self._checkpoint)

    async def _intent_of(self, settled: e.ActionSettled) -> _Intent | None:
        """Return the intent of an outcome; one from before the walk began is read from the store."""
        found = self._intents.get(settled.action)
        if settled.outcome != "in_doubt":
            self._intents.pop(settled.action, None)
        if found is not None or not settled.intent:
            return found
        async for step in walk(self._store, self._task, settled.intent - 1):
            entry = step.entry
            if step.seq == settled.intent and entry is not None and isinstance(entry.payload, e.ActionIntended):
                return _Intent(entry, entry.payload)
            return None
        return None

    def _head(self, header: Header, level: str) -> Line:
        """Return what every line begins with."""
        return {
            "v": VERSION,
            "task": self._task,
            "seq": header.seq,
            "at": moment(header.at),
            "level": level,
            "kind": kind_name(header.kind),
            "branch": header.branch,
        }


def line_bytes(line: Line) -> bytes:
    """Return the line as it is printed and kept, ended by LF; its last field is a checksum of all before."""
    body = to_line(line)[:-2]
    return b'%s,"crc":"%08x"}\n' % (body, zlib.crc32(body))


def is_intact(raw: bytes) -> bool:
    """Whether the checksum of a line fits; one without has none to fit."""
    body, mark, said = raw.rstrip(b"\n").rpartition(b',"crc":"')
    return not mark or said == b'%08x"}' % zlib.crc32(body)


def raws_of(payload: e.Payload) -> list[bytes]:
    """Return the encoded values that an entry holds."""
    return [raw for raw in map(bytes, _all_raws(payload)) if raw]


def fields_of(payload: msgspec.Struct, blobs: Blobs) -> Line:
    """Return the fields of an entry that say something, as plain JSON; digests in hexadecimal."""
    return {
        field.encode_name: _field(field.name, value, blobs)
        for field in _fields_of_kind(type(payload))
        if (value := getattr(payload, field.name)) != field.default and value not in _EMPTY
    }


@functools.cache
def _fields_of_kind(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """Return the fields of a struct: looked up once for each kind, since that takes longer than all the rest."""
    return msgspec.structs.fields(kind)


def _all_raws(value: object) -> list[msgspec.Raw]:
    if isinstance(value, msgspec.Raw):
        return [value]
    if isinstance(value, msgspec.Struct):
        return [raw for name in value.__struct_fields__ for raw in _all_raws(getattr(value, name))]
    return []


def _field(name: str, value: object, blobs: Blobs) -> Plain:
    match value:
        case msgspec.Raw():
            return to_plain(bytes(value), blobs)
        case bytes():
            return value.hex()
        case msgspec.Struct():
            return fields_of(value, blobs)
        case tuple():
            return [_field(name, item, blobs) for item in cast("tuple[object, ...]", value)]
        case int() if name in _MOMENTS:
            return moment(value)
        case _:
            return value


def _asked(intent: _Intent, blobs: Blobs) -> Line:
    asked = intent.payload
    return {
        "id": asked.action,
        "action": asked.tool,
        "effect": str(asked.effect),
        "inputs": to_plain(bytes(asked.arguments), blobs),
        "started_at": moment(intent.entry.header.at),
        **_present(
            key=asked.key,
            loop=asked.loop,
            effect_key=asked.effect_key,
            parent=asked.parent,
            step=asked.step,
            strategy=asked.strategy,
            reserved=_cost(asked.reserve),
        ),
    }


def _settled(settled: e.ActionSettled, header: Header, blobs: Blobs, attempts: int) -> Line:
    line: Line = {"id": settled.action, "outcome": settled.outcome}
    if settled.started_at:
        line["started_at"] = moment(settled.started_at)
    if bytes(settled.result):
        line["result"] = to_plain(bytes(settled.result), blobs)
    if settled.error is not None:
        line["error"] = _error(settled.error, attempts)
    ended_at = settled.started_at + settled.duration_us if settled.started_at else header.at
    line |= {"ended_at": moment(ended_at), "duration_ms": round(settled.duration_us / 1000, 3)}
    cost = _cost(settled)
    return line | _present(cost=cost, settled_by=settled.by, unapplied=settled.unapplied, invalid=settled.invalid)


def _cost(of: Cost | e.ActionSettled) -> Line:
    return _present(tokens_in=of.tokens_in, tokens_out=of.tokens_out, money=of.money)


def _error(error: ErrorRecord, attempts: int) -> Line:
    line: Line = {"class": error.failure_class, "type": error.type, "message": error.message, "attempts": attempts}
    return line | _present(causes=list(error.causes), trace=list(error.trace))


def _level(payload: e.Payload) -> str:
    match payload:
        case e.ActionSettled(outcome="failed") | e.TaskFailedEntry() | e.FailureObserved():
            return "error"
        case e.ActionSettled(outcome="in_doubt") | e.CheckJudged(passed=False) | e.QuestionAsked():
            return "warning"
        case e.RollbackBegan() | e.RollbackAbandoned() | e.RolledBackEntry() | e.TaskParkedEntry():
            return "warning"
        case _:
            return "info"


def _present(**fields: Plain) -> Line:
    return {name: value for name, value in fields.items() if value}
