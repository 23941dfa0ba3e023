"""The files that hold the log of one task: a folder with a live file and older ones, numbered and compressed.

    LOG_DIR/report-42.5f2c…/live.ndjson              what is written now
                            000000004711.ndjson.zst  older; the number is the seq of its first line
                            torn-000000004990        what a power cut had left behind the last whole line
                            lock                     held by whoever writes

All of it is a copy: the store has every entry, and whatever is wrong here is written anew from there. One set per task
and not per store: its writer is the task's holder, so no two processes meet in a file; where it ends says how far the
copy has come; it goes when the task is deleted. Blocking: called in a thread, by `copying`. Reading is `reading`.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import io
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import IO, Final, cast

import msgspec
import zstandard

from perdure.errors import ConfigInvalid
from perdure.limits import LOG_FILE_BYTES, LOG_FILE_SPAN_S, LOG_FILES_MAX
from perdure.logs.lines import is_intact

LIVE: Final = "live.ndjson"
PLAIN: Final = ".ndjson"
PACKED: Final = ".ndjson.zst"
KEEP: Final = f"{LOG_FILE_BYTES // 1_000_000} MB x {LOG_FILES_MAX}"
_LOCK: Final = "lock"
_PART: Final = ".part"
_NUMBERED: Final = re.compile(r"(\d{12})\.ndjson(\.zst)?\Z")
_SLUG_MAX: Final = 60
_UNITS: Final = {"KB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}
_KEEP: Final = re.compile(r"(\d+)\s*(KB|MB|GB)\s*[x×]\s*(\d+)(?:\s*,\s*(\d+)\s*d)?\Z", re.IGNORECASE)
_READ_BYTES: Final = 64 * 1024
_FRAME_HEAD_BYTES: Final = 18  # of the longest zstd frame header


class LogFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Where logs are kept, and how much of each task's. `keep` in words: `parse_keep`."""

    path: str
    file_bytes: int = LOG_FILE_BYTES  # a file that would pass this is closed; one line may be longer
    files_max: int = LOG_FILES_MAX  # so many times `file_bytes` of lines are kept; the newest file always is
    span_s: float = LOG_FILE_SPAN_S  # a file holds no more than this much time of a task


class Written(msgspec.Struct, frozen=True):
    """A line to be written."""

    seq: int
    at: int  # UTC, microseconds
    raw: bytes  # ended by LF


class _Marked(msgspec.Struct, frozen=True):
    """What a line about a checkpoint has in its fields."""

    name: str = ""
    checkpoint: str = ""


class Stub(msgspec.Struct, frozen=True):
    """What this package itself reads of a line."""

    task: str
    seq: int
    at: str
    kind: str
    digest: str = ""
    checkpoint: str = ""
    fields: msgspec.Raw = msgspec.Raw(b"{}")


read_stub: Final = msgspec.json.Decoder(Stub).decode
_read_marked: Final = msgspec.json.Decoder(_Marked).decode


def parse_keep(path: str, keep: str) -> LogFiles:
    """Return what "10 MB x 5" or "10 MB x 5, 7 d" says. Raises ConfigInvalid."""
    found = _KEEP.match(keep.strip())
    if found is None or not int(found[1]) or not int(found[3]):
        raise ConfigInvalid("log_keep", f'must be like "10 MB x 5" or "10 MB x 5, 7 d", not {keep!r}')
    size = int(found[1]) * _UNITS[found[2].upper()]
    span_s = int(found[4]) * 86_400.0 if found[4] else LOG_FILE_SPAN_S
    return LogFiles(path=path, file_bytes=size, files_max=int(found[3]), span_s=span_s)


def folder_of(path: str, task: str, name: str = "") -> str:
    """Return the folder for the log of `task`: the one that is there, else one that begins with its name."""
    there = glob.glob(os.path.join(glob.escape(path), f"*.{task}"))
    slug = re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[:_SLUG_MAX].strip(".") or "task"
    return there[0] if there else os.path.join(path, f"{slug}.{task}")


def remove_set(path: str, task: str) -> None:
    """Remove all log files of `task`, if there are any; what was set aside too."""
    for ending in ("", ".aside-*"):
        for folder in glob.glob(os.path.join(glob.escape(path), f"*.{task}{ending}")):
            shutil.rmtree(folder, ignore_errors=True)


def numbered(folder: str) -> list[tuple[int, str]]:
    """Return (number, path) of each closed file, oldest first; of a pair whose packing was interrupted the plain one.

    A folder that is not there has none.
    """
    found: dict[int, str] = {}
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for name in sorted(os.listdir(folder)):  # "….ndjson" before "….ndjson.zst"
            match = _NUMBERED.match(name)
            if match:
                found.setdefault(int(match[1]), os.path.join(folder, name))
    return sorted(found.items())


