"""What a task has tried, as its journal tells it: one pass, entry by entry, that keeps the newest of each kind.

Keeps bytes where a value is only shown in the end. Memory is bounded by what is open, not by the journal's length.
Called by `gathering`.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Final, Generic, TypeVar

import msgspec

from perdure.codec import values
from perdure.core.recovery import TABLE
from perdure.limits import HANDOVER_CALLS_KEPT, HANDOVER_ITEMS_MAX
from perdure.logs.plain import moment
from perdure.model import decision as d
from perdure.model import entry as e
from perdure.model.entry import Entry
from perdure.model.failure import ErrorRecord
from perdure.views.handover.package import Asked, Circle, Decided, WentBack

_WHEN: Final = {row.name: row.when for row in TABLE}
T = TypeVar("T")


class Newest(Generic[T]):
    """The newest of many, and how many there were."""

    def __init__(self) -> None:
        self.kept: deque[T] = deque(maxlen=HANDOVER_ITEMS_MAX)
        self.number = 0

    def add(self, item: T) -> None:
        """Take one more."""
        self.kept.append(item)
        self.number += 1

    @property
    def left_out(self) -> int:
        """How many are not kept."""
        return self.number - len(self.kept)


class Call(msgspec.Struct, kw_only=True):
    """A call of a tool."""

    tool: str
    arguments: bytes  # as encoded
    intent: int
    undo: str
    is_effect: bool
    settled: int = 0
    is_of_left_branch: bool = False


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A failure as observed, with the call that it comes of."""

    entry: int
    at: int
    observed: e.FailureObserved
    strategy: str
    call: Call | None


