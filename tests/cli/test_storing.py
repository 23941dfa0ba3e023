"""The verbs about the store, and `log` in all its ways: on files, following, made anew."""

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from perdure.logs.scroll import open_scroll, parse_keep
from tests.cli.conftest import COMMAND, ROOT


@pytest.fixture
def logs(here, monkeypatch):
    """A folder for log files, as the environment names it."""
    monkeypatch.setenv("PERDURE_LOG_DIR", str(here / "logs"))
    return here / "logs"


@pytest.fixture
def task(perdure, logs):
    """A finished task called `t`."""
    perdure("run", "--program", "programs.py:count", "--set", "n=3", "--name", "t")
    return "t"


def lines(text):
    """Lines of JSON as values."""
    return [json.loads(line) for line in text.splitlines()]


def test_the_files_say_what_the_store_says(perdure, task, logs, here):
    """Byte for byte, though the store is gone; by a prefix of the name or id."""
    _, of_store, _ = perdure("log", task)
    (here / ".perdure").rename(here / "away")
    number = lines(of_store)[0]["task"]
    for name in ("t", number, number[:5]):
        assert (0, of_store, "") == perdure("log", name, "--from-files")
    assert 2 == perdure("log", task)[0]
    assert (0, of_store, "") == perdure("log", task, "--from-files", "--follow", "--log-dir", logs)


def test_lines_can_be_chosen_and_read_by_people(perdure, task):
    """By kind, by number, by time; as text where that is asked for."""
    _, out, _ = perdure("log", task, "--kind", "checkpoint_marked", "--kind", "task_succeeded", "--since", "1h")
    assert ["checkpoint_marked", "checkpoint_marked", "task_succeeded"] == [line["kind"] for line in lines(out)]
    last = lines(out)[-1]["seq"]
    assert [last] == [line["seq"] for line in lines(perdure("log", task, "--since", last)[1])]
    assert [last] == [line["seq"] for line in lines(perdure("log", task, "--after", last - 1)[1])]
    assert "" == perdure("log", task, "--since", "2200-01-01")[1]
    _, text, _ = perdure("log", task, "--format", "text")
    assert "nap(n=1, ms=1) succeeded in" in text
    assert text == perdure("log", task, "--format", "text", "--from-files")[1]


@pytest.mark.parametrize(
    "wrong",
    [
        ("log",),
        ("log", "t", "--format", "xml"),
        ("log", "t", "--kind", "nope"),
        ("log", "t", "--since", "soon"),
        ("log", "nope", "--from-files"),
        ("log", "t", "--from-files", "--log-dir", ""),
        ("verify", "t", "--all"),
        ("store", "backup"),
        ("delete", "nope", "--yes"),
    ],
)
def test_wrong_usage_is_said_and_changes_nothing(perdure, task, wrong, monkeypatch):
    """Exit 2, one line of what to do."""
    monkeypatch.delenv("PERDURE_LOG_DIR")
    code, out, err = perdure(*wrong)
    assert (2, "") == (code, out)
    assert err


def test_the_schema_is_printed_without_any_task(perdure):
    """What the package carries, as it is."""
    code, out, _ = perdure("log", "--schema")
    assert (0, "A line of perdure's log") == (code, json.loads(out)["title"])


def test_a_cut_tail_is_reported_and_damage_stops_with_its_place(perdure, task, logs):
    """The first on stderr with exit 0, the second with exit 6, file, line and byte."""
    (live,) = logs.glob("*/live.ndjson")
    whole = live.read_bytes()
    live.write_bytes(whole + b'{"v":1,')
    code, out, err = perdure("log", task, "--from-files")
    assert (0, whole.decode()) == (code, out)
    assert f"perdure: the last line of '{live}' is cut (7 bytes, left out)" in err
    live.write_bytes(whole[:200] + b"#" + whole[201:])
    code, out, err = perdure("log", task, "--from-files")
    assert (6, "") == (code, out)
    assert f"'{live}' is damaged at line 1 (byte 0)" in err
    assert (0, "") == (perdure("log", task, "--rebuild")[0], perdure("log", task, "--rebuild")[2])
    assert whole == live.read_bytes()


def test_files_that_somebody_writes_are_not_made_anew(perdure, task, logs):
    """Exit 5 while they are open elsewhere."""
    (folder,) = logs.iterdir()
    scroll = open_scroll(str(folder), parse_keep(str(logs), "1 MB x 2"))
    assert 5 == perdure("log", task, "--rebuild")[0]
    scroll.close()
    assert 0 == perdure("log", task, "--rebuild")[0]


