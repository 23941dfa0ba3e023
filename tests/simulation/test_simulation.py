"""The engine under seeded disasters, and the simulator under planted bugs.

A seed that fails here is played again by `python -m perdure.testing.simulation --first SEED --seeds 1`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.testing import simulate
from perdure.testing.simulation.bugs import BUGS
from perdure.testing.simulation.campaign import CRASHES, DECISIONS, ENTRIES, Campaign, run, simulate_all
from perdure.testing.simulation.plan import ACTIONS_MIN

ROOT = Path(__file__).parents[2]
CHUNK = 40
SEEDS = range(0, 240, CHUNK)
FOUND_WITHIN = 2_000
# Where the search for a planted bug begins: the seeds before these did not find it.
FIRST = {
    "no fence": 30,
    "outcome and patch in two appends": 95,
    "batch refusal fails a neighbour": 470,
    "decision forgotten on restart": 360,
}
CHILD = """
import json, sys
from perdure.testing.simulation.campaign import simulate_all
print(json.dumps([report.digest for report in simulate_all([int(seed) for seed in sys.argv[1:]])]))
"""


@pytest.mark.parametrize("first", SEEDS)
def test_no_seed_has_a_complaint(first):
    """Whatever befalls it, a task comes to what its program comes to, and every promise is kept."""
    campaign = run(range(first, first + CHUNK))
    print("\n".join(campaign.lines()))
    assert {} == campaign.failed
    assert 0 == campaign.without_crash
    assert campaign.actions_least >= ACTIONS_MIN


@pytest.mark.slow
def test_two_thousand_seeds_meet_everything():
    """No complaint, and each crash point, decision and kind of entry that this version has is met."""
    campaign = run(range(2_000), processes=2)
    print("\n".join(campaign.lines()))
    assert ({}, []) == (campaign.failed, campaign.missed())


@pytest.mark.parametrize("hash_seed", ["0", "4711"])
def test_the_same_seed_is_the_same_story_in_every_process(hash_seed):
    """Another process, with other hashes and another order of seeds, tells the same stories."""
    seeds = list(range(500, 512))
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", CHILD, *map(str, reversed(seeds))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert [report.digest for report in simulate_all(seeds)] == json.loads(done.stdout)[::-1]


def test_other_seeds_are_other_stories():
    """No two digests are equal."""
    assert 20 == len({report.digest for report in simulate_all(range(20))})


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug):
    """A seed that is clean without the bug complains with it, within 2,000 seeds."""
    for seed in range(FIRST.get(bug, 0), FOUND_WITHIN):
        with BUGS[bug]():
            (report,) = simulate_all([seed])
        if report.complaints:
            print(f"{bug}: seed {seed}: {report.complaints[0]}")
            break
    assert report.complaints
    assert () == simulate_all([report.seed])[0].complaints


def test_a_report_says_what_it_met():
    """Lives, actions, crashes, entries and decisions are counted."""
    reports = simulate_all(range(10))
    assert all(report.lives > 1 and report.crashes.keys() <= CRASHES for report in reports)
    assert all(report.actions == report.entries["action_intended"] for report in reports)
    assert all(report.decisions.keys() <= DECISIONS for report in reports)
    assert simulate(3) == reports[3]


def test_a_campaign_names_what_was_never_met():
    """An empty campaign has met nothing; one that has met everything misses nothing."""
    campaign = Campaign()
    assert len(CRASHES) + len(DECISIONS) + len(ENTRIES) == len(campaign.missed())
    for counter, names in ((campaign.crashes, CRASHES), (campaign.decisions, DECISIONS), (campaign.entries, ENTRIES)):
        counter.update(names)
    assert [] == campaign.missed()
