"""A task's journal as lines of JSON: one settled action is one line that stands alone, other entries one line each.

The contract, field by field, is docs/reference/log.md. Reads in bounded memory: what is kept is the actions that are
open. Called by `perdure log`.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Final, cast

import msgspec

from perdure.codec.entries import kind_name
from perdure.errors import Damaged
from perdure.model import entry as e
from perdure.model.entry import Entry, Header
from perdure.model.failure import ErrorRecord
from perdure.ports import Store
from perdure.views.plain import Blobs, Plain, fetch_blobs, moment, to_plain
from perdure.views.walking import walk

VERSION: Final = 1
Line = dict[str, Plain]

_MOMENTS: Final = frozenset({"until"})
_EMPTY: Final = ("", b"", (), None)


async def log_lines(store: Store, task: str, after: int = 0) -> AsyncIterator[Line]:
    """Yield the lines of `task` whose seq is over `after`, then one for each action that is still open.

    Raises Damaged at the first damage (what is before it has been yielded), TaskUnknown.
    """
    joiner = _Joiner(task)
    async for step in walk(store, task):
        if step.damage:
            raise Damaged(task, step.seq, step.damage)
        if step.entry is not None:
            joiner.remember(step.entry)
        if step.seq <= after or step.header is None:
            continue
        if step.entry is None:
            raw = base64.b64encode(step.frame).decode()
            yield {**joiner.head(step.header, "warning"), "raw": raw}
        elif not isinstance(step.entry.payload, e.ActionIntended):
            yield await joiner.line(store, step.entry)
    for line in await joiner.still_open(store, after):
        yield line


class _Intent(msgspec.Struct, frozen=True):
    """An action that has begun, and the entry that says so."""

    entry: Entry
    payload: e.ActionIntended


class _Joiner:
    """Joins outcomes to their intents."""

    def __init__(self, task: str) -> None:
        self._task = task
        self._intents: dict[str, _Intent] = {}  # by action id, of those that are open or in doubt
        self._settled: _Intent | None = None  # of the action that the entry at hand settles
        self._checkpoint = ""

    def remember(self, entry: Entry) -> None:
        """Take note of what later lines refer to."""
        payload = entry.payload
        match payload:
            case e.ActionIntended():
                self._intents[payload.action] = _Intent(entry, payload)
            case e.ActionSettled(outcome="in_doubt"):
                self._settled = self._intents.get(payload.action)
            case e.ActionSettled():
                self._settled = self._intents.pop(payload.action, None)
            case e.CheckpointMarked():
                self._checkpoint = payload.name
            case e.RolledBackEntry():
                self._checkpoint = payload.checkpoint
            case _:
                pass

    async def line(self, store: Store, entry: Entry) -> Line:
        """Return the line of any entry but an intent."""
        payload = entry.payload
        head = self.head(entry.header, _level(payload))
        if isinstance(payload, e.ActionSettled):
            intent = self._settled
            raws = [bytes(payload.result), *([bytes(intent.payload.arguments)] if intent else ())]
            blobs = await fetch_blobs(store, raws)
            asked = _asked(intent, blobs) if intent else {}
            attempts = intent.payload.attempt if intent else 1
            line = head | asked | _settled(payload, entry.header, blobs, attempts)
            line |= _present(checkpoint=self._checkpoint)
        else:
            blobs = await fetch_blobs(store, raws_of(payload))
            line = head | {"fields": fields_of(payload, blobs)}
        return line | {"digest": entry.digest.hex()}

    async def still_open(self, store: Store, after: int) -> list[Line]:
        """Return a line for each action without an outcome, in journal order."""
        lines: list[Line] = []
        for intent in self._intents.values():
            if intent.entry.header.seq > after:
                blobs = await fetch_blobs(store, [bytes(intent.payload.arguments)])
                line = self.head(intent.entry.header, "warning") | _asked(intent, blobs) | {"outcome": "open"}
                lines.append(line | {"digest": intent.entry.digest.hex()})
        return lines

    def head(self, header: Header, level: str) -> Line:
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


def raws_of(payload: e.Payload) -> list[bytes]:
    """Return the encoded values that an entry holds."""
    return [raw for raw in map(bytes, _all_raws(payload)) if raw]


def fields_of(payload: msgspec.Struct, blobs: Blobs) -> Line:
    """Return the fields of an entry that say something, as plain JSON; digests in hexadecimal."""
    return {
        field.encode_name: _field(field.name, value, blobs)
        for field in msgspec.structs.fields(payload)
        if (value := getattr(payload, field.name)) != field.default and value not in _EMPTY
    }


def _all_raws(value: object) -> list[msgspec.Raw]:
    if isinstance(value, msgspec.Raw):
        return [value]
    if isinstance(value, msgspec.Struct):
        return [raw for field in msgspec.structs.fields(value) for raw in _all_raws(getattr(value, field.name))]
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
    cost = _present(tokens_in=settled.tokens_in, tokens_out=settled.tokens_out, money=settled.money)
    return line | _present(cost=cost, settled_by=settled.by, unapplied=settled.unapplied, invalid=settled.invalid)


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
