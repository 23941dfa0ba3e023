"""What does not swing with the disk: bytes at rest, time to open an old task, fsyncs per action. Called by `run.py`."""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from work import ACTION_BYTES, TOOLS, Left, argument, first_state, keep

import perdure

_OPENINGS = 7


@dataclass
class Rest:
    """A task of many actions, at rest."""

    actions: int
    stored_bytes: int  # database and write-ahead log
    opening_s: float  # median

    @property
    def times_the_data(self) -> float:
        """Stored bytes by bytes of the actions themselves."""
        return self.stored_bytes / (self.actions * ACTION_BYTES)


def measure_rest(actions: int) -> Rest:
    """Write a task of `actions`, look at its files, open it again several times."""
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as folder:
        place = f"{folder}/ours.db"
        stored = asyncio.run(act(place, actions))
        times = [asyncio.run(_open(place)) for _ in range(_OPENINGS)]
    return Rest(actions=actions, stored_bytes=stored, opening_s=statistics.median(times))


def count_syncs(kind: str, actions: int) -> float | None:
    """Return the fsyncs per action, from the difference of a long and a short run; None without strace."""
    if shutil.which("strace") is None:
        return None
    short, long = (_count_syncs(kind, number) for number in (actions // 4, actions))
    return None if short is None or long is None else (long - short) / (actions - actions // 4)


async def act(place: str, actions: int, kind: str = "pure") -> int:
    """Do `actions` in a new task at `place`; return the bytes of its files, the store being still open."""
    size = 0
    with suppress(Left):
        async with perdure.open(place) as runtime, runtime.task("bench", state=first_state()) as task:
            for number in range(actions):
                await task.act(TOOLS[kind], argument(number), then=keep)
            size = _stored_bytes(place)
            raise Left
    return size


def _stored_bytes(place: str) -> int:
    return sum(os.path.getsize(f"{place}{end}") for end in ("", "-wal"))


async def _open(place: str) -> float:
    began = took = perf_counter()
    with suppress(Left):
        async with perdure.open(place) as runtime:
            began = perf_counter()
            async with runtime.task("bench", state=first_state()) as task:
                took = perf_counter() - began
                if not task.state["results"]:
                    raise ValueError("the task came back empty")
                raise Left
    return took


def _count_syncs(kind: str, actions: int) -> int | None:
    program = f"import asyncio, size; asyncio.run(size.act('ours.db', {actions}, {kind!r}))"
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as folder:
        report = Path(folder, "strace.txt").absolute()
        counted = ["strace", "-f", "-c", "-o", str(report), "-e", "trace=fsync,fdatasync"]
        path = os.pathsep.join([os.path.dirname(os.path.abspath(__file__)), *filter(None, sys.path)])
        done = subprocess.run(
            [*counted, sys.executable, "-c", program],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            check=False,
        )
        if done.returncode or not report.exists():
            return None
        lines = [line.split() for line in report.read_text().splitlines()]
    return sum(int(fields[3]) for fields in lines if fields and fields[-1] in {"fsync", "fdatasync"})
