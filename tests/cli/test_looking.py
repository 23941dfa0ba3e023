"""The verbs that look, on any console and any store: list, show, state, log, checkpoints, verify, doctor."""

import json
import os
import sqlite3
import subprocess

import pytest

from perdure import errors
from perdure.cli import exits
from perdure.clock import SystemClock
from perdure.errors import PerdureError
from perdure.workspace import processes
from tests.cli.conftest import COMMAND, ROOT


@pytest.fixture
def task(perdure):
    """A finished task called `t`."""
    perdure("run", "--program", "programs.py:count", "--set", "n=3", "--name", "t")
    return "t"


def test_looking_makes_no_store(perdure, here):
    """In a folder without tasks every verb says so and leaves nothing behind."""
    assert (0, f"no unfinished tasks in {here}/.perdure/perdure.db\n") == perdure("list")[:2]
    assert (0, []) == (perdure("verify")[0], json.loads(perdure("verify", "--json")[1]))
    for verb in ("show", "state", "log", "checkpoints", "pause", "cancel", "verify"):
        assert 2 == perdure(verb, "t")[0]
    assert 0 == perdure("doctor")[0]
    assert not (here / ".perdure").exists()


def test_a_task_is_shown_in_every_way(perdure, task):
    """Each verb names what the run did, by a prefix of the name too."""
    _, out, _ = perdure("show", task)
    assert "succeeded" in out
    assert "checkpoints  middle, end" in out
    assert {"done": [0, 1, 2]} == json.loads(perdure("state", task)[1])
    assert b'{"done":[0,1]}\n' == perdure("state", task, "--at", "middle", "--json")[1].encode()
    assert ["middle", "end"] == [row["name"] for row in json.loads(perdure("checkpoints", task, "--json")[1])]
    lines = [json.loads(line) for line in perdure("log", task)[1].splitlines()]
    assert [0, 1, 2] == [line["result"] for line in lines if line["kind"] == "action_settled"]
    after = [json.loads(line)["seq"] for line in perdure("log", task, "--after", lines[-2]["seq"])[1].splitlines()]
    assert [lines[-1]["seq"]] == after
    code, out, err = perdure("verify", task)
    assert (0, "") == (code, err)
    assert f"task t ({lines[0]['task']}) is whole" in out
    assert (0, True) == (perdure("verify", task)[0], json.loads(perdure("verify", "--json")[1])[0]["whole"])


@pytest.mark.skipif(not processes.is_supported(), reason="this system does not say who carries marks")
def test_living_processes_of_a_task_are_shown(perdure, spawn):
    """One that a tool started is named as long as it lives, when who started it is gone; without any, none is."""
    perdure("run", "--program", "programs.py:count", "--set", "n=1", "--name", "t")
    run = spawn("run", "--program", "programs.py:serving", "--set", "name=\x1bz", "--name", "s")
    assert 0 == run.wait(30)
    shown = json.loads(perdure("show", "s", "--json")[1])
    try:
        (living,) = shown["processes"]
        (settled,) = [json.loads(line) for line in perdure("log", "s", "--kind", "action_settled")[1].splitlines()]
        assert (living["pid"], living["action"]) == (shown["result"], settled["id"])
        assert f"process      {living['pid']} " in perdure("show", "s")[1]
        assert "\\x1bz (started by" in perdure("show", "s")[1]
    finally:
        processes.end(shown["task"], 0.0, SystemClock())
    assert "process" not in perdure("show", "s")[1] + perdure("show", "t")[1]


def test_text_of_a_task_cannot_command_the_terminal(perdure):
    """Escape sequences in notes and errors are shown, not obeyed."""
    _, _, err = perdure("run", "--program", "programs.py:failing", "--name", "f")
    _, out, _ = perdure("show", "f")
    assert "\\x1b[2Jnote" in err
    assert "\x1b" not in out + err


def test_an_ascii_console_is_no_reason_to_fail(spawn):
    """What it cannot show becomes an escape; JSON is UTF-8 all the same."""
    process = spawn("run", "--program", "programs.py:asking", "--name", "größe", PYTHONIOENCODING="ascii")
    out, err = process.communicate(timeout=20)
    assert 0 == process.returncode
    assert b"gem\\xe4\\xdf \\u2248 \\U0001f600" in out
    assert b"checkpoint: \\xfc" in err
    out, _ = spawn("list", "--all", PYTHONIOENCODING="ascii").communicate(timeout=20)
    assert b"gr\\xf6\\xdfe" in out
    out, _ = spawn("list", "--all", "--json", PYTHONIOENCODING="ascii").communicate(timeout=20)
    assert "größe" == json.loads(out)[0]["name"]


