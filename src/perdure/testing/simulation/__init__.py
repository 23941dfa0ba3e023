"""The engine under thousands of seeded disasters: the real code, on one event loop, in virtual time.

    report = simulate(4711)          # the same seed gives the same report, in every process
    assert report.complaints == ()

Not a model: what runs is the library itself, with a seeded program, seeded tools and a world outside that counts, a
store that is slow, full, broken, and processes killed between any two steps. Many seeds: `python -m
perdure.testing.simulation`.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Generator, Mapping

import msgspec

from perdure.core import snapshots
from perdure.engine import leases
from perdure.engine.boundary import Boundary
from perdure.model import entry as e
from perdure.model.ids import Holder
from perdure.model.kinds import KINDS
from perdure.testing.simulation.judging import judge
from perdure.testing.simulation.lives import Story, entries_of, play
from perdure.testing.simulation.loop import VirtualLoop
from perdure.testing.simulation.patching import patched

_SNAPSHOT_FROM_BYTES = 12_000  # small enough that every other seed makes some


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one seed. Equal seeds give equal reports."""

    seed: int
    digest: str  # over everything that happened, in order
    status: str
    complaints: tuple[str, ...]  # what is wrong; empty where all promises were kept
    lives: int
    actions: int
    crashes: Mapping[str, int]  # by crash point, and "any await"
    entries: Mapping[str, int]  # by kind
    decisions: Mapping[str, int]  # by row of the table of recovery


def simulate(seed: int) -> Report:
    """Play one seed and judge it; the same seed gives the same report in every process.

    Takes some milliseconds. While it runs, a few constants of this process are those of the simulation.
    """
    with _simulated():
        story = Story(seed)
        complaints: list[str] = []
        with Boundary() as caught:
            play(story)
            complaints = VirtualLoop(story.clock).run_until_complete(judge(story))
        if caught.error is not None:
            complaints = [f"broken: {type(caught.error).__name__}: {caught.error}"]
        return _report(story, tuple(complaints))


def _report(story: Story, complaints: tuple[str, ...]) -> Report:
    entries: Counter[str] = Counter()
    decisions: Counter[str] = Counter()
    actions = 0
    names = {kind: name for _, name, kind in KINDS}
    for task, stored in story.memory.tasks.items():
        if not stored.appends:
            continue
        for entry in entries_of(story.memory, task):
            entries[names[type(entry.payload)]] += 1
            actions += isinstance(entry.payload, e.ActionIntended)
            if isinstance(entry.payload, e.DecisionTaken):
                decisions[entry.payload.row] += 1
        story.note(task, stored.head)
    story.note(story.outside.begun, story.outside.landed, story.told, complaints)
    return Report(
        seed=story.seed,
        digest=story.digest.hexdigest(),
        status=story.status,
        complaints=complaints,
        lives=len(story.endings),
        actions=actions,
        crashes=dict(story.killed_at),
        entries=dict(entries),
        decisions=dict(decisions),
    )


@contextlib.contextmanager
def _simulated() -> Generator[None]:
    """Let this process be nobody in particular, and snapshots be due early."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(patched(leases, "this_process", _nobody))
        stack.enter_context(patched(snapshots, "SNAPSHOT_FROM_BYTES", _SNAPSHOT_FROM_BYTES))
        yield


def _nobody(token: str) -> Holder:
    return Holder(boot="simulated", pid_namespace=1, pid=1, started=1, token=token)


__all__ = ["Report", "simulate"]
