"""Named places at which a test may kill the process, and the counters that say which one is reached when.

Armed by `PERDURE_CRASH="after_effect:7"` (the seventh time that point is reached) or `"any:17"` (the seventeenth point
of whatever name), and only where `PERDURE_TESTING=1` stands beside it. Unarmed, `reach` is one test of a flag.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections import Counter
from collections.abc import Callable, Generator
from typing import Final

NAMES: Final = (
    "before_intent",
    "after_intent",
    "after_effect",
    "after_outcome",
    "after_checkpoint",
    "during_rollback",
    "during_undo",
    "during_recovery",
    "during_fork",
    "during_takeover",
)

_counts: Counter[str] = Counter()
_armed: dict[str, int] = {}
_watching = False
_watcher: Callable[[str], None] | None = None


def reach(name: str) -> None:
    """Count that point `name` was reached, and die there by SIGKILL if it is the armed one."""
    if not _watching:
        return
    _counts[name] += 1
    _counts["any"] += 1
    if _watcher is not None:
        _watcher(name)
    if _armed.get(name) == _counts[name] or _armed.get("any") == _counts["any"]:
        os.kill(os.getpid(), signal.SIGKILL)


def arm(spec: str) -> None:
    """Begin to count; die at `spec` = "name:n" or "any:n" ("" = count only). For tests of a forked child."""
    global _watching  # noqa: PLW0603 - one switch per process, thrown before anything runs
    _counts.clear()
    _armed.clear()
    _watching = True
    if spec:
        name, _, number = spec.partition(":")
        if name not in (*NAMES, "any"):
            raise ValueError(f"no crash point is called {name!r}; there are {', '.join(NAMES)} and any")
        _armed[name] = int(number or "1")


@contextlib.contextmanager
def watched(by: Callable[[str], None]) -> Generator[None]:
    """Call `by(name)` at each point while the block runs; what it raises is raised there."""
    global _watching, _watcher
    before = _watching, _watcher
    _watching, _watcher = True, by
    try:
        yield
    finally:
        _watching, _watcher = before


def reached() -> dict[str, int]:
    """Return how often each point was reached since `arm`; "any" is their sum."""
    return dict(_counts)


if os.environ.get("PERDURE_TESTING") == "1" and "PERDURE_CRASH" in os.environ:
    arm(os.environ["PERDURE_CRASH"])
