"""A rollback with five undos and forty files is killed everywhere, and again while it is brought to its end.

Whatever the kills: the same tree, the same books at the office, each undo by the rule of its own `retry`, and what a
bystander made or changed stands untouched.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.crash.rolling import BOOKED

ROOT = Path(__file__).parents[2]
SHARES = 4  # the kills of the normal run are shared among so many tests
TWICE = 24  # kills in the middle of the recovery from a kill, in the normal run


@pytest.fixture(scope="module")
def port():
    """An office in a process of its own."""
    command = [sys.executable, "-m", "tests.crash.office"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as office:
        yield int(office.stdout.readline())
        office.stdin.close()
        office.wait(10)


def play(cases, folder, port):
    """Play each case in a process of its own; return what came of them."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.rolling", str(folder), str(port)],
        input="".join(json.dumps(case) + "\n" for case in cases),
        capture_output=True, text=True, cwd=ROOT, env=environment, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, port):
    """What the rollback comes to when nobody kills it, and how often each crash point is reached."""
    case = [["any:1000000"]]
    (found,) = play(case, tmp_path_factory.mktemp("undisturbed"), port)
    assert (found["kills"], found["status"], found["rollbacks"], found["findings"]) == ([0], "succeeded", 1, [])
    assert found["booked"] == dict.fromkeys(BOOKED, 0)
    files = [path for path, (_, _, text) in found["tree"].items() if text.startswith("first")]
    theirs = {path: text for path, (_, _, text) in found["tree"].items() if text and not text.startswith("first")}
    assert len(files) == 23
    assert theirs == {"theirs": "theirs\n", "new/theirs": "theirs\n", "part1/theirs": "theirs\n",
                      "part0/0.txt": "changed by them\n"}  # fmt: skip
    assert found["counts"]["during_rollback"] > 40 * 2
    return found


def judge(found, undisturbed):
    """Return what is wrong with one case, a line each."""
    calls = Counter((what, name.split()[0]) for what, name in found["calls"])
    kills = len(found["kills"])
    wrong = [
        what
        for what in ("tree", "booked", "status", "rollbacks", "findings", "kept")
        if found[what] != undisturbed[what]
    ]
    wrong += [f"{found['begun']} rollbacks began"] if found["begun"] != 1 else []
    wrong += ["a cancellation that must not be doubled was"] if calls["cancel", "probed"] != 2 else []
    wrong += ["a cancellation under a key came too often"] if not 2 <= calls["cancel", "keyed"] <= 2 + kills else []
    wrong += ["a free cancellation came too often"] if not 1 <= calls["cancel", "free"] <= 1 + kills else []
    return [f"{found['case']}: {line}" for line in wrong]


def complaints(cases, folder, port, undisturbed):
    """Play the cases; return what is wrong, and print how many kills landed."""
    played = play(cases, folder, port)
    landed = sum(signal == 9 for found in played for signal in found["kills"])
    print(f"cases {len(played)}, kills {landed}")
    assert landed >= len(cases)
    return [line for found in played for line in judge(found, undisturbed)]


def points_of(undisturbed):
    """Every crash point that the whole run reaches: those of the undos' own actions are among them."""
    return [f"any:{number}" for number in range(1, undisturbed["counts"]["any"] + 1)]


@pytest.mark.parametrize("share", range(SHARES))
def test_a_rollback_that_is_killed_anywhere_ends_as_if_it_had_not_been(share, tmp_path, port, undisturbed):
    """Before, inside and after each undo and each file."""
    cases = [[point] for point in points_of(undisturbed)[share::SHARES]]
    assert complaints(cases, tmp_path / "play", port, undisturbed) == []


def test_a_kill_while_a_rollback_is_brought_to_its_end_changes_nothing(tmp_path, port, undisturbed):
    """The next life finishes it, and is killed in the middle of that."""
    points = points_of(undisturbed)
    few = points[:: max(1, len(points) // TWICE)]
    cases = [[point, f"any:{2 + 7 * number % 60}"] for number, point in enumerate(few)]
    assert complaints(cases, tmp_path / "play", port, undisturbed) == []


@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARES))
def test_two_kills_everywhere(share, tmp_path, port, undisturbed):
    """As above, from every point and at several places of the recovery."""
    points = points_of(undisturbed)[share::SHARES]
    cases = [[point, f"any:{place}"] for point in points for place in (1, 5, 12, 25, 50)]
    played = play(cases, tmp_path / "play", port)
    print(f"cases {len(played)}, kills {sum(signal == 9 for found in played for signal in found['kills'])}")
    assert [line for found in played for line in judge(found, undisturbed)] == []
