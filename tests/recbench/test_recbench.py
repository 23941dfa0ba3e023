"""The benchmark of recovery: a few seeds of it, what it counts, and that it cannot show what it has not measured."""

import math
import xml.etree.ElementTree as ET
from functools import cache

import msgspec
import pytest

from benchmarks.recbench import arms, errors, kits, page, pipeline, plots, running, stage, statistics, truth
from benchmarks.recbench.measuring import measure
from perdure.testing import FakeClock

SEEDS = range(8)


@cache
def played(world, scenario, arm, seed):
    """The record of one run."""
    return running.run(running.Job(world, scenario, arm, seed, 1))[0]


def kit(seed=0, scenario=truth.ONLY_TRUTH, kind=kits.Desk):
    """A world that nobody has touched."""
    return kind(truth.Truth("desk", seed, scenario), FakeClock(), knows=False)


# ---------------------------------------------------------------- the truth


@pytest.mark.parametrize("arm", ["nothing", "oracle"])
@pytest.mark.parametrize("world", ["desk", "maze"])
def test_what_is_completed_is_what_the_truth_allows(world, arm):
    """With nothing wrong but the truth, who never changes needs strategy 0 throughout, and the oracle any."""
    records = [played(world, "truth only", arm, seed) for seed in SEEDS]
    hidden = [truth.Truth(world, seed, truth.ONLY_TRUTH) for seed in SEEDS]
    first = [all(goal[0] for goal in one.solves) for one in hidden]
    expected = first if arm == "nothing" else [one.is_solvable for one in hidden]
    assert expected == [record.completed for record in records]
    assert 0 < sum(expected) < len(expected)


def test_the_draws_are_those_of_the_theory():
    """Over many seeds the hidden truth itself has the two probabilities that the bench is checked against."""
    drawn = [truth.Truth("desk", seed, truth.ONLY_TRUTH) for seed in range(3_000)]
    one = statistics.share_of(all(goal[0] for goal in hidden.solves) for hidden in drawn)
    any_ = statistics.share_of(hidden.is_solvable for hidden in drawn)
    assert one.holds(page.THEORY_ONE)
    assert any_.holds(page.THEORY_ANY)
    assert (0.262, 0.823) == (round(page.THEORY_ONE, 3), round(page.THEORY_ANY, 3))


def test_all_arms_meet_the_same_truth():
    """A seed hides the same whoever asks, and another seed hides something else."""
    twice = [truth.Truth("desk", 5, truth.ALL) for _ in range(2)]
    assert twice[0].solves == twice[1].solves
    assert 1 < len({truth.Truth("desk", seed, truth.ALL).solves for seed in SEEDS})


# ---------------------------------------------------------------- runs


def test_a_run_is_the_same_each_time():
    """The figures of a seed do not depend on chance or on the machine."""
    job = running.Job("desk", "all", "perdure", 3, 1)
    assert running.run(job) == running.run(job)


@pytest.mark.parametrize("world", ["desk", "maze"])
def test_under_all_faults_no_effect_is_doubled_or_lost(world):
    """Kills, time-outs before and after the effect, rollbacks: the world's own books have each effect once."""
    records = [played(world, "all", arm, seed) for arm in ("perdure", "oracle") for seed in range(2)]
    assert 0 == sum(record.doubles + record.lost + record.false_success for record in records)
    assert 0 < sum(record.lives - 1 for record in records)  # there were kills
    assert 0 < sum(len(record.told) for record in records)  # and faults that came to the agent


def test_the_oracle_is_not_stopped_by_crashes():
    """Killed again and again, the oracle completes what can be completed."""
    records = [played("maze", "crash", "oracle", seed) for seed in range(4)]
    assert [record.is_solvable for record in records] == [record.completed for record in records]
    assert 0 < sum(record.lives - 1 for record in records)


def test_nothing_ends_at_the_first_kill():
    """The arm without recovery loses a run with its process."""
    records = [played("desk", "crash", "nothing", seed) for seed in range(4)]
    assert {"killed"} == {record.ending for record in records if not record.completed and record.text == ""}
    assert {1} == {record.lives for record in records}


