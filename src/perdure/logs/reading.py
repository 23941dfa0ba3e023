"""Gives back the lines of a task's log files, in order across rotation, while they may be written and rotated.

Lines end at LF and nothing else. A cut tail of the live file is left out and reported; damage anywhere else stops the
reading and is named with its place. Blocking, in bounded memory: one line at a time. Called by `views.history`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import IO, Final

import msgspec
import zstandard

from perdure.errors import LogDamaged, TaskAmbiguous, TaskUnknown
from perdure.logs.lines import is_intact
from perdure.logs.scroll import LIVE, Stub, lines_bytes, numbered, open_lines, read_stub

_ID_CHARS: Final = 32
_CUT_SHOWN_MAX: Final = 60


class Record(msgspec.Struct, frozen=True):
    """One line of the files."""

    stub: Stub
    raw: bytes  # ended by LF


class Torn(msgspec.Struct, frozen=True):
    """The live file ends in the middle of a line."""

    path: str
    size: int  # bytes


def find_set(path: str, name: str) -> str:
    """Return the folder of the task called `name` (its name or id, or the beginning of either), the newest of equals.

    Raises TaskUnknown, TaskAmbiguous.
    """
    sets = _sets_of(path)
    for fits in (
        [one for one in sets if one[1] == name],
        [one for one in sets if one[0] == name][-1:],
        [one for one in sets if one[0].startswith(name) or one[1].startswith(name)],
    ):
        if len(fits) == 1:
            return os.path.join(path, f"{fits[0][0]}.{fits[0][1]}")
        if fits:
            raise TaskAmbiguous(name, tuple(f"{slug}.{task}" for slug, task in fits))
    raise TaskUnknown(name)


def read_set(folder: str) -> Iterator[Record | Torn]:
    """Yield every line of the set, then Torn where the last one is cut. Raises LogDamaged."""
    follower = Follower(folder)
    try:
        while (found := follower.next()) is not None:
            yield found
        if (torn := follower.torn()) is not None:
            yield torn
    finally:
        follower.close()


class Follower:
    """Reads a set on and on: `next` is None while nothing is new. A file that goes meanwhile is read to its end."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._path = ""
        self._expected: int | None = None  # bytes that the open file holds, where that is known
        self._number = -1  # of the open or last file
        self._offset = 0
        self._line = 0
        self._seq = 0  # of the last line
        self._given = 0  # what is up to this seq was given already, from a set that was made anew meanwhile

    def next(self) -> Record | None:
        """Return the next line, None where no whole one is there yet. Raises LogDamaged."""
        while True:
            if self._file is None and not self._open_next():
                return None
            line = self._read_line()
            if line.endswith(b"\n") or (line and self._is_object(line)):
                record = self._take(line)
                if record is not None and record.stub.seq > self._given:
                    return record
            elif not self._end(len(line)):
                return None

    def torn(self) -> Torn | None:
        """Return what lies behind the last whole line, None where that is nothing."""
        if self._file is None:  # the live file does not even have a first line
            path = os.path.join(self._folder, LIVE)
            size = os.path.getsize(path) if os.path.exists(path) else 0
            return Torn(path, size) if size else None
        rest = self._file.read()
        self._file.seek(self._offset)
        return Torn(self._path, len(rest)) if rest.strip() else None

    def close(self) -> None:
        """Let go of the open file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open_next(self) -> bool:
        """Open the file that comes next; return whether there is one."""
        while True:
            later = [one for one in numbered(self._folder) if one[0] > self._number]
            number, path = later[0] if later else (-1, os.path.join(self._folder, LIVE))
            try:
                file, expected = open_lines(path)
            except FileNotFoundError:
                if not later:
                    return False
                continue  # packed or dropped in this moment
            except zstandard.ZstdError as error:
                raise LogDamaged(path, 1, 0, f"it cannot be unpacked: {error}") from error
            number = number if later else _first_seq(file)
            if later or not self._was_passed(number):
                break
            file.close()
        if number < 0:  # still without a line
            file.close()
            return False
        self._file, self._path, self._expected, self._number = file, path, expected, number
        self._offset = self._line = 0
        return True

    def _was_passed(self, live: int) -> bool:
        """Whether a file was closed between our look at the closed ones and the opening of the live one."""
        return any(self._number < number < live for number, _ in numbered(self._folder))

    def _read_line(self) -> bytes:
        assert self._file is not None  # noqa: S101 - opened by `next`
        try:
            line = self._file.readline()
        except zstandard.ZstdError as error:
            raise self._damage(f"it cannot be unpacked: {error}") from error
        return line

    def _take(self, line: bytes) -> Record | None:
        """Check one whole line; None for an empty one."""
        if not line.strip():
            self._line += 1
            self._offset += len(line)
            return None
        try:
            stub = read_stub(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._damage(f"not a line of the log ({error}): {line[:_CUT_SHOWN_MAX]!r}") from error
        if not is_intact(line):
            raise self._damage("the line does not match its checksum")
        if stub.seq <= self._seq:
            raise self._damage(f"entry {stub.seq} behind entry {self._seq}")
        if stub.task != self._folder.rpartition(".")[2]:
            raise self._damage(f"a line of task {stub.task!r}")
        self._line += 1
        self._offset += len(line)
        self._seq = stub.seq
        return Record(stub, line if line.endswith(b"\n") else line + b"\n")

    def _is_object(self, line: bytes) -> bool:
        """Whether a last line lacks nothing but its LF: no beginning of an object is one itself."""
        if not self._is_live:
            return False
        try:
            read_stub(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return False
        return True

    def _end(self, cut: int) -> bool:
        """At the end of the open file, `cut` bytes of a line before it: return whether there may be more to read."""
        assert self._file is not None  # noqa: S101 - opened by `next`
        if not self._is_live:
            if cut or (self._expected is not None and self._offset != self._expected):
                raise self._damage("the file is cut")
            self.close()
            return True
        self._file.seek(self._offset)
        size = os.fstat(self._file.fileno()).st_size
        if size > self._offset + cut:
            return True  # written in this moment
        closed = _closed(self._folder, self._number, size)
        if not closed:
            return self._is_made_anew()
        if size == self._offset:
            self.close()
        self._path = closed  # nothing comes to it any more
        return True

    def _is_made_anew(self) -> bool:
        """Whether the open file is no longer the live one, and no closed one either: then begin at the beginning."""
        assert self._file is not None  # noqa: S101 - opened by `next`
        try:
            live = os.stat(os.path.join(self._folder, LIVE))
        except FileNotFoundError:
            return False  # in the middle of it
        here = os.fstat(self._file.fileno())
        if os.path.samestat(live, here):
            return False
        if not _closed(self._folder, self._number, here.st_size):  # else rotated in this moment
            self.close()
            self._given, self._seq, self._number = max(self._given, self._seq), 0, -1
        return True

    @property
    def _is_live(self) -> bool:
        return self._path.endswith(LIVE)

    def _damage(self, reason: str) -> LogDamaged:
        return LogDamaged(self._path, self._line + 1, self._offset, reason)


def _closed(folder: str, number: int, size: int) -> str:
    """Return the path of the closed file that holds what an open one of that number and size does, "" if none does."""
    path = dict(numbered(folder)).get(number, "")
    try:
        return path if path and lines_bytes(path) == size else ""
    except FileNotFoundError:  # packed in this moment
        return _closed(folder, number, size)


def _first_seq(file: IO[bytes]) -> int:
    line = file.readline()
    file.seek(0)
    try:
        return read_stub(line).seq
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return -1 if not line.endswith(b"\n") else 0


def _sets_of(path: str) -> list[tuple[str, str]]:
    """Return (slug, task) of each set, that with the newest line last."""
    found: list[tuple[float, str, str]] = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(path) as there:
        for one in there:
            slug, _, task = one.name.rpartition(".")
            if one.is_dir() and len(task) == _ID_CHARS and slug:
                found.append((one.stat().st_mtime, slug, task))
    return [(slug, task) for _, slug, task in sorted(found)]
