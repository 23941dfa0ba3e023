"""SIGTERM and Ctrl-C, wherever a program is at that moment: the process goes in time, the task goes on later."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GRACE_S = 0.4
COMMAND = f"import sys, perdure.limits as l; l.STOP_GRACE_S = {GRACE_S}; from perdure.cli import main; sys.exit(main())"

PROGRAM = '''
import asyncio, os, sys, time
import perdure, perdure.sync

FIRST = os.environ.get("FIRST") == "1"


def here():
    """Say that it has come to the place, in the first run."""
    if FIRST:
        print("IN IT", file=sys.stderr, flush=True)
    return FIRST


@perdure.tool(effect="pure", paid=True)
async def model(prompt: str) -> str:
    if here():
        await asyncio.sleep(60)
    return prompt


@perdure.tool(effect="pure")
def plain(prompt: str) -> str:
    if here():
        time.sleep(60)
    return prompt


@perdure.tool(effect="irreversible")
async def send(prompt: str) -> str:
    with open("sent.txt", "a") as file:
        file.write(prompt)
    return prompt


@perdure.tool(effect="pure")
async def flaky() -> str:
    if FIRST:
        raise ConnectionError("not now")
    return "there"


@perdure.program(state={"n": 0})
async def model_call(task):
    await task.using(key="first").act(send, "a")
    return await task.act(model, "x")


@perdure.program(state={"n": 0})
async def thread(task):
    await task.using(key="first").act(send, "a")
    return await task.act(plain, "x")


@perdure.program(state={"n": 0})
async def edit(task):
    await task.using(key="first").act(send, "a")
    async with task.edit() as state:
        state["n"] = 1
        if here():
            await asyncio.sleep(60)
    return "x"


@perdure.program(state={"n": 0})
async def retry(task):
    await task.using(key="first").act(send, "a")
    if task.attempt == 3:
        here()
    await task.act(flaky)
    return "x"


@perdure.program(state={"n": 0})
async def person(task):
    await task.using(key="first").act(send, "a")
    if here():
        await task.ask("which?", wait_s=60)
    return "x"


@perdure.sync.program(state={"n": 0})
def plain_program(task):
    task.using(key="first").act(send, "a")
    return task.act(model, "x")
'''
PLACES = ("model_call", "thread", "edit", "retry", "person", "plain_program")


@pytest.fixture
def folder(here):
    """A folder with the programs."""
    (here / "p.py").write_text(PROGRAM, "utf-8")
    return here


def stop_at(place, folder, *signals):
    """Run a program; when it has come to its place, send the signals, and wait for the texts among them to be said.

    Returns exit code and what it said.
    """
    started = subprocess.Popen(
        [sys.executable, "-c", COMMAND, "run", "--program", place if ":" in place else f"p.py:{place}", "--name", "t"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "FIRST": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    said = []
    for one in ("IN IT", *signals):
        if isinstance(one, signal.Signals):
            started.send_signal(one)
            said.append(started.stderr.readline())  # each is answered by a line, at once
        while isinstance(one, str) and one not in "".join(said):
            said.append(started.stderr.readline())
            assert said[-1], said
    try:
        said.append(started.communicate(timeout=GRACE_S + 8)[1])
    finally:
        started.kill()
    return started.returncode, "".join(said)


def expect_paused_and_resumable(perdure, folder):
    """Paused by a signal, nothing counted; it goes on to its end, and the effect before it is not sent again."""
    (row,) = json.loads(perdure("list", "--json")[1])
    assert ("paused", True) == (row["status"], row["why"].startswith("by signal"))
    assert "failures" not in json.loads(perdure("show", "t", "--json")[1])
    code, out, err = perdure("resume", "--all", "--due", "--json")
    assert 0 == code, err
    assert "x" == json.loads(out)["result"]
    assert "a" == (folder / "sent.txt").read_text()
    assert 0 == perdure("verify", "t")[0]


@pytest.mark.parametrize("place", PLACES)
def test_sigterm_ends_the_process_within_its_grace(place, perdure, folder):
    """A model call, a tool in a thread, an edit, the wait between retries, a question, a plain program: exit 130."""
    code, said = stop_at(place, folder, signal.SIGTERM)
    assert 130 == code, said
    assert "pausing" in said
    expect_paused_and_resumable(perdure, folder)


@pytest.mark.parametrize("signal_", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_comes_before_the_task_is_open_is_obeyed(signal_, perdure, folder):
    """While modules are still loaded: nothing of it is begun."""
    (folder / "slow.py").write_text(PROGRAM + "\nif here():\n    time.sleep(1)\n", "utf-8")
    code, said = stop_at("slow.py:model_call", folder, signal_)
    assert (130, True) == (code, "pausing" in said), said
    assert not (folder / "sent.txt").exists()
    expect_paused_and_resumable(perdure, folder)


@pytest.mark.parametrize("place", ["model_call", "edit", "plain_program"])
def test_ctrl_c_twice_stops_now(place, perdure, folder):
    """The second does not wait for the running action; the task is as paused as by one."""
    code, said = stop_at(place, folder, signal.SIGINT, signal.SIGINT)
    assert 130 == code, said
    assert "stopping now" in said
    assert "CancelledError" not in said
    expect_paused_and_resumable(perdure, folder)


@pytest.mark.parametrize("before", [(), ("stopped: paused",), ("was paused by",)], ids=["soon", "paused", "said"])
@pytest.mark.parametrize("place", ["thread", "model_call"])
def test_a_third_ctrl_c_leaves_at_once_and_quietly(place, before, perdure, folder):
    """However soon it comes: exit 130, and nothing is said of an interrupt that nobody expected."""
    code, said = stop_at(place, folder, signal.SIGINT, signal.SIGINT, *before, signal.SIGINT)
    assert 130 == code, said
    assert "KeyboardInterrupt" not in said
    assert "Traceback" not in said
    (row,) = json.loads(perdure("list", "--json")[1])
    assert row["status"] in ({"paused"} if before else {"paused", "interrupted"})