def test_files_survive_real_kills():
    """A run with a real folder and a real store, killed by SIGKILL, ends with each part right and published once."""
    scenario = truth.Scenario(name="crash", able=(1.0, 1.0, 1.0), crash=0.1)
    record = pipeline.play(scenario, arms.BY_NAME["perdure"], 1)
    assert record.completed
    assert record.lives > 1
    assert 0 == record.doubles + record.lost


# ---------------------------------------------------------------- what is counted


def test_the_books_see_a_double_and_a_loss():
    """An effect that is in the world twice is counted, and one that the record has and the world has not."""
    world = kit()
    world.write("commit", 0, 7, "a")
    world.write("commit", 0, 7, "a")
    assert 0 == world.doubles()
    world.write("commit", 0, 7, "b")
    assert 1 == world.doubles()
    assert 0 == world.lost({"done": 0, "work": {"commit": {"value": 7}}})
    assert 1 == world.lost({"done": 0, "work": {"commit": {"value": 7}, "prepare": {"value": 7}}})


def test_a_world_is_complete_only_to_the_last_row():
    """What is missing, wrong or left over keeps a run from being completed."""
    world = kit()
    for goal in range(truth.GOALS):
        for step in world.steps(goal):
            world.write(step, goal, world.value(goal), f"{step} {goal}")
    assert world.is_complete()
    world.write("tag", 0, "left over", "tag")
    assert not world.is_complete()
    world.rows.pop()
    world.rows[1].undone = True
    assert not world.is_complete()


def test_an_undisturbed_run_makes_the_calls_that_are_needed():
    """Waste is measured from a number of calls that a run without faults really makes."""
    scenario = truth.Scenario(name="quiet", able=(1.0, 1.0, 1.0), polls=3, batch=4)
    for world in ("desk", "maze"):
        run = stage.play(world, scenario, arms.BY_NAME["nothing"], 1)
        assert run.kit.needed() == run.kit.calls.total()


def test_a_success_that_the_books_deny_is_none():
    """A run that says it has succeeded is completed only if the world agrees; else it is a false success."""
    run = stage.play("desk", truth.Scenario(name="quiet", able=(1.0, 1.0, 1.0)), arms.BY_NAME["nothing"], 1)
    good = measure("desk", "quiet", "nothing", 1, run)
    run.kit.rows[-1].undone = True
    bad = measure("desk", "quiet", "nothing", 1, run)
    assert (True, False) == (good.completed, good.false_success)
    assert (False, True) == (bad.completed, bad.false_success)
    assert (0, 1) == (good.lost, bad.lost)


def test_loops_and_false_stops_are_told_apart():
    """What is noticed while the model repeats itself counts as noticed, the same elsewhere as a false stop."""
    scenario = truth.Scenario(name="loop", able=(1.0, 1.0, 1.0), loop=0.2)
    run = stage.play("desk", scenario, arms.BY_NAME["perdure"], 2)
    real = measure("desk", "loop", "perdure", 2, run)
    run.kit.loops = []
    none = measure("desk", "loop", "perdure", 2, run)
    assert 0 == real.false_stops
    assert 0 < none.false_stops
    assert 0 == none.noticed


def test_the_class_on_record_is_compared_with_the_fault():
    """A fault that is told as something else is a pair of two classes, and a fault of which nothing came is none."""
    run = stage.play("desk", truth.Scenario(name="429", interrupted=0.3), arms.BY_NAME["perdure"], 1)
    pairs = measure("desk", "429", "perdure", 1, run).told
    for fault in run.kit.faults:
        fault.what = "garbage" if fault.what == "throttled" else fault.what
    wrong = measure("desk", "429", "perdure", 1, run).told
    assert ("throttled", "throttled") in pairs
    assert ("output", "throttled") in wrong
    assert len(pairs) == len(wrong)


