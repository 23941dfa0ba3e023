"""How well the stuck detector agrees with people, and where it fires: `python -m tests.stuck.evaluate [FOLDER]`.

`is_repetition` is compared with the labels step by step; `note` runs over every run with the rules as shipped. The
folder is that of the runs (`tests/stuck/runs.py`); all files in it that are named like those are taken.
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from perdure.core.stuck import is_repetition, note
from perdure.model.trace import Trace
from tests.stuck.runs import DATA, HOTPOT, LABELLED, TAU, Run, read

WAYS = ("same", "lost", "corrected", "back")


class Score(NamedTuple):
    """Counts of steps: found and right, found and wrong, missed."""

    right: int
    wrong: int
    missed: int

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return 2 * self.right / max(1, 2 * self.right + self.wrong + self.missed)

    def __str__(self) -> str:
        precision, recall = self.right / max(1, self.right + self.wrong), self.right / max(1, self.right + self.missed)
        return f"precision {precision:.2f}, recall {recall:.2f}, F1 {self.f1:.2f}"


class Judged(NamedTuple):
    """A labelled step: what the detector says, and whether people called it a repetition."""

    way: str
    is_repetition: bool


def judge(run: Run) -> list[Judged]:
    """Return the labelled steps of a run."""
    pairs = enumerate(zip(run.steps, run.labels, strict=True))
    return [
        Judged(is_repetition(step, run.steps[:at]), label == "Repetition")
        for at, (step, label) in pairs
        if label is not None
    ]


def score(steps: Iterable[Judged], ways: Iterable[str] = WAYS) -> Score:
    """Compare the two judgements, with these ways of repeating something only."""
    ways = set(ways)
    counts = Counter((step.way in ways, step.is_repetition) for step in steps)
    return Score(counts[True, True], counts[True, False], counts[False, True])


def cross_validate(judged: list[list[Judged]]) -> list[Score]:
    """For each run, choose on all others which ways to look for, and return what these say of the run left out."""
    choices = [ways for count in range(1, len(WAYS) + 1) for ways in itertools.combinations(WAYS, count)]
    scores = {ways: [score(run, ways) for run in judged] for ways in choices}
    totals = {ways: add(per_run) for ways, per_run in scores.items()}
    left_out = []
    for at in range(len(judged)):
        f1s = {ways: minus(totals[ways], scores[ways][at]).f1 for ways in choices}
        left_out.append(scores[max(f1s, key=f1s.__getitem__)][at])
    return left_out


def add(scores: Iterable[Score]) -> Score:
    """Return the sum."""
    return Score(*map(sum, zip(*scores, strict=True)))


def minus(one: Score, other: Score) -> Score:
    """Return what is left of `one` without `other`."""
    return Score(*(left - right for left, right in zip(one, other, strict=True)))


def firings(run: Run) -> list[str]:
    """Return the rules that fire in a run, in order."""
    trace = Trace()
    found = (note(trace, step) for step in run.steps)
    return [firing.rule for firing in found if firing is not None]


def find(folder: Path, name: str) -> list[Run]:
    """Return the runs of all files of the folder that are named like this one, which is one half."""
    pattern = name.replace("_train", "*")
    return [run for path in sorted(folder.glob(pattern)) for run in read(path)]


def report(folder: Path) -> int:
    """Print the figures; 1 where there is nothing to measure."""
    labelled = find(folder, LABELLED)
    others = {name: find(folder, name) for name in (TAU, *HOTPOT)}
    if not labelled or not all(others.values()):
        print(f"no runs in {folder}: nothing was measured")
        return 1
    print("Repetitions, as people have labelled them:")
    judged = [judge(run) for run in labelled]
    crossed = cross_validate(judged)
    for part in ("", *sorted({run.part for run in labelled})):
        inside = [at for at, run in enumerate(labelled) if part in run.part]
        steps = [step for at in inside for step in judged[at]]
        f1 = add(crossed[at] for at in inside).f1
        counts = f"{len(inside)} runs, {len(steps)} steps, {sum(step.is_repetition for step in steps)} repetitions"
        print(f"  {part or 'all'}: {counts}: {score(steps)}; cross-validated F1 {f1:.2f}")
    print("Runs in which the detector fires:")
    for name, runs in {LABELLED: labelled, **others}.items():
        for success in (True, False):
            fired = [found for run in runs if run.success is success and (found := firings(run))]
            rules = ", ".join(f"{rule} {count}" for rule, count in Counter(rules[0] for rules in fired).most_common())
            count, kind = sum(run.success is success for run in runs), "successful" if success else "failed"
            print(f"  {name.partition('_train')[0]}: {len(fired)} of {count} {kind}{rules and f' ({rules})'}")
    return 0


if __name__ == "__main__":
    sys.exit(report(Path(sys.argv[1]) if len(sys.argv) > 1 else DATA))
