"""`perdure.testing` as users import it."""

import subprocess
import sys
from pathlib import Path

import perdure.testing

ROOT = Path(__file__).parents[3]


def test_all_names_are_there():
    """Each name of `__all__` can be imported, and no other."""
    assert [] == [name for name in perdure.testing.__all__ if getattr(perdure.testing, name) is None]
    assert not hasattr(perdure.testing, "anything_else")


def test_nothing_is_loaded_before_it_is_used():
    """Importing perdure.testing loads neither pytest nor the engine; using all of its names loads no pytest."""
    program = (
        "import sys, perdure.testing\n"
        "early = {'pytest', 'perdure.engine', 'asyncio'} & set(sys.modules)\n"
        "names = [getattr(perdure.testing, name) for name in perdure.testing.__all__]\n"
        "print(early, 'pytest' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "set() False\n" == done.stdout
