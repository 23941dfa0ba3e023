"""A task is taken over from a living process, on SQLite, and each command of the person is killed by SIGKILL anywhere.

Whatever the moment: the old process writes nothing more, its payment is made once, the program sees what was changed.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import perdure.operations
import perdure.views.showing
from perdure.cli import application, main
from perdure.clock import SystemClock
from perdure.engine import crashpoints, opening
from perdure.engine.loading import entries
from perdure.engine.replay import playing
from perdure.model import entry as e
from perdure.stores.sqlite.store import open_sqlite
from perdure.views.verifying import verify

ROOT = Path(__file__).parents[2]
LOADED = (application, opening, playing, perdure.operations, perdure.views.showing)  # forks need not do it again
COMMAND = "import sys; from perdure.cli import main; sys.exit(main())"
DEADLINE_S = 60.0
POINTS = 9  # more than a command of the person comes by


class Desk:
    """A folder with the clerk's program, its store and its world."""

    def __init__(self, folder, base=None):
        self.folder = folder
        self.started = []
        if base is not None:
            shutil.copytree(base, folder)
        (folder / "world").mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(__file__).with_name("clerk.py"), folder / "clerk.py")

    def environ(self, crash=""):
        """The environment of its processes."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
        armed = {"PERDURE_TESTING": "1", "PERDURE_CRASH": crash} if crash else {}
        return {**kept, "PYTHONPATH": str(ROOT / "src"), "CLERK_WORLD": str(self.folder / "world"), **armed}

    def spawn(self, *order, crash=""):
        """Type a command in a process of its own, and do not wait for it."""
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, *order, "--store", "store.db"],
            cwd=self.folder, env=self.environ(crash), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.started.append(process)
        return process

    def end(self):
        """End what still runs: a test that fails must leave nothing behind."""
        for process in self.started:
            process.kill()
            process.communicate()

    def type(self, *order, crash=""):
        """Type a command; return exit code, what it printed, what it complained of."""
        process = self.spawn(*order, crash=crash)
        out, err = process.communicate(timeout=DEADLINE_S)
        return process.returncode, out, err

    def fork(self, *order, crash=""):
        """Type a command in a fork of this process, which is quicker; return exit code and what it said."""
        said = self.folder / "said"
        pid = os.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.environ.clear()
            os.environ.update(self.environ())
            file = os.open(said, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
            sys.stdout, sys.stderr = os.fdopen(os.dup(file), "w"), os.fdopen(file, "w")  # pytest has its own there
            crashpoints.arm(crash)
            code = 70
            with contextlib.suppress(BaseException):
                code = main([*order, "--store", "store.db"])
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return code, said.read_text("utf-8")

    def run(self, kind, crash=""):
        """Start the clerk."""
        order = ("run", "--program", "clerk.py:clerk", "--name", "c", "--set", f"kind={kind}", "-q")
        return self.spawn(*order, crash=crash)

    def until_it_pays(self):
        """Wait until the payment is under way."""
        end = time.monotonic() + DEADLINE_S
        while not (self.folder / "world" / "began").exists():
            assert time.monotonic() < end
            time.sleep(0.02)

    def go(self):
        """Let payments come to their end."""
        (self.folder / "world" / "go").touch()

    def lines(self, name):
        """What stands in a file of the world."""
        path = self.folder / "world" / name
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []

    def look(self):
        """The journal, and what is wrong with it."""

        async def ask():
            store = await open_sqlite(str(self.folder / "store.db"), SystemClock())
            try:
                task = (await store.find("c")).task
                found = [entry async for entry in entries(store, task)]
                return found, list((await verify(store, task, full=True)).findings)
            finally:
                await store.close()

        return asyncio.run(ask())


@pytest.fixture
def desk(tmp_path):
    """A fresh desk."""
    made = Desk(tmp_path)
    yield made
    made.end()


def judge(desk, *, edits=1):
    """The end is as it should be, once for all."""
    journal, findings = desk.look()
    assert [] == findings
    assert 1 == len(desk.lines("paid")), "a payment was doubled, or lost"
    assert desk.lines("prompts")[-1].startswith("99\n")
    kinds = [type(entry.payload) for entry in journal]
    assert (1, edits, 1) == tuple(map(kinds.count, (e.TaskTakenOver, e.StateEdited, e.TaskHandedBack)))
    code, said = desk.fork("replay", "c")
    assert (0, "equal: task c") == (code, said[:13])


@pytest.mark.parametrize("kind", ["verifiable", "irreversible", "idempotent"])
def test_while_a_tool_runs_in_another_process(desk, kind):
    """It is fenced off in the middle of a payment; nobody makes that twice; the next prompt holds the edit."""
    old = desk.run(kind)
    desk.until_it_pays()
    assert 0 == desk.type("take-over", "c", "--by", "ann")[0]
    assert 0 == desk.type("state", "c", "--set", "amount=99")[0]
    assert 0 == desk.type("hand-back", "c", "--say", "pay less")[0]
    handed = len(desk.look()[0])
    if kind != "idempotent":
        code, _, err = desk.type("resume", "c", "-q")
        assert (5, True) == (code, f"process {old.pid}" in err and f"clerk_{kind}" in err)
    desk.go()
    _, err = old.communicate(timeout=DEADLINE_S)
    assert (5, True) == (old.returncode, "another process" in err or "taken over by ann" in err)
    journal, _ = desk.look()
    (taken,) = [entry.header.seq for entry in journal if isinstance(entry.payload, e.TaskTakenOver)]
    assert handed == len(journal), "the old process has written something, or a refused resume has"
    assert 1 not in {entry.header.epoch for entry in journal[taken - 1 :]}
    code = desk.type("resume", "c", "-q")[0]
    if kind == "irreversible":
        assert 3 == code
        action = next(entry.payload.action for entry in journal if isinstance(entry.payload, e.ActionIntended) and
                      entry.payload.key == "pay")  # fmt: skip
        assert 0 == desk.type("settle", "c", action, "--happened", "--result", '"paid"')[0]
        code, out, _ = desk.type("resume", "c", "-q")
        assert "paid 1 of 99" in out
    assert 0 == code
    before, *_, last = desk.lines("prompts")
    assert before.startswith("10\n")
    assert "has changed: state: amount = 99. They say: pay less" in last
    judge(desk, edits=1 if kind != "irreversible" else 2)  # what a person has settled is applied by an entry of its own


def test_a_process_that_goes_on_while_a_person_has_the_task_is_told_so(desk):
    """Its own last words name who, and the line to type; the task is listed as theirs."""
    old = desk.run("verifiable")
    desk.until_it_pays()
    assert 0 == desk.type("take-over", "c", "--by", "ann")[0]
    desk.go()
    _, err = old.communicate(timeout=DEADLINE_S)
    assert 5 == old.returncode
    assert err.strip().endswith("was taken over by ann; this process stops; next: perdure hand-back c")
    shown = json.loads(desk.type("show", "c", "--json")[1])
    assert ("needs_human", "ann", "perdure hand-back c") == (shown["status"], shown["person"], shown["next_command"])
    (row,) = json.loads(desk.type("list", "--json")[1])
    assert shown["taken_at"] == row["taken_at"]


def test_killed_behind_its_claim_a_takeover_leaves_a_task_that_can_be_taken_over(desk):
    """The old process is fenced off all the same, and told that another has the task."""
    old = desk.run("verifiable")
    desk.until_it_pays()
    assert -signal.SIGKILL == desk.type("take-over", "c", crash="during_recovery:2")[0]
    desk.go()
    _, err = old.communicate(timeout=DEADLINE_S)
    assert (5, True) == (old.returncode, "another process (epoch 2)" in err)
    for order in (("take-over", "c"), ("state", "c", "--set", "amount=99"), ("hand-back", "c"), ("resume", "c", "-q")):
        assert 0 == desk.type(*order)[0]
    judge(desk)


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A desk whose clerk was killed when the payment was made and its outcome not written."""
    desk = Desk(tmp_path_factory.mktemp("killed"))
    desk.go()
    old = desk.run("verifiable", crash="after_effect:2")
    old.communicate(timeout=DEADLINE_S)
    assert -signal.SIGKILL == old.returncode
    assert 1 == len(desk.lines("paid"))
    return desk.folder


STEPS = {
    "take-over": ("take-over", "c"),
    "state": ("state", "c", "--set", "amount=99"),
    "hand-back": ("hand-back", "c"),
}


@pytest.mark.parametrize("step", STEPS)
def test_each_command_is_killed_everywhere_and_typed_again(killed, tmp_path, step):
    """At every point that it comes by; typed again it is done, or says that it was done already."""
    deaths = 0
    for point in range(1, POINTS + 1):
        desk = Desk(tmp_path / str(point), base=killed)
        before = deaths
        for name, order in STEPS.items():
            code, said = desk.fork(*order, crash=f"any:{point}" if name == step else "")
            if code == -signal.SIGKILL:
                deaths += 1
                code, said = desk.fork(*order)
            is_done_already = deaths > before and name == "hand-back" and "nobody has taken task" in said
            assert is_done_already or code == 0, said
        assert 0 == desk.fork("resume", "c", "-q")[0]
        judge(desk)
        if deaths == before:
            break
    print(f"{step}: {deaths} kills")
    assert 3 <= deaths < POINTS
