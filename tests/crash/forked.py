"""One life of a task in a fork of the test's process: killed where a crash point says so, its points counted."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from perdure.engine import crashpoints

ROOT = Path(__file__).parents[2]


def live(run: Callable[[Path], Coroutine[Any, Any, None]], folder: Path, spec: str) -> int:
    """Let `run(folder)` live in a fork, armed with `spec`; return the signal that ended it, 0 where none did.

    Which points were reached, and how often, stands in `counts.json` of the folder.
    """
    pid = os.fork()
    if pid == 0:
        crashpoints.arm(spec)
        code = 1
        try:
            asyncio.run(run(folder))
            code = 0
        finally:
            (folder / "counts.json").write_text(json.dumps(crashpoints.reached()))
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise RuntimeError(f"a life with {spec!r} ended with {os.WEXITSTATUS(status)}")
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def play_apart(module: str, cases: list[list[str]], *arguments: object, timeout_s: float = 1500) -> list[Any]:
    """Let `python -m MODULE ARGUMENTS…` play the cases, one a line each way; return what it says of them."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "NO_PROXY": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        input="".join(json.dumps(case) + "\n" for case in cases),
        capture_output=True, text=True, cwd=ROOT, env=environment, check=False, timeout=timeout_s,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]
