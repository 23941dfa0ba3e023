"""A task's checkpoints, and what it would cost to go back to each: `perdure checkpoints`.

Only what stands on the present branch counts: what a rollback has left behind is lost already. Reads the journal once,
from its beginning, and keeps one sum per checkpoint.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

import msgspec

from perdure.core import rollback
from perdure.core.fold import Fold
from perdure.engine.loading import entries, load_fold
from perdure.logs.plain import moment
from perdure.model import entry as e
from perdure.model import money as coins
from perdure.model.entry import Entry
from perdure.model.ledger import Ledger
from perdure.ports import Store
from perdure.views.showing import Mark, marks_of

_SECOND_US: Final = 1_000_000


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """What a rollback would give up, and what it would have to do."""

    actions: int = 0  # settled since
    tokens_in: int = 0
    tokens_out: int = 0
    money: tuple[str, ...] = ()  # one amount per currency
    seconds: float = 0.0  # from the checkpoint to the last entry
    to_undo: int = 0  # effects that would be taken back
    staying: int = 0  # effects that would stay in the world
    files: int = 0  # paths that the task has changed since


class Listed(Mark, frozen=True, kw_only=True, omit_defaults=True):
    """A checkpoint as listed."""

    at: str
    admissible: bool  # whether a rollback without a person may go back to it
    price: Price


class _Span(msgspec.Struct):
    """What happened on the present branch from one moment to which a rollback can go back to the next such moment."""

    seq: int  # of the checkpoint, or of the outcome of an effect that cannot be undone; 1 for the start
    at: int = 0
    actions: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    money: dict[str, Decimal] = {}  # by currency
    effects: dict[str, str] = {}  # action id -> how it is undone; those that failed are gone
    paths: set[str] = set()


async def list_checkpoints(store: Store, name: str) -> tuple[Listed, ...]:
    """Return the checkpoints of the present branch, oldest first. Raises TaskUnknown, TaskAmbiguous, Damaged."""
    fold = await load_fold(store, (await store.find(name)).task)
    marks = marks_of(fold)
    prices = await _prices(store, fold) if marks else {}
    admissible = {mark.seq for mark in rollback.admissible(fold.document, fold.ledger)}
    return tuple(_listed(mark, *prices[_span_at(prices, mark.seq)], is_open=mark.seq in admissible) for mark in marks)


def _span_at(prices: Mapping[int, object], seq: int) -> int:
    """Return where the span begins in which entry `seq` lies: behind an effect nothing is marked."""
    return max(start for start in prices if start <= seq)


async def _prices(store: Store, fold: Fold) -> dict[int, tuple[int, Price]]:
    """Return moment and price of each checkpoint, by its seq."""
    sums = _Sums(fold.ledger)
    last = 0
    async for entry in entries(store, fold.task):
        if entry.header.seq > fold.seq:
            break  # it came while we read
        last = entry.header.at
        sums.take(entry)
    total = _Span(seq=0)
    found: dict[int, tuple[int, Price]] = {}
    for span in reversed(sums.spans):
        _add(total, span)
        found[span.seq] = (span.at, _price(total, (last - span.at) / _SECOND_US))
    return found


class _Sums:
    """The spans of the present branch, as the journal is read."""

    def __init__(self, ledger: Ledger) -> None:
        self.spans = [_Span(seq=1)]
        self._ledger = ledger
        self._intended: dict[str, _Span] = {}  # effects without an outcome, and where they were intended
        self._undo: dict[str, str] = {}  # how each effect is undone, on branches that were left as well

    def take(self, entry: Entry) -> None:
        """Take an entry into the newest span; a rollback empties what is behind the one that it goes back to."""
        seq, at = entry.header.seq, entry.header.at
        span, payload = self.spans[-1], entry.payload
        match payload:
            case e.TaskStarted() | e.TaskForked():
                span.at = at
            case e.CheckpointMarked():
                self.spans.append(_Span(seq=seq, at=at))
            case e.RolledBackEntry(to_seq=to_seq):
                while self.spans[-1].seq > to_seq:
                    self.spans.pop()
                self.spans[-1] = _Span(seq=self.spans[-1].seq, at=self.spans[-1].at)
            case e.ActionIntended(action=action, effect=effect) if not effect.is_free:
                stays = rollback.stays(effect.undo, seq, self._ledger)
                self._undo[action] = span.effects[action] = "impossible" if stays else effect.undo
                self._intended[action] = span
            case e.ActionReused(action=action):
                span.effects[action] = self._undo.get(action, "")
                if span.effects[action] == "impossible":
                    self.spans.append(_Span(seq=seq, at=at))
            case e.ActionSettled() if self._settled(span, payload) == "impossible":
                self.spans.append(_Span(seq=seq, at=at))
            case e.FilesCaptured(action=action) if action:
                span.paths.update(change.path for change in payload.changes)
            case _:
                pass

    def _settled(self, span: _Span, settled: e.ActionSettled) -> str:
        """Count an outcome; return how its effect is undone, "" where there is none."""
        span.tokens_in += settled.tokens_in
        span.tokens_out += settled.tokens_out
        if settled.money:
            coins.add(span.money, coins.recorded_amounts(settled.money))
        if settled.outcome == "in_doubt":
            return ""
        span.actions += 1
        home = self._intended.pop(settled.action, None)
        if home is not None and settled.outcome == "failed":
            home.effects.pop(settled.action, None)
        return home.effects.get(settled.action, "") if home is not None else ""


def _add(total: _Span, span: _Span) -> None:
    total.actions += span.actions
    total.tokens_in += span.tokens_in
    total.tokens_out += span.tokens_out
    coins.add(total.money, span.money)
    total.effects.update(span.effects)
    total.paths.update(span.paths)


def _price(total: _Span, seconds: float) -> Price:
    undo = Counter(total.effects.values())
    return Price(
        actions=total.actions,
        tokens_in=total.tokens_in,
        tokens_out=total.tokens_out,
        money=tuple(coins.text_of({name: amount}) for name, amount in sorted(total.money.items()) if amount),
        seconds=max(0.0, seconds),
        to_undo=undo["function"],
        staying=undo["impossible"],
        files=len(total.paths),
    )


def _listed(mark: Mark, at: int, price: Price, *, is_open: bool) -> Listed:
    fields = {field: getattr(mark, field) for field in mark.__struct_fields__}
    return Listed(**fields, at=moment(at), admissible=is_open and mark.verdict != "failed", price=price)