def test_following_shows_a_running_task_and_ends_with_it(spawn, perdure, logs):
    """Lines come while it works; both ways of following end by themselves."""
    worker = spawn("run", "--program", "programs.py:count", "--set", "n=30", "--set", "ms=50", "--name", "long")
    while not list(logs.glob("*/live.ndjson")):
        assert worker.poll() is None
    followers = [spawn("log", "long", "--follow"), spawn("log", "long", "--follow", "--from-files")]
    first = [json.loads(follower.stdout.readline()) for follower in followers]
    assert None is worker.poll()
    outs = [follower.stdout.read() for follower in followers]
    worker.communicate(timeout=30)
    whole = lines(perdure("log", "long")[1])
    for begin, out, follower in zip(first, outs, followers, strict=True):
        assert whole == [begin, *lines(out.decode())]
        assert 0 == follower.wait(timeout=30)


def test_verify_names_each_invariant(perdure, task):
    """A named task row by row, all tasks a line each; what was not looked at is said."""
    code, out, _ = perdure("verify", task)
    assert (0, 14) == (code, len(out.splitlines()))
    assert "with --full" in out
    code, out, _ = perdure("verify", task, "--full")
    assert (0, False, True) == (code, "with --full" in out, "0 snapshots" in out)
    code, out, _ = perdure("verify", "--all", "--full")
    assert (0, 1) == (code, len(out.splitlines()))
    (told,) = json.loads(perdure("verify", "--json")[1])
    assert {"holds", "not_checked", "by_tests"} == {row["verdict"] for row in told["invariants"]}
    assert sorted([0, *range(1, 13)]) == sorted(row["invariant"] for row in told["invariants"])


def test_delete_asks_and_removes_all_of_a_task(perdure, task, logs, here):
    """Refused without a terminal to ask; no is no; with --yes task, blobs and log files are gone, others stay."""
    perdure("run", "--program", "programs.py:count", "--set", "n=1", "--name", "other")
    code, _, err = perdure("delete", task)
    assert (2, True) == (code, "say --yes" in err)
    for answer, code in (("n", 1), ("y", 0)):
        ours, theirs = pty.openpty()
        os.write(ours, f"{answer}\n".encode())
        environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        asked = subprocess.run(
            [*COMMAND, "delete", task], check=False, cwd=here, env=environ, stdin=theirs, capture_output=True
        )
        os.close(ours)
        os.close(theirs)
        assert code == asked.returncode
        assert b"for good? [y/N]" in asked.stderr
    assert 2 == perdure("show", task)[0]
    assert ["other"] == [row["name"] for row in json.loads(perdure("list", "--all", "--json")[1])]
    assert ["other"] == [path.name.partition(".")[0] for path in logs.iterdir()]
    told = json.loads(perdure("delete", "other", "--yes", "--json")[1])
    assert ("other", 0) == (told["name"], told["blobs"])


def test_delete_leaves_a_task_that_is_worked_on(spawn, perdure, logs):
    """Exit 5 naming the process; the task goes on to its end."""
    worker = spawn("run", "--program", "programs.py:count", "--set", "n=20", "--set", "ms=50", "--name", "long")
    while not list(logs.glob("*/live.ndjson")):
        assert worker.poll() is None
    code, _, err = perdure("delete", "long", "--yes")
    assert (5, True) == (code, str(worker.pid) in err)
    worker.communicate(timeout=30)
    assert 0 == worker.returncode


def test_a_store_is_copied_and_the_copy_verified(perdure, task, here):
    """It opens under its own name, holds the same log, and is never written over an existing file."""
    code, out, _ = perdure("store", "backup", "copy.db")
    assert (0, True) == (code, out.startswith("copied 1 tasks into copy.db"))
    assert perdure("log", task)[1] == perdure("log", task, "--store", "copy.db")[1]
    before = Path("copy.db").read_bytes()
    assert 2 == perdure("store", "backup", "copy.db")[0]
    assert before == Path("copy.db").read_bytes()
    told = json.loads(perdure("store", "backup", "second.db", "--json")[1])
    assert ("second.db", 1, 0) == (told["file"], told["tasks"], told["damaged"])
    assert 6 == perdure("store", "backup", "third.db", "--store", "nowhere.db")[0]
    assert not Path("nowhere.db").exists()


def test_the_size_of_the_store_is_shown(perdure, task):
    """For people and as JSON."""
    code, out, _ = perdure("store", "status")
    assert (0, True) == (code, "tasks      1: 1 succeeded" in out)
    told = json.loads(perdure("store", "status", "--json")[1])
    assert ({"total": 1, "succeeded": 1}, 2) == (told["tasks"], told["schema"])
    assert told["entries"] == lines(perdure("log", task)[1])[-1]["seq"]
    assert 6 == perdure("store", "status", "--store", "nowhere.db")[0]
