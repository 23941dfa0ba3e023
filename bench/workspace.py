"""`make bench-workspace`: how long files take to be taken in, beside `git add -A` of the same tree.

    python bench/workspace.py [--files 20000] [--rounds 3] [--json]

Makes a tree of 1 GB that does not compress, in a hidden folder below the present one, which decides about the disk that
is measured. Each figure is the median of the rounds. Exits with 1 where a gate is missed: this one is a test of speed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from time import perf_counter

from run import Row

from perdure.clock import SystemClock
from perdure.codec.entries import pack
from perdure.core.manifest import Manifest
from perdure.limits import KIB
from perdure.model.entry import FilesCaptured, Header
from perdure.ports import Append, Store
from perdure.stores.opening import open_store
from perdure.testing.conformance.place import holder, summary
from perdure.workspace.capture import Batch, Capturer
from perdure.workspace.folder import Folder
from perdure.workspace.ignoring import Ignoring

FILE_BYTES = 50_000
FOLDER_FILES = 20
CHANGED = 3


def main() -> None:
    """Measure all, print a row for each gate, and exit with 1 if one was missed."""
    options = _parse()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as folder:
        tree = Path(folder).resolve() / "tree"
        _make_tree(tree, options.files)
        rounds = [asyncio.run(_measure(tree, Path(folder).resolve() / "ours", options)) for _ in range(options.rounds)]
        gits = [_git(tree, Path(folder) / "git") for _ in range(options.rounds)] if shutil.which("git") else []
    rows = _rows({name: [each[name] for each in rounds] for name in rounds[0]}, gits)
    if options.json:
        print(json.dumps([vars(row) for row in rows], indent=2))
    else:
        for row in rows:
            verdict = {True: "ok", False: "MISSED", None: "-"}[row.is_met]
            print(f"{row.name:42} {row.gate:>12}  {row.reached:32} {verdict}")
    sys.exit(any(row.is_met is False for row in rows))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Taking a workspace's files in, beside `git add -A`.")
    parser.add_argument("--files", type=int, default=20_000, help=f"how many, of {FILE_BYTES:,} bytes each")
    parser.add_argument("--rounds", type=int, default=3, help="each figure is the median of so many")
    parser.add_argument("--json", action="store_true", help="print all figures as JSON")
    return parser.parse_args()


def _make_tree(tree: Path, files: int) -> None:
    for number in range(files):
        group = number // FOLDER_FILES
        folder = tree / f"part-{group // 100}" / f"folder-{group % 100}"
        if number % FOLDER_FILES == 0:
            folder.mkdir(parents=True)
        (folder / f"file-{number}.bin").write_bytes(os.urandom(FILE_BYTES))


class Ours:
    """A task's journal in a store, and its workspace; as the engine has them."""

    def __init__(self, tree: Path, store: Store) -> None:
        self.store = store
        self.manifest = Manifest()
        self.folder = Folder.open(tree, store_place=store.place)
        self.capturer = Capturer(self.folder, Ignoring())
        self._task = summary(1).task
        self._seq, self._digest = 0, bytes(32)

    async def begin(self) -> None:
        """Make the task."""
        await self.store.create(summary(1), holder(1))

    async def capture(self, paths: Iterable[str] | None = None) -> float:
        """Take in what changed, durably; return the seconds that it took."""
        began = perf_counter()
        look = self.capturer.look(self.manifest, paths)
        while (batch := await asyncio.to_thread(next, look, None)) is not None:
            self.manifest.apply(batch.changes)
            await self.store.append(self._task, self._append(batch))
        return perf_counter() - began

    def _append(self, batch: Batch) -> Append:
        payload = FilesCaptured(changes=batch.changes, digest=self.manifest.digest())
        seq, prev = self._seq + 1, self._digest
        place = Header(self._task, seq, 1, 0, 0, 0, 0, 0, 0, prev, b"")
        frame, digest = pack(payload, place, bytes(16))
        self._seq, self._digest = seq, digest
        return Append(
            expected_seq=seq - 1,
            epoch=1,
            frames=frame,
            last_seq=seq,
            last_digest=digest,
            prev_digest=prev,
            blobs=tuple(batch.blobs.items()),
        )


async def _measure(tree: Path, place: Path, options: argparse.Namespace) -> dict[str, float]:
    """Return seconds, and bytes, of one round with a store of its own."""
    os.mkdir(place)
    store = await open_store(place / "perdure.db", SystemClock())
    ours = Ours(tree, store)
    try:
        await ours.begin()
        first = await ours.capture()
        await ours.capture()  # the first look trusted no file that was as young as itself
        changed = _change(tree, options.files)
        before = _used_bytes(place)
        walked = await ours.capture()
        grown = _used_bytes(place) - before
        _change(tree, options.files)
        declared = await ours.capture([str(path.relative_to(tree)) for path in changed])
        return {"first": first, "walked": walked, "grown": float(grown), "declared": declared}
    finally:
        ours.folder.close()
        await store.close()
        shutil.rmtree(place)


def _change(tree: Path, files: int) -> list[Path]:
    """Write some files anew, of the same size."""
    paths = sorted(tree.glob("*/*/*"))[:: max(files // CHANGED, 1)][:CHANGED]
    for path in paths:
        path.write_bytes(os.urandom(FILE_BYTES))
    return paths


def _used_bytes(place: Path) -> int:
    """Return the bytes of the database's pages in use, those in its log included; files' sizes grow in steps."""
    with closing(sqlite3.connect(place / "perdure.db")) as connection:
        pages, free, size = (
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
    return (pages - free) * size


def _git(tree: Path, place: Path) -> float:
    """Return the seconds of a first `git add -A`, as durable as ours."""
    run = subprocess.run
    base = ["git", "--git-dir", str(place), "--work-tree", str(tree), "-c", "core.fsync=all"]
    run([*base, "init", "--quiet"], check=True)
    began = perf_counter()
    run([*base, "add", "-A"], check=True)
    took = perf_counter() - began
    shutil.rmtree(place)
    return took


def _rows(figures: dict[str, list[float]], gits: list[float]) -> list[Row]:
    """Return the table. A rollback of the changed files (gate: 200 ms) joins once the engine restores files."""
    middle = {name: statistics.median(values) for name, values in figures.items()}
    grown_max = CHANGED * FILE_BYTES + 64 * KIB
    walked_ms, declared_ms = middle["walked"] * 1_000, middle["declared"] * 1_000
    return [
        _first_row(middle["first"], gits),
        Row(f"{CHANGED} changed files, all looked at", "≤ 300 ms", f"{walked_ms:.0f} ms", walked_ms <= 300),
        Row(f"{CHANGED} changed files, declared", "≤ 150 ms", f"{declared_ms:.0f} ms", declared_ms <= 150),
        Row("  growth of the store", f"≤ {grown_max:,}", f"{middle['grown']:,.0f} bytes", middle["grown"] <= grown_max),
    ]


def _first_row(first_s: float, gits: list[float]) -> Row:
    if not gits:
        return Row("first capture", "≤ 1.5 × git", f"{first_s:.1f} s; skipped: git is not installed", None)
    git_s = statistics.median(gits)
    reached = f"{first_s / git_s:.2f} × ({first_s:.1f} s beside {git_s:.1f} s)"
    return Row("first capture", "≤ 1.5 × git", reached, first_s <= 1.5 * git_s)


if __name__ == "__main__":
    main()
