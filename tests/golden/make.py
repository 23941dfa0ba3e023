"""Writes a golden database: `python -m tests.golden.make VERSION`. Run once at a release, its output never changed.

Refuses to overwrite. The database is closed in order and checkpointed into one file; the JSON beside it says what
every later version must read from it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
import sys
from pathlib import Path

import perdure
from perdure.codec import values
from perdure.engine import crashpoints, leases
from perdure.engine.loading import load_fold
from perdure.engine.snapshotting import make_snapshot
from perdure.limits import MIB
from tests.golden import programs

HERE = Path(__file__).parent


async def write(path: Path) -> dict[str, object]:
    """Make the tasks and return what is expected of them."""
    async with perdure.open(path) as runtime:
        items = ["one", "long", "missing", "two"]
        await runtime.run(programs.everything, "everything", goal="show all", args={"items": items})
        for program, name in ((programs.doubtful, "doubtful"), (programs.hopeless, "hopeless")):
            try:
                await runtime.run(program, name, goal="end without a result")
            except perdure.NeedsHuman as stopped:
                print(f"{name}: {stopped}")
        async with runtime.task("inline", goal="a script", state={"big": b"\x07" * MIB}) as task:
            for turn in range(30):
                async with task.edit() as state:
                    state[f"turn {turn}"] = [hashlib.sha256(bytes([turn])).hexdigest()] * 20
                if turn == 20:
                    await make_snapshot(task._session, task._session.fold.seq)
        await _interrupt(runtime)
        return {name: await _expect(runtime, name) for name in await _names(runtime)}


async def _interrupt(runtime: perdure.Runtime) -> None:
    """Play a kill in the middle of a loop: what is on disk then stays as it is."""

    class Killed(BaseException):
        pass

    reached = 0

    def reach(name: str) -> None:
        nonlocal reached
        reached += name == "after_effect"
        if reached == 3:
            raise Killed

    real, crashpoints.reach = crashpoints.reach, reach
    try:
        await runtime.run(programs.interrupted, "interrupted", goal="die", args={"items": ["a", "b", "c", "d"]})
    except Killed:
        print("interrupted: killed in its third action")
    finally:
        crashpoints.reach = real


async def _names(runtime: perdure.Runtime) -> list[str]:
    return sorted(summary.name for summary in await runtime.store.tasks())


async def _expect(runtime: perdure.Runtime, name: str) -> dict[str, object]:
    summary = await runtime.store.find(name)
    fold = await load_fold(runtime.store, summary.task)
    return {
        "task": fold.task,
        "seq": fold.seq,
        "branch": fold.branch,
        "digest": fold.digest.hex(),
        "status": fold.ledger.status,
        "state": values.digest(fold.tree.root).hex(),
        "open": len(fold.ledger.open),
        "checkpoints": [mark.name for mark in fold.document.checkpoints],
    }


def main(version: str) -> None:
    """Write `VERSION.db` and `VERSION.json` beside this file."""
    leases._read = lambda _path: ""  # nothing of the machine that makes it gets into it; run it in a folder of no name
    path = HERE / f"{version}.db"
    if path.exists():
        raise SystemExit(f"{path.name} is there; a golden database is never written again")
    expected = asyncio.run(write(path))
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    for side in (".db-wal", ".db-shm", ".db.lock"):
        path.with_suffix(side).unlink(missing_ok=True)
    (HERE / "holders").rmdir()
    path.with_suffix(".json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
