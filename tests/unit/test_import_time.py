"""`import perdure` costs next to nothing, so that a tool module may import it, and shell completion stays quick.

Names are imported when they are first used (PEP 562). What is imported is asserted by name; the times only catch what
is grossly wrong, since a shared machine swings: `make bench` measures them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from time import perf_counter

import pytest

import perdure

HEAVY = {"asyncio", "msgspec", "rich", "sqlite3", "typer", "zstandard", "zoneinfo", "pydantic", "hypothesis", "ssl"}


def _run(program):
    """Run `program` in a new interpreter that finds the package where this one found it."""
    env = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(perdure.__file__))}
    return subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True, env=env)


def _modules_after(program):
    """Return the modules that a new interpreter has loaded after `program`."""
    show = "; import json, sys; print(json.dumps(sorted(sys.modules)))"
    return set(json.loads(_run(program + show).stdout.splitlines()[-1]))


def test_the_bare_import_loads_nothing_heavy():
    """`import perdure` alone loads no module of its own beside the package, and none of the heavy ones."""
    loaded = _modules_after("import perdure")
    assert {"perdure"} == {name for name in loaded if name.startswith("perdure")}
    assert set() == loaded & HEAVY


@pytest.mark.parametrize(
    ("program", "needless"),
    [
        ("import perdure; perdure.tool", {"asyncio", "rich", "sqlite3", "typer", "zstandard", "pydantic"}),
        ("import perdure; perdure.ActionFailed", {"asyncio", "rich", "sqlite3", "typer", "zstandard", "pydantic"}),
        ("import perdure; perdure.open", {"rich", "typer", "pydantic", "perdure.cli"}),
    ],
    ids=["a tool", "an error", "a runtime"],
)
def test_a_name_loads_only_what_it_needs(program, needless):
    """A module of tools loads no event loop and no store, a program no command line."""
    assert set() == _modules_after(program) & needless


def test_the_import_is_quick():
    """The quickest of five imports takes less than 150 ms above the quickest start of an interpreter."""
    times = {"pass": [], "import perdure": []}
    for _ in range(5):
        for program, taken in times.items():
            began = perf_counter()
            _run(program)
            taken.append(perf_counter() - began)
    assert min(times["import perdure"]) - min(times["pass"]) < 0.150
