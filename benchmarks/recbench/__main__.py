"""`make recbench`: play everything, write the page, say which bars were reached.

    python -m benchmarks.recbench [--seeds N] [--alone N] [--files N] [--processes N] [--page FILE] [--json FILE]

No test: a bar that is missed is shown here and on the page, and the exit code is 0 all the same.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import msgspec

from benchmarks.recbench import page, running


def main() -> None:
    """Play, write, print."""
    options = _parse()
    planned = list(running.jobs(seeds=options.seeds, alone=options.alone, files=options.files))
    total, began = sum(job.count for job in planned), time.monotonic()
    records = []
    for record in running.run_all(planned, options.processes):
        records.append(record)
        if len(records) % 200 == 0:
            print(f"{len(records):,} of {total:,} runs, {time.monotonic() - began:.0f} s", file=sys.stderr)
    if options.json:
        Path(options.json).write_bytes(msgspec.json.encode(records))
    bars = page.write(records, Path(options.page))
    for bar in bars:
        print(f"{'reached' if bar.is_met else 'MISSED ':8} {bar.name}: {bar.reached}, wanted {bar.wanted}")
    print(f"{total:,} runs in {time.monotonic() - began:.0f} s; {options.page}")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="recbench", description="How much of what faults destroy comes back.")
    parser.add_argument("--seeds", type=int, default=100, help="runs of each cell under all faults")
    parser.add_argument("--alone", type=int, default=20, help="runs of each cell under one fault alone")
    parser.add_argument("--files", type=int, default=12, help="runs of each arm with real files and real kills")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--page", default=str(page.PAGE), help="where to write the page; its plots go beside it")
    parser.add_argument("--json", default="", metavar="FILE", help="keep the figures of every run")
    return parser.parse_args()


if __name__ == "__main__":
    main()
