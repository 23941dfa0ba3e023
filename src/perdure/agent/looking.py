"""The tool by which an agent looks whether a check of its plan is met by the files of its workspace. Only reads."""

from __future__ import annotations

import json
import os
from typing import Any, Final

from perdure.tools import tool

READ_MAX: Final = 16 * 1024 * 1024  # bytes of a file that are looked at


@tool(effect="pure", name="look")
def look(check: dict[str, Any], workspace: str) -> dict[str, Any]:
    """Return {"passed", "reason"} of a check of kind file_exists, text_contains or json_valid."""
    path = str(check.get("path", ""))
    place = os.path.realpath(os.path.join(workspace, path))
    if not path or not place.startswith(os.path.realpath(workspace) + os.sep):
        return _finding(f"{path!r} is no file of the workspace")
    if not os.path.exists(place):
        return _finding(f"there is no {path!r} in the workspace")
    if check["kind"] == "file_exists":
        return _finding("")
    if not os.path.isfile(place):  # to open a pipe would wait for whoever writes into it
        return _finding(f"{path!r} is no file that can be read")
    try:
        with open(place, "rb") as file:
            content = file.read(READ_MAX).decode("utf-8", "replace")
    except OSError as error:
        return _finding(f"{path!r} cannot be read: {error.strerror}")
    if check["kind"] == "text_contains":
        wanted = str(check.get("text", ""))
        return _finding("" if wanted in content else f"{wanted!r} does not stand in {path!r}")
    return _finding(_complaint_of_json(path, content, list(check.get("keys", ()))))


def _complaint_of_json(path: str, content: str, keys: list[str]) -> str:
    try:
        value = json.loads(content)
    except ValueError as error:
        return f"{path!r} is no JSON: {error}"
    missing = [key for key in keys if not (isinstance(value, dict) and key in value)]
    return f"{path!r} has no {', '.join(missing)}" if missing else ""


def _finding(complaint: str) -> dict[str, Any]:
    return {"passed": not complaint, "reason": complaint}
