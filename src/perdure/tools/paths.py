"""Which files of the workspace a call writes: what `paths=` declares, filled in from the call's arguments.

`paths=("report.md",)` always writes that file, `paths=("{name}",)` the one that the argument `name` says, and a folder
stands for all that is in it. Called by the engine before an action's intent.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from perdure.errors import PathOutside, ToolInvalid
from perdure.model.files import path_to_text
from perdure.tools.declare import HOLE, Tool

ANYWHERE: Final = ("",)  # the workspace itself: what it writes is not known before


def paths_of(tool: Tool[..., Any], arguments: Mapping[str, object], workspace: str) -> tuple[str, ...]:
    """Return the paths that this call writes, relative to `workspace`; `ANYWHERE` where nothing is declared.

    Raises PathOutside for one that leads out of the workspace, ToolInvalid for what can be no path.
    """
    if not tool.paths:
        return ANYWHERE
    root = os.path.abspath(workspace)
    found = sorted({_inside(tool, _fill(tool, path, arguments), root) for path in tool.paths})
    return ANYWHERE if "" in found else tuple(found)


def overlap(some: Iterable[str], others: Iterable[str]) -> bool:
    """Whether one of `some` is, holds, or lies in one of `others`."""
    theirs = tuple(others)
    return any(_holds(one, other) or _holds(other, one) for one in some for other in theirs)


def _holds(folder: str, path: str) -> bool:
    return not folder or path == folder or path.startswith(f"{folder}/")


def _fill(tool: Tool[..., Any], path: str, arguments: Mapping[str, object]) -> str:
    def value_of(found: re.Match[str]) -> str:
        name = found[1]
        parameter = tool.shape.signature.parameters[name]
        value = arguments.get(name, parameter.default)
        if type(value) is int:
            return str(value)
        if not isinstance(value, str | os.PathLike):
            raise ToolInvalid(tool.name, f"its path {path!r} wants a path in {name!r}, and that is {value!r}")
        return os.fsdecode(value)  # pyright: ignore[reportUnknownArgumentType] - a path of whatever kind

    return HOLE.sub(value_of, path)


def _inside(tool: Tool[..., Any], path: str, root: str) -> str:
    """Return `path` relative to `root`, as the manifest writes it; "" for the root itself."""
    if "\0" in path:
        raise ToolInvalid(tool.name, f"{path!r} holds a zero byte, which no path can")
    whole = os.path.normpath(os.path.join(root, path))
    if whole != root and not whole.startswith(root.rstrip(os.sep) + os.sep):
        real = os.path.realpath(root)  # an absolute path may go by the folder's other name
        if not whole.startswith(real.rstrip(os.sep) + os.sep):
            raise PathOutside(tool.name, path, root)
        root = real
    relative = os.path.relpath(whole, root)
    return "" if relative == os.curdir else path_to_text(os.fsencode(relative))
