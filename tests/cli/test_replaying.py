"""`perdure replay`, as a person types it: on this machine, and on another one from a copy of the store."""

import hashlib
import json
import os
import shutil
import sqlite3
import stat

import pytest

CHANCY = '''
import os
import random
import time

import perdure


@perdure.tool(effect="irreversible")
def write(text: str) -> None:
    """Leave a file."""
    with open("written", "a") as file:
        file.write(text)


async def in_turn(task, texts):
    for text in texts:
        await task.using(key=text).act(write, text)


@perdure.program
async def tidy(task):
    """Time, chance and ids of the task decide the order."""
    texts = [f"{task.random():.6f}" for _ in range(9)] + [str(task.now()), task.new_id()]
    await in_turn(task, sorted(texts))


@perdure.program
async def by_set(task):
    """The order of a set depends on the hash seed."""
    await in_turn(task, list({f"word {n}" for n in range(30)}))


@perdure.program
async def by_zone(task):
    """Local time depends on the zone."""
    await in_turn(task, [time.strftime("%H", time.gmtime(0)), time.strftime("at %H", time.localtime(0))])


@perdure.program
async def by_chance(task):
    """Chance that is nobody's."""
    await in_turn(task, [f"{random.random():.9f}"])


CACHE = []


@perdure.program
async def by_cache(task):
    """A cold cache takes another way than a warm one."""
    await in_turn(task, CACHE or ["cold"])


if os.environ.get("WARM"):
    CACHE.append("warm")
'''


def digests(folder):
    """Return {name: digest} of all files in a folder."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir() if path.is_file()}


def wait(process):
    """Return (exit code, stdout, stderr) of a spawned command."""
    out, err = process.communicate(timeout=60)
    return process.returncode, out.decode(), err.decode()


def test_a_replay_says_equal_and_how_much_was_compared(perdure):
    """One line and exit 0, for a finished task and one that stopped; JSON has the same."""
    perdure("run", "--program", "programs.py:count", "--name", "naps", "--set", "n=4")
    perdure("run", "--program", "programs.py:failing", "--name", "bad")
    code, out, err = perdure("replay", "naps")
    assert (0, "") == (code, err)
    assert "equal: task naps (" in out
    assert "20 entries, 4 actions compared" in out
    assert 0 == perdure("replay", "bad")[0]
    code, out, _ = perdure("replay", "naps", "--json")
    shown = json.loads(out)
    assert (0, "naps", 20, 4, None) == (
        code,
        *(shown[key] for key in ("name", "entries", "actions", "divergence")),
    )


def test_a_difference_is_shown_with_both_values(perdure, here):
    """Exit 1; entry, expected, came, and field by field; nothing else is run after it."""
    perdure("run", "--program", "programs.py:count", "--name", "naps", "--set", "n=3")
    changed = (here / "programs.py").read_text().replace("task.act(nap, i, ms,", "task.act(nap, i + 1, ms,")
    (here / "changed.py").write_text(changed)
    code, out, _ = perdure("replay", "naps", "--app", "changed.py:count")
    assert 1 == code
    lines = out.splitlines()
    assert lines[0].startswith("diverged at entry 4 of task naps (")
    assert "  arguments" in lines
    assert '    - {"n":0,"ms":1}' in lines
    assert '    + {"n":1,"ms":1}' in lines


def test_until_and_tolerant_are_passed_on(perdure):
    """What is behind --until is not looked at; --tolerant says what it lets pass."""
    perdure("run", "--program", "programs.py:count", "--name", "naps", "--set", "n=3")
    code, out, _ = perdure("replay", "naps", "--until", "5")
    assert (0, True) == (code, "4 entries, 1 actions compared, up to entry 5" in out)
    assert 0 == perdure("replay", "naps", "--tolerant")[0]


def test_recovery_is_asked_again(perdure):
    """How many decisions were asked for, and that none would be another; exit 0."""
    perdure("run", "--program", "programs.py:failing", "--name", "bad")
    code, out, _ = perdure("replay", "bad", "--recovery")
    assert (0, "2 decisions of task bad asked for anew: 2 are the same\n") == (code, out)
    assert [] == json.loads(perdure("replay", "bad", "--recovery", "--json")[1])["changed"]


@pytest.mark.parametrize(
    "words",
    [
        ["replay", "nobody"],
        ["replay", "naps", "--recovery", "--tolerant"],
        ["replay", "naps", "--recovery", "--app", "programs.py:count"],
        ["replay", "naps", "--app", "programs.py:nothing"],
        ["replay", "naps", "--until", "-1"],
    ],
)
def test_wrong_use_is_exit_2(perdure, words):
    """A task or program that is not there, and options that do not go together."""
    perdure("run", "--program", "programs.py:count", "--name", "naps", "--set", "n=2")
    code, out, err = perdure(*words)
    assert (2, "") == (code, out)
    assert err


def test_a_replay_where_there_is_no_store_makes_none(perdure, here):
    """Exit 2, and the folder stays as it was."""
    before = sorted(os.listdir(here))
    assert 2 == perdure("replay", "naps")[0]
    assert before == sorted(os.listdir(here))


@pytest.mark.parametrize(
    ("program", "is_equal"),
    [("tidy", True), ("by_set", False), ("by_zone", False), ("by_chance", False), ("by_cache", False)],
)
def test_another_process_replays_a_copy_under_another_seed_zone_and_cache(here, spawn, program, is_equal):
    """Equal where time and chance were the task's own, else the first step that differs, before any effect."""
    there, copies = here / "there", here / "copies"
    there.mkdir()
    copies.mkdir()
    (there / "chancy.py").write_text(CHANCY)
    first = {"PYTHONHASHSEED": "1", "TZ": "Asia/Tokyo", "WARM": "1", "PERDURE_STORE": str(there / "perdure.db")}
    started = wait(spawn("run", "--program", "there/chancy.py:" + program, "--name", "job", **first))
    assert 0 == started[0], started[2]
    (here / "written").unlink()
    for name in ("perdure.db", "perdure.db-wal"):
        if (there / name).exists():
            shutil.copy(there / name, copies / name)
    fold_into_one_file(copies / "perdure.db")
    shutil.move(there / "chancy.py", here / "elsewhere.py")
    before = digests(copies)
    copies.chmod(stat.S_IRUSR | stat.S_IXUSR)
    second = {"PYTHONHASHSEED": "2", "TZ": "America/Lima"}
    words = ("replay", "job", "--store", str(copies / "perdure.db"))
    assert 2 == wait(spawn(*words, **second))[0]  # its folder holds no such program any more
    code, out, err = wait(spawn(*words, "--app", f"elsewhere.py:{program}", **second))
    assert (not is_equal, "") == (code, err), out
    assert is_equal == out.startswith("equal")
    assert before == digests(copies)
    assert not (here / "written").exists()


def fold_into_one_file(path):
    """Carry the write-ahead log of a copy into its file, as whoever makes a copy for others does."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    assert ["perdure.db"] == sorted(os.listdir(path.parent))
