"""Starts `acting.py` in processes, hears what they acknowledge, looks into the store afterwards."""

import asyncio
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import perdure
from perdure.engine.loading import entries, load_fold
from perdure.errors import TaskUnknown
from perdure.model.entry import Entry
from perdure.model.failure import ErrorRecord
from perdure.views.verifying import verify

ROOT = Path(__file__).parents[2]


class Child:
    """One process that acts."""

    def __init__(self, place: Path, world: Path, under: Sequence[str] = (), **order: Any) -> None:
        world.mkdir(exist_ok=True)
        told = json.dumps({"world": str(world), **order})
        command = [*under, sys.executable, "-m", "tests.fire.acting", str(place), told]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        )
        self.lines: list[str] = []
        self._eyes = selectors.DefaultSelector()
        self._eyes.register(self.process.stdout, selectors.EVENT_READ)
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(30)
        self.process.stdout.close()
        self.process.stderr.close()
        self._eyes.close()

    @property
    def acks(self) -> list[int]:
        """Acts that have returned."""
        return [int(line.split()[1]) for line in self.lines if line.startswith("ack ")]

    @property
    def refusals(self) -> list[str]:
        """Names of the errors that ended its runs."""
        return [line.split()[1] for line in self.lines if line.startswith("refused ")]

    def hear(self, holds: Callable[["Child"], object], within_s: float = 30.0) -> None:
        """Read what it says until `holds(self)`; raise AssertionError where it ends or nothing comes before that."""
        end = time.monotonic() + within_s
        while not holds(self):
            if not self._eyes.select(max(0.0, end - time.monotonic())):
                raise AssertionError(f"it did not say so within {within_s} s: {self.lines}")
            if not self._read():
                raise AssertionError(f"it ended before: {self.lines} {self.process.stderr.read()}")

    def overhear(self) -> None:
        """Read what it has said by now, without waiting."""
        if self._eyes.select(0):
            self._read()

    def stop(self) -> None:
        """Stop it by SIGSTOP, every thread of it."""
        self.process.send_signal(signal.SIGSTOP)
        while set("T") != set(self._states()):
            time.sleep(0.001)

    def _states(self) -> Iterator[str]:
        for thread in os.listdir(f"/proc/{self.process.pid}/task"):
            with open(f"/proc/{self.process.pid}/task/{thread}/stat") as stat:
                yield stat.read().rpartition(")")[2].split()[0]

    def finish(self, within_s: float = 60.0) -> "Child":
        """Read until it has ended."""
        end = time.monotonic() + within_s
        while self._eyes.select(max(0.0, end - time.monotonic())):
            if not self._read():
                self.process.wait(10)
                return self
        raise AssertionError(f"it did not end within {within_s} s: {self.lines}")

    def _read(self) -> bool:
        raw = os.read(self.process.stdout.fileno(), 1 << 16)
        *whole, self._rest = (self._rest + raw).split(b"\n")  # a torn last line says nothing
        self.lines += [line.decode() for line in whole]
        return bool(raw)


class Found:
    """What a store holds of the task `job`."""

    def __init__(self, journal: list[Entry], state: dict[Any, Any], status: str, findings: list[str]) -> None:
        self.journal = journal
        self.state = state
        self.status = status
        self.findings = findings

    @property
    def kinds(self) -> list[str]:
        """Names of the entries, in order."""
        return [type(entry.payload).__name__ for entry in self.journal]


def look(place: Path) -> Found:
    """Open the store and read the whole task, from entry 1 on."""

    async def read() -> Found:
        async with perdure.open(place, log_dir="") as runtime:
            try:
                task = (await runtime.store.find("job")).task
            except TaskUnknown:  # it was never acknowledged that there is one
                return Found([], {"sent": []}, "", [])
            fold = await load_fold(runtime.store, task)
            verdict = await verify(runtime.store, task)
            journal = [entry async for entry in entries(runtime.store, task)]
            return Found(journal, fold.tree.root, fold.ledger.status, [str(finding) for finding in verdict.findings])

    return asyncio.run(read())


def go_on(place: Path, world: Path, **order: Any) -> Found:
    """Let undisturbed processes bring the task to its end, a person settling what nobody can know."""
    for _ in range(4):
        with Child(place, world, **order) as child:
            child.finish()
        if child.lines[-1].startswith("result"):
            return look(place)
        if "NeedsHuman" not in child.refusals:
            raise AssertionError(f"it does not go on: {child.lines}")
        settle_if_asked(place, world)
    raise AssertionError(f"it asks again and again: {child.lines}")


def settle_if_asked(place: Path, world: Path) -> None:
    """Be the person, where there is a bell of which nobody knows whether it rang."""

    async def settle() -> None:
        async with perdure.open(place, log_dir="") as runtime:
            await settle_as_person(runtime, world)

    asyncio.run(settle())


async def settle_as_person(runtime: perdure.Runtime, world: Path) -> None:
    """Look whether the bell has rung, and say so; do nothing where no bell is in question."""
    if not await runtime.store.tasks():
        return
    task = (await runtime.store.find("job")).task
    fold = await load_fold(runtime.store, task)
    doubtful = next((action for action in fold.ledger.open.values() if action.effect.retry == "never"), None)
    if doubtful is None:
        return
    rung = read_world(world, "rung")
    if rung:
        await runtime.settle(task, doubtful.action, perdure.Succeeded(int(rung[0][0])))
    else:
        error = ErrorRecord(type="DidNotHappen", message="a person has looked: it did not happen")
        await runtime.settle(task, doubtful.action, perdure.Failed(error))


def read_world(world: Path, name: str) -> list[list[str]]:
    """Return the lines of a file of the world, split into words."""
    path = world / name
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def doubled(world: Path) -> list[str]:
    """Return what happened twice: a letter under two keys, a bell rung again."""
    keys = defaultdict(set)
    for number, key in read_world(world, "sent"):
        keys[number].add(key)
    bells = Counter(number for (number,) in read_world(world, "rung"))
    return [f"letter {n} under {len(k)} keys" for n, k in keys.items() if len(k) > 1] + [
        f"bell {n} rung {times} times" for n, times in bells.items() if times > 1
    ]
