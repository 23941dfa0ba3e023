"""`resume --all --due` over tasks of all kinds: none stops the others, two share the work, a signal ends it."""

import contextlib
import json
import signal
import sqlite3

import pytest

PROGRAMS = """
import asyncio
from pathlib import Path

import perdure


@perdure.tool(effect="pure")
async def nap(n: int, ms: int) -> int:
    await asyncio.sleep(ms / 1000)
    return n


@perdure.tool(effect="pure", quick=True)
def broken() -> None:
    raise ValueError("always")


@perdure.program
async def count(task, ms: int = 1, leaves: bool = False):
    async for place in task.each("places", range(3)):
        await task.act(nap, place, ms)
    if leaves:
        raise SystemExit(7)
    with Path("done.txt").open("a") as file:
        file.write(f"{task.name}\\n")
    return f"{task.name} is done"


@perdure.program
async def ask(task):
    return f"told {await task.ask('go?')}"


@perdure.program(failures_max=1)
async def failing(task):
    await task.act(broken)
"""
BROKEN = {"syntax": "def (:", "nameless": "nothing_of_that_name", "leaving": "raise SystemExit(3)"}  # what files become


@pytest.fixture
def nightly(here, perdure, spawn):
    """Ways to make tasks: `killed(name, file)` in the middle, all with programs from files of their own."""

    def killed(name, file="nightly", *more):
        (here / f"{file}.py").write_text(PROGRAMS)
        order = ("run", "--program", f"{file}.py:count", "--name", name, "--quiet", *more)
        process = spawn(*order, PERDURE_TESTING="1", PERDURE_CRASH="after_outcome:2")
        process.communicate(timeout=30)
        assert -signal.SIGKILL == process.returncode

    (here / "nightly.py").write_text(PROGRAMS)
    return killed


def done(here):
    """Return which tasks have come to their end, sorted."""
    return sorted((here / "done.txt").read_text().split())


def results(out):
    """Return what was printed but for the lines that name a task."""
    return sorted(line for line in out.splitlines() if "to go on after" not in line)


def damage(here, name):
    """Turn a bit in the last append of a task."""
    with contextlib.closing(sqlite3.connect(here / ".perdure" / "perdure.db")) as connection, connection:
        connection.execute("DROP TRIGGER append_is_never_changed")
        (number,) = connection.execute("SELECT task_no FROM task WHERE name = ?", (name,)).fetchone()
        sql = "SELECT key, frames FROM append WHERE key >> 40 = ? ORDER BY key DESC LIMIT 1"
        key, frames = connection.execute(sql, (number,)).fetchone()
        turned = frames[:-9] + bytes([frames[-9] ^ 1]) + frames[-8:]
        connection.execute("UPDATE append SET frames = ? WHERE key = ?", (turned, key))


def test_one_bad_task_never_stops_the_others(here, perdure, spawn, nightly):
    """Due, waiting, answered, given up, damaged, without a program, leaving Python, held: each as it is."""
    nightly("first")
    for name in ("waiting", "answered"):
        assert 3 == perdure("run", "--program", "nightly.py:ask", "--name", name)[0]
    assert 0 == perdure("answer", "answered", "yes")[0]
    assert 3 == perdure("run", "--program", "nightly.py:failing", "--name", "given-up")[0]
    nightly("damaged")
    for file, text in BROKEN.items():
        nightly(file, file)
        (here / f"{file}.py").write_text(text)
    nightly("gone", "gone")
    (here / "gone.py").unlink()
    nightly("exits", "nightly", "--set", "leaves=true")
    nightly("last")
    elsewhere = spawn("run", "--program", "nightly.py:count", "--name", "elsewhere", "--set", "ms=20000")
    while b"to go on" not in elsewhere.stdout.readline():
        pass
    damage(here, "damaged")

    code, out, err = perdure("resume", "--all", "--due", "--quiet")
    assert ["first is done", "last is done", "told yes"] == results(out)
    assert ["first", "last"] == done(here)
    for name in (*BROKEN, "gone", "damaged", "exits"):
        assert any(line.startswith(f"perdure: task '{name}': ") for line in err.splitlines()), name
    assert "SystemExit(7)" in err
    assert err.endswith("perdure: of 9 tasks 3 succeeded, 5 could not begin, 1 damaged\n")
    assert code == 2
    _, listed, _ = perdure("list", "--json")
    stand = {row["name"]: row["status"] for row in json.loads(listed)}
    assert ("running", "needs_human", "needs_human") == (stand["elsewhere"], stand["waiting"], stand["given-up"])
    assert {"interrupted"} == {stand[name] for name in (*BROKEN, "gone", "damaged")}

    _, out, _ = perdure("resume", "--all", "--due", "--json", "--quiet")
    told = {line["name"]: line["message"] for line in map(json.loads, out.splitlines())}
    assert {*BROKEN, "gone", "damaged", "exits"} == told.keys()
    assert "cannot be imported" in told["gone"]


def test_two_commands_at_once_share_the_work(here, nightly, spawn):
    """Each task is brought to its end and told once; busy or finished by the other is no fault."""
    names = [f"t{number}" for number in range(6)]
    for name in names:  # the last one is the first to go on, and takes as long as all others together
        nightly(name, "nightly", "--set", f"ms={2500 if name == names[-1] else 100}")
    both = [spawn("resume", "--all", "--due", "--quiet") for _ in range(2)]
    outs = [process.communicate(timeout=60) for process in both]
    assert [0, 0] == [process.returncode for process in both], outs
    assert names == done(here)
    assert [f"{name} is done" for name in names] == results(b"".join(out for out, _ in outs).decode())


def test_a_signal_begins_no_other(here, perdure, nightly, spawn):
    """The task at hand is paused, the rest stays as it is; the next command takes all."""
    names = [f"t{number}" for number in range(3)]
    for name in names:
        nightly(name, "nightly", "--set", "ms=400")
    process = spawn("resume", "--all", "--due")
    while b"to go on" not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert 130 == process.returncode
    assert b"2 more were not begun" in err
    assert not (here / "done.txt").exists()
    assert 0 == perdure("resume", "--all", "--due", "--quiet")[0]
    assert names == done(here)


def test_a_lonely_task_says_nothing_of_others(here, perdure, nightly):
    """No count for one."""
    nightly("only")
    code, out, err = perdure("resume", "--all", "--due", "--quiet")
    assert (0, ["only is done"], "") == (code, results(out), err)
    assert "nothing to resume" in perdure("resume", "--all", "--due")[1]
