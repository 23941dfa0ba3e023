"""Speed as a ratio to bare inserts: 100 of these, 100 actions, 100 of these, … so that both meet the same moments.

A disk's commits swing by a factor of two within a minute, so a rate alone says nothing; the ratio of neighbours does.
Both sides are warmed until the first write-ahead log has been carried over. Called by `run.py`.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from time import perf_counter

from work import TOOLS, Bare, Left, argument, first_state, keep

import perdure

BLOCK = 100
TASKS = 50
_WARM_BLOCKS = 20


@dataclass
class Pairs:
    """Times of neighbouring blocks, and of each action in them."""

    bare_s: list[float] = field(default_factory=list)  # per block
    ours_s: list[float] = field(default_factory=list)
    actions_s: list[float] = field(default_factory=list)  # per action
    block: int = BLOCK

    @property
    def ratio(self) -> float:
        """Median of the blocks' ratios: 1 = as fast as the bare insert."""
        return statistics.median(b / o for b, o in zip(self.bare_s, self.ours_s, strict=True))

    @property
    def ratio_of_totals(self) -> float:
        """Total against total: what pauses (snapshots, checkpoints of the log) cost is in here."""
        return sum(self.bare_s) / sum(self.ours_s)

    @property
    def tenths(self) -> list[float]:
        """The ratio of each tenth of the run, in order."""
        size = max(1, len(self.bare_s) // 10)
        starts = range(0, size * 10, size)
        return [
            statistics.median(
                b / o for b, o in zip(self.bare_s[start : start + size], self.ours_s[start : start + size], strict=True)
            )
            for start in starts
            if start < len(self.bare_s)
        ]

    @property
    def trend(self) -> float:
        """By how much the last three tenths are faster (+) or slower (-) than the first three."""
        tenths = self.tenths
        return statistics.median(tenths[-3:]) / statistics.median(tenths[:3]) - 1

    def percentile_ms(self, percent: float) -> float:
        """Return a percentile of the actions' times."""
        ordered = sorted(self.actions_s)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] * 1_000

    def summary(self) -> dict[str, object]:
        """Return all figures, for --json."""
        return {
            "ratio": round(self.ratio, 3),
            "ratio_of_totals": round(self.ratio_of_totals, 3),
            "bare_per_s": round(self.block * len(self.bare_s) / sum(self.bare_s)),
            "above_bare_us": round(
                (statistics.median(self.ours_s) - statistics.median(self.bare_s)) / self.block * 1e6
            ),
            "ours_per_s": round(self.block * len(self.ours_s) / sum(self.ours_s)),
            "ms": {f"p{percent:g}": round(self.percentile_ms(percent), 3) for percent in (50, 99, 99.9, 100)},
            "tenths": [round(ratio, 2) for ratio in self.tenths],
        }


def measure_one(kind: str, blocks: int) -> Pairs:
    """Measure one task that calls the tool `kind`, one action after the other."""
    return asyncio.run(_measure_one(kind, blocks))


def measure_many(blocks: int) -> Pairs:
    """Measure 50 tasks of one runtime at once, each with ten pure actions per block."""
    return asyncio.run(_measure_many(blocks))


async def _measure_one(kind: str, blocks: int) -> Pairs:
    tool = TOOLS[kind]
    pairs, numbers = Pairs(), iter(range(1 << 30))
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as folder, suppress(Left):
        async with perdure.open(f"{folder}/ours.db") as runtime, runtime.task("bench", state=first_state()) as task:

            async def act_block(times: list[float]) -> None:
                for number in [next(numbers) for _ in range(BLOCK)]:
                    began = perf_counter()
                    await task.act(tool, argument(number), then=keep)
                    times.append(perf_counter() - began)

            await _interleave(pairs, Bare(folder), act_block, blocks)
            raise Left
    return pairs


async def _measure_many(blocks: int) -> Pairs:
    each = 10
    pairs, numbers = Pairs(block=each * TASKS), iter(range(1 << 30))
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as folder, suppress(Left):
        async with perdure.open(f"{folder}/ours.db") as runtime, AsyncExitStack() as stack:
            tasks = [
                await stack.enter_async_context(runtime.task(f"bench {number}", state=first_state()))
                for number in range(TASKS)
            ]

            async def act(task: perdure.Task, times: list[float]) -> None:
                for _ in range(each):
                    began = perf_counter()
                    await task.act(TOOLS["pure"], argument(next(numbers)), then=keep)
                    times.append(perf_counter() - began)

            async def act_block(times: list[float]) -> None:
                await asyncio.gather(*(act(task, times) for task in tasks))

            await _interleave(pairs, Bare(folder), act_block, blocks)
            raise Left
    return pairs


async def _interleave(
    pairs: Pairs, bare: Bare, act_block: Callable[[list[float]], Coroutine[None, None, None]], blocks: int
) -> None:
    for block in range(-_WARM_BLOCKS, blocks):
        times: list[float] = []
        began = perf_counter()
        for number in range(pairs.block):
            bare.insert(number)
        between = perf_counter()
        await act_block(times)
        ended = perf_counter()
        if block >= 0:
            pairs.bare_s.append(between - began)
            pairs.ours_s.append(ended - between)
            pairs.actions_s += times
    bare.close()