def open_lines(path: str) -> tuple[IO[bytes], int | None]:
    """Open a file of a set for reading; return it with the number of bytes of lines it must hold, None if any.

    Raises OSError, zstandard.ZstdError.
    """
    file = open(path, "rb")  # noqa: SIM115 - the caller closes it
    if not path.endswith(PACKED):
        return file, None
    try:
        size = zstandard.frame_content_size(file.read(_FRAME_HEAD_BYTES))
    except zstandard.ZstdError:
        file.close()
        raise
    file.seek(0)
    reader = zstandard.ZstdDecompressor().stream_reader(file, closefd=True)
    return io.BufferedReader(cast("io.RawIOBase", reader), _READ_BYTES), size if size >= 0 else None


def lines_bytes(path: str) -> int:
    """Return how many bytes of lines a closed file holds."""
    if path.endswith(PLAIN):
        return os.path.getsize(path)
    with open(path, "rb") as file:
        head = file.read(_FRAME_HEAD_BYTES)
    try:
        return max(0, zstandard.frame_content_size(head))
    except zstandard.ZstdError:
        return 0


class Scroll:
    """The set of one task, open for writing; made by `open_scroll`. After an OSError it is closed and opened anew."""

    def __init__(self, folder: str, files: LogFiles, lock: int) -> None:
        self.seq = 0  # of the last line
        self.digest = ""  # of the last line's entry
        self.checkpoint: str | None = None  # newest before or in the last line; None: no line says
        self.torn_bytes = 0  # moved aside when it was opened
        self._folder = folder
        self._files = files
        self._lock = lock
        self._live: int | None = None
        self._size = 0
        self._first: tuple[int, int] | None = None  # (seq, at) of the live file's first line

    def write(self, lines: Sequence[Written]) -> None:
        """Append `lines`, beginning another file where one is full. Raises OSError, with no line cut in two."""
        pending: list[bytes] = []
        size = 0
        for line in lines:
            if self._is_full(size + len(line.raw), line.at):
                self._append(b"".join(pending))
                pending, size = [], 0
                self._rotate()
            if self._first is None:
                self._first = (line.seq, line.at)
            pending.append(line.raw)
            size += len(line.raw)
        self._append(b"".join(pending))
        if lines:
            self.seq = lines[-1].seq

    def clear(self) -> None:
        """Remove every line."""
        self._close_live()
        for _, path in numbered(self._folder):
            os.unlink(path)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self._folder, LIVE))
        self.seq, self.digest, self.checkpoint = 0, "", None

    def set_aside(self) -> str:
        """Move the whole set to a folder beside it, which is returned: it tells of another history than the store."""
        self._close_live()
        number = 1
        while os.path.lexists(aside := f"{self._folder}.aside-{number}"):
            number += 1
        os.mkdir(aside, 0o700)
        for _, path in (*numbered(self._folder), (0, os.path.join(self._folder, LIVE))):
            if os.path.lexists(path):
                os.rename(path, os.path.join(aside, os.path.basename(path)))
        self.seq, self.digest, self.checkpoint = 0, "", None
        return aside

    def close(self) -> None:
        """Let go of the files; nothing is pending."""
        self._close_live()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def mend(self) -> None:
        """Find the place to go on: finish what a killed rotation left, cut what is behind the last whole line."""
        path = os.path.join(self._folder, LIVE)
        if os.path.exists(path):
            good = self._scan(path)
            if good < os.path.getsize(path):
                self._cut(path, good)
            self._size = good
        self._pack_and_drop()
        for _, older in reversed(numbered(self._folder)):
            if self.seq and self.checkpoint is not None:
                break
            self._recall(older)

    def _is_full(self, more: int, at: int) -> bool:
        if self._first is None:
            return False
        spans = (at - self._first[1]) / 1_000_000
        return self._size + more > self._files.file_bytes or spans > self._files.span_s

    def _append(self, raw: bytes) -> None:
        if not raw:
            return
        if self._live is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._live = os.open(os.path.join(self._folder, LIVE), flags, 0o600)
        rest = memoryview(raw)
        try:
            while rest:
                rest = rest[os.write(self._live, rest) :]
        except OSError:
            os.ftruncate(self._live, self._size)
            raise
        self._size += len(raw)

    def _rotate(self) -> None:
        """Close the live file under its number, pack it, drop what is too much. Killed anywhere, `mend` goes on."""
        first, self._first = self._first, None
        if self._live is None:
            self._live = os.open(os.path.join(self._folder, LIVE), os.O_WRONLY | os.O_CLOEXEC)
        os.fsync(self._live)
        self._close_live()
        number = first[0] if first else 0
        os.rename(os.path.join(self._folder, LIVE), os.path.join(self._folder, f"{number:012d}{PLAIN}"))
        self._pack_and_drop()

    def _pack_and_drop(self) -> None:
        for name in os.listdir(self._folder):
            if name.endswith(_PART):
                os.unlink(os.path.join(self._folder, name))
        for _, path in numbered(self._folder):
            if path.endswith(PLAIN):
                _pack(path)
        closed = [(path, lines_bytes(path)) for _, path in numbered(self._folder)]
        room = self._files.file_bytes * (self._files.files_max - 1)
        while len(closed) > 1 and sum(size for _, size in closed) > room:
            os.unlink(closed.pop(0)[0])

    def _close_live(self) -> None:
        self._size, self._first = 0, None
        if self._live is not None:
            os.close(self._live)
            self._live = None

    def _scan(self, path: str) -> int:
        """Read the live file up to the first thing that is wrong; return where that is."""
        good = 0
        with open(path, "rb") as file:
            for line in file:
                if line.strip() and not self._take(line):
                    break
                good += len(line)
        return good

    def _take(self, line: bytes) -> bool:
        """Learn from a line of the live file; return whether it is whole and the next one of this task."""
        stub = _whole(line)
        if stub is None or stub.seq <= self.seq or stub.task != self._folder.rpartition(".")[2]:
            return False
        self._first = self._first or (stub.seq, _micros(stub.at))
        self._note(stub)
        return True

    def _cut(self, path: str, good: int) -> None:
        """Move all behind `good` aside; what was whole of it is written again from the store."""
        with open(path, "rb+") as file:
            file.seek(good)
            torn = file.read()
            with _private(os.path.join(self._folder, f"torn-{self.seq:012d}")) as aside:
                aside.write(torn)
                aside.flush()
                os.fsync(aside.fileno())
            file.truncate(good)
        self.torn_bytes = len(torn)

    def _recall(self, path: str) -> None:
        """Learn from an older file what the newer ones did not say."""
        newer = (self.seq, self.digest, self.checkpoint)
        self.checkpoint = None
        with contextlib.suppress(zstandard.ZstdError):  # damage in the middle: reading says so, writing goes on
            for stub in _stubs_of(path):
                self._note(stub)
        if newer[0]:
            self.seq, self.digest = newer[:2]
        self.checkpoint = self.checkpoint if newer[2] is None else newer[2]

    def _note(self, stub: Stub) -> None:
        self.seq, self.digest = stub.seq, stub.digest
        match stub.kind:
            case "action_settled":
                self.checkpoint = stub.checkpoint
            case "checkpoint_marked":
                self.checkpoint = _marked(stub).name
            case "rolled_back":
                self.checkpoint = _marked(stub).checkpoint
            case _:
                pass


