"""Why a task went on as it did: each decision of recovery, with the row of its table and the counts that it saw.

The table is that of `core/recovery.py`. Called by `perdure explain`. Nothing is decided here, or decided again.
"""

from __future__ import annotations

from typing import Final

import msgspec

from perdure.core import recovery, strategies
from perdure.core.fold import Fold
from perdure.engine.loading import entries, load_fold, take_in
from perdure.logs.plain import moment
from perdure.model import entry as e
from perdure.model.decision import ChangeStrategy, Decision, RollBack
from perdure.model.entry import Entry
from perdure.model.failure import PASSING
from perdure.ports import Store
from perdure.views.handover.trail import described

_ROWS: Final = {row.name: row for row in recovery.TABLE}
_GOES_ON: Final = frozenset({"running", "paused", "parked"})  # in the others a person was asked, or it has ended


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """What the decision was made of, as it stood then."""

    failures: int  # counted, less verified progress
    failures_max: int
    same: int  # equal failures in a row, the last one included
    retries: int  # passing faults in a row, where the failure is one
    rollbacks: int  # decided since the last verified progress
    rounds: dict[str, int]  # by declared strategy, since the last verified progress


class Explained(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One decision."""

    entry: int
    at: str
    row: str
    when: str = ""  # the row's own words; empty where this version has no such row
    then: str = ""
    decision: str
    failure_class: str = ""  # empty where the program had returned
    tool: str = ""
    error: str = ""
    strategy: str = ""  # that was followed
    counts: Counts
    lesson: str = ""
    is_open: bool = False  # it is still to be obeyed


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """All decisions of a task, oldest first."""

    task: str
    name: str
    decisions: tuple[Explained, ...]


async def explain(store: Store, name: str) -> Explanation:
    """Return why the task called `name` went on as it did. Raises TaskUnknown, TaskAmbiguous, Damaged."""
    task = (await store.find(name)).task
    fold = await load_fold(store, task, at=1)
    found: list[Explained] = []
    earlier: dict[int, bytes] = {}
    async for entry in entries(store, task, 1):
        if isinstance(entry.payload, e.DecisionTaken):
            found.append(_explained(fold, entry, entry.payload))
        await take_in(store, fold, entry, earlier)
    if found and fold.ledger.decided is not None and fold.ledger.status in _GOES_ON:
        found[-1] = msgspec.structs.replace(found[-1], is_open=True)
    return Explanation(task=task, name=fold.ledger.name, decisions=tuple(found))


def _explained(fold: Fold, entry: Entry, taken: e.DecisionTaken) -> Explained:
    ledger = fold.ledger
    decision = msgspec.json.decode(bytes(taken.decision), type=Decision)
    row = _ROWS.get(taken.row)
    failure = ledger.last_failure
    return Explained(
        entry=entry.header.seq,
        at=moment(entry.header.at),
        row=taken.row,
        when=row.when if row is not None else "",
        then=row.then if row is not None else "",
        decision=described(decision),
        failure_class=failure.failure_class if failure is not None else "",
        tool=failure.tool if failure is not None else "",
        error=f"{failure.error.type}: {failure.error.message}" if failure is not None else "",
        strategy=ledger.strategies[fold.document.strategy].name if ledger.strategies else "",
        counts=_counts(fold),
        lesson=decision.lesson if isinstance(decision, RollBack | ChangeStrategy) else "",
    )


def _counts(fold: Fold) -> Counts:
    ledger = fold.ledger
    passes = ledger.last_failure is not None and ledger.last_failure.failure_class in PASSING
    return Counts(
        failures=ledger.failures,
        failures_max=ledger.failures_max,
        same=ledger.same,
        retries=ledger.retries if passes else 0,
        rollbacks=ledger.rollbacks_in_row,
        rounds=strategies.all_rounds(fold.document, ledger),
    )
