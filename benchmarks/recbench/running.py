"""All runs of the benchmark, on all cores. Called by `__main__.py` and by tests."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from benchmarks.recbench import arms, pipeline, stage, truth
from benchmarks.recbench.measuring import Record, measure

THEORY_ARMS: Final = ("nothing", "perdure", "oracle")
ALONE_ARMS: Final = ("nothing", "resume only", "perdure", "oracle")


class Job(msgspec.Struct, frozen=True):
    """Some seeds of one cell of the table."""

    world: str
    scenario: str
    arm: str
    first: int
    count: int


def jobs(*, seeds: int, alone: int, files: int, block: int = 20) -> Iterator[Job]:
    """Return what is to be played.

    `seeds`: runs of each arm and world under all faults; twice as many with nothing but the truth. `alone`: under
    each fault by itself. `files`: under all faults with real files and real kills.
    """
    for arm in arms.BY_NAME:
        for first in range(0, files, 5):
            yield Job("files", truth.ALL.name, arm, first, min(5, files - first))
    for world in stage.KITS:
        for name in truth.SCENARIOS:
            is_theory = name == truth.ONLY_TRUTH.name
            count = 2 * seeds if is_theory else seeds if name == truth.ALL.name else alone
            played = THEORY_ARMS if is_theory else arms.BY_NAME if name == truth.ALL.name else ALONE_ARMS
            for arm in played:
                for first in range(0, count, block):
                    yield Job(world, name, arm, first, min(block, count - first))


def run(job: Job) -> list[Record]:
    """Play one job."""
    scenario, arm = truth.SCENARIOS[job.scenario], arms.BY_NAME[job.arm]
    seeds = range(job.first, job.first + job.count)
    if job.world == "files":
        return [pipeline.play(scenario, arm, seed) for seed in seeds]
    return [
        measure(job.world, job.scenario, job.arm, seed, stage.play(job.world, scenario, arm, seed)) for seed in seeds
    ]


def run_all(planned: Sequence[Job], processes: int) -> Iterator[Record]:
    """Play all jobs, in so many processes; the order of the records does not depend on their number."""
    if processes == 1:
        for job in planned:
            yield from run(job)
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for records in pool.imap(run, planned):
            yield from records