def open_scroll(folder: str, files: LogFiles) -> Scroll | None:
    """Open the set in `folder` for writing, mended; None while another process writes it. Raises OSError."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    lock = os.open(os.path.join(folder, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    scroll = Scroll(folder, files, lock)
    try:
        scroll.mend()
    except BaseException:
        scroll.close()
        raise
    return scroll


def _whole(line: bytes) -> Stub | None:
    """Return what a line says, None where it is cut or no line of ours."""
    if not (line.endswith(b"\n") and is_intact(line)):
        return None
    try:
        return read_stub(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _stubs_of(path: str) -> Iterator[Stub]:
    """Yield what the lines of a closed file say, up to the first that is none."""
    file, _ = open_lines(path)
    with file:
        for stub in map(_whole, file):
            if stub is None:
                return
            yield stub


def _marked(stub: Stub) -> _Marked:
    try:
        return _read_marked(stub.fields)
    except msgspec.ValidationError:
        return _Marked()


def _micros(at: str) -> int:
    try:
        return round(datetime.fromisoformat(at).astimezone(UTC).timestamp() * 1_000_000)
    except ValueError:
        return 0


def _private(path: str) -> IO[bytes]:
    """Open a new file that only this user may read."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb")


def _pack(path: str) -> None:
    packed = path.removesuffix(PLAIN) + PACKED
    part = packed + _PART
    with open(path, "rb") as plain, _private(part) as file:
        zstandard.ZstdCompressor(level=3).copy_stream(plain, file, size=os.path.getsize(path))
        file.flush()
        os.fsync(file.fileno())
    os.rename(part, packed)
    os.unlink(path)
