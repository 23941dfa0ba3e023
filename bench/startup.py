"""What a start costs: `import perdure`, `perdure --help`, above a bare interpreter. Called by `run.py`."""

from __future__ import annotations

import statistics
import subprocess
import sys
from time import perf_counter

_PROGRAMS = {
    "pass": "pass",
    "import": "import perdure",
    "open": "import perdure; perdure.open",
    "help": "import sys; sys.argv = ['perdure', '--help']; from perdure.cli import main; main()",
}


def measure_startup(runs: int) -> dict[str, float]:
    """Return seconds above `python -c pass`, by program; medians of `runs`, the programs taking turns."""
    times: dict[str, list[float]] = {name: [] for name in _PROGRAMS}
    for _ in range(runs):
        for name, program in _PROGRAMS.items():
            began = perf_counter()
            subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
            times[name].append(perf_counter() - began)
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    return {name: medians[name] - medians["pass"] for name in _PROGRAMS if name != "pass"}
