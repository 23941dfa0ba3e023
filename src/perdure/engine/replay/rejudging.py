"""Asks today's recovery about the failures on record: what would be decided otherwise now. Runs no program.

Each decision is asked for with document and ledger as they were at that entry, and with the time of its entry.
"""

from __future__ import annotations

from typing import Final, cast

import msgspec

from perdure.core import recovery
from perdure.core.recovery import Rules
from perdure.engine.loading import load_fold
from perdure.engine.replay.record import Record, RecordStore
from perdure.engine.replay.walking import Walk, wait_for_none
from perdure.model import entry as e
from perdure.model.decision import Abandon, Decision, Park, Retry
from perdure.model.failure import Failure
from perdure.ports import Store

_SAME_WAIT_US: Final = 250_000  # earlier versions counted from the decision, which came a commit after the failure


class Rejudged(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded decision that today's recovery would not take."""

    seq: int
    failure: str  # "type: message", empty where the program had returned
    recorded: str  # decision and, in brackets, the row
    today: str


class Rejudgement(msgspec.Struct, frozen=True, kw_only=True):
    """All decisions of a task, asked for anew."""

    task: str
    name: str
    decisions: int
    changed: tuple[Rejudged, ...]


def rejudge(record: Record, rules: Rules | None = None) -> Rejudgement:
    """Return what `core.recovery.decide` says today about each recorded decision.

    Whether somebody could be asked is not on record: it is taken from the decision itself. `rules` are asked instead.
    What a fork has from its parent was decided for the parent, and is asked about there.
    To be called anywhere; the record is in memory.
    """
    store = RecordStore(record, 1)
    fold = wait_for_none(load_fold(cast("Store", store), record.task, at=1))
    walk = Walk(record, fold, store)
    walk.limit = len(record.entries)
    changed: list[Rejudged] = []
    decisions = 0
    while (entry := walk.next) is not None:
        if isinstance(entry.payload, e.DecisionTaken) and entry.header.seq > fold.ledger.forked_at:
            decisions += 1
            otherwise = _ask_again(walk, entry, entry.payload, rules)
            changed.extend([otherwise] if otherwise else [])
        walk.take_in(entry)
    return Rejudgement(task=record.task, name=record.start.name, decisions=decisions, changed=tuple(changed))


def _ask_again(walk: Walk, entry: e.Entry, taken: e.DecisionTaken, rules: Rules | None) -> Rejudged | None:
    document, ledger = walk.fold.document, walk.fold.ledger
    recorded = msgspec.json.decode(bytes(taken.decision), type=Decision)
    failure = ledger.last_failure
    asked = rules or Rules(unattended=isinstance(recorded, Abandon))
    at = ledger.failed_at if failure is not None and ledger.failed_at else entry.header.at
    was_reached = taken.row == "already_done"  # only the program could say so
    today, row = recovery.decide(
        document, ledger, asked, at, has_returned=failure is None and not was_reached, is_reached=was_reached
    )
    if row == taken.row and _is_same(recorded, today):
        return None
    return Rejudged(
        seq=entry.header.seq,
        failure=_told(failure),
        recorded=_said(recorded, taken.row, at),
        today=_said(today, row, at),
    )


def _is_same(recorded: Decision, today: Decision) -> bool:
    if isinstance(recorded, Retry) and isinstance(today, Retry):
        return abs(recorded.at - today.at) <= _SAME_WAIT_US
    if isinstance(recorded, Park) and isinstance(today, Park):
        return abs(recorded.until - today.until) <= _SAME_WAIT_US and recorded.reason == today.reason
    return recorded == today


def _told(failure: Failure | None) -> str:
    return f"{failure.error.type}: {failure.error.message}" if failure is not None else ""


def _said(decision: Decision, row: str, at: int) -> str:
    name = type(decision).__name__.lower()
    match decision:
        case Retry(when):
            return f"{name} after {max(0, when - at) / 1_000_000:.1f} s ({row})"
        case _:
            text = next((str(part) for part in msgspec.structs.astuple(decision)), "")
            return f"{name}{': ' + text if text else ''} ({row})"
