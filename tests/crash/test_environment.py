"""The crash points as a command meets them: armed by the environment, and only where it says that this is a test."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.crash.playing import ROOT

PROGRAM = '''
"""Adds up to three, and says how far it came."""
import asyncio
import sys

import perdure


@perdure.tool(effect="pure", quick=True)
def add(one: int, other: int) -> int:
    """Add."""
    return one + other


@perdure.program(state={"sum": 0})
async def count(task):
    """Count to three."""
    async for number in task.each("numbers", [1, 2, 3]):
        await task.act(add, number, number, then=lambda state, added: state.update(sum=state["sum"] + added))
        print(f"added {number}", flush=True)
    return task.state["sum"]


async def main():
    """Run it on the store that is given."""
    async with perdure.open(sys.argv[1]) as runtime:
        print(await runtime.run(count, "count"), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
'''


def test_the_environment_kills_a_command_where_it_says_so(tmp_path: Path):
    """PERDURE_CRASH with PERDURE_TESTING=1 kills at the named point; the next run adds nothing twice."""
    killed = _run(tmp_path, PERDURE_TESTING="1", PERDURE_CRASH="after_effect:3")
    resumed = _run(tmp_path)

    assert -signal.SIGKILL == killed.returncode
    assert ["added 1", "added 2"] == killed.stdout.splitlines()
    assert (0, ["added 2", "added 3", "12"]) == (resumed.returncode, resumed.stdout.splitlines())


def test_without_the_word_that_it_is_a_test_nothing_is_killed(tmp_path: Path):
    """PERDURE_CRASH alone does nothing: no task in earnest dies of a variable left in a shell."""
    done = _run(tmp_path, PERDURE_CRASH="after_effect:3")

    assert (0, "12") == (done.returncode, done.stdout.splitlines()[-1])


def test_the_sweep_of_the_how_to_does_what_its_page_says(tmp_path: Path):
    """The two files of docs/how-to/crash-sweep.md, saved and run, print the line that the page promises."""
    page = (ROOT / "docs" / "how-to" / "crash-sweep.md").read_text("utf-8")
    program, sweep = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "orders.py").write_text(program)
    (tmp_path / "sweep.py").write_text(sweep)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, str(tmp_path / "sweep.py")], capture_output=True, text=True, env=environment, check=False
    )

    assert (0, "") == (done.returncode, done.stderr)
    assert f"says `{done.stdout.strip()}`" in page


def _run(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    file = folder / "counting.py"
    file.write_text(PROGRAM)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    return subprocess.run(
        [sys.executable, str(file), str(folder / "perdure.db")],
        capture_output=True,
        text=True,
        env={**kept, "PYTHONPATH": str(ROOT / "src"), **environment},
        check=False,
    )
