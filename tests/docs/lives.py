"""Programs of pages, run again and again, each in a forked child that dies by SIGKILL at a given line.

A *moment* is a line about to be run, or a return, in one of the named files: no program needs a switch of its own to
be killed. Called by the tests of the how-to pages; run as a program, this file is the parent of the forked children, so
that what is slow to import is imported once.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import runpy
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
LIFE_S_MAX = 30


class Life(NamedTuple):
    """How one run of a program ended."""

    killed: bool
    code: int
    printed: str
    complained: str
    moments: int  # up to a natural end; 0 where it was killed


class Lives:
    """Lives of programs; made by `nursery`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def live(
        self,
        folder: Path,
        *command: str,
        files: tuple[str, ...] = (),
        kill_at: int = 0,
        begun: Callable[[int], object] | None = None,
        **environment: str,
    ) -> Life:
        """Run `command` (a file and its arguments) in `folder`; kill it at its `kill_at`-th moment in `files`."""
        order = {"folder": str(folder), "command": command, "files": files, "kill_at": kill_at, "env": environment}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        pid = int(self._process.stdout.readline())
        if begun is not None:
            begun(pid)
        report = json.loads(self._process.stdout.readline())
        printed, complained = ((folder / name).read_text("utf-8") for name in (".printed", ".complained"))
        moments = folder / ".moments"
        killed = os.WIFSIGNALED(report) and os.WTERMSIG(report) == signal.SIGKILL
        counted = 0 if killed else int(moments.read_text())
        return Life(killed, -1 if killed else os.waitstatus_to_exitcode(report), printed, complained, counted)


@contextlib.contextmanager
def nursery(*modules: str) -> Iterator[Lives]:
    """Start the parent of the forked children, with `modules` imported."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, __file__, *modules]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as process:
        try:
            yield Lives(process)
        finally:
            process.stdin.close()


def _serve(modules: list[str]) -> None:
    """Run what stdin orders, one life at a time; write the child's pid, then its status."""
    sys.path.remove(str(Path(__file__).parent))
    for module in modules:
        importlib.import_module(module)
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if not child:
            _be_child(order)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{status}\n")
        sys.stdout.flush()


def _be_child(order: dict) -> None:
    """Run the program as `python FILE …` would, and end this process."""
    signal.alarm(LIFE_S_MAX)
    os.chdir(order["folder"])
    os.environ.update(order["env"])
    for number, name in ((1, ".printed"), (2, ".complained")):
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
    sys.stdout, sys.stderr = (io.TextIOWrapper(os.fdopen(number, "wb", 0), "utf-8") for number in (1, 2))
    sys.argv = order["command"]
    sys.path.insert(0, order["folder"])
    watch = _Watch({os.path.join(order["folder"], name) for name in order["files"]}, order["kill_at"])
    threading.settrace(watch)
    sys.settrace(watch)
    code = 0
    try:
        runpy.run_path(os.path.join(order["folder"], sys.argv[0]), run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException:  # noqa: BLE001 - the end of a process: whatever it is, it is printed
        traceback.print_exc()
        code = 1
    sys.settrace(None)
    Path(".moments").write_text(str(watch.moments))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class _Watch:
    """A trace function that counts moments, and kills the process at one of them."""

    def __init__(self, files: set[str], kill_at: int) -> None:
        self.moments = 0
        self._files = files
        self._kill_at = kill_at

    def __call__(self, frame, event, arg):
        """Look into functions of the files only; their definition at import is no moment."""
        if frame.f_code.co_filename not in self._files or frame.f_code.co_name == "<module>":
            return None
        return self._look

    def _look(self, frame, event, arg):
        if event in {"line", "return"}:
            self.moments += 1
            if self.moments == self._kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
        return self._look


if __name__ == "__main__":
    _serve(sys.argv[1:])
