"""Lets `sweep.py` play cases and judges what became of them. Called by the crash tests, in pytest's own process.

An outcome is right when nobody outside could tell it from that of the undisturbed run: the same state, result and
world. Inside, what a kill may cost is bounded: a call that has succeeded is never made again, one that was under way is
made at most once more for each kill that met it, and a `book` or `ring` never.
"""

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from perdure.engine import crashpoints
from tests.crash.ledger import UNREADABLE
from tests.crash.sweep import ANSWERS

ROOT = Path(__file__).parents[2]
ELSEWHERE = ("during_fork", "during_takeover")  # played by `test_fork.py` and `test_takeover.py`
NAMES = tuple(name for name in crashpoints.NAMES if name not in ELSEWHERE)
NEVER_TWICE = ("book", "ring")  # tools of the job that may not be called again, kill or no kill
FAILING = f"read {UNREADABLE}"  # the call that fails: it may be made again until the loop has gone past it

Outcome = dict[str, Any]


def play(job: str, cases: Sequence[Sequence[str]], folder: Path) -> list[Outcome]:
    """Play each case; return the outcomes in the order of the cases. Raises RuntimeError where one could not end."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.sweep", job, str(folder)],
        input="".join(json.dumps(list(case)) + "\n" for case in cases),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        check=False,
    )
    if done.returncode != 0 or done.stderr:
        raise RuntimeError(f"the sweep ended with {done.returncode}: {done.stderr}")
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    return sorted(outcomes, key=lambda outcome: outcome["folder"])


def judge(outcome: Outcome, undisturbed: Outcome) -> list[str]:
    """Return what is wrong with `outcome`, a line each; the folder of one that is right is removed."""
    wrong = [
        *(f"{what} is {outcome[what]!r}" for what in _SAME if outcome[what] != undisturbed[what]),
        *(f"it stopped: {answer}" for answer in outcome["asked"] if answer not in ANSWERS),
        *(f"verify found {finding}" for finding in outcome["findings"]),
        *(f"ended by {kill['signal']} at {kill['spec']}" for kill in outcome["kills"] if kill["signal"] != "SIGKILL"),
        *(f"{action} was told to the program and is lost" for kill in outcome["kills"] for action in kill["lost"]),
        *_made_again(outcome, undisturbed),
    ]
    if not wrong:
        shutil.rmtree(outcome["folder"])
    return [f"{outcome['case']}: {line}" for line in wrong]


def judge_all(outcomes: Sequence[Outcome], undisturbed: Outcome) -> list[str]:
    """Return what is wrong with any of `outcomes`."""
    return [line for outcome in outcomes for line in judge(outcome, undisturbed)]


def not_landed(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """Return the cases in which not every kill landed."""
    return [outcome["case"] for outcome in outcomes if len(outcome["kills"]) != len(outcome["case"])]


def killed_at(outcomes: Sequence[Outcome], undisturbed: Outcome) -> Counter[str]:
    """Return how often runs were killed at each point; "any" by the points that the undisturbed run has."""
    landed = Counter(kill["spec"].partition(":")[0] for outcome in outcomes for kill in outcome["kills"])
    if landed.pop("any", 0) >= undisturbed["reached"][0]["any"]:  # each of its points
        landed.update({name: count for name, count in undisturbed["reached"][0].items() if name != "any"})
    return landed


_SAME = ("status", "standing", "state", "result", "world", "files", "rollbacks", "failures")


def _made_again(outcome: Outcome, undisturbed: Outcome) -> list[str]:
    """Return the calls that were made, or settled, more often than kills excuse."""
    explained = {call: undisturbed["calls"].get(call, 0) + _excused(call, outcome) for call in outcome["calls"]}
    settled = {call: undisturbed["settled"].get(call, 0) + _refused(call, outcome) for call in outcome["settled"]}
    return [
        f"{call} was {what} {count} times, of which {expected[call]} are explained"
        for what, counted, expected in (("made", "calls", explained), ("settled", "settled", settled))
        for call, count in outcome[counted].items()
        if count > expected[call]
    ]


def _excused(call: str, outcome: Outcome) -> int:
    """Return how many kills met `call` under way: it had begun since the kill before, and was not settled."""
    if call.startswith(NEVER_TWICE) and not any(kill["spec"].startswith("moment") for kill in outcome["kills"]):
        return (
            0  # killed at a moment, it may have begun and not yet done anything: then a person lets it be called again
        )
    under_way = [kill["calls"].get(call, 0) - kill["settled"].get(call, 0) for kill in outcome["kills"]]
    return sum(now > before for before, now in itertools.pairwise([0, *under_way])) + _refused(call, outcome)


def _refused(call: str, outcome: Outcome) -> int:
    return len(outcome["kills"]) if call == FAILING else 0
