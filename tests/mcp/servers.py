"""What tests of MCP servers share: a file that names the desk, its ledger, and how it is killed in mid-call."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from tests.worlds import until

DESK = str(Path(__file__).with_name("desk.py"))


def named(folder: Path, **settings: Any) -> str:
    """Write a file that names the desk over stdio, as `desk`; return its path."""
    row = {"command": sys.executable, "args": [DESK, str(folder)], **settings}
    file = folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"desk": row}}))
    return str(file)


def ledger(folder: Path) -> list[list[str]]:
    """Return what the desk did, call by call: tool, name, key, pid."""
    file = folder / "ledger"
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


def hold(folder: Path) -> None:
    """Have the next call never answered."""
    (folder / "hold").touch()


async def kill_held(folder: Path) -> int:
    """Kill the desk as soon as a call is held in it; return its pid."""
    held = folder / "held"
    await until(lambda: held.exists() and held.read_text())
    pid = int(held.read_text())
    held.unlink()
    os.kill(pid, signal.SIGKILL)
    return pid


def is_alive(pid: int) -> bool:
    """Whether a process of that id is there; one that has ended and waits to be reaped is not."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def ends(pid: int) -> bool:
    """Whether that process is gone, or goes within some seconds: it sees the end of its stdin."""
    for _ in range(500):
        if not is_alive(pid):
            return True
        time.sleep(0.02)
    return False