def test_a_reader_that_leaves_early_is_no_error_to_see(perdure, task, here):
    """`perdure log | head -1` prints one line and no traceback."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    log = subprocess.Popen([*COMMAND, "log", task], cwd=here, env=environ, stdout=-1, stderr=-1)
    log.stdout.close()
    assert b"" == log.communicate(timeout=20)[1]


def test_help_loads_neither_engine_nor_rich(here):
    """What `--help` needs is quick to load; a store is opened by none of it."""
    code = (
        "import sys; from perdure.cli import main; code = main(['--help']);"
        "heavy = {'rich', 'asyncio', 'sqlite3', 'zstandard', 'perdure.engine', 'perdure.stores', 'perdure.views'};"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else code)"
    )
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    found = subprocess.run([*COMMAND[:2], code], env=environ, capture_output=True, check=False)
    assert (0, b"") == (found.returncode, found.stderr)
    assert b"resume" in found.stdout


def test_an_ambiguous_beginning_is_refused(perdure):
    """The tasks that it fits are named."""
    for name in ("ab", "ac"):
        perdure("run", "--program", "programs.py:count", "--set", "n=0", "--name", name)
    code, _, err = perdure("show", "a")
    assert 2 == code
    assert "ab, ac" in err


@pytest.mark.parametrize("content", [b"", b"not a database at all, but long enough to be read as one" * 20])
def test_a_store_that_is_none_costs_exit_6_and_is_left_alone(perdure, here, content):
    """Every verb, doctor included, says what is wrong; the file keeps its bytes (kilocode #9672)."""
    place = here / "x.db"
    place.write_bytes(content)
    for verb in (("list",), ("run", "--program", "programs.py:count"), ("resume",), ("verify",)):
        code, out, err = perdure(*verb, "--store", place)
        assert (6, "") == (code, out)
        assert "cannot be opened as a store" in err
    code, out, _ = perdure("doctor", "--store", place)
    assert 1 == code
    assert "stop  store:" in out
    assert content == place.read_bytes()


def tamper(here, change, *arguments):
    """Run one statement on the journal's table as a failing disk would, past the triggers that forbid it."""
    database = sqlite3.connect(here / ".perdure" / "perdure.db", isolation_level=None)
    triggers = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        database.execute(f"DROP TRIGGER {name}")
    database.execute(change, arguments)
    for _, text in triggers:
        database.execute(text)
    database.close()


def frames_of(here, seq):
    """The frames of the append that begins with entry `seq`."""
    database = sqlite3.connect(here / ".perdure" / "perdure.db")
    (frames,) = database.execute("SELECT frames FROM append WHERE key & ? = ?", ((1 << 40) - 1, seq)).fetchone()
    database.close()
    return bytes(frames)


def first_seqs(here):
    """The seq of the first entry of each append."""
    database = sqlite3.connect(here / ".perdure" / "perdure.db")
    keys = [key & ((1 << 40) - 1) for (key,) in database.execute("SELECT key FROM append ORDER BY key")]
    database.close()
    return [seq for seq in keys if seq]


def test_damage_is_found_by_verify_and_log(perdure, task, here):
    """A byte that changed on the disk: exit 6 and the entry's number, from both."""
    seq = first_seqs(here)[1]
    frames = frames_of(here, seq)
    damaged = bytes([*frames[:-1], frames[-1] ^ 1])
    tamper(here, "UPDATE append SET frames = ? WHERE key & ? = ?", damaged, (1 << 40) - 1, seq)
    code, out, _ = perdure("verify", task, "--json")
    (verdict,) = json.loads(out)
    assert (6, False) == (code, verdict["whole"])
    (finding,) = verdict["findings"]
    assert finding["seq"] >= seq
    code, _, err = perdure("log", task)
    assert 6 == code
    assert f"damaged at entry {finding['seq']}" in err
    assert 6 == perdure("show", task)[0]


def test_verify_reads_on_behind_a_row_that_is_gone(perdure, task, here):
    """A missing append is one finding; the entries behind it are read and counted all the same."""
    whole = json.loads(perdure("verify", task, "--json")[1])[0]["entries"]
    first, second, third = first_seqs(here)[:3]
    tamper(here, "DELETE FROM append WHERE key & ? = ?", (1 << 40) - 1, second)
    code, out, _ = perdure("verify", task, "--json")
    (verdict,) = json.loads(out)
    assert (6, whole - (third - second)) == (code, verdict["entries"])
    assert {second} == {finding["seq"] for finding in verdict["findings"]}
    assert first < second


def test_the_doctor_names_keys_and_never_their_values(perdure, monkeypatch):
    """Names are enough to see which are set."""
    monkeypatch.setenv("SOMEBODY_API_KEY", "sk-very-secret")
    monkeypatch.setenv("PERDURE_STROE", "x")
    code, out, _ = perdure("doctor")
    assert 0 == code
    assert "SOMEBODY_API_KEY" in out
    assert "sk-very-secret" not in out
    assert "PERDURE_STROE sets nothing (PERDURE_STORE?)" in out


def test_the_doctor_says_which_key_a_model_of_the_settings_lacks(perdure, monkeypatch):
    """By the variable to set; with it all is well."""
    monkeypatch.setenv("PERDURE_MODEL", "anthropic:claude-sonnet-5-5")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "")
    checks = {check["name"]: check for check in json.loads(perdure("doctor", "--json")[1])}
    want = "anthropic:claude-sonnet-5-5 needs ANTHROPIC_API_KEY, which is not set"
    assert ("warn", want) == (checks["models"]["verdict"], checks["models"]["text"])
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-a-test-0123456789")
    checks = {check["name"]: check for check in json.loads(perdure("doctor", "--json")[1])}
    assert "ok" == checks["models"]["verdict"]


