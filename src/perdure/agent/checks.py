"""What there is to say of an agent's checks: the names of those that every agent has, and a check of a plan in words.

Pure. Called by what judges, and by `perdure plan`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

GOAL: Final = "the goal is reached"
FAILING: Final = "the calls of a turn bring something"
ENDING: Final = "replies come to an end"
ALL: Final = frozenset({GOAL, FAILING, ENDING})
_NEEDED: Final = {
    "file_exists": ("path",),
    "text_contains": ("path", "text"),
    "json_valid": ("path",),
    "command_succeeds": ("command",),
}


def checks_of(memory: Mapping[str, Any]) -> dict[str, str]:
    """Return how it is known that each step of an agent's plan is reached, in words; nothing where none stands there.

    `memory` is its state, which people may have changed: what has another shape is passed over.
    """
    steps = [_mapping(step) for step in _mapping(memory.get("ahead")).get("steps", ())]
    return {str(step["title"]): text_of(_mapping(step["check"])) for step in steps if {"title", "check"} <= step.keys()}


def as_made(check: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a check as it can be made: what does not say what to look for is left to a judge."""
    needed = _NEEDED.get(check.get("kind", "judged"), ())
    if all(str(check.get(name, "")).strip() for name in needed):
        return check
    return {"kind": "judged", "criterion": check.get("criterion", "")}


def text_of(check: Mapping[str, Any]) -> str:
    """Return a check in words, as it is made."""
    check = as_made(check)
    match check.get("kind", "judged"):
        case "file_exists":
            return f"there is {check.get('path', '')!r} in the workspace"
        case "text_contains":
            return f"{check.get('text', '')!r} stands in {check.get('path', '')!r}"
        case "json_valid":
            keys = ", ".join(map(str, check.get("keys", ())))
            return f"{check.get('path', '')!r} is JSON" + (f" with {keys}" if keys else "")
        case "command_succeeds":
            return f"this command ends with 0: {check.get('command', '')}"
        case _:
            return f"a model judges: {check['criterion']}" if check.get("criterion") else "a model judges the step"


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
