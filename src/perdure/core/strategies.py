"""Which strategy to take next: an order for each class of failure, weighed by what this task has made of each. Pure.

A strategy is told apart from the first one by what it changes. Nothing is learned from other tasks here; what they
have taught may come in with the task's start (`TaskStarted.prior`). Called by `core/recovery.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from perdure.errors import UsageError
from perdure.limits import ROUNDS_MAX
from perdure.model.document import Document
from perdure.model.failure import FailureClass
from perdure.model.ledger import Ledger, Tried
from perdure.model.strategy import DEFAULT_STRATEGY, Change, Strategy

_USUAL: Final[tuple[Change, ...]] = (
    "template", "tools", "source", "smaller_steps", "fresh_context", "model", "temperature", "ask",
)  # fmt: skip
# What helps most against a class of failure, best first; what is not named comes behind, in the usual order.
ORDER: Final[Mapping[FailureClass, tuple[Change, ...]]] = {
    "network": ("source", "model"),
    "capacity": ("model", "source"),
    "throttled": ("model", "source"),
    "request": ("template", "fresh_context", "tools", "model"),
    "context": ("fresh_context", "smaller_steps", "model"),
    "refusal": ("template", "source", "model"),
    "output": ("template", "smaller_steps", "model", "temperature"),
    "tool": ("tools", "source", "template"),
    "suspicious": ("source", "tools", "model"),
    "stuck": ("template", "tools", "source", "smaller_steps", "fresh_context"),
}
# Against these only another one to call helps; the same one under another template is as far away.
ELSEWHERE: Final[frozenset[FailureClass]] = frozenset({"network", "capacity", "throttled"})
_NOTHING: Final = Tried()
_PRIOR_WEIGHT: Final = 2.0
_PLACE_FACTOR: Final = 0.85  # of a place further back in the order


def strategies_of(ledger: Ledger) -> tuple[Strategy, ...]:
    """Return the declared strategies, or the one that stands for none."""
    return ledger.strategies or (DEFAULT_STRATEGY,)


def changes_of(strategy: Strategy, first: Strategy) -> tuple[Change, ...]:
    """Return what `strategy` does otherwise than `first`."""
    differs: tuple[tuple[Change, bool], ...] = (
        ("template", strategy.prompt != first.prompt),
        ("tools", strategy.tools != first.tools),
        ("source", strategy.source != first.source),
        ("model", strategy.model != first.model),
        ("temperature", strategy.temperature != first.temperature),
    )
    named: tuple[Change, ...] = (strategy.change,) if strategy.change else ()
    return (*named, *(change for change, is_so in differs if is_so))


def next_strategy(
    ledger: Ledger, current: int, failure_class: FailureClass, *, may_ask: bool = True
) -> Strategy | None:
    """Return the strategy to go on with after a dead end, None where each has had its rounds.

    One that has had fewer rounds comes first, then one with a better record here, then the order of the class. The
    present one comes last among its like. A source whose word was found false is not taken again. `may_ask`: whether
    there is somebody for the strategy that is to ask.
    """
    strategies = strategies_of(ledger)
    now = strategies[current]
    open_ = [one for one in strategies if _is_open(ledger, one, now) and (may_ask or one.change != "ask")]
    if not open_:
        return None

    def rank(one: Strategy) -> tuple[int, bool, bool, float]:
        is_ask = one.change == "ask"
        return (rounds_of(ledger, one, now), is_ask, one.name == now.name, -_worth(ledger, one, now, failure_class))

    return min(open_, key=rank)


def elsewhere(ledger: Ledger, current: int, failure_class: FailureClass) -> Strategy | None:
    """Return a strategy that calls another model or source than the present one, None where there is none left."""
    strategies = strategies_of(ledger)
    now = strategies[current]
    other = [
        one
        for one in strategies
        if (one.model, one.source) != (now.model, now.source) and one.change != "ask" and _is_open(ledger, one, now)
    ]
    return min(
        other, key=lambda one: (rounds_of(ledger, one, now), -_worth(ledger, one, now, failure_class)), default=None
    )


def has_ended_so(document: Document, ledger: Ledger) -> bool:
    """Whether the last failure is the one with which an earlier round of the present strategy has ended."""
    record = ledger.tried.get(strategies_of(ledger)[document.strategy].name, _NOTHING)
    return record.rounds > 1 and bool(record.ended) and record.ended == ledger.signature


def ended_so(ledger: Ledger) -> int:
    """Return how often the strategies, all of them, have come to the end of the last failure; 0: not all have.

    One alone says nothing. The present one has come to it now.
    """
    records = [ledger.tried.get(one.name, _NOTHING) for one in ledger.strategies]
    ends = [record.ended for record in records if record.ended]
    if len(records) == 1 or len(ends) < len(records) - 1 or set(ends) != {ledger.signature}:
        return 0
    return 1 + sum(max(0, record.rounds - 1) for record in records)


def rounds_of(ledger: Ledger, strategy: Strategy, current: Strategy) -> int:
    """Return how many rounds a strategy has had since the last verified progress; the present one is in one."""
    rounds = ledger.tried.get(strategy.name, _NOTHING).rounds
    return max(1, rounds) if strategy.name == current.name else rounds


def all_rounds(document: Document, ledger: Ledger) -> dict[str, int]:
    """Return how many rounds each declared strategy has had since the last verified progress."""
    now = strategies_of(ledger)[document.strategy]
    return {one.name: rounds_of(ledger, one, now) for one in ledger.strategies}


def _is_open(ledger: Ledger, strategy: Strategy, current: Strategy) -> bool:
    """Return whether a strategy may have a round still."""
    return rounds_of(ledger, strategy, current) < ROUNDS_MAX and strategy.source not in ledger.quarantined


def _worth(ledger: Ledger, strategy: Strategy, current: Strategy, failure_class: FailureClass) -> float:
    """Return how promising a strategy is: its own record, drawn towards its place in the order, by what it costs."""
    order = (*ORDER.get(failure_class, ()), *_USUAL)
    places = [order.index(change) for change in changes_of(strategy, current)]
    expected: float = _PLACE_FACTOR ** min(places, default=len(order))
    record = ledger.tried.get(strategy.name, _NOTHING)
    rate = (record.progress + _PRIOR_WEIGHT * expected) / (record.progress + record.failures + _PRIOR_WEIGHT)
    return rate / _cost(ledger, strategy)


def _cost(ledger: Ledger, strategy: Strategy) -> float:
    """Return how many actions a piece of progress costs with it, beside all strategies together; 1: not known."""
    record = ledger.tried.get(strategy.name, _NOTHING)
    actions = sum(one.actions for one in ledger.tried.values())
    progress = sum(one.progress for one in ledger.tried.values())
    if not record.progress or not progress or not actions:
        return 1.0
    return max(0.25, min(4.0, (record.actions / record.progress) / (actions / progress)))


# --- making them ----------------------------------------------------------------------------------------------------
def variations(
    first: Strategy,
    *,
    prompts: Sequence[str] = (),
    tools: Sequence[Sequence[str]] = (),
    sources: Sequence[str] = (),
    models: Sequence[str] = (),
    more: Sequence[Change] = (),
) -> tuple[Strategy, ...]:
    """Return `first` and, for each thing given, a strategy that does that one thing otherwise: for `strategies=`.

    `prompts`: other templates; `tools`: other orders or sets of tool names; `sources`, `models`: another one. `more`:
    of "smaller_steps", "fresh_context", "ask" (a person is asked). Each is called by what it changes:
    "template 1", "tools 1", "source books". Recovery picks among them by class of failure and by what has worked.
    """
    for given in (prompts, tools, *tools, sources, models, more):
        if isinstance(given, str):
            raise UsageError(
                f"{given!r} is no list, and each of its letters would be taken for one; put it in brackets"
            )
    made = [first]
    made += [msgspec.structs.replace(first, name=f"template {n}", prompt=one) for n, one in enumerate(prompts, 1)]
    made += [msgspec.structs.replace(first, name=f"tools {n}", tools=tuple(one)) for n, one in enumerate(tools, 1)]
    made += [msgspec.structs.replace(first, name=f"source {one}", source=one) for one in sources]
    made += [msgspec.structs.replace(first, name=f"model {one}", model=one) for one in models]
    made += [msgspec.structs.replace(first, name=one.replace("_", " "), change=one) for one in more]
    return tuple(made)


def learned(ledgers: Iterable[Ledger]) -> dict[str, tuple[int, int]]:
    """Return (progress, failures) of each strategy, as those tasks have made of it: a prior for the next one."""
    sums: dict[str, tuple[int, int]] = {}
    for ledger in ledgers:
        for name, record in ledger.tried.items():
            progress, failures = sums.get(name, (0, 0))
            sums[name] = (progress + record.progress, failures + record.failures)
    return sums
