"""How the tests call the command: in this process where that is enough, as a process of its own where it is not."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.cli import main

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-c", "import sys; from perdure.cli import main; sys.exit(main())"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder to work in, with `programs.py`, away from any store and configuration of the machine."""
    shutil.copy(Path(__file__).with_name("programs.py"), tmp_path / "programs.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    for name in list(os.environ):
        if name.startswith(("PERDURE_", "XDG_CONFIG_HOME")):
            monkeypatch.delenv(name)
    return tmp_path


@pytest.fixture
def perdure(here, capfdbinary):
    """Call the command in this process; returns (exit code, stdout, stderr)."""

    def call(*arguments):
        code = main([str(one) for one in arguments])
        captured = capfdbinary.readouterr()
        return code, captured.out.decode(), captured.err.decode()

    return call


@pytest.fixture
def spawn(here):
    """Start the command as a process; the returned Popen has pipes of bytes. All are ended with the test."""
    started = []

    def start(*arguments, **environ):
        process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            cwd=here,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1", **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
