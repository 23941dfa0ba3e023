"""Budgets on the command line: given, shown, reached, raised; and never taken back by the same order."""

import json
import subprocess
import sys

import pytest

from tests.cli.conftest import ROOT

PROGRAMS = '''

@perdure.tool(effect="pure", paid=True)
async def think(n: int) -> int:
    """Cost 0.3 USD."""
    perdure.charge(perdure.Cost(90, 10, "0.30 USD"))
    return n


@perdure.program
async def thinker(task, times: int):
    """Think so many times."""
    async for number in task.each("thoughts", range(times)):
        await task.using(reserve=perdure.Cost(100, 20, "0.40 USD")).act(think, number)
    return "thought"


@perdure.program
async def waiting_thinker(task):
    """Think once, then wait for ever."""
    await task.using(key="once").act(think, 1)
    await task.note("thought")
    await asyncio.Event().wait()
'''
SCRIPT = """
import asyncio
import perdure
from programs import think

async def main():
    async with perdure.open() as runtime, runtime.task("inline", budget="0.5 USD") as task:
        for number in range(2):
            await task.using(key=f"{number}", reserve=perdure.Cost(money="0.4 USD")).act(think, number)

asyncio.run(main())
"""
START = ("run", "--program", "programs.py:thinker", "--set", "times=3", "--name", "t")


@pytest.fixture(autouse=True)
def _program(here):
    """Put the program beside the others."""
    with (here / "programs.py").open("a", encoding="utf-8") as file:
        file.write(PROGRAMS)


def test_a_budget_stops_a_task_and_the_line_it_prints_lets_it_go_on(perdure):
    """Exit 3, the case, and the very line to type; what was thought is not thought again."""
    code, _, err = perdure(*START, "--budget", "0.9 USD")
    assert 3 == code
    assert "next: perdure resume t --budget '1.8 USD'" in err
    _, out, _ = perdure("show", "t")
    assert "spent        0.6 USD" in out
    assert "budget       0.6 of 0.9 USD spent, 0.3 USD left" in out
    assert "next         perdure resume t --budget '1.8 USD'" in out
    code, out, _ = perdure("resume", "t", "--budget", "1.8 USD", "--json")
    assert (0, "thought") == (code, json.loads(out)["result"])
    shown = json.loads(perdure("show", "t", "--json")[1])
    assert (["0.9 USD"], 270, 30, 3) == (shown["money"], shown["tokens_in"], shown["tokens_out"], shown["actions"])
    assert 0 == perdure("verify", "t", "--full")[0]


def test_the_budget_of_a_task_that_stands_is_shown_and_raised(perdure):
    """By its own verb, with the line that lets it go on; then it goes on as it is."""
    assert 3 == perdure(*START, "--budget", "0.9 USD")[0]
    assert "task t: 0.6 of 0.9 USD spent, 0.3 USD left\n" == perdure("budget", "t")[1]
    code, out, err = perdure("budget", "t", "+0.9USD")
    assert (0, "task t: 0.6 of 1.8 USD spent, 1.2 USD left; next: perdure resume t\n") == (code, out), err
    assert 0 == perdure("resume", "t")[0]
    shown = json.loads(perdure("budget", "t", "--json")[1])
    assert ("1.8 USD", ["0.9 USD"], "0.9") == (shown["text"], shown["money"], shown["budget"][0]["left"])
    assert 2 == perdure("budget", "t", "5 USD")[0]  # it has ended
    perdure("run", "--program", "programs.py:count", "--set", "n=1", "--name", "free")
    assert "task free: no budget; it has cost nothing\n" == perdure("budget", "free")[1]


def test_the_budget_of_a_task_at_work_is_raised(perdure, spawn):
    """By its process, before the next call; what cannot be is refused, and nothing is sent."""
    process = spawn("run", "--program", "programs.py:waiting_thinker", "--name", "w", "--budget", "1 USD")
    for line in process.stderr:
        if b"thought" in line:
            break
    for text, why in (("3 EUR", "USD"), ("5 tokens", "write tokens=5")):
        code, _, err = perdure("budget", "w", text)
        assert (2, True) == (code, why in err), err
    code, out, err = perdure("budget", "w", "+1 USD, tokens=500", "--json")
    assert 0 == code, err
    told = json.loads(out)
    assert ("set", "2 USD, tokens=500", ["0.3 USD"]) == (told["status"], told["text"], told["money"])
    assert "next_command" not in told
    process.kill()
    process.wait()
    assert (
        "task w: 0.3 of 2 USD spent, 1.7 USD left; 100 of 500 tokens spent, 400 tokens left\n"
        == perdure("budget", "w")[1]
    )