def test_a_strategy_that_is_mixed_can_solve_nothing():
    """The stand-in of the model goes by prompt, model and source together, so a strategy's name proves nothing."""
    from benchmarks.recbench.agent import STRATEGIES
    from benchmarks.recbench.model import recognise

    def request(prompt, model):
        return {
            "prompt": STRATEGIES[prompt].prompt,
            "model": STRATEGIES[model].model,
            "source": prompt,
            "tools": STRATEGIES[prompt].tools,
        }

    assert [0, 1, 2] == [recognise(request(place, place)) for place in range(3)]
    assert -1 == recognise(request(0, 1))


@pytest.mark.parametrize("provider", range(3))
@pytest.mark.parametrize("what", ["throttled", "capacity", "reset", "read", "quota", "context", "refusal"])
def test_errors_of_providers_are_made(provider, what):
    """Each provider's client has an error for each fault, and it says nothing of our classes."""
    error = errors.of_model(provider, what, 7, 30.0)
    assert not hasattr(error, "failure_class")


# ---------------------------------------------------------------- figures


def test_wilson_interval():
    """Of 10 in 20 the interval is 0.299 to 0.701, of 0 in 10 it begins at 0."""
    assert (0.299, 0.701) == tuple(round(edge, 3) for edge in statistics.Share(10, 20).interval)
    assert (0.0, 0.278) == tuple(round(edge, 3) for edge in statistics.Share(0, 10).interval)


def test_gap_and_f1():
    """The gap is a part of the way to the oracle; F1 counts what was told wrongly on both sides."""
    none, half, all_ = [False] * 4, [True, True, False, False], [True] * 4
    assert 0.5 == statistics.gap_closed(none, half, all_)
    assert math.isnan(statistics.gap_closed(none, none, none))
    scores = statistics.f1_by_class([("a", "a"), ("a", "b"), ("b", "b")])
    assert {"a": (2 / 3, 2), "b": (2 / 3, 1)} == scores


def test_no_runs_no_page(tmp_path):
    """Where nothing was played there is no page, instead of one without rows."""
    with pytest.raises(ValueError, match="nothing was measured"):
        page.write([], tmp_path / "page.md")
    assert [] == list(tmp_path.iterdir())


def test_a_page_says_what_was_measured(tmp_path):
    """Each arm, fault and bar has its row, a bar that is missed says so, and the plots are well-formed."""
    one = played("desk", "truth only", "oracle", 1)
    records = [
        msgspec.structs.replace(one, world=world, scenario=scenario, arm=arm, completed=arm != "nothing", doubles=1)
        for world in page.WORLDS
        for scenario in truth.SCENARIOS
        for arm in arms.BY_NAME
    ]
    records.append(
        msgspec.structs.replace(records[-1], is_solvable=False, told=(("quota", "throttled"),), arm="perdure")
    )
    bars = page.write(records, tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text("utf-8")
    for name in (*arms.BY_NAME, *truth.SCENARIOS, *(bar.name for bar in bars)):
        assert f"| {name} |" in text
    missed = {bar.name for bar in bars if not bar.is_met}
    assert {"effects in the world twice", "classes of faults, macro-F1"} <= missed
    assert len(missed) == text.count("**missed**")
    for plot in (tmp_path / page.PLOTS).iterdir():
        assert "svg" in ET.parse(plot).getroot().tag
    assert 4 == len(list((tmp_path / page.PLOTS).iterdir()))


def test_the_page_is_of_this_benchmark():
    """What the page says of arms, faults and worlds is what the code has, and it shows every bar and every arm."""
    text = page.PAGE.read_text("utf-8")
    assert [] == [part for part in page.said_by_code() if part.strip() not in text]
    assert 9 == text.count("| reached |\n") + text.count("| **missed** |\n")
    assert 4 == len(list((page.PAGE.parent / page.PLOTS).glob("*.svg")))


def test_a_bar_is_as_long_as_its_value():
    """Half of the ceiling is half of the width, and text is escaped."""
    drawn = plots.draw("a < b", [plots.Group("x", (plots.Bar("s", 0.5, 0.5, 0.5, "0.50"),))], 1.0)
    assert 'width="210.0"' in drawn
    assert "a &lt; b" in drawn
