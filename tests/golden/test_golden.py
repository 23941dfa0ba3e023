"""Databases of earlier releases open for ever: read as recorded, verified, and gone on with (promise P6)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
from pathlib import Path

import pytest

import perdure
from perdure.codec import values
from perdure.engine.loading import load_fold
from perdure.engine.programs import load_program
from perdure.views.verifying import verify
from tests.golden import programs

DATABASES = sorted(Path(__file__).parent.glob("*.db"))


def test_there_is_a_golden_database():
    """The checks below run on at least one."""
    assert DATABASES


@pytest.fixture(params=DATABASES, ids=lambda path: path.stem)
def golden(request, tmp_path):
    """Return a copy of a golden database, and what is expected of it."""
    copy = tmp_path / "golden.db"
    shutil.copyfile(request.param, copy)
    return copy, json.loads(request.param.with_suffix(".json").read_text(encoding="utf-8"))


def test_it_reads_as_it_was_written(golden):
    """Seq, chain, branch, status, state, open actions and checkpoints of each task are those of its release."""
    path, expected = golden

    async def look():
        found = {}
        async with perdure.open(path) as runtime:
            for name in expected:
                fold = await load_fold(runtime.store, (await runtime.store.find(name)).task)
                found[name] = {
                    "task": fold.task,
                    "seq": fold.seq,
                    "branch": fold.branch,
                    "digest": fold.digest.hex(),
                    "status": fold.ledger.status,
                    "state": values.digest(fold.tree.root).hex(),
                    "open": len(fold.ledger.open),
                    "checkpoints": [mark.name for mark in fold.document.checkpoints],
                }
        return found

    assert expected == asyncio.run(look())


def test_it_is_verified(golden):
    """Chain, snapshots and blobs hold."""
    path, expected = golden

    async def check():
        async with perdure.open(path) as runtime:
            return {name: (await verify(runtime.store, name)).is_whole for name in expected}

    assert dict.fromkeys(expected, True) == asyncio.run(check())


def test_its_tasks_go_on(golden):
    """An interrupted task ends as if nothing had been, a doubtful one is settled, a finished one gives its result."""
    path, _ = golden

    async def go_on():
        async with perdure.open(path) as runtime:
            interrupted = await runtime.store.find("interrupted")
            program = load_program("tests.golden.programs:interrupted", str(Path(__file__).parents[2]))
            first = await runtime.resume(interrupted.task, program)
            doubtful = await runtime.store.find("doubtful")
            open_ = next(iter((await load_fold(runtime.store, doubtful.task)).ledger.open))
            await runtime.settle(doubtful.task, open_, perdure.Succeeded("paid 1000"))
            second = await runtime.resume(doubtful.task, programs.doubtful)
            finished = await runtime.result((await runtime.store.find("everything")).task)
        return first, second, finished

    assert (4, "paid", {"rounds": 1, "texts": 3}) == asyncio.run(go_on())


def test_reading_leaves_it_as_it_is():
    """No golden database has changed since it was written: its digest stands in `digests.txt`."""
    recorded = (Path(__file__).parent / "digests.txt").read_text(encoding="ascii").splitlines()
    assert recorded == [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in DATABASES]
