"""Agents for the public suite `crashresume`, each living in a process of its own that really dies.

The suite plays a death by an exception inside the side effect. Here its exception becomes a SIGKILL: the agent's
process asks for each effect over a pipe, and is killed before it gets an answer. Not the tests (`test_conform.py`).
Run as a program, this file is one life of an agent: `python agents.py KIND FOLDER`.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import perdure
import perdure.sync

ROOT = Path(__file__).parents[2]

# ------------------------------------------------------------------------------------- in the suite's process


class Charges:
    """The service that the suite watches: charges, and drops a charge whose effect key it knows."""

    def __init__(self) -> None:
        self.keys: set[str] = set()


class Subject:
    """What the suite drives: `step` and `state` of an agent whose life is a process, from here to its death."""

    def __init__(self, context: Any, kind: str, folder: Path, charges: Charges) -> None:
        self._context = context
        self._charges = charges
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        command = [sys.executable, __file__, kind, str(folder)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)

    def step(self, job: str) -> None:
        """Let the agent do one job; raises the suite's crash once the process is dead."""
        self._tell(job)
        while (asked := self._hear()) != "done":
            try:
                answer = self._serve(**asked)
            except BaseException:
                self._process.kill()
                self.leave()
                raise
            self._tell(answer)

    def state(self) -> Any:
        """Return the agent's state as it tells it; its life ends in order."""
        self._tell(None)
        told = self._hear()
        self.leave()
        return told

    def leave(self) -> None:
        """Wait for the end of the process."""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()

    def _serve(self, what: str, job: str, key: str = "") -> bool:
        """Charge, or look whether it was charged."""
        if what == "look":
            return f"charge:{job}" in self._context.effects.keys()  # noqa: SIM118 - a method of the suite's log
        if key not in self._charges.keys:
            self._charges.keys |= {key} - {""}
            self._context.effect("charge", job, key=f"charge:{job}")
        return True

    def _tell(self, value: object) -> None:
        self._process.stdin.write(json.dumps(value) + "\n")
        self._process.stdin.flush()

    def _hear(self) -> Any:
        return json.loads(self._process.stdout.readline())


# ------------------------------------------------------------------------------------- in the agent's process


def ask(**what: str) -> Any:
    """Have the world do something, and wait for its answer."""
    print(json.dumps(what), flush=True)
    return json.loads(sys.stdin.readline())


def jobs() -> Iterator[str]:
    """Yield the jobs given, say of each that it is done, until the state is asked for."""
    while (job := json.loads(sys.stdin.readline() or "null")) is not None:
        yield job
        print('"done"', flush=True)


def is_charged(job: str) -> bool:
    """Ask the world whether a job was charged."""
    return ask(what="look", job=job)


@perdure.tool(effect="idempotent")
def charge_by_key(job: str, key: perdure.EffectKey) -> bool:
    """Charge a job; the service drops what it has under the key."""
    return ask(what="charge", job=job, key=key)


@perdure.tool(effect="verifiable", probe=is_charged)
def charge_and_look(job: str) -> bool:
    """Charge a job; whether that happened can be looked up."""
    return ask(what="charge", job=job)


@perdure.tool(effect="pure")
def charge_carelessly(job: str) -> bool:
    """Charge a job, declared as what it is not."""
    return ask(what="charge", job=job)


@perdure.sync.program(state={"charged": []})
def one_job(task: perdure.sync.Task, job: str) -> str:
    """Do one job as a task of its own."""
    task.act(charge_by_key, job, then=lambda state, _: state["charged"].append(job))
    return job


def by_acts(folder: Path, charge: perdure.Tool[..., bool]) -> object:
    """One task for all jobs, held as long as the process lives."""
    with (
        perdure.sync.open(folder / "perdure.db") as runtime,
        runtime.task("jobs", state={"charged": []}) as task,
    ):
        for job in jobs():
            task.using(key=job).act(charge, job, then=lambda state, _, job=job: state["charged"].append(job))
        return task.state["charged"].plain()


def by_programs(folder: Path) -> object:
    """One task per job; a finished one gives its result again."""
    with perdure.sync.open(folder / "perdure.db") as runtime:
        return [runtime.run(one_job, f"job {job}", args={"job": job}) for job in jobs()]


def home_made(folder: Path) -> object:
    """Without perdure: the state is saved after each effect."""
    path = folder / "state.json"
    charged = json.loads(path.read_text()) if path.exists() else []
    for job in jobs():
        if job not in charged:
            ask(what="charge", job=job)
            charged.append(job)
            path.write_text(json.dumps(charged))
    return charged


def forgetful(folder: Path) -> object:
    """Without perdure: asks the world, and so charges once, but keeps what it did in memory only."""
    charged = []
    for job in jobs():
        if not is_charged(job):
            ask(what="charge", job=job)
            charged.append(job)
    return charged


KINDS = {
    "keyed": lambda folder: by_acts(folder, charge_by_key),
    "probed": lambda folder: by_acts(folder, charge_and_look),
    "programs": by_programs,
    "careless": lambda folder: by_acts(folder, charge_carelessly),
    "home-made": home_made,
    "forgetful": forgetful,
}

if __name__ == "__main__":
    ended = KINDS[sys.argv[1]](Path(sys.argv[2]))
    print(json.dumps(ended), flush=True)