def test_an_empty_budget_is_refused_and_nothing_runs(perdure):
    """It is what a shell has made of "$5": nobody who types that wants no limit at all."""
    for verb in (START, ("resume", "t"), ("resume", "--all")):
        code, _, err = perdure(*verb, "--budget", "")
        assert 2 == code, verb
    assert "no tasks" in perdure("list", "--all")[1]
    assert "--budget is for one task" in err
    assert "write tokens=500" in perdure(*START, "--budget", "500 tokens")[2]


def test_json_says_where_it_stands(perdure):
    """Of the stop, and of each limit."""
    _, out, _ = perdure(*START, "--budget", "0.9 USD, tokens=5000, wall=1h", "--json")
    stopped = json.loads(out)
    assert ("needs_human", "perdure resume t --budget '1.8 USD'") == (stopped["status"], stopped["next_command"])
    money, tokens, wall = json.loads(perdure("show", "t", "--json")[1])["budget"]
    text = money.pop("text")
    assert {"what": "money", "limit": "0.9", "spent": "0.6", "left": "0.3", "unit": "USD"} == money
    assert "0.6 of 0.9 USD spent, 0.3 USD left" == text
    assert ("tokens", "5000", "200", "4800") == tuple(tokens[name] for name in ("what", "limit", "spent", "left"))
    assert ("wall_s", "3600") == (wall["what"], wall["limit"])


def test_the_list_says_what_each_task_has_cost(perdure):
    """In money and tokens, where any task has cost something; as data as `show` has it."""
    perdure("run", "--program", "programs.py:count", "--set", "n=1", "--name", "free")
    assert "SPENT" not in perdure("list", "--all")[1]
    perdure(*START, "--budget", "0.9 USD")
    _, out, _ = perdure("list", "--all")
    heading, costly, free = out.splitlines()
    assert "SPENT" in heading
    assert "0.6 USD, 200 tokens" in costly
    assert "tokens" not in free
    costly, free = json.loads(perdure("list", "--all", "--json")[1])
    assert (["0.6 USD"], 180, 20) == (costly["money"], costly["tokens_in"], costly["tokens_out"])
    assert not {"money", "tokens_in", "tokens_out"} & free.keys()


def test_the_list_says_what_a_task_at_work_has_cost_so_far(perdure, spawn):
    """As of its last call that cost something, while it runs and after it was killed."""
    process = spawn("run", "--program", "programs.py:waiting_thinker", "--name", "w")
    for line in process.stderr:
        if b"thought" in line:
            break
    (row,) = json.loads(perdure("list", "--json")[1])
    assert ("running", ["0.3 USD"], 90, 10) == tuple(
        row[name] for name in ("status", "money", "tokens_in", "tokens_out")
    )
    process.kill()
    process.wait()
    (row,) = json.loads(perdure("list", "--json")[1])
    assert ("interrupted", ["0.3 USD"]) == (row["status"], row["money"])


def test_the_case_is_packed_for_a_person(perdure):
    """What is asked, what was spent, and the line that raises the budget first."""
    perdure(*START, "--budget", "0.9 USD")
    _, page, _ = perdure("show", "t", "--handover")
    assert "## What is asked (limit)" in page
    assert "- spent: `0.6 USD, 180 tokens in, 20 out`" in page
    assert "- budget: `0.6 of 0.9 USD spent, 0.3 USD left`" in page
    ways = [way["command"] for way in json.loads(perdure("show", "t", "--handover", "--json")[1])["ways"]]
    assert "perdure resume t --budget '1.8 USD'" == ways[0]
    assert "perdure resume t" not in ways
    code, _, err = perdure("answer", "t", "go on")
    assert (2, True) == (code, "--budget '1.8 USD'" in err)


