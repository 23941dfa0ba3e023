"""Both type checkers see arguments and results of tools and programs through their declarations."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAMPLE = str(Path(__file__).with_name("declarations.py"))


@pytest.mark.parametrize("command", [["mypy", "--warn-unused-ignores"], ["basedpyright", "--level", "error"]])
def test_declarations_are_typed(command):
    """Right uses are accepted with their exact types; a wrong use that mypy let pass would be a needless ignore."""
    checked = subprocess.run(
        [sys.executable, "-m", *command, SAMPLE], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert [] == [line for line in checked.stdout.splitlines() if "declarations.py:" in line]
    assert "" == checked.stderr
