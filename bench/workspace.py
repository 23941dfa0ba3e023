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
from collections.abc import Awaitable
from contextlib import closing, suppress
from pathlib import Path
from time import perf_counter

from run import Row

import perdure
from perdure.limits import KIB

FILE_BYTES = 50_000
FOLDER_FILES = 20
CHANGED = 3


def main() -> None:
    """Measure all, print a row for each gate, and exit with 1 if one was missed."""
    options = _parse()
    figures: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as folder:
        place = Path(folder).resolve()
        _make_tree(place / "tree", options.files)
        for _ in range(options.rounds):  # in turns, because a disk's speed swings
            measured = asyncio.run(_measure(place / "tree", place / "ours"))
            if shutil.which("git"):
                measured["git"] = _git(place / "tree", place / "git")
            for name, value in measured.items():
                figures.setdefault(name, []).append(value)
    middle = {name: statistics.median(values) for name, values in figures.items()}
    rows = _rows(middle)
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


@perdure.tool(effect="workspace")
def change_anywhere(folder: str, names: list[str]) -> None:
    """Write files anew, of the same size; which ones, is not declared."""
    for name in names:
        Path(folder, name).write_bytes(os.urandom(FILE_BYTES))


@perdure.tool(effect="workspace", paths=("{one}", "{two}", "{three}"))
def change_declared(folder: str, one: str, two: str, three: str) -> None:
    """The same, declared."""
    change_anywhere(folder, [one, two, three])


async def _measure(tree: Path, place: Path) -> dict[str, float]:
    """Return seconds, and bytes, of one round: a task in a store of its own."""
    os.mkdir(place)
    names = _sample(tree)
    figures: dict[str, float] = {}
    try:
        async with perdure.open(str(place / "perdure.db"), log_dir="") as runtime:
            with suppress(perdure.RolledBack):
                async with runtime.task("bench", state={}, workspace=str(tree)) as task:
                    await _live(task, place, names, figures)
    finally:
        shutil.rmtree(place)
    return figures


async def _live(task: perdure.Task, place: Path, names: list[str], figures: dict[str, float]) -> None:
    """Let the task change files, and go back; add to `figures` what that took."""
    folder = task.workspace
    figures["first"] = await _timed(task.using(key="first").act(change_anywhere, folder, []))
    await task.using(key="second").act(change_anywhere, folder, [])  # the first look trusted nothing as young as itself
    await task.checkpoint("before")
    before = _used_bytes(place)
    figures["walked"] = await _timed(task.using(key="walked").act(change_anywhere, folder, names))
    figures["grown"] = _used_bytes(place) - before
    change_anywhere.fn(folder, names)  # by somebody else: what takes that in is one look
    figures["looked"] = await _timed(task.checkpoint("looked"))
    figures["declared"] = await _timed(task.using(key="declared").act(change_declared, folder, *names))
    began = perf_counter()
    try:
        await task.rollback("before")
    finally:
        figures["rollback"] = perf_counter() - began


async def _timed(act: Awaitable[object]) -> float:
    began = perf_counter()
    await act
    return perf_counter() - began


def _sample(tree: Path) -> list[str]:
    """Return a few files from all over the tree."""
    paths = sorted(str(path.relative_to(tree)) for path in tree.glob("*/*/*"))
    return paths[:: len(paths) // CHANGED][:CHANGED]


def _used_bytes(place: Path) -> int:
    """Return the bytes of the database's pages in use, those in its log included; files' sizes grow in steps."""
    with closing(sqlite3.connect(place / "perdure.db")) as connection:
        pages, free, size = (
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
    return (pages - free) * size


def _git(tree: Path, place: Path) -> float:
    """Return the seconds of a first `git add -A`, as durable as ours."""
    base = ["git", "--git-dir", str(place), "--work-tree", str(tree), "-c", "core.fsync=all"]
    subprocess.run([*base, "init", "--quiet"], check=True)
    began = perf_counter()
    subprocess.run([*base, "add", "-A"], check=True)
    took = perf_counter() - began
    shutil.rmtree(place)
    return took


def _rows(middle: dict[str, float]) -> list[Row]:
    """Return the table. A capture is one look and its commit; an action looks twice, before the tool and after it."""
    grown_max = CHANGED * FILE_BYTES + 64 * KIB
    return [
        _first_row(middle["first"], middle.get("git")),
        _row(f"{CHANGED} changed files, all looked at", 300, middle["looked"]),
        Row("  by an action, which looks twice", "", f"{middle['walked'] * 1_000:.0f} ms", None),
        _row(f"{CHANGED} changed files, declared", 150, middle["declared"]),
        Row("  growth of the store", f"≤ {grown_max:,}", f"{middle['grown']:,.0f} bytes", middle["grown"] <= grown_max),
        _row(f"rollback of {CHANGED} files", 200, middle["rollback"]),
    ]


def _row(name: str, gate_ms: int, taken_s: float) -> Row:
    taken_ms = taken_s * 1_000
    return Row(name, f"≤ {gate_ms} ms", f"{taken_ms:.0f} ms", taken_ms <= gate_ms)


def _first_row(first_s: float, git_s: float | None) -> Row:
    if git_s is None:
        return Row("first capture", "≤ 1.5 × git", f"{first_s:.1f} s; skipped: git is not installed", None)
    reached = f"{first_s / git_s:.2f} × ({first_s:.1f} s beside {git_s:.1f} s)"
    return Row("first capture", "≤ 1.5 × git", reached, first_s <= 1.5 * git_s)


if __name__ == "__main__":
    main()
