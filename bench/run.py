"""`make bench`: how fast an action is beside a bare durable insert of the same bytes, and what else has a gate.

    python bench/run.py [--quick] [--json] [--only TEXT]

Works in hidden folders below the present one, which decides about the disk that is measured. How to read the table:
docs/reference/performance.md. No test: a gate that is not reached is shown, and the exit code is 0 all the same.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

import size
import speed
import startup


@dataclass
class Row:
    """One line of the table."""

    name: str
    gate: str
    reached: str
    is_met: bool | None  # None: not measured
    detail: dict[str, object] = field(default_factory=dict)


def main() -> None:
    """Measure what was asked for and print it."""
    options = _parse()
    lines = {
        "one task, pure (coroutine)": lambda: _one(options, "pure", 0.50, growth=True),
        "one task, pure (quick function)": lambda: _one(options, "quick", 0.50),
        "one task, effectful": lambda: _one(options, "effectful", 0.33),
        "one task, plain function": lambda: _one(options, "plain", 0.30),
        "50 tasks at once": lambda: _many(options),
        "at rest, opening": _rest,
        "fsyncs": lambda: _syncs(options),
        "start": lambda: _start(options),
    }
    rows: list[Row] = []
    for name, measure in lines.items():
        if options.only in name:
            made = measure()
            rows += made
            if not options.json:
                _show(made)
    if options.json:
        print(json.dumps({"machine": _machine(), "rows": [asdict(row) for row in rows]}, indent=2))
    else:
        print(f"\n{', '.join(f'{key} {value}' for key, value in _machine().items())}")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="perdure beside a bare SQLite insert of the same bytes (WAL, FULL).")
    parser.add_argument("--quick", action="store_true", help="a fifth of the actions: enough for a first look")
    parser.add_argument("--json", action="store_true", help="print all figures as JSON")
    parser.add_argument("--only", default="", metavar="TEXT", help="only lines whose name contains TEXT")
    return parser.parse_args()


def _one(options: argparse.Namespace, kind: str, gate: float, *, growth: bool = False) -> list[Row]:
    blocks = (20 if options.quick else 100) if growth else (15 if options.quick else 40)
    pairs = speed.measure_one(kind, blocks)
    rows = [_ratio_row(f"one task, {kind}", gate, pairs)]
    if growth:
        slow = pairs.percentile_ms(99.9)
        rows += [
            Row("  slowest in 1,000", "≤ 20 ms", f"{slow:.1f} ms", slow <= 20),
            Row(
                f"  growth over {blocks * speed.BLOCK:,} actions",
                "± 10 %",
                f"{pairs.trend:+.0%}",
                abs(pairs.trend) <= 0.10,
                {"tenths": [round(ratio, 2) for ratio in pairs.tenths]},
            ),
        ]
    return rows


def _many(options: argparse.Namespace) -> list[Row]:
    pairs = speed.measure_many(4 if options.quick else 16)
    slow = pairs.percentile_ms(99)
    return [
        _ratio_row("50 tasks at once, pure", 1.3, pairs),
        Row("  slowest in 100", "≤ 25 ms", f"{slow:.1f} ms", slow <= 25),
    ]


def _ratio_row(name: str, gate: float, pairs: speed.Pairs) -> Row:
    reached = f"{pairs.ratio:.2f} ({pairs.ratio_of_totals:.2f} of totals)"
    return Row(name, f"≥ {gate:.2f}", reached, pairs.ratio >= gate, pairs.summary())


def _rest() -> list[Row]:
    rest = size.measure_rest(5_000)  # with fewer, the log's fixed size is most of what there is
    times, opening_ms = rest.times_the_data, rest.opening_s * 1_000
    return [
        Row(f"at rest after {rest.actions:,} actions", "≤ 3.3 ×", f"{times:.2f} ×", times <= 3.3),
        Row(f"opening {rest.actions:,} actions", "≤ 150 ms", f"{opening_ms:.0f} ms", opening_ms <= 150),
    ]


def _syncs(options: argparse.Namespace) -> list[Row]:
    actions = 400 if options.quick else 1_200
    rows: list[Row] = []
    for kind, gate in (("pure", 1.03), ("effectful", 2.03)):
        syncs = size.count_syncs(kind, actions)
        reached = "skipped: strace is not installed, or may not trace" if syncs is None else f"{syncs:.3f}"
        rows.append(Row(f"fsyncs, {kind}", f"≤ {gate}", reached, None if syncs is None else syncs <= gate))
    return rows


def _start(options: argparse.Namespace) -> list[Row]:
    taken = startup.measure_startup(7 if options.quick else 21)
    return [
        _start_row("import perdure", 150, taken["import"]),
        _start_row("import, and first use of perdure.open", 150, taken["open"]),
        _start_row("perdure --help", 300, taken["help"]),
    ]


def _start_row(name: str, gate_ms: int, taken_s: float) -> Row:
    taken_ms = taken_s * 1_000
    return Row(name, f"≤ {gate_ms} ms", f"{taken_ms:.0f} ms", taken_ms <= gate_ms)


def _show(rows: list[Row], write: Callable[[str], None] = print) -> None:
    for row in rows:
        verdict = {True: "ok", False: "MISSED", None: "-"}[row.is_met]
        write(f"{row.name:42} {row.gate:>10}  {row.reached:32} {verdict}")
        if "ms" in row.detail:
            times = ", ".join(f"{name} {value}" for name, value in row.detail["ms"].items())  # type: ignore[attr-defined]
            above = f"{row.detail['above_bare_us']:+} µs an action"
            write(
                f"    {row.detail['ours_per_s']:,}/s beside {row.detail['bare_per_s']:,}/s bare, {above}; ms: {times}"
            )
        if row.name.startswith("  growth"):
            write(f"    ratio by tenths: {row.detail['tenths']}")
    sys.stdout.flush()


def _machine() -> dict[str, object]:
    return {
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "cores": os.cpu_count() or 0,
        "system": platform.system(),
    }


if __name__ == "__main__":
    main()
