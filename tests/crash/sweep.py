"""Kills programs for real: plays cases in forked children and says what became of each. Decides nothing (`judging.py`).

    python -m tests.crash.sweep JOB FOLDER < cases > outcomes          (one JSON value a line)

A case says for each run in turn where it dies: at a crash point ("any:17", "after_effect:3") or at a moment
("moment:120", in ms after its begin); runs after the last are left alone. This process has imported perdure and opened
nothing; every run, every look into a store and the person who settles what nobody can know are children of it. Started
by `playing.py`.
"""

import asyncio
import hashlib
import json
import os
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import perdure
import perdure.stores.sqlite.store
from perdure.agent import load_agent
from perdure.codec import values
from perdure.engine import crashpoints
from perdure.engine.loading import entries, load_fold, read_entry
from perdure.model import entry as e
from perdure.model.failure import ErrorRecord
from perdure.views.verifying import verify
from tests.crash import job, ledger

TASK = "job"
RUNS_MAX = 12
ANSWERS = ("happened", "did not happen")  # of the person
SIDE_BY_SIDE = 4


class Job(NamedTuple):
    """A program and what it is given."""

    program: Any
    arguments: dict[str, Any]
    goal: str = ""


def find_job(name: str) -> Job:
    """Return the job called `name`; that of a folder is the digest of the documents in it."""
    match name:
        case "harvest":
            return Job(job.harvest, {"names": list(ledger.FILES)})
        case "drafts":
            return Job(job.drafts, {})
        case _:
            return Job(load_agent("offline"), {}, f'Digest the documents under "{name}"')


def main() -> None:
    """Play the cases on stdin, some side by side, and write what became of each to stdout."""
    wanted, folder = find_job(sys.argv[1]), Path(sys.argv[2])
    cases = [json.loads(line) for line in sys.stdin]
    playing: dict[int, Path] = {}
    for number, case in enumerate(cases):
        if len(playing) >= SIDE_BY_SIDE:
            _tell_one(playing)
        place = folder / f"{number:04}"
        playing[_fork(lambda case=case, place=place: play(wanted, case, place), place)] = place
    while playing:
        _tell_one(playing)


def play(wanted: Job, case: list[str], folder: Path) -> dict[str, Any]:
    """Run the job until it is done, killed as `case` says; return what became of it."""
    os.environ[ledger.FOLDER] = str(folder / "world")
    ledger.prepare(folder / "world")
    kills: list[dict[str, Any]] = []
    reached: list[dict[str, int]] = []
    asked: list[str] = []
    for number in range(RUNS_MAX):
        spec = case[number] if number < len(case) else ""
        status = _in_child(folder, f"run {number}", lambda spec=spec: _run(wanted, folder, spec), _moment_of(spec))
        if os.WIFSIGNALED(status):
            kills.append(_kill(folder, number, spec, os.WTERMSIG(status)))
            continue
        if status != 0:
            break
        reached.append(_said(folder, f"run {number}"))
        if "needs a person" not in reached[-1]:
            break
        asked.append(_look(folder, f"settle {number}", _settle))
        if asked[-1] not in ANSWERS:
            break
    return {
        "case": case,
        "folder": str(folder),
        "status": os.waitstatus_to_exitcode(status),
        "kills": kills,
        "reached": reached,
        "asked": asked,
        "calls": _named(ledger.calls(folder / "world")),
        "world": ledger.kept(folder / "world"),
        "files": {path.name: _digest(path) for path in (folder / "workspace").glob("*")},
        "dropped": len(ledger.lines(folder / "world", "dropped")),
        **_look(folder, "end", _end),
    }


def _kill(folder: Path, number: int, spec: str, by: int) -> dict[str, Any]:
    """Return what is to be seen right after a kill."""
    return {
        "spec": spec,
        "signal": signal.Signals(by).name,
        "calls": _named(ledger.calls(folder / "world")),
        **_look(folder, f"standing {number}", _standing),
    }


# --- children -----------------------------------------------------------------------------------------------------
def _run(wanted: Job, folder: Path, spec: str) -> dict[str, int]:
    """One run of the job; dies at `spec`. Returns how often each crash point was reached."""

    async def run() -> None:
        async with perdure.open(folder / "perdure.db", hooks=[_note_told]) as runtime:
            workspace = str(folder / "workspace")
            await runtime.run(wanted.program, TASK, args=wanted.arguments, goal=wanted.goal, workspace=workspace)

    crashpoints.arm("" if _moment_of(spec) else spec)
    try:
        asyncio.run(run())
    except perdure.NeedsHuman:
        return {**crashpoints.reached(), "needs a person": 1}
    return crashpoints.reached()


def _note_told(_task: str, event: str, fields: Mapping[str, Any]) -> None:
    """Note outside which outcomes the program was told, so that none of them may be missing after a kill."""
    if event == "action_settled":
        ledger.told(fields["action"])


