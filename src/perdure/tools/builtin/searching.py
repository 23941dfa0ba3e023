"""Looking for a regular expression in files. Not the tool (`files.py`), which hands its arguments over.

A pattern can take Python's engine for ever, which lets no other thread of the process work meanwhile and cannot be
stopped. So a search is a process of its own, with an end: killed after `FILE_SEARCH_S`, and by its own limit of
processor time should this process die first. It finds its way as readers do (`inside.py`) and only prints.
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, cast

import msgspec

from perdure.errors import FileRefused, OutsideWorkspace, UsageError, WorkspaceError
from perdure.limits import FILE_SEARCH_S, SEARCH_LINE_LETTERS, SEARCHED_FILE_BYTES_MAX
from perdure.tools.builtin import reading
from perdure.tools.builtin.inside import Spot, below, enter

_CHILD: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from perdure.tools.builtin.searching import main; main()"
)


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for, and where."""

    workspace: str
    directory: str
    pattern: str
    file_pattern: str
    max_results: int
    is_restricted: bool


class _Found(msgspec.Struct, kw_only=True):
    """What a search has found, and what it passed over."""

    lines: list[str] = []
    files: int = 0
    passed_over: int = 0  # no text, too large, not readable
    is_cut: bool = False


def search(asked: Search) -> str:
    """Return the lines that fit, as "path:number: line", under a line that says how many.

    Raises FileRefused where the pattern is none or takes too long, and as `Inside.found` does.
    """
    try:
        re.compile(asked.pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise FileRefused(asked.pattern, f"is no regular expression: {error}") from error
    found = _in_process_of_its_own(asked)
    what = f"{asked.pattern!r} in {found.files:,} files"
    passed_over = f"; {found.passed_over:,} that are no text or too large were passed over" if found.passed_over else ""
    if not found.lines:
        return f"nothing fits {what}{passed_over}"
    cut = " (there are more)" if found.is_cut else ""
    return "\n".join([f"{len(found.lines):,} lines fit {what}{cut}{passed_over}:", *found.lines])


def main() -> None:
    """The process of a search: asked on standard input, answers on standard output."""
    import resource

    limit_s = int(FILE_SEARCH_S) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
    asked = msgspec.convert(json.loads(sys.stdin.buffer.read()), Search)
    try:
        answer: dict[str, Any] = {"found": msgspec.to_builtins(_search(asked))}
    except WorkspaceError as error:
        answer = {"refused": [type(error).__name__, cast("Any", error).path, getattr(error, "reason", "")]}
    sys.stdout.buffer.write(json.dumps(answer).encode())


def _in_process_of_its_own(asked: Search) -> _Found:
    places = json.dumps([place for place in sys.path if os.path.isabs(place)])
    argv = [sys.executable, "-I", "-c", _CHILD, places]
    try:
        ran = subprocess.run(  # noqa: S603 - our own interpreter, nothing of the model's among the arguments
            argv,
            input=json.dumps(msgspec.to_builtins(asked)).encode(),  # ASCII: a path may hold what no UTF-8 can
            capture_output=True,
            check=False,
            timeout=FILE_SEARCH_S,
            cwd=os.sep,
        )
    except subprocess.TimeoutExpired:
        raise _too_long(asked) from None
    if ran.returncode < 0:
        raise _too_long(asked)
    if ran.returncode:
        raise UsageError(f"the search for {asked.pattern!r} failed: {ran.stderr.decode('utf-8', 'replace')[-1000:]}")
    answer = json.loads(ran.stdout)
    if "refused" in answer:
        raise _refused(asked, *answer["refused"])
    return msgspec.convert(answer["found"], _Found)


def _too_long(asked: Search) -> FileRefused:
    return FileRefused(
        asked.pattern,
        f"was looked for during {FILE_SEARCH_S:g} s without an end: give a simpler pattern or fewer files",
    )


def _refused(asked: Search, kind: str, path: str, reason: str) -> WorkspaceError:
    return OutsideWorkspace(path, asked.workspace) if kind == "OutsideWorkspace" else FileRefused(path, reason)


def _search(asked: Search) -> _Found:
    found = _Found()
    fits = re.compile(asked.pattern).search
    with enter(asked.workspace, is_restricted=asked.is_restricted) as inside, inside.found(asked.directory) as top:
        for spot in _files(top, asked.file_pattern):
            text = _text(spot)
            if text is None:
                found.passed_over += 1
                continue
            found.files += 1
            room = asked.max_results - len(found.lines)
            fitting = list(islice(_fitting(text, fits), room + 1))
            found.lines += [f"{spot.path}:{number}: {_short(line.strip())}" for number, line in fitting[:room]]
            if len(fitting) > room:
                found.is_cut = True
                break
    return found


def _fitting(text: str, fits: Callable[[str], object]) -> Iterator[tuple[int, str]]:
    """Yield the lines that fit, with their numbers."""
    for number, line in enumerate(reading.lines_of(text), start=1):
        if fits(line.rstrip("\r\n")):
            yield number, line


def _files(top: Spot, file_pattern: str) -> Iterator[Spot]:
    """Yield the regular files below `top`, or itself, whose name or path fits."""
    if not stat.S_ISDIR(top.stat().st_mode):
        yield top
        return
    for found in below(top):
        names = found.names[-1], "/".join(found.names)
        if stat.S_ISREG(found.seen.st_mode) and any(fnmatch.fnmatchcase(name, file_pattern) for name in names):
            yield found.spot


def _text(spot: Spot) -> str | None:
    """Return the text of a file, None where it has none, or too much of it."""
    with contextlib.suppress(OSError, FileRefused), open(spot.open_file(), "rb") as file:
        content = file.read(SEARCHED_FILE_BYTES_MAX + 1)
        if len(content) <= SEARCHED_FILE_BYTES_MAX:
            return reading.text_of(content, spot.path, guess=False)
    return None


def _short(line: str) -> str:
    return line if len(line) <= SEARCH_LINE_LETTERS else f"{line[:SEARCH_LINE_LETTERS]}…"
