"""What a person types by mistake, or believes of what is printed: nothing is done twice, lost, or done to another."""

import json
import os
import signal
import subprocess
import sys

import pytest

from perdure.cli import exits
from perdure.errors import StoreFull, TaskPaused
from perdure.operations import orders
from tests.cli.conftest import ROOT
from tests.cli.test_running import RUN, pending_of, until

MAILS = ("run", "--program", "programs.py:mails", "--name", "m")


def shown(perdure, name):
    """What `show --json` says."""
    return json.loads(perdure("show", name, "--json")[1])


def sent(here):
    """The lines that went out."""
    return (here / "sent.txt").read_text("utf-8").splitlines()


@pytest.fixture
def paused(perdure, spawn):
    """An unfinished task called `far`, paused by a signal."""
    process = spawn(*RUN, "--set", "n=100", "--set", "ms=20", "--name", "far")
    until(process, "nap (")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    return "far"


# --- what is printed can be typed -----------------------------------------------------------------------------------
def test_an_unclaimed_outcome_alone_is_not_to_be_kept(perdure, here):
    """A task that failed behind its mail is resumed, and the mail goes out once: `--keep` would send it again."""
    assert 3 == perdure(*MAILS)[0]
    found = shown(perdure, "m")
    assert "perdure resume m" == found["next_command"]
    assert [("unclaimed", None)] == [(one["standing"], one.get("settle")) for one in found["pending"]]
    (here / "put right").touch()
    assert 0 == perdure("resume", "m")[0]
    assert ["hello"] == sent(here)
    assert "pending" not in shown(perdure, "m")


def test_an_effect_that_the_program_no_longer_asks_for_can_be_kept(perdure, here):
    """Only where the program has come by it: the line that is printed is the way out."""
    perdure(*MAILS)
    (here / "forget").touch()
    (here / "put right").touch()
    code, _, err = perdure("resume", "m")
    assert 3 == code
    assert "task 'm' needs a person" in err
    command = shown(perdure, "m")["next_command"].split()
    assert (["perdure", "settle", "m"], "--keep") == (command[:3], command[-1])
    assert 0 == perdure(*command[1:])[0]
    assert 0 == perdure("resume", "m")[0]
    assert ["hello"] == sent(here)


def test_after_two_ctrl_c_the_effect_in_doubt_comes_first(perdure, spawn):
    """The last line of `run` and `show` name the same next command: settle, not resume."""
    process = spawn("run", "--program", "programs.py:danger", "--name", "it's d")
    pending_of(perdure, "it's d")
    process.send_signal(signal.SIGINT)
    until(process, "pausing at the end")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    (pending,) = pending_of(perdure, "it's d")
    settle = f"""perdure settle 'it'"'"'s d' {pending["action"]} --happened | --did-not-happen"""
    assert settle == shown(perdure, "it's d")["next_command"]
    assert f"next: {settle}" in err.decode()


def test_a_name_is_spoken_of_and_not_an_id(perdure, spawn):
    """Who works on a task is said of its name."""
    process = spawn(*RUN, "--set", "n=400", "--set", "ms=20", "--name", "busy one")
    until(process, "nap (")
    code, _, err = perdure("resume", "busy one")
    assert 5 == code
    assert err.startswith("perdure: task 'busy one' is being worked on by process")


# --- nobody to ask --------------------------------------------------------------------------------------------------
def test_a_question_fails_an_unattended_task(perdure):
    """`task.ask` under --unattended: exit 1, and the question is the reason."""
    code, _, err = perdure("run", "--program", "programs.py:queries", "--name", "q", "--unattended")
    assert 1 == code
    why = "nobody is there to answer: which colour?"
    assert f"task 'q' failed: {why}; next: perdure show q" in err
    assert ("failed", why) == tuple(shown(perdure, "q")[key] for key in ("status", "why"))


def test_an_effect_in_doubt_fails_a_task_that_is_resumed_unattended(perdure, spawn):
    """Nobody can say what became of it: exit 1; attended, the same asks for a person."""
    process = spawn("run", "--program", "programs.py:danger", "--name", "d", "--quiet")
    pending_of(perdure, "d")
    process.kill()
    process.wait()
    code, _, err = perdure("resume", "d", "--unattended")
    assert 1 == code
    assert "whether fire happened is not known" in err
    assert "failed" == shown(perdure, "d")["status"]
    assert 3 == perdure("resume", "d", "--again")[0]


# --- another order --------------------------------------------------------------------------------------------------
def test_another_workspace_is_another_order(perdure, here):
    """The same name with another --workspace is refused, with the same or none it is the same order."""
    assert 0 == perdure(*RUN, "--name", "w", "--workspace", "one")[0]
    code, _, err = perdure(*RUN, "--name", "w", "--workspace", "two")
    assert 2 == code
    assert "was started with another workspace" in err
    assert "new=True" not in err
    for same in (("--workspace", "one"), ()):
        assert "has succeeded before" in perdure(*RUN, "--name", "w", *same)[1]


def test_a_derived_name_that_is_taken_grows_longer(perdure, monkeypatch):
    """Two orders whose short names are the same get their own tasks and results, and find them again."""
    monkeypatch.setattr(orders, "_LETTERS", (0, 8))
    for _ in range(2):
        for n, expected in (("2", 1), ("3", 3), ("2", 1)):
            assert expected == json.loads(perdure(*RUN, "--set", f"n={n}", "--json")[1])["result"]["sum"]
    names = sorted(row["name"] for row in json.loads(perdure("list", "--all", "--json")[1]))
    assert [len("count-"), len("count-12345678")] == list(map(len, names))


