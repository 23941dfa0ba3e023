"""A key of the environment that a tool lets out is on no console, in no log, page or store."""

import io
import subprocess
import sys

import pytest

from perdure.cli.masking import Masked
from perdure.codec.known import process

KEY = "sk-4f9aQ27xLmPo30Zz"
MASK = "[secret SERVICE_API_KEY]"
VERBS = ("show", "show --json", "show --handover", "log", "log --json", "state", "explain", "checkpoints", "verify")


@pytest.fixture
def key(monkeypatch):
    """The key, as the command finds it in its environment."""
    monkeypatch.setenv("SERVICE_API_KEY", KEY)
    return KEY


def run(spawn, *arguments, **environ):
    """Run the command as a process; return exit code and all that it said."""
    process = spawn(*arguments, SERVICE_API_KEY=KEY, **environ)
    out, err = process.communicate(timeout=60)
    return process.returncode, out.decode(), err.decode()


def test_a_key_in_an_error_is_masked_wherever_it_is_shown(spawn, here):
    """The traceback of a tool, its prints and log lines, and every page about the task show the mask."""
    order = ("run", f"use {KEY}", "--program", "programs.py:calling", "--name", "job", "--set", f"key={KEY}")
    code, out, err = run(spawn, *order, PERDURE_DEBUG="1", PERDURE_LOG_DIR=str(here / "logs"))
    said = out + err
    assert (3, True) == (code, "Traceback" in err)
    assert f"calling with {MASK}\n{MASK}\n" in out
    assert f"401 for {MASK}" in err
    assert f"401: invalid key {MASK}" in err
    for verb in VERBS:
        name, *options = verb.split()
        _, out, err = run(spawn, name, "job", *options)
        said += out + err
        assert (verb, "") == (verb, err)
    assert 3 < said.count(f"401: invalid key {MASK}")
    assert KEY not in said
    files = [path for path in here.rglob("*") if path.is_file() and path.suffix != ".py"]
    assert {".db", ".ndjson"} <= {path.suffix for path in files}
    assert [] == [path for path in files if KEY.encode() in path.read_bytes()]


def test_the_same_order_finds_its_task_again(perdure, key):
    """An order that holds the key in goal and arguments is that of the task that was started with it."""
    order = ("run", f"use {key}", "--program", "programs.py:calling", "--set", f"key={key}")
    first, second = perdure(*order), perdure(*order)
    _, listed, _ = perdure("list", "--json")
    assert (3, 3, 1) == (first[0], second[0], listed.count('"name"'))
    assert key not in "".join((*first[1:], *second[1:], listed))


def test_an_unexpected_error_is_masked(spawn):
    """What nobody has expected, and no record holds, is printed without the key too."""
    code, out, err = run(spawn, "run", "break", "--program", "programs.py:calling", PERDURE_DEBUG="1")
    assert (2, True) == (code, "Traceback" in err)
    assert f"no such key: {MASK}" in err
    assert KEY not in out + err


def test_what_people_say_is_masked(perdure, key):
    """A word to a task that holds the key is on record without it."""
    perdure("run", "x", "--program", "programs.py:calling", "--name", "job")
    perdure("tell", "job", f"the key is {key}")
    _, out, err = perdure("log", "job", "--json")
    assert (True, False) == (f"the key is {MASK}" in out, key in out + err)


def test_doctor_names_the_secrets_that_it_knows(perdure, key):
    """`doctor` says how many are known, and their names; never a text."""
    _, out, _ = perdure("doctor")
    (line,) = [line for line in out.splitlines() if "masked" in line]
    assert ("SERVICE_API_KEY" in line, key in out) == (True, False)


def test_a_stream_passes_on_everything_else():
    """What stands before the masks is still the stream of the process: its encoding, its descriptor, its end."""
    inner = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="backslashreplace")
    process.know("KEY", KEY)
    masked = Masked(inner)
    assert 5 == masked.write("ü sk-")
    masked.flush()
    assert b"\\xfc " == inner.buffer.getvalue()
    masked.close()
    masked.finish()
    masked.flush()
    masked.finish()
    assert (b"\\xfc sk-", "ascii", "backslashreplace") == (inner.buffer.getvalue(), masked.encoding, masked.errors)
    assert (False, True, inner.buffer) == (masked.isatty(), masked.writable(), masked.buffer)
    with pytest.raises(io.UnsupportedOperation):
        masked.fileno()


def test_what_is_held_back_comes_out_at_the_end():
    """A text that ends as a secret begins is whole when the process has ended."""
    program = "from perdure.cli import terminal; terminal.prepare(); import sys; sys.stdout.write('sk-4f')"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, env={"SERVICE_API_KEY": KEY}, timeout=60
    )
    assert b"sk-4f" == done.stdout
