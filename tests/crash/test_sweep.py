"""The crash sweep: a job with every kind of act is killed by SIGKILL at each of its points, and nobody can tell.

Nothing here is simulated: real processes, a real store on disk, real services outside. What was broken to see these
tests fail, and did: the intent of an effect not made durable before the call; a new key at each attempt; a probe that
is not asked; a `never` tool that is called again; an outcome told before it is durable; a keyed outcome or a loop's
place that is forgotten; a checkpoint marked again by a resumed program (it stops as diverged); an effect that its
checkpoint does not hold (sent twice); a rollback that the next run does not finish.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest

from tests.crash import ledger, playing
from tests.crash.playing import Outcome

ACTIONS_MAX = 45
ON_THE_WAY = ("before_intent", "after_intent", "after_effect", "after_outcome", "after_checkpoint")
IN_RECOVERY = ("during_recovery",)
IN_ROLLBACK = ("during_rollback", "during_undo")


def test_each_point_of_this_version_is_killed_at_by_a_test_of_this_file():
    """A crash point that is added to the engine needs a sweep that dies there."""
    assert set(playing.NAMES) == {*ON_THE_WAY, *IN_RECOVERY, *IN_ROLLBACK}


def test_killed_at_any_point_the_job_ends_as_if_it_had_not_been(tmp_path: Path):
    """State, result, files and the world outside equal those of the undisturbed run; nothing finished is done again."""
    undisturbed = _undisturbed("harvest", tmp_path)
    points = undisturbed["reached"][0]["any"]
    outcomes = playing.play("harvest", [[f"any:{number}"] for number in range(1, points + 2)], tmp_path / "killed")
    killed = _report(outcomes, undisturbed)

    assert [[f"any:{points + 1}"]] == playing.not_landed(outcomes)
    assert [] == playing.judge_all(outcomes, undisturbed)
    assert set(ON_THE_WAY) == {name for name, count in killed.items() if count}
    assert {"happened", "did not happen"} == {answer for outcome in outcomes for answer in outcome["asked"]}
    assert any(outcome["dropped"] for outcome in outcomes)  # a letter sent again, under the same key, was dropped


def test_the_job_holds_what_it_should(tmp_path: Path):
    """The swept job has 12 files, every kind of effect, one failed call, and few enough actions to be swept."""
    undisturbed = _undisturbed("harvest", tmp_path)
    tools = Counter(call.partition(" ")[0] for call in undisturbed["calls"])

    assert {"read", "weigh", "excerpt", "rate", "send", "book", "ring"} == set(tools)
    assert len(ledger.FILES) == 12 == tools["read"]
    assert ACTIONS_MAX >= sum(undisturbed["calls"].values())
    assert 1 == undisturbed["settled"][playing.FAILING]
    assert set(ON_THE_WAY) == undisturbed["reached"][0].keys() - {"any"}


def test_killed_again_while_it_recovers_it_still_ends_the_same(tmp_path: Path):
    """A second kill, at each point of the recovery from the first, costs nothing more."""
    undisturbed = _undisturbed("harvest", tmp_path)
    cases = _in_recovery(_sampled(undisturbed, ON_THE_WAY), tmp_path, "harvest")
    outcomes = playing.play("harvest", cases, tmp_path / "killed")
    killed = _report(outcomes, undisturbed)

    assert [] == playing.not_landed(outcomes)
    assert [] == playing.judge_all(outcomes, undisturbed)
    assert set(ON_THE_WAY + IN_RECOVERY) == killed.keys()


def test_killed_in_a_rollback_it_is_finished_by_the_next_run(tmp_path: Path):
    """A program that rolls back twice ends the same when killed at any point, those of the rollback included."""
    undisturbed = _undisturbed("drafts", tmp_path)
    points = undisturbed["reached"][0]["any"]
    outcomes = playing.play("drafts", [[f"any:{number}"] for number in range(1, points + 2)], tmp_path / "killed")
    killed = _report(outcomes, undisturbed)

    assert 2 == undisturbed["rollbacks"]
    assert [[f"any:{points + 1}"]] == playing.not_landed(outcomes)
    assert [] == playing.judge_all(outcomes, undisturbed)
    assert set(ON_THE_WAY + IN_ROLLBACK) == {name for name, count in killed.items() if count}


def test_killed_again_while_a_rollback_is_finished_it_goes_on_from_there(tmp_path: Path):
    """Each kill in a rollback is followed by one at each point of the run that finishes it."""
    undisturbed = _undisturbed("drafts", tmp_path)
    reached = undisturbed["reached"][0]
    in_rollback = [f"{name}:{number + 1}" for name in IN_ROLLBACK for number in range(reached[name])]
    first = playing.play("drafts", [[spec] for spec in in_rollback], tmp_path / "first")
    assert [] == playing.not_landed(first)
    cases = [
        [spec, f"{name}:{number + 1}"]
        for spec, outcome in zip(in_rollback, first, strict=True)
        for name in IN_RECOVERY + IN_ROLLBACK
        for number in range(outcome["reached"][0].get(name, 0))
    ]
    outcomes = playing.play("drafts", cases, tmp_path / "killed")
    killed = _report(outcomes, undisturbed)

    assert [] == playing.not_landed(outcomes)
    assert [] == playing.judge_all([*first, *outcomes], undisturbed)
    assert set(IN_RECOVERY + IN_ROLLBACK) == killed.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_THE_WAY)
def test_killed_at_any_point_of_the_run_after_a_kill(tmp_path: Path, name: str):
    """The whole square: after a kill at the first, middle and last occurrence of a point, one at every later point."""
    undisturbed = _undisturbed("harvest", tmp_path)
    firsts = _sampled(undisturbed, (name,))
    counts = [outcome["reached"][0]["any"] for outcome in playing.play("harvest", firsts, tmp_path / "first")]
    cases = [[*first, f"any:{n + 1}"] for first, count in zip(firsts, counts, strict=True) for n in range(count)]
    outcomes = playing.play("harvest", cases, tmp_path / "killed")
    _report(outcomes, undisturbed)

    assert [] == playing.not_landed(outcomes)
    assert [] == playing.judge_all(outcomes, undisturbed)


@pytest.mark.slow
def test_killed_at_any_moment_it_ends_the_same(tmp_path: Path):
    """Kills that wait for no point, one every 5 ms and two in a row: in the midst of a commit, a thread, a tool."""
    undisturbed = _undisturbed("harvest", tmp_path)
    cases = [[f"moment:{ms}", f"moment:{ms // 2 + 5}"] for ms in range(5, 405, 5)]
    outcomes = playing.play("harvest", cases, tmp_path / "killed")
    _report(outcomes, undisturbed)

    assert 10 <= sum(bool(outcome["kills"]) for outcome in outcomes)  # on a fast machine, many come after its end
    assert [] == playing.judge_all(outcomes, undisturbed)


def _undisturbed(job: str, folder: Path) -> Outcome:
    [outcome] = playing.play(job, [[]], folder / "undisturbed")
    assert "succeeded" == outcome["standing"]
    assert [] == outcome["findings"] + outcome["kills"]
    return outcome


def _sampled(undisturbed: Outcome, names: Sequence[str]) -> list[list[str]]:
    """Return a case for the first, the middle and the last occurrence of each point."""
    counts = {name: undisturbed["reached"][0][name] for name in names}
    return [[f"{name}:{n}"] for name, count in counts.items() for n in sorted({1, (count + 1) // 2, count})]


def _in_recovery(firsts: Sequence[list[str]], folder: Path, job: str) -> list[list[str]]:
    """Return a case for each point of recovery that follows each of the first kills."""
    counts = [outcome["reached"][0]["during_recovery"] for outcome in playing.play(job, firsts, folder / "first")]
    cases = [product([first], range(1, count + 1)) for first, count in zip(firsts, counts, strict=True)]
    return [[*first, f"during_recovery:{number}"] for pairs in cases for first, number in pairs]


def _report(outcomes: Sequence[Outcome], undisturbed: Outcome) -> Counter[str]:
    """Print what was done, and return how often runs were killed at each point."""
    killed = playing.killed_at(outcomes, undisturbed)
    where = ", ".join(f"{name} {count}" for name, count in sorted(killed.items()))
    print(f"{len(outcomes)} cases, {sum(killed.values())} kills: {where}")
    return killed