def test_unattended_it_fails_with_the_same_package(perdure):
    """Exit 1, and the line opens it again."""
    code, _, err = perdure(*START, "--budget", "0.9 USD", "--unattended")
    assert (1, True) == (code, "perdure resume t --again --budget '1.8 USD'" in err)
    assert "next         perdure resume t --again --budget '1.8 USD'" in perdure("show", "t")[1]
    ways = [way["command"] for way in json.loads(perdure("show", "t", "--handover", "--json")[1])["ways"]]
    assert "perdure resume t --again --budget '1.8 USD'" == ways[0]
    assert 0 == perdure("resume", "t", "--again", "--budget", "+1 USD")[0]


def test_a_resume_says_how_it_stands(perdure):
    """Warned of where less than a tenth is left."""
    order = ("run", "--program", "programs.py:thinker", "--set", "times=9", "--name", "t")
    assert 3 == perdure(*order, "--budget", "1.31 USD")[0]
    code, out, _ = perdure("resume", "t", "--dry-run")
    assert 0 == code
    assert "warn budget: 1.2 of 1.31 USD spent, 0.11 USD left\n" in out
    assert 3 == perdure("resume", "t", "--budget", "1.4 USD, tokens=9000")[0]
    row = "ok   budget: 1.2 of 1.4 USD spent, 0.2 USD left; 400 of 9000 tokens spent, 8600 tokens left\n"
    assert row in perdure("resume", "t", "--dry-run")[1]


def test_the_same_order_again_keeps_what_a_person_has_allowed(perdure):
    """A line of cron does not take a budget back; who types it is told."""
    perdure(*START, "--budget", "0.9 USD")
    perdure("resume", "t", "--budget", "0.95 USD")
    code, out, _ = perdure(*START, "--budget", "0.9 USD")
    assert 3 == code
    assert "it keeps the budget that it has; to change it: perdure resume t --budget …" in out
    assert "0.6 of 0.95 USD spent" in perdure("show", "t")[1]


@pytest.mark.parametrize("budget", ["5", "+5 USD", "a lot", "tokens=0"])
def test_what_cannot_be_read_starts_nothing(perdure, budget):
    """Exit 2 with how a budget is written."""
    code, _, err = perdure(*START, "--budget", budget)
    assert (2, True) == (code, "a budget is written so: 5 USD, tokens=200000" in err)
    assert 2 == perdure("show", "t")[0]


def test_a_budget_is_for_one_task(perdure):
    """Not for all that could be resumed."""
    perdure(*START, "--budget", "0.9 USD")
    code, _, err = perdure("resume", "--all", "--budget", "9 USD")
    assert (2, True) == (code, "--budget is for one task" in err)


def test_who_set_a_budget_is_in_the_log(perdure):
    """With what it is."""
    perdure(*START, "--budget", "0.9 USD")
    perdure("resume", "t", "--budget", "+5 USD, actions=99")
    lines = [json.loads(line)["fields"] for line in perdure("log", "t", "--kind", "budget_set")[1].splitlines()]
    assert [
        {"budget": {"money": "0.9 USD"}},
        {"budget": {"money": "5.9 USD", "actions": 99}, "by": "person"},
    ] == lines


def test_the_budget_of_a_script_is_raised_as_well(perdure, here):
    """The command sets it and says that the script has to be run again; then it goes on where it was."""
    (here / "script.py").write_text(SCRIPT, "utf-8")
    run = [sys.executable, "script.py"]
    environment = {"PYTHONPATH": str(ROOT / "src"), "PATH": "", "HOME": str(here)}
    stopped = subprocess.run(run, cwd=here, env=environment, capture_output=True, text=True, check=False)
    assert "perdure resume inline --budget '1 USD'" in stopped.stderr
    code, _, err = perdure("resume", "inline", "--budget", "1 USD")
    assert (2, True) == (code, "run the script that started it again" in err)
    done = subprocess.run(run, cwd=here, env=environment, capture_output=True, text=True, check=False)
    assert ("", 0) == (done.stderr, done.returncode)
    assert '"0.6 USD"' in perdure("show", "inline", "--json")[1]
