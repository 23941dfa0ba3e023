"""Shares with their intervals, the gap that was closed, and macro-F1. Plain arithmetic. Called by the page."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from perdure.testing.simulation.chance import Chance

_Z: Final = 1.959964  # 95 %
_RESAMPLES: Final = 1_000


class Share(msgspec.Struct, frozen=True):
    """So many of so many, with its Wilson interval."""

    hits: int
    count: int

    @property
    def value(self) -> float:
        """The share itself. Raises ZeroDivisionError of nothing: a share of no runs is no figure."""
        return self.hits / self.count

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval after Wilson (1927)."""
        count, share = self.count, self.value
        centre = (share + _Z**2 / (2 * count)) / (1 + _Z**2 / count)
        half = _Z / (1 + _Z**2 / count) * math.sqrt(share * (1 - share) / count + _Z**2 / (4 * count**2))
        return max(0.0, centre - half), min(1.0, centre + half)

    def holds(self, expected: float) -> bool:
        """Whether `expected` lies in the interval."""
        lowest, highest = self.interval
        return lowest <= expected <= highest

    def __str__(self) -> str:
        lowest, highest = self.interval
        return f"{self.value:.3f} ({lowest:.3f}–{highest:.3f})"


def share_of(values: Iterable[bool]) -> Share:
    """Return how many of `values` hold."""
    listed = list(values)
    return Share(sum(listed), len(listed))


def gap_closed(nothing: Sequence[bool], arm: Sequence[bool], oracle: Sequence[bool]) -> float:
    """Return which part of the way from no recovery to the oracle an arm has gone, over the same seeds."""
    floor, ceiling = sum(nothing), sum(oracle)
    return (sum(arm) - floor) / (ceiling - floor) if ceiling > floor else math.nan


def gap_interval(nothing: Sequence[bool], arm: Sequence[bool], oracle: Sequence[bool]) -> tuple[float, float]:
    """Return the 95 % interval of `gap_closed`, by drawing seeds again and again (percentile bootstrap)."""
    chance, count = Chance("bootstrap"), len(arm)
    gaps: list[float] = []
    for _ in range(_RESAMPLES):
        places = [chance.below(count) for _ in range(count)]
        drawn = [[values[place] for place in places] for values in (nothing, arm, oracle)]
        gap = gap_closed(*drawn)
        if not math.isnan(gap):
            gaps.append(gap)
    gaps.sort()
    return (gaps[int(len(gaps) * 0.025)], gaps[int(len(gaps) * 0.975)]) if gaps else (math.nan, math.nan)


def f1_by_class(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[float, int]]:
    """Return F1 and the number of cases of each class that occurred, from pairs of (true, told)."""
    counted = Counter(pairs)
    found: dict[str, tuple[float, int]] = {}
    for name in sorted({true for true, _ in counted}):
        right = counted[name, name]
        cases = sum(count for (true, _), count in counted.items() if true == name)
        told = sum(count for (_, said), count in counted.items() if said == name)
        found[name] = (2 * right / (cases + told), cases)
    return found


def median(values: Sequence[float]) -> float:
    """Return the middle value, NaN of none."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else math.nan
