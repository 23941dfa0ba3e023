"""Milestones under real kills: whatever point a process dies at, each is marked once and none is lost.

What was broken to see this test fail, and did: milestones written when the outcome has been told, in an append of their
own.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXPECTED = ["plan", "knowledge", "step:find", "knowledge", "snow found", "exported", "end"]
POINTS_MAX = 30


def run(place: Path, **crash: str) -> "subprocess.CompletedProcess[str]":
    """Run the program in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), **crash}
    command = [sys.executable, "-m", "tests.crash.milestones", str(place)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False, timeout=60)


def test_killed_at_any_point_each_milestone_is_marked_once(tmp_path: Path):
    """One kill at each point in turn, until there is none left to die at; the next process ends the same."""
    landed, endings = 0, []
    for number in range(1, POINTS_MAX):
        place = tmp_path / f"{number}.db"
        killed = run(place, PERDURE_CRASH=f"any:{number}", PERDURE_TESTING="1")
        if killed.returncode == 0:
            assert EXPECTED == json.loads(killed.stdout)
            break
        assert -signal.SIGKILL == killed.returncode, killed.stderr
        landed += 1
        again = run(place)
        endings.append((number, again.stdout.strip() or again.stderr))
    print(f"milestones: {landed} kills")
    assert [] == [(number, end) for number, end in endings if end != json.dumps(EXPECTED)]
    assert POINTS_MAX > landed >= 10
