"""Names of the checks that every agent has, whatever its plan: no step may be called so. Pure."""

from __future__ import annotations

from typing import Final

GOAL: Final = "the goal is reached"
FAILING: Final = "the calls of a turn bring something"
ENDING: Final = "replies come to an end"
ALL: Final = frozenset({GOAL, FAILING, ENDING})
