"""`perdure explain`: what was decided, by which row, from which counts; and the table itself."""

import json

import pytest

from perdure.core.recovery import TABLE

PROGRAM = """
import perdure

@perdure.tool(effect="pure", name="explained_look")
async def look(place: str) -> str:
    raise LookupError(f"no {place} here")


@perdure.program(strategies=[perdure.Strategy("here", source="here"), perdure.Strategy("there", source="there")])
async def seek(task):
    await task.checkpoint("begun")
    if task.attempt == 1:
        raise ConnectionResetError("lost")
    if task.strategy.name == "here":
        await task.act(look, "pen")
    await task.check("it is found", False)


class UsedUp(Exception):
    failure_class, retry_after_s = "quota", 7_200


@perdure.program
async def waits(task):
    raise UsedUp("the quota of the day")


@perdure.program
async def returns(task):
    return 1
"""


@pytest.fixture
def task(perdure, here):
    """A task that has tried both strategies twice and waits for a person."""
    (here / "seeking.py").write_text(PROGRAM, "utf-8")
    assert 3 == perdure("run", "--program", "seeking.py:seek", "--name", "t", "--quiet")[0]
    return "t"


def test_each_decision_is_told_with_its_row_and_counts(perdure, task):
    """In the order of the journal: row, failure with class and tool, counts as they stood, and what followed."""
    explained = json.loads(perdure("explain", task, "--json")[1])
    decisions = explained["decisions"]
    assert ["passing", "same_again", "roll_back"] == [one["row"] for one in decisions[:3]]
    assert "exhausted" == decisions[-1]["row"]
    second = decisions[2]
    assert ("tool", "explained_look", "LookupError: no pen here") == tuple(
        second[field] for field in ("failure_class", "tool", "error")
    )
    assert ("here", "there") == (second["strategy"], decisions[3]["strategy"])
    assert {"failures": 2, "failures_max": 3, "same": 2, "rounds": {"here": 1, "there": 0}} == {
        field: second["counts"][field] for field in ("failures", "failures_max", "same", "rounds")
    }
    assert second["decision"].startswith("RollBack to 'begun' (entry ")
    assert second["lesson"].startswith(
        "tried 'here' from checkpoint 'begun', failed because explained_look: LookupError"
    )
    rows = {row.name: (row.when, row.then) for row in TABLE}
    assert all((one["when"], one["then"]) == rows[one["row"]] for one in decisions)
    assert not any("is_open" in one for one in decisions[:-1])


def test_it_is_told_in_words(perdure, task):
    """The row's own words stand beside what it has led to."""
    _, out, _ = perdure("explain", task)
    assert (
        "roll_back\n  failure   explained_look: LookupError: no pen here (tool)\n  rule      a dead end, and a" in out
    )
    assert "still to be done" not in out
    assert "counts    2 of 3 failures; 2 equal in a row; rounds: here 1, there 0\n" in out
    _, shown, _ = perdure("show", task)
    assert "(rounds: here 2, there 2)" in shown
    assert "lessons      tried 'here'" in shown


def test_a_wait_that_is_not_over_is_still_to_be_done(perdure, here):
    """A parked task stands at its decision; the other lines are those of any."""
    (here / "seeking.py").write_text(PROGRAM, "utf-8")
    assert 4 == perdure("run", "--program", "seeking.py:waits", "--name", "t", "--quiet")[0]
    (one,) = json.loads(perdure("explain", "t", "--json")[1])["decisions"]
    assert ("quota", "quota", True) == (one["row"], one["failure_class"], one["is_open"])
    assert ", still to be done\n" in perdure("explain", "t")[1]


def test_the_whole_table_needs_no_task(perdure, here):
    """Each row once, as in the docs; and nothing else may be asked beside it."""
    assert [row.name for row in TABLE] == [
        row["name"] for row in json.loads(perdure("explain", "--table", "--json")[1])
    ]
    assert [row.name for row in TABLE] == [
        line.split()[0] for line in perdure("explain", "--table")[1].splitlines()[1:]
    ]
    assert 2 == perdure("explain")[0] == perdure("explain", "t", "--table")[0] == perdure("explain", "t")[0]


def test_a_task_without_failures_has_nothing_to_be_explained(perdure, here):
    """And says so."""
    (here / "seeking.py").write_text(PROGRAM, "utf-8")
    perdure("run", "--program", "seeking.py:returns", "--name", "t", "--quiet")
    code, out, _ = perdure("explain", "t")
    assert (0, True) == (code, out.endswith("nothing was to be decided so far\n"))