async def _standing(runtime: perdure.Runtime) -> dict[str, Any]:
    """Return how often each call was settled by its own outcome, and what the program was told and is not on record."""
    told = {action for [action] in ledger.lines(Path(os.environ[ledger.FOLDER]), "told")}
    journal = await _journal(runtime)
    settled = {entry.payload.action for entry in journal if isinstance(entry.payload, e.ActionSettled)}
    return {"settled": _named(_count_settled(journal)), "lost": sorted(told - settled)}


async def _settle(runtime: perdure.Runtime) -> str:
    """Be the person: look into the world whether the bell has rung, and say so."""
    task = (await runtime.store.find(TASK)).task
    fold = await load_fold(runtime.store, task)
    doubtful = next((action for action in fold.ledger.open.values() if action.effect.retry == "never"), None)
    if doubtful is None:
        return fold.ledger.reason  # it stopped for another reason, which no person should be asked about
    hour = _subject((await read_entry(runtime.store, task, doubtful.intent)).payload)
    if [hour] in ledger.lines(Path(os.environ[ledger.FOLDER]), "bell"):
        await runtime.settle(task, doubtful.action, perdure.Succeeded(f"rang at {hour}"))
        return ANSWERS[0]
    error = ErrorRecord(type="DidNotHappen", message="a person has looked: it did not happen")
    await runtime.settle(task, doubtful.action, perdure.Failed(error))
    return ANSWERS[1]


async def _end(runtime: perdure.Runtime) -> dict[str, Any]:
    """Return how the task stands, by what its journal says from entry 1 on."""
    task = (await runtime.store.find(TASK)).task
    fold = await load_fold(runtime.store, task)
    verdict = await verify(runtime.store, TASK)
    return {
        "standing": fold.ledger.status,
        "state": values.digest(fold.tree.root).hex(),
        "result": repr(await runtime.result(task)),
        "findings": [str(finding) for finding in verdict.findings],
        "settled": _named(_count_settled(await _journal(runtime))),
        "rollbacks": fold.ledger.rollbacks,
        "failures": fold.ledger.failures,
    }


async def _journal(runtime: perdure.Runtime) -> list[e.Entry]:
    tasks = await runtime.store.tasks()
    return [entry async for entry in entries(runtime.store, tasks[0].task)] if tasks else []


def _count_settled(journal: list[e.Entry]) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    subjects: dict[str, tuple[str, str]] = {}
    for entry in journal:
        match entry.payload:
            case e.ActionIntended(action=action, tool=tool):
                subjects[action] = (tool, _subject(entry.payload))
            case e.ActionSettled(action=action, outcome="succeeded" | "failed", by=""):
                found[subjects[action]] += 1
            case _:
                pass
    return found


def _subject(intent: e.ActionIntended) -> str:
    """Return the first argument of a call as recorded; of a view its place, of a path what is below ours."""
    first = next(iter(json.loads(bytes(intent.arguments)).values()), "")
    text = str(first["~"][1]) if isinstance(first, dict) else str(first)
    return text.removeprefix(os.path.dirname(os.environ[ledger.FOLDER]))


# --- forking ------------------------------------------------------------------------------------------------------
def _look(folder: Path, name: str, question: Callable[[perdure.Runtime], Awaitable[Any]]) -> Any:
    """Ask the store in a child of its own, so that this process never opens it."""

    async def ask() -> Any:
        async with perdure.open(folder / "perdure.db") as runtime:
            return await question(runtime)

    status = _in_child(folder, name, lambda: asyncio.run(ask()))
    if status != 0:
        raise RuntimeError(f"{name} ended with {status}: {(folder / 'errors').read_text()}")
    return _said(folder, name)


def _in_child(folder: Path, name: str, work: Callable[[], Any], moment_s: float = 0.0) -> int:
    """Do `work` in a child, killed after `moment_s` where that is given; return how it ended."""
    child = _fork(work, folder, name)
    if moment_s:
        time.sleep(moment_s)
        os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def _moment_of(spec: str) -> float:
    name, _, number = spec.partition(":")
    return int(number) / 1000 if name == "moment" else 0.0


def _fork(work: Callable[[], Any], folder: Path, name: str = "case") -> int:
    """Do `work` in a forked child, which leaves what it returned under `name`; return the child's number."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(work()))
        status = 0
    except BaseException:  # noqa: BLE001 - the end of this process: what it was is told to the parent
        (folder / "errors").write_text(traceback.format_exc())
    os._exit(status)


def _said(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text())


def _tell_one(playing: dict[int, Path]) -> None:
    """Wait for one case to end and write what became of it."""
    child, status = os.wait()
    place = playing.pop(child)
    if status != 0:
        raise RuntimeError(f"a case in {place} ended with {status}: {(place / 'errors').read_text()}")
    print((place / "case").read_text(), flush=True)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _named(counted: Counter[tuple[str, str]]) -> dict[str, int]:
    return {f"{tool} {subject}".strip(): count for (tool, subject), count in sorted(counted.items())}


if __name__ == "__main__":
    main()
