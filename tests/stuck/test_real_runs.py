"""The stuck detector on real runs of agents: it agrees with people, and lets those that succeed alone."""

import pytest

from tests.stuck.evaluate import add, cross_validate, find, firings, judge, report, score
from tests.stuck.runs import DATA, LABELLED, TAU

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"{DATA} is absent: real runs are no part of the repository")


@pytest.mark.parametrize(("part", "f1_min"), [("", 0.80), ("openhands", 0.50)])
def test_people_and_detector_call_the_same_steps_repetitions(part, f1_min):
    """F1 over all labelled steps, and over those of the agent that repeats in meaning rather than in bytes."""
    judged = [judge(run) for run in find(DATA, LABELLED) if part in run.part]
    assert sum(map(len, judged)) > 500
    assert add(map(score, judged)).f1 >= f1_min


def test_the_agreement_is_not_by_choice_of_ways():
    """With the ways of repeating chosen on the other runs, each run is judged about as well."""
    judged = [judge(run) for run in find(DATA, LABELLED)]
    assert add(cross_validate(judged)).f1 >= add(map(score, judged)).f1 - 0.03


def test_it_fires_in_no_successful_run_of_the_airline():
    """Agents that reached their goal are left alone; of the others it finds some."""
    runs = find(DATA, TAU)
    assert [] == [run.name for run in runs if run.success and firings(run)]
    assert any(firings(run) for run in runs if not run.success)


def test_the_figures_are_printed(capsys, tmp_path):
    """The command prints a line for each part, and fails where it finds no runs."""
    assert 0 == report(DATA)
    printed = capsys.readouterr().out
    assert 4 == printed.count("cross-validated F1")
    assert 1 == report(tmp_path)
