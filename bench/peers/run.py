"""`make bench-peers`: perdure and its peers doing the same durable work, cell by cell in turns, as ratios.

    .venv-peers/bin/python bench/peers/run.py --peers FOLDER [--rounds 3] [--n 100,1000]

FOLDER is the peers' benchmark (bench.py with its drivers), which is not part of this repository; it is only read. Each
cell is a process of its own, killed in its last action and resumed by another one that checks the content. The rounds
take turns over all drivers; a figure is that of the best round, since others on
the machine can only slow a cell down.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

_OURS = "drv_perdure:perdure"
_DRIVERS = {
    "drv_limits:sqlite-full": "bare SQLite insert (WAL, FULL)",
    _OURS: "perdure, pure",
    "drv_perdure:perdure-effect": "perdure, effectful",
    "drv_dbos:dbos-sqlite": "DBOS, SQLite",
    "drv_langgraph:lg-sqlite": "LangGraph graph, SqliteSaver",
    "drv_langgraph:lg-task": "LangGraph @task, SqliteSaver",
}
_Key = tuple[str, int]  # mode and number of actions


def main() -> None:
    """Run the rounds and print the table."""
    parser = argparse.ArgumentParser(description="perdure beside its peers, in one run.")
    parser.add_argument("--peers", required=True, metavar="FOLDER", help="the peers' benchmark")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--n", default="100,1000", help="actions of one run; several by commas")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as folder:
        results = Path(folder).absolute() / "results.jsonl"
        for number in range(options.rounds):
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
            _run_round(options.peers, folder, results, options.n)
        found = [json.loads(line) for line in results.read_text().splitlines()]
    _show(found)


def _run_round(peers: str, folder: str, results: Path, actions: str) -> None:
    here = Path(__file__).resolve().parent
    command = [sys.executable, "bench.py", "--n", actions, "--many", "--budget", "30", "--out", str(results)]
    path = os.pathsep.join([str(here), str(here.parent.parent / "src")])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run(
        [*command, *_DRIVERS],
        cwd=peers,
        env={**environment, "PEERS_ROOT": os.path.abspath(folder)},
        stdout=sys.stderr,
        check=True,
    )


def _show(found: list[dict[str, object]]) -> None:
    """Print actions a second of each driver as a ratio to ours, by kind of cell, and how long a resume took."""
    rates: dict[str, dict[_Key, list[float]]] = defaultdict(lambda: defaultdict(list))
    resumes: dict[str, dict[_Key, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in found:
        driver, key = str(row["driver"]), (str(row["mode"]), int(str(row["n"])))
        if "error" not in row:
            rates[driver][key].append(float(str(row["rate"])))
            if row.get("resume_s", -1) != -1:
                resumes[driver][key].append(float(str(row["resume_s"])))
    cells = sorted(rates[_OURS], reverse=True)
    heads = [f"{n:,} actions" if mode == "run" else f"50 tasks of {n}" for mode, n in cells]
    longest = max(cell for cell in cells if cell[0] == "run")
    print(f"| actions a second, perdure = 1 | {' | '.join(heads)} | resume of {longest[1]:,} |")
    print("|---|" + "--:|" * (len(cells) + 1))
    for driver, name in _DRIVERS.items():
        ratios = [_ratio(rates[driver][cell], rates[_OURS][cell]) for cell in cells]
        taken = resumes[driver][longest]
        print(f"| {name} | {' | '.join(ratios)} | {f'{min(taken):.2f} s' if taken else '–'} |")
    ours = ", ".join(f"{head} {max(rates[_OURS][cell]):,.0f}/s" for head, cell in zip(heads, cells, strict=True))
    print(f"\nperdure: {ours}")


def _ratio(rates: list[float], ours: list[float]) -> str:
    return f"{max(rates) / max(ours):.2f}" if rates and ours else "–"


if __name__ == "__main__":
    main()
