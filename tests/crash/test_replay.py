"""Tasks that were really killed are replayed equal, by another process's store file, without touching it."""

import asyncio
import hashlib
from pathlib import Path

import pytest

from perdure.clock import SystemClock
from perdure.engine.replay.playing import play
from perdure.engine.replay.record import load_record
from perdure.stores.opening import open_to_look
from tests.crash import ledger, playing, sweep

FEW = {
    "harvest": (
        [],
        ["after_effect:5", "during_recovery:1"],
        ["before_intent:9", "after_outcome:20", "after_intent:12"],
        ["after_effect:34", "after_effect:1"],
        ["any:77", "any:40", "moment:60"],
    ),
    "drafts": ([], ["during_rollback:1"], ["during_rollback:2", "during_rollback:1"], ["after_outcome:9"]),
    "digest": ([], ["after_effect:3", "after_effect:2"], ["after_intent:6"]),
}
MANY = [[f"any:{number}", f"any:{number // 2 + 1}"] for number in range(1, 180, 3)]


def documents(folder):
    """Make a folder of documents for the agent to digest; return it."""
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.txt").write_text(f"Journals of number {number}. A journal is a chain of entries.\n" * 3)
    return str(folder)


async def look(folder):
    """Read the one task of a case."""
    store = await open_to_look(folder / "perdure.db", SystemClock())
    try:
        return await load_record(store, (await store.tasks())[0].task)
    finally:
        await store.close()


def replay_all(job, cases, folder, monkeypatch):
    """Play each case, then replay what it left; return (case, mode, divergence) of those that are not equal."""
    outcomes = playing.play(job, cases, folder)
    monkeypatch.setenv(ledger.FOLDER, str(folder / "no world"))  # a tool that is called after all finds nothing there
    wrong = []
    for outcome in outcomes:
        case = Path(outcome["folder"])
        before = digests(case)
        record = asyncio.run(look(case))
        for mode in ("strict", "tolerant"):
            replayed = play(record, sweep.find_job(job).program, mode)
            if not replayed.is_equal or replayed.remarks:
                wrong.append((outcome["case"], mode, replayed.divergence, replayed.remarks))
        if before != digests(case):
            wrong.append((outcome["case"], "files", before, digests(case)))
    return wrong


def digests(folder):
    """Return a digest of each file of a case but SQLite's shared memory, which every reader writes its locks into."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".db-shm")
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize("job", FEW)
def test_killed_tasks_are_replayed_equal_and_their_files_stay_as_they_are(job, tmp_path, monkeypatch):
    """Every kind of act, rollbacks, and the agent; killed at every kind of point, resumed, done (cases 48, 49)."""
    wanted = documents(tmp_path / "documents") if job == "digest" else job
    assert [] == replay_all(wanted, FEW[job], tmp_path / "cases", monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("job", ["harvest", "drafts"])
def test_tasks_killed_anywhere_are_replayed_equal(job, tmp_path, monkeypatch):
    """A third of all points at which a task can be killed, and again on the way back."""
    assert [] == replay_all(job, MANY, tmp_path / "cases", monkeypatch)