def test_the_doctor_sees_what_was_left_over(perdure, task, spawn, here):
    """After a kill: one left-over holder, one interrupted task, and the line to type."""
    process = spawn("run", "--program", "programs.py:count", "--set", "n=9", "--set", "ms=50", "--name", "k")
    for line in process.stderr:
        if b"nap (" in line:
            break
    process.kill()
    process.wait()
    checks = {check["name"]: check for check in json.loads(perdure("doctor", "--json")[1])}
    assert "1 left over" in checks["holders"]["text"]
    assert ("warn", "perdure resume --all --due") == (checks["tasks"]["verdict"], checks["tasks"]["remedy"])
    assert "wal" == checks["journal mode"]["text"]


def test_the_config_says_where_each_value_came_from(perdure, here):
    """Flag, variable, file or default, by name."""
    (here / ".perdure").mkdir()
    (here / ".perdure" / "config.toml").write_text('model = "offline"\n', "utf-8")
    found = json.loads(perdure("doctor", "--config", "--json", "--store", "a.db")[1])
    assert {"value": "a.db", "origin": "flag --store"} == found["store"]
    assert {"value": "offline", "origin": str(here / ".perdure" / "config.toml")} == found["model"]
    assert {"value": False, "origin": "default"} == found["unattended"]
    assert "model" in perdure("doctor", "--config")[1]


def test_a_wrong_setting_costs_exit_2_and_names_the_nearest(perdure, here):
    """A typing error in a file is not passed over."""
    (here / ".perdure").mkdir()
    (here / ".perdure" / "config.toml").write_text('modle = "offline"\n', "utf-8")
    code, _, err = perdure("list")
    assert 2 == code
    assert "unknown key 'modle'; did you mean 'model'?" in err


# What a tool of the agent raises: a failed call on record, never the end of a command as it is.
AT_TOOLS = {
    one.__name__
    for kind in (errors.CommandError, errors.SourceError, errors.LocalModelFailed, errors.ServiceOdd)
    for one in (kind, *kind.__subclasses__())
}


def test_every_error_has_an_exit_code_of_its_kind():
    """Each class of the tree fits a row of the table other than the last, or is plainly a failure."""

    def all_below(kind):
        for one in kind.__subclasses__():
            yield one
            yield from all_below(one)

    rows = [kind for kind, _ in exits.TABLE[:-1]]
    uncovered = {kind.__name__ for kind in all_below(PerdureError) if not any(issubclass(kind, row) for row in rows)}
    assert {
        "ActionError",
        "ActionFailed",
        "ActionTimedOut",
        "OutcomeUnknown",
        "ReducerFailed",
        "CheckFailed",
        "ToolLeftOut",
        "ModelGone",
        "OutfitMissing",
        *AT_TOOLS,
    } == uncovered