def test_derived_names_tell_workspaces_and_goals_apart(perdure, here, monkeypatch):
    """The same goal in another workspace is another task, also where the short names are the same."""
    monkeypatch.setattr(orders, "_LETTERS", (0, 8))
    (here / "docs").mkdir()
    (here / "docs" / "a.txt").write_text("One text about one journal.", "utf-8")
    goal = ("run", "Digest the documents under docs", "--model", "offline", "--json")
    first = [json.loads(perdure(*goal, *where)[1])["task"] for where in ((), ("--workspace", "w"))]
    again = [json.loads(perdure(*goal, *where)[1])["task"] for where in ((), ("--workspace", "w"))]
    assert first == again
    assert 2 == len(set(first))
    assert (here / "w" / "digest.md").exists()


def test_a_new_task_does_not_take_the_name_of_an_unfinished_one(perdure, paused):
    """`--new` is refused with the lines to type; nothing of the task goes on."""
    before = shown(perdure, paused)
    code, _, err = perdure(*RUN, "--set", "n=100", "--set", "ms=20", "--name", paused, "--new")
    assert 2 == code
    assert f"perdure resume {paused}" in err
    assert before == shown(perdure, paused)


# --- another task ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "verb", [("cancel",), ("rollback", "--to", "start"), ("settle", "x", "--keep"), ("delete", "--yes")]
)
def test_what_cannot_be_taken_back_is_not_done_to_a_task_that_begins_so(perdure, paused, verb):
    """The task that was perhaps meant is named; `pause`, which can be taken back, takes the beginning."""
    before = shown(perdure, paused)
    code, _, err = perdure(verb[0], "f", *verb[1:])
    assert 2 == code
    assert f"'f' is only the beginning of task 'far' (id {before['task'][:8]})" in err
    assert before == shown(perdure, paused)
    assert 0 == perdure("pause", "f")[0]


def test_eight_letters_of_an_id_are_enough(perdure, paused):
    """Seven are not: they may be a guess."""
    task = shown(perdure, paused)["task"]
    assert 2 == perdure("cancel", task[:7])[0]
    assert 0 == perdure("cancel", task[:8])[0]


def test_a_finished_task_is_not_rolled_back(perdure):
    """It has ended, exit 2, and its journal is as it was."""
    perdure(*RUN, "--name", "t")
    before = shown(perdure, "t")
    code, _, err = perdure("rollback", "t", "--to", "start")
    assert 2 == code
    assert "task 't' has ended (succeeded)" in err
    assert before == shown(perdure, "t")


# --- what makes no sense --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((*RUN, "--workspace", "programs.py"), "is a file"),
        ((*RUN, "--workspace", "programs.py/a/b"), "is a file"),
        ((*RUN, "--workspace", "w\udcff"), "cannot be named"),
        ((*RUN, "--name", ""), "is empty"),
        ((*RUN, "--name", "-x"), "begins like an option"),
        ((*RUN, "--name", "\udcff"), "surrogate"),
        ((*RUN, "--set", "n=1", "--set", "n=2"), "--set n=… is given twice"),
        ((*RUN, "--set", "extra=\udcff"), "no text"),
        (("resume", "--all", "x"), "not both"),
        (("resume", "x", "--accept", "nonsense"), "journal, last action, source, workspace"),
        (("run", "Digest the documents under \udcff", "--model", "offline"), "surrogate"),
    ],
)
def test_what_makes_no_sense_costs_exit_2(perdure, arguments, said):
    """One line says what is wrong, and no task is made."""
    code, out, err = perdure(*arguments)
    assert (2, "") == (code, out)
    assert said in err
    assert [] == json.loads(perdure("list", "--all", "--json")[1])


def test_a_full_store_is_exit_6_and_no_pause_by_a_person():
    """What paused the task is said by the code as well."""
    full = TaskPaused("t", "the store is full")
    full.__cause__ = StoreFull("x.db")
    assert (exits.DAMAGED, exits.PAUSED) == (exits.code_of(full), exits.code_of(TaskPaused("t", "by a person")))


# --- the process ----------------------------------------------------------------------------------------------------
def module(here, *arguments, shell="", **environ):
    """Run `python -m perdure` as a process, with redirections of `shell`; returns what came of it."""
    script = f'exec "$@" {shell}'
    return subprocess.run(
        ["/bin/sh", "-c", script, "sh", sys.executable, "-m", "perdure", *arguments],
        cwd=here,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environ},
        capture_output=True,
        check=False,
        timeout=30,
    )


def test_arguments_are_utf_8_in_any_locale(here):
    """Under the C locale, where Python takes them for something else, they mean the same."""
    odd = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    found = module(here, *RUN, "--set", "n=0", "--set", "extra=ü", "--name", "ö", "--json", **odd)
    assert (0, "ü", "ö") == (
        found.returncode,
        json.loads(found.stdout)["result"]["extra"],
        json.loads(found.stdout)["name"],
    )
    found = module(here, *RUN, "--workspace", "ö", **odd)
    assert 2 == found.returncode
    assert b"cannot be named" in found.stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_cost_what_would_have_been_printed_and_no_more(here, perdure, closed):
    """The task is done, and the store is not written into by what is printed."""
    found = module(here, *RUN, "--name", "t", shell=closed)
    assert 0 == found.returncode
    assert "succeeded" == shown(perdure, "t")["status"]
    assert 0 == perdure("verify", "--full")[0]


def test_a_thread_that_outlives_its_time_is_spoken_of_and_left_by_ctrl_c(here, perdure, spawn):
    """The result is there, the process waits and says for what; Ctrl-C ends it at once."""
    process = spawn("run", "--program", "programs.py:threads", "--name", "t")
    until(process, "waiting for a thread that cannot be stopped")
    assert "succeeded" == shown(perdure, "t")["status"]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert 130 == process.returncode
