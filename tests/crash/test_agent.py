"""The ready-made agent, killed at every point of a goal of thirty actions: nobody outside can tell.

The service's log shows each finished request once and every history valid, the letters' service each letter once.
"""

import pytest

from tests.agent.modelserver import ModelServer
from tests.crash.forked import play_apart
from tests.crash.thirty import TURNS, says

REQUESTS = TURNS + 2  # with the claim and its judge
SAMPLE = 15  # each so many-th point is a case in CI


@pytest.fixture(scope="module")
def server():
    """The model, in a process of its own."""
    with ModelServer(says) as service:
        yield service


def requests_of(found, rows):
    """Return the keys of the requests that a case has made, in order: its name stands in the goal of each."""
    mark = f"(case {found['name']})"
    return [row["key"] for row in rows if mark in row["goal"]]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, server):
    """What happens when nobody kills it, and how often each crash point is reached."""
    folder = tmp_path_factory.mktemp("undisturbed")
    (found,) = play_apart("tests.crash.thirty", [[]], folder, server.base_url)
    assert (found["status"], found["findings"], found["kills"]) == ("succeeded", [], [])
    assert len(found["letters"]) == TURNS
    sent = requests_of(found, server.requests())
    assert len(sent) == len(set(sent)) == REQUESTS
    return found


def complaints_of(found, undisturbed, rows):
    """Return what could be told from outside of one case, a line each."""
    wrong = [
        f"{name} is {found[name]!r}, undisturbed {undisturbed[name]!r}"
        for name in ("status", "result", "findings", "letters", "list")
        if found[name] != undisturbed[name]
    ]
    sent = requests_of(found, rows)
    interrupted = found["thoughts"] - found["answered"]
    if len(set(sent)) != REQUESTS or not 0 <= len(sent) - REQUESTS <= interrupted:
        wrong.append(f"{len(sent)} requests, {len(set(sent))} different, {interrupted} interrupted")
    return wrong


def sweep(cases, undisturbed, server, folder):
    """Kill as the cases say; return the complaints, after printing how many kills there were."""
    played = play_apart("tests.crash.thirty", cases, folder, server.base_url)
    rows = server.requests()
    kills = sum(bool(signal) for found in played for signal in found["kills"])
    print(f"killed {kills} times in {len(played)} cases; {len(rows)} requests in all")
    assert kills >= len(cases) > 0
    assert [] == server.problems()
    wrong = {}
    for found in played:
        found_wrong = complaints_of(found, undisturbed, rows)
        if found_wrong:
            wrong[str(found["case"])] = found_wrong
    return wrong


def test_killed_at_points_of_the_whole_run_nobody_can_tell(undisturbed, server, tmp_path):
    """Each fifteenth point of the run, and some pairs of kills."""
    points = undisturbed["counts"]["any"]
    assert points > 100
    cases = [[f"any:{number}"] for number in range(2, points + 1, SAMPLE)]
    cases += [[f"any:{number}", "any:6"] for number in range(20, points, 60)]
    assert {} == sweep(cases, undisturbed, server, tmp_path / "killed")


@pytest.mark.slow
def test_killed_at_every_point_nobody_can_tell(undisturbed, server, tmp_path):
    """All of them."""
    points = undisturbed["counts"]["any"]
    cases = [[f"any:{number}"] for number in range(1, points + 1)]
    assert {} == sweep(cases, undisturbed, server, tmp_path / "killed")
