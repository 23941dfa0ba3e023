"""`make million`: one task of a million entries. How long it takes to open, what `log` needs, how fast `verify` is.

    python bench/million.py [--entries N] [--keep FOLDER] [--json]

The journal is written by the engine itself: small pure actions with a `then=`, every fiftieth an effect with a key,
on a state of 1 MB. 64 calls are under way at a time, because commits shared by many are quicker; the entries are those
of a run that takes its time. Each figure is taken in a process of its own; the one that measures stays small and
imports nothing of ours. With --keep the journal stays, and is found again by the next run. No test: what is missed is
shown, and the exit code is 0 all the same.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time

_ENTRIES = 1_000_000
_AT_ONCE = 64
_EFFECT_EVERY = 50  # actions
_PARTS, _PART_CHARS = 8_192, 120  # of the state: 1 MB
_NAME = "million"
_OPENINGS = 5


def main() -> None:
    """Make the journal where it is not there yet, measure, print."""
    options = _parse()
    if options.make:
        asyncio.run(_make(f"{options.make}/million.db", options.entries))
    elif options.open:
        print(asyncio.run(_open(f"{options.open}/million.db")))
    elif options.keep:
        Path(options.keep).mkdir(parents=True, exist_ok=True)
        _measure(options.keep, options)
    else:
        with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as folder:
            _measure(folder, options)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A task of a million entries: opening, log, verify.")
    parser.add_argument("--entries", type=int, default=_ENTRIES, help="about so many entries")
    parser.add_argument("--keep", default="", metavar="FOLDER", help="leave the journal there, or use the one there")
    parser.add_argument("--json", action="store_true", help="print all figures as JSON")
    parser.add_argument("--make", default="", help=argparse.SUPPRESS)
    parser.add_argument("--open", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


# --- the journal, in a process of its own ---------------------------------------------------------------------------
async def _make(place: str, entries: int) -> None:
    import work

    import perdure

    @perdure.tool(effect="pure")
    async def look(number: int) -> str:
        return _part(number)

    @perdure.tool(effect="idempotent")
    async def send(number: int, key: perdure.EffectKey) -> str:  # noqa: ARG001 - a service would be given it
        return _part(number)

    state = {"at": 0, "parts": [_part(number) for number in range(_PARTS)]}
    with suppress(work.Left):
        async with perdure.open(place) as runtime, runtime.task(_NAME, state=state) as task:

            async def act(number: int) -> None:
                def keep(state, result: str) -> None:
                    state["at"] = number
                    state["parts"][number * 31 % _PARTS] = result

                if number % _EFFECT_EVERY:
                    await task.act(look, number, then=keep)
                else:
                    await task.using(key=f"letter {number}").act(send, number, then=keep)

            for first in range(0, entries // 2, _AT_ONCE):
                await asyncio.gather(*(act(number) for number in range(first, first + _AT_ONCE)))
            raise work.Left


async def _open(place: str) -> str:
    """Return seconds on the clock and of the processor."""
    import work

    import perdure

    took = ""
    with suppress(work.Left):
        async with perdure.open(place) as runtime:
            began, began_cpu = perf_counter(), process_time()
            async with runtime.task(_NAME) as task:
                took = f"{perf_counter() - began} {process_time() - began_cpu}"
                if not task.state["at"] or len(task.state["parts"]) != _PARTS:
                    raise ValueError("the task came back as another one")
                raise work.Left
    return took


def _part(number: int) -> str:
    return f"{number:07d} " + "what the tool found; " * 6


@dataclass
class Taken:
    """What one process took, and what it printed."""

    wall_s: float
    cpu_s: float
    most_mb: float
    printed: str


# --- the figures ----------------------------------------------------------------------------------------------------
def _measure(folder: str, options: argparse.Namespace) -> None:
    place = Path(folder, "million.db")
    if not place.exists():
        made = _run([__file__, "--make", folder, "--entries", str(options.entries)])
        print(f"made in {made.wall_s:.0f} s", file=sys.stderr)
    command = ["-c", "from perdure.cli import main; main()"]
    openings = [_run([__file__, "--open", folder]) for _ in range(_OPENINGS)]
    times = sorted(tuple(map(float, taken.printed.split())) for taken in openings)
    nothing = _run([*command, "list", "--store", str(place)])
    log = _run([*command, "log", _NAME, "--store", str(place)], count_lines=True)
    check = _run([*command, "verify", _NAME, "--store", str(place), "--json"])
    (verdict,) = json.loads(check.printed)
    entries, lines = verdict["entries"], int(log.printed)
    figures = {
        "entries": entries,
        "whole": verdict["whole"],
        "stored_mb": round(place.stat().st_size / 1e6, 1),
        "opening_s": round(times[_OPENINGS // 2][0], 3),
        "opening_slowest_s": round(times[-1][0], 3),
        "opening_cpu_s": round(min(cpu_s for _, cpu_s in times), 3),
        "log_lines": lines,
        "log_lines_per_s": round(lines / (log.wall_s - nothing.wall_s)),
        "log_lines_per_cpu_s": round(lines / (log.cpu_s - nothing.cpu_s)),
        "log_mb": round(log.most_mb, 1),
        "command_mb": round(nothing.most_mb, 1),
        "verify_per_s": round(entries / (check.wall_s - nothing.wall_s)),
        "verify_per_cpu_s": round(entries / (check.cpu_s - nothing.cpu_s)),
        "verify_mb": round(check.most_mb, 1),
    }
    _show(figures, is_json=options.json)


def _show(figures: dict[str, float], *, is_json: bool, write: Callable[[str], None] = print) -> None:
    if is_json:
        return write(json.dumps(figures, indent=2))
    lines = [
        ("opening", "≤ 1 s", f"{figures['opening_s']:.2f} s", figures["opening_s"] <= 1),
        ("log, most memory", "< 100 MB", f"{figures['log_mb']:.0f} MB", figures["log_mb"] < 100),
        ("verify, entries/s", "≥ 50,000", f"{figures['verify_per_s']:,}", figures["verify_per_s"] >= 50_000),
    ]
    write(f"{figures['entries']:,} entries, {figures['stored_mb']:,} MB, whole: {figures['whole']}")
    for name, gate, reached, is_met in lines:
        write(f"{name:24} {gate:>10}  {reached:12} {'ok' if is_met else 'MISSED'}")
    write(f"    of processor time: opening {figures['opening_cpu_s']} s, verify {figures['verify_per_cpu_s']:,}/s")
    write(
        f"    slowest opening {figures['opening_slowest_s']} s; a command that reads nothing {figures['command_mb']} MB"
    )
    write(f"    log {figures['log_lines_per_s']:,} lines/s, {figures['log_lines_per_cpu_s']:,} of processor time")
    return None


def _run(arguments: list[str], *, count_lines: bool = False) -> Taken:
    """Run Python with `arguments`; return what it took, and what it printed (or how many lines)."""
    began = perf_counter()
    child = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE)
    if child.stdout is None:
        raise OSError("the child has no stdout")
    printed = str(sum(1 for _ in child.stdout)) if count_lines else child.stdout.read().decode()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)  # it was waited for here: Popen must not do so again
    if child.returncode:
        raise OSError(f"{arguments[:3]} ended with {child.returncode}")
    return Taken(perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1_000, printed)


if __name__ == "__main__":
    main()