class Trail:
    """Takes the entries of a task in order."""

    def __init__(self) -> None:
        self.faults: Newest[Fault] = Newest()
        self.decisions: Newest[Decided] = Newest()
        self.rollbacks: Newest[WentBack] = Newest()
        self.circles: Newest[Circle] = Newest()
        self.asked: Newest[Asked] = Newest()
        self.rounds: Counter[str] = Counter()  # of strategies that were chosen; the first one's first is not
        self.steps: dict[int, str] = {}  # entry of a check that has passed -> the step in which it was judged
        self.effects: dict[str, Call] = {}  # that happened, by action, oldest first
        self._calls: dict[str, Call] = {}  # open
        self._failed: dict[str, Call] = {}  # the newest that have failed
        self._step = ""
        self._is_going_back = False
        self._strategies = [(0, "")]  # (from which entry, which was chosen)

    def take(self, entry: Entry) -> None:
        """Take one more entry in."""
        seq, payload = entry.header.seq, entry.payload
        match payload:
            case e.ActionIntended() | e.ActionSettled():
                self._act(seq, payload)
            case e.StepBegan(name=name):
                self._step = name
            case e.CheckJudged(passed=True):
                self.steps[seq] = self._step
            case e.QuestionAsked() | e.QuestionAnswered():
                self._talk(entry)
            case _:
                self._recover(entry)

    def _act(self, seq: int, payload: e.ActionIntended | e.ActionSettled) -> None:
        if isinstance(payload, e.ActionIntended):
            self._calls[payload.action] = Call(
                tool=payload.tool,
                arguments=bytes(payload.arguments),
                intent=seq,
                undo=payload.effect.undo,
                is_effect=not (payload.effect.is_free or self._is_going_back),  # which makes undos and nothing else
            )
            return
        if payload.outcome == "in_doubt":
            return
        call = self._calls.pop(payload.action, None)
        if call is None:
            return
        call.settled = seq
        if payload.outcome == "failed":
            _put(self._failed, payload.action, call)
        elif call.is_effect:
            _put(self.effects, payload.action, call)

    def _talk(self, entry: Entry) -> None:
        payload, kept = entry.payload, self.asked.kept
        if isinstance(payload, e.QuestionAsked):
            seq, at, need = entry.header.seq, moment(entry.header.at), payload.reason
            self.asked.add(Asked(entry=seq, at=at, need=need, question=payload.question, key=payload.key))
        elif isinstance(payload, e.QuestionAnswered):
            open_ = [place for place, one in enumerate(kept) if one.key == payload.key and not one.answer]
            if open_:
                answer = str(values.decode(bytes(payload.answer)))
                kept[open_[-1]] = msgspec.structs.replace(kept[open_[-1]], answer=answer)

    def _recover(self, entry: Entry) -> None:
        seq, at, payload = entry.header.seq, entry.header.at, entry.payload
        match payload:
            case e.FailureObserved(failure=failure):
                call = self._failed.get(failure.action)
                self.faults.add(Fault(entry=seq, at=at, observed=payload, strategy=self._strategies[-1][1], call=call))
            case e.DecisionTaken(row=row):
                decision = described(msgspec.json.decode(bytes(payload.decision), type=d.Decision))
                when = _WHEN.get(row, "")
                self.decisions.add(Decided(entry=seq, at=moment(at), decision=decision, row=row, when=when))
            case e.StrategyChosen(strategy=strategy):
                self.rounds[strategy.name] += 1
                self._strategies.append((seq, strategy.name))
            case e.StuckNoticed(rule=rule, text=text, entries=entries, period=period):
                shown = entries[-HANDOVER_ITEMS_MAX:]
                self.circles.add(Circle(entry=seq, at=moment(at), rule=rule, text=text, entries=shown, period=period))
            case e.RollbackBegan() | e.RolledBackEntry() | e.RollbackAbandoned():
                self._go_back(entry)
            case _:
                pass

    def _go_back(self, entry: Entry) -> None:
        seq, payload = entry.header.seq, entry.payload
        self._is_going_back = isinstance(payload, e.RollbackBegan)
        if isinstance(payload, e.RollbackBegan):
            back = WentBack(
                entry=seq,
                at=moment(entry.header.at),
                checkpoint=payload.checkpoint,
                to_entry=payload.to_seq,
                why=payload.reason,
                strategy=payload.strategy,
                ended="it is under way",
            )
            self.rollbacks.add(back)
            return
        ended = f"done at entry {seq}" if isinstance(payload, e.RolledBackEntry) else f"given up at entry {seq}"
        if self.rollbacks.kept:
            self.rollbacks.kept[-1] = msgspec.structs.replace(self.rollbacks.kept[-1], ended=ended)
        if isinstance(payload, e.RolledBackEntry):
            while self._strategies[-1][0] > payload.to_seq:
                self._strategies.pop()
            for call in self.effects.values():
                call.is_of_left_branch |= call.settled > payload.to_seq


def described(decision: d.Decision) -> str:
    """Return a decision in one line."""
    match decision:
        case d.Retry(at):
            return f"Retry at {moment(at)}"
        case d.Reask(error, rephrase):
            return f"Reask{', said otherwise' if rephrase else ''}: {error}"
        case d.Nudge(text):
            return f"Nudge: {text}"
        case d.RollBack(to_seq, checkpoint, strategy):
            return f"RollBack to {checkpoint!r} (entry {to_seq}), then strategy {strategy!r}"
        case d.ChangeStrategy(strategy):
            return f"ChangeStrategy to {strategy!r}"
        case d.Park(until, reason):
            return f"Park until {moment(until)}: {reason}"
        case d.Ask(question):
            return f"Ask: {question}"
        case d.Pause(reason) | d.Abandon(reason):
            return f"{type(decision).__name__}: {reason}"
        case d.Condense(error):
            return f"Condense: {error}"
        case d.Continue() | d.Finish():
            return type(decision).__name__


def error_text(error: ErrorRecord) -> str:
    """Return an error in one line, with where it arose and what it comes of."""
    status = f" (HTTP {error.status})" if error.status else ""
    place = f"; at {error.trace[-1]}" if error.trace else ""
    causes = "".join(f"; of {cause}" for cause in error.causes)
    return f"{error.type}: {error.message}{status}{place}{causes}"


def _put(calls: dict[str, Call], action: str, call: Call) -> None:
    calls[action] = call
    if len(calls) > HANDOVER_CALLS_KEPT:
        del calls[next(iter(calls))]
