"""The pytest plugin: the fixture `perdure_crash_sweep`. Loaded by pytest by itself wherever perdure is installed.

def test_my_program_survives(perdure_crash_sweep):
    perdure_crash_sweep(program, args={"names": ["a", "b"]}, reset=shop.empty, world=shop.book)
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from perdure.engine.driving import Drivable
    from perdure.testing.sweep import Swept


@pytest.fixture
def perdure_crash_sweep(tmp_path: Path) -> Callable[..., Swept]:
    """Kill a program at each of its crash points and fail with the name of what was done twice: `crash_sweep`.

    `store="sqlite"` uses the test's own temporary folder.
    """
    from perdure.testing.sweep import crash_sweep

    def sweep(program: Drivable, **options: Any) -> Swept:  # noqa: ANN401 - those of crash_sweep
        return crash_sweep(program, **{"folder": str(tmp_path), **options})

    return sweep
