"""For those who test what they build on perdure, or a store of their own. Public; imported by tests only.

Each name is imported when it is first used, and none of them needs pytest: the plugin is `perdure.testing.plugin`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from perdure.testing.clock import FakeClock
    from perdure.testing.faults import FaultyStore
    from perdure.testing.models import CutReply, ScriptedModel
    from perdure.testing.points import Death, Killed, crash_points
    from perdure.testing.policies import ScriptedPolicy
    from perdure.testing.simulation import Report, simulate
    from perdure.testing.sweep import CrashSweepFailed, Swept, crash_sweep

_HOME: Final[dict[str, str]] = {
    "CrashSweepFailed": "perdure.testing.sweep",
    "CutReply": "perdure.testing.models",
    "Death": "perdure.testing.points",
    "FakeClock": "perdure.testing.clock",
    "FaultyStore": "perdure.testing.faults",
    "Killed": "perdure.testing.points",
    "Report": "perdure.testing.simulation",
    "ScriptedModel": "perdure.testing.models",
    "ScriptedPolicy": "perdure.testing.policies",
    "Swept": "perdure.testing.sweep",
    "crash_points": "perdure.testing.points",
    "crash_sweep": "perdure.testing.sweep",
    "simulate": "perdure.testing.simulation",
}

__all__ = [
    "CrashSweepFailed",
    "CutReply",
    "Death",
    "FakeClock",
    "FaultyStore",
    "Killed",
    "Report",
    "ScriptedModel",
    "ScriptedPolicy",
    "Swept",
    "crash_points",
    "crash_sweep",
    "simulate",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - PEP 562
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'perdure.testing' has no attribute {name!r}")
    found = getattr(import_module(home), name)
    globals()[name] = found
    return found
