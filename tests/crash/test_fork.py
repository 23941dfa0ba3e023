"""A fork is killed by SIGKILL at each piece of its making, on SQLite: it is whole, or half and made anew."""

import asyncio
import hashlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import perdure
from perdure.clock import SystemClock
from perdure.core.manifest import Manifest
from perdure.engine.loading import entries
from perdure.model import entry as e
from perdure.model.files import FileChange, Node
from perdure.stores.sqlite.store import open_sqlite
from perdure.views.listing import list_tasks
from perdure.views.verifying import verify

ROOT = Path(__file__).parents[2]
RAWS = {"a": b"a" * 300_000, "in/b": b"b", "in/c": b""}
APPENDS = 2  # in which the entries are copied: of 4 MiB at most
PIECES = 1 + APPENDS + 3  # the task is made · each append · files written · folder named · whole


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A folder with a store in which a task of 5 MiB has three files and has ended."""
    folder = tmp_path_factory.mktemp("base")

    @perdure.tool(effect="pure", name="page")
    async def page(number: int) -> list[str]:
        return [hashlib.shake_128(b"%d %d" % (number, n)).hexdigest(1_500) for n in range(200)]

    async def make():
        async with perdure.open(folder / "store.db") as runtime, runtime.task("job", state={"got": 0}) as task:
            for number in range(18):
                await task.using(key=f"{number}").act(
                    page, number, then=lambda state, _: state.update(got=state["got"] + 1)
                )
            changes = [FileChange("in", Node("folder", 0o755))]
            changes += [
                FileChange(path, Node("file", 0o644, len(raw), hashlib.sha256(raw).digest()))
                for path, raw in RAWS.items()
            ]
            manifest = Manifest()
            manifest.apply(changes)
            blobs = {hashlib.sha256(raw).digest(): raw for raw in RAWS.values()}
            task._session.put(e.FilesCaptured(changes=tuple(changes), digest=manifest.digest()), blobs=blobs)
            await task.checkpoint("all pages")

    asyncio.run(make())
    return folder


def fork(folder, crash=""):
    """Type the command in a process of its own; return how it ended."""
    command = "import sys; from perdure.cli import main; sys.exit(main())"
    order = ["fork", "job", "--into", str(folder / "w"), "--name", "f", "--store", str(folder / "store.db")]
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    if crash:
        environ |= {"PERDURE_TESTING": "1", "PERDURE_CRASH": crash}
    done = subprocess.run([sys.executable, "-c", command, *order], env=environ, capture_output=True, check=False)
    return done.returncode, done.stderr.decode()


def look(folder):
    """Return the standing of each task, and what a full look finds wrong with those that are whole."""

    async def ask():
        store = await open_sqlite(str(folder / "store.db"), SystemClock())
        try:
            rows = {row.summary.name: row.standing for row in await list_tasks(store, finished=True)}
            looks = [await verify(store, name) for name in rows]
            return rows, [finding for one in looks for finding in one.findings]
        finally:
            await store.close()

    return asyncio.run(ask())


def files(folder):
    """Return path and bytes of each file in a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("piece", range(1, PIECES + 1))
def test_killed_at_any_piece_a_fork_is_whole_or_said_to_be_half(base, tmp_path, piece):
    """It is not listed as a task to resume before it is whole; the same command makes it so and leaves no remains."""
    shutil.copytree(base, tmp_path, dirs_exist_ok=True)
    before = _journal(tmp_path, "job")
    assert -signal.SIGKILL == fork(tmp_path, f"during_fork:{piece}")[0]
    rows, findings = look(tmp_path)
    assert [] == findings
    expected = None if piece == 1 else "interrupted" if piece == PIECES else "half fork"
    assert expected == rows.get("f")
    assert (piece >= PIECES - 1) == (tmp_path / "w").exists()
    if piece < PIECES:
        assert (0, "") == fork(tmp_path)
    rows, findings = look(tmp_path)
    assert ({"job": "succeeded", "f": "interrupted"}, []) == (rows, findings)
    assert RAWS == files(tmp_path / "w")
    assert ["w"] == [path.name for path in tmp_path.iterdir() if path.name.startswith((".w", "w"))]
    assert before == _journal(tmp_path, "job")


def test_it_is_killed_at_every_piece_there_is(base, tmp_path):
    """One piece more is never reached: the fork is made."""
    shutil.copytree(base, tmp_path, dirs_exist_ok=True)
    assert (0, "") == fork(tmp_path, f"during_fork:{PIECES + 1}")


def _journal(folder, name):
    """Return the digest of each entry of a task."""

    async def read():
        store = await open_sqlite(str(folder / "store.db"), SystemClock())
        try:
            task = (await store.find(name)).task
            return [one.digest async for one in entries(store, task)]
        finally:
            await store.close()

    return asyncio.run(read())
