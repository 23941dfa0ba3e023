"""Many seeds, side by side, and what they came by: a disaster that no seed meets is not tested.

Called by `python -m perdure.testing.simulation` and by the tests.
"""

from __future__ import annotations

import logging
import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Final

import msgspec

from perdure.model.kinds import KINDS
from perdure.testing.points import crash_points
from perdure.testing.simulation import Report, simulate

CHUNK: Final = 50
SHOWN_MAX: Final = 40  # complaints
_LATER: Final = frozenset({
    "task_parked", "health_changed", "wait_began",
})  # fmt: skip
_ELSEWHERE: Final = frozenset({
    "state_migrated",  # migrations stand beside programs that are found by import path
    "files_captured", "workspace_restored",  # no simulated disk: tests/property and tests/crash have real ones
    "task_forked", "rollback_abandoned",  # by a person; tests/crash/test_fork.py, tests/unit/engine/test_undoing.py
    "step_began",  # tests/crash/test_milestones.py
})  # fmt: skip

ENTRIES: Final = frozenset(name for _, name, _ in KINDS) - _LATER - _ELSEWHERE  # that this version can make
CRASHES: Final = frozenset({*crash_points(), "any await"}) - {"during_fork", "during_takeover"}
DECISIONS: Final = frozenset({
    "effects_open", "passing", "passing_too_long", "same_again", "reask", "limit_reached", "rephrase", "nudge",
    "roll_back", "change_in_place", "exhausted", "ask_for_help", "outage",
})  # fmt: skip


class Campaign(msgspec.Struct, kw_only=True):
    """What came of many seeds."""

    seeds: int = 0
    lives: int = 0
    actions: int = 0
    actions_least: int = 1_000_000  # of one seed
    without_crash: int = 0
    crashes: Counter[str] = msgspec.field(default_factory=Counter)
    entries: Counter[str] = msgspec.field(default_factory=Counter)
    decisions: Counter[str] = msgspec.field(default_factory=Counter)
    statuses: Counter[str] = msgspec.field(default_factory=Counter)
    failed: dict[int, tuple[str, ...]] = msgspec.field(default_factory=dict)  # by seed

    def add(self, report: Report) -> None:
        """Take one seed in."""
        self.seeds += 1
        self.lives += report.lives
        self.actions += report.actions
        self.actions_least = min(self.actions_least, report.actions)
        self.without_crash += not report.crashes
        self.crashes.update(report.crashes)
        self.entries.update(report.entries)
        self.decisions.update(report.decisions)
        self.statuses[report.status] += 1
        if report.complaints:
            self.failed[report.seed] = report.complaints

    def missed(self) -> list[str]:
        """Return what this version can do and no seed did: crash points, decisions, kinds of entries."""
        return [
            *(f"crash point {name}" for name in sorted(CRASHES - self.crashes.keys())),
            *(f"decision {name}" for name in sorted(DECISIONS - self.decisions.keys())),
            *(f"entry {name}" for name in sorted(ENTRIES - self.entries.keys())),
        ]

    def lines(self) -> list[str]:
        """Return it for people."""
        least = f"at least {self.actions_least} a seed"
        said = [
            f"{self.seeds} seeds, {self.lives} lives, {self.actions} actions ({least}), {self.crashes.total()} crashes",
            f"crashes at: {_told(self.crashes)}",
            f"decisions: {_told(self.decisions)}",
            f"entries: {_told(self.entries)}",
            f"ended: {_told(self.statuses)}",
        ]
        wrong = [f"seed {seed}: {line}" for seed, lines in sorted(self.failed.items()) for line in lines]
        return [
            *said,
            *wrong[:SHOWN_MAX],
            *([f"… and {len(wrong) - SHOWN_MAX} more"] if len(wrong) > SHOWN_MAX else []),
        ]


def run(seeds: Sequence[int], processes: int = 1, told: Callable[[Campaign], None] | None = None) -> Campaign:
    """Simulate all `seeds`, in so many processes; `told` hears of it now and then."""
    campaign = Campaign()
    chunks = [seeds[place : place + CHUNK] for place in range(0, len(seeds), CHUNK)]
    if processes <= 1:
        _take_in(campaign, map(simulate_all, chunks), told)
        return campaign
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        _take_in(campaign, pool.map(simulate_all, chunks), told)
    return campaign


def simulate_all(seeds: Sequence[int]) -> list[Report]:
    """Simulate `seeds` one after the other; what the library logs of their disasters is no news here."""
    log = logging.getLogger("perdure")
    before, log.disabled = log.disabled, True
    try:
        return [simulate(seed) for seed in seeds]
    finally:
        log.disabled = before


def _take_in(campaign: Campaign, chunks: Iterable[list[Report]], told: Callable[[Campaign], None] | None) -> None:
    for reports in chunks:
        for report in reports:
            campaign.add(report)
        if told is not None:
            told(campaign)


def _told(counted: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counted.most_common())
