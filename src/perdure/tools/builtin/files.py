"""Files of the workspace, under AutoGPT's names: read, write, append, list, copy, move, delete, search, look.

Everything stays inside the workspace (`inside.py`); a write is whole or not at all (`putting.py`). Reads run again
after a kill; before a write is made again the engine puts back what the killed one has changed. What a model reads of a
tool is the first paragraph of its docstring; errors are worded for it. Called through the engine by the agent.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from perdure.errors import FileRefused
from perdure.limits import LISTED_MAX, MATCHES_MAX
from perdure.tools.builtin import putting, reading, searching
from perdure.tools.builtin.inside import LEFT_ASIDE, Below, Spot, below, enter
from perdure.tools.declare import tool

Filename = Annotated[str, "Path of the file, relative to the workspace."]

_KINDS: Final[Mapping[int, str]] = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "folder",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
}


@tool(effect="pure")
def read_file(
    workspace: str,
    settings: dict[str, Any],
    filename: Filename,
    first_line: Annotated[int, "Read from this line on, counted from 1."] = 1,
    lines: Annotated[int, "Read so many lines; 0: up to the last."] = 0,
) -> str:
    """Read a text file. Of a large one, ask for some of its lines."""
    with (
        enter(workspace, is_restricted=_is_restricted(settings)) as inside,
        inside.found(filename) as spot,
        open(spot.open_file(), "rb") as file,
    ):
        if first_line <= 1 and lines <= 0:
            return reading.read_whole(file, spot.path, os.fstat(file.fileno()).st_size)
        return reading.read_lines(file, spot.path, max(first_line, 1), max(lines, 0))


@tool(effect="workspace", paths=("{filename}",), aliases=("write_file", "create_file"))
def write_to_file(workspace: str, filename: Filename, contents: Annotated[str, "All that the file is to hold."]) -> str:
    """Write a file, and the folders it stands in where they are missing. What the file held before is replaced."""
    return _put(workspace, filename, _encoded(filename, contents), is_added=False)


@tool(effect="workspace", paths=("{filename}",), aliases=("append_file",))
def append_to_file(
    workspace: str, filename: Filename, contents: Annotated[str, "What is added; begin or end it with a line break."]
) -> str:
    """Add text to the end of a file; a missing one is made."""
    return _put(workspace, filename, _encoded(filename, contents), is_added=True)


@tool(effect="pure", aliases=("list_files", "list_directory"))
def list_folder(
    workspace: str,
    settings: dict[str, Any],
    folder: Annotated[str, "Path of the folder, relative to the workspace."] = ".",
) -> list[str]:
    """List all files below a folder, with the paths that other commands take; a folder ends in a slash."""
    with enter(workspace, is_restricted=_is_restricted(settings)) as inside, inside.found(folder) as spot:
        if not stat.S_ISDIR(spot.stat().st_mode):
            raise FileRefused(spot.path, "is no folder; read_file reads it")
        return _listed(spot)


@tool(effect="workspace", paths=("{destination}",))
def copy_file(
    workspace: str,
    settings: dict[str, Any],
    source: Annotated[str, "Path of the file or folder to copy."],
    destination: Annotated[str, "Path of the copy itself, not of the folder it goes into."],
) -> str:
    """Copy a file or folder. A file at the destination is replaced, a folder is not."""
    with (
        enter(workspace, is_restricted=_is_restricted(settings)) as inside,
        inside.found(source) as come,
        inside.place(destination, make=True) as gone,
    ):
        _refuse_into_itself(come, gone, "copied")
        has_replaced = putting.copy(come, gone)
    return f"copied {source!r} to {destination!r}{_replaced(has_replaced)}"


@tool(effect="workspace", paths=("{source}", "{destination}"), aliases=("rename_file",))
def move_file(
    workspace: str,
    source: Annotated[str, "Path of the file or folder to move."],
    destination: Annotated[str, "Its new path, not the folder it goes into."],
) -> str:
    """Move or rename a file or folder. A file at the destination is replaced, a folder is not."""
    with enter(workspace) as inside, inside.place(source) as come:
        come.stat()  # a missing source makes no folders
        with inside.place(destination, make=True) as gone:
            _refuse_into_itself(come, gone, "moved")
            has_replaced = putting.move(come, gone)
    return f"moved {source!r} to {destination!r}{_replaced(has_replaced)}"


@tool(effect="workspace", paths=("{filename}",), aliases=("remove_file",))
def delete_file(workspace: str, filename: Filename) -> str:
    """Delete a file, or a folder that is empty."""
    with enter(workspace) as inside, inside.place(filename) as spot:
        kind = putting.remove(spot)
    return f"deleted the {kind} {filename!r}"


@tool(effect="pure", aliases=("grep_files", "search_files"), timeout_s=120.0)
def search_in_files(
    workspace: str,
    settings: dict[str, Any],
    pattern: Annotated[str, "Regular expression, as Python has it; it is looked for in each line."],
    directory: Annotated[str, "Folder to search, or one file; relative to the workspace."] = ".",
    file_pattern: Annotated[str, "Only files whose name or path fits, such as *.py"] = "*",
    max_results: Annotated[int, "Stop after so many lines that fit."] = 100,
) -> str:
    """Search the lines of all text files below a folder. Each line that fits is returned with its file and number."""
    return searching.search(
        searching.Search(
            workspace=workspace,
            directory=directory,
            pattern=pattern,
            file_pattern=file_pattern,
            max_results=min(max(max_results, 1), MATCHES_MAX),
            is_restricted=_is_restricted(settings),
        )
    )


@tool(effect="pure", aliases=("file_info", "file_stats"))
def get_file_info(workspace: str, settings: dict[str, Any], filename: Filename) -> dict[str, Any]:
    """Tell what stands at a path: kind, size, permissions, time of the last change."""
    with enter(workspace, is_restricted=_is_restricted(settings)) as inside, inside.found(filename) as spot:
        found = spot.stat()
    return {
        "path": spot.path,
        "kind": _KINDS.get(stat.S_IFMT(found.st_mode), "device"),
        "size_bytes": found.st_size,
        "modified": datetime.fromtimestamp(int(found.st_mtime), UTC).isoformat(),
        "mode": stat.filemode(found.st_mode),
        "extension": os.path.splitext(spot.path)[1],
    }


def _is_restricted(settings: Mapping[str, Any]) -> bool:
    """Whether reads stay in the workspace; writes always do."""
    return bool(settings.get("restrict_to_workspace", True))


def _encoded(filename: str, contents: str) -> bytes:
    try:
        return contents.encode()
    except UnicodeEncodeError as error:
        raise FileRefused(
            filename, f"was not written: the text holds half of a surrogate pair at letter {error.start + 1}"
        ) from error


def _put(workspace: str, filename: str, content: bytes, *, is_added: bool) -> str:
    """Write a file, or add to it; say what was done."""
    with enter(workspace) as inside, inside.place(filename, make=True) as spot:
        size_bytes, has_replaced = putting.put(spot, content, is_added=is_added)
    done = "appended to" if is_added else "wrote"
    return f"{done} {filename!r}: {size_bytes:,} bytes now{'' if has_replaced else ', a new file'}"


def _replaced(has_replaced: bool) -> str:  # noqa: FBT001 - worded in one place
    return ", replacing the file that was there" if has_replaced else ""


def _refuse_into_itself(source: Spot, destination: Spot, done: str) -> None:
    """A folder cannot hold itself."""
    top = "" if source.path == os.curdir else f"{source.path}/"
    if destination.path == source.path or destination.path.startswith(top):
        raise FileRefused(source.path, f"cannot be {done} to itself or into itself")


def _listed(spot: Spot) -> list[str]:
    """Return the paths below a folder, those of folders only where they say more than what is in them does."""
    listed: dict[tuple[str, ...], str] = {}
    for found in below(spot):
        folder = listed.pop(found.names[:-1], "")  # it holds something
        if len(listed) >= LISTED_MAX:
            rest = f"… and more than these {LISTED_MAX:,}: name a folder below this one"
            return [*sorted([*listed.values(), *filter(None, [folder])]), rest]
        listed[found.names] = _line(found)
    return sorted(listed.values())


def _line(found: Below) -> str:
    path = found.spot.path
    if stat.S_ISDIR(found.seen.st_mode):
        return f"{path}/ (left aside)" if found.names[-1] in LEFT_ASIDE else f"{path}/"
    if stat.S_ISLNK(found.seen.st_mode):
        return f"{path} (a link)"
    return path
