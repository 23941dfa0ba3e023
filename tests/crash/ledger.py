"""The outside world of a crash test: services that keep their books in append-only files. Not part of perdure.

Every line is one `write` with O_APPEND (the services' with an fsync too), so that what was taken in survives any kill
of the caller. The services know nothing of tasks: one honours keys, one can be asked, one can do neither. `calls`
counts every start of every tool. Tools (`job.py`) write here, the sweep reads. The world's folder stands in the
environment, so that no argument of a call differs between two runs.
"""

import fcntl
import json
import os
from collections import Counter
from pathlib import Path

FOLDER = "PERDURE_CRASH_WORLD"
FILES = tuple(f"{number:02}.txt" for number in range(12))
UNREADABLE = FILES[7]


def prepare(folder: Path) -> None:
    """Make a world: 12 documents, one of which cannot be read, and empty books."""
    (folder / "books").mkdir(parents=True)
    (folder / "documents").mkdir()
    for number, name in enumerate(FILES):
        text = f"Document {number}.\n" + f"Line about {name} and its neighbour {number + 1}.\n" * (number + 1)
        (folder / "documents" / name).write_bytes(b"\xff\xfe\xff" if name == UNREADABLE else text.encode())


def document(name: str) -> bytes:
    """Return the bytes of one document."""
    return (_folder() / "documents" / name).read_bytes()


def called(tool: str, subject: object) -> None:
    """Note that `tool` has begun to work on `subject`."""
    with _book("calls") as calls_made:
        os.write(calls_made, _line([tool, str(subject)]))


def told(action: str) -> None:
    """Note that the program was told how `action` ended."""
    with _book("told") as outcomes:
        os.write(outcomes, _line([action]))


def send(text: str, key: str) -> str:
    """Take `text` in under `key`, and drop it where that key was seen before; return the receipt."""
    with _book("letters") as letters:
        seen = {line[0]: line[2] for line in _lines_of(letters)}
        if key in seen:
            _append("dropped", [text])
            return seen[key]
        receipt = f"receipt for {text}"
        _write(letters, [key, text, receipt])
        return receipt


def book(room: str) -> str:
    """Book `room`, as often as it is asked to."""
    _append("bookings", [room])
    return f"booked {room}"


def booked(room: str) -> bool:
    """Whether `room` is booked."""
    return [room] in lines(_folder(), "bookings")


def ring(hour: str) -> str:
    """Ring the bell, as often as it is asked to."""
    _append("bell", [hour])
    return f"rang at {hour}"


def reject(draft: str, key: str) -> None:
    """Put `draft` on the list of the rejected, once per key."""
    with _book("rejected") as rejected:
        if all(line[0] != key for line in _lines_of(rejected)):
            _write(rejected, [key, draft])


def pin(draft: str, key: str, book_name: str) -> None:
    """Put `draft` on a board (`pinned`), or take it off (`unpinned`): a line each, once per key."""
    with _book(book_name) as board:
        if all(line[0] != key for line in _lines_of(board)):
            _write(board, [key, draft])


def rejected() -> int:
    """Return how many drafts were rejected."""
    return len(lines(_folder(), "rejected"))


def lines(folder: Path, book_name: str) -> list[list[str]]:
    """Return the lines of a book, in the order in which they were written."""
    path = folder / "books" / book_name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def calls(folder: Path) -> Counter[tuple[str, str]]:
    """Return how often each tool was begun on each subject."""
    return Counter((tool, subject) for tool, subject in lines(folder, "calls"))


def kept(folder: Path) -> dict[str, list[list[str]]]:
    """Return what the world holds of a job, without the keys, which are drawn anew in each run.

    Sorted, since actions of a parallel group come in any order.
    """
    return {
        "letters": sorted(line[1:] for line in lines(folder, "letters")),
        "bookings": sorted(lines(folder, "bookings")),
        "bell": sorted(lines(folder, "bell")),
        "rejected": [line[1:] for line in lines(folder, "rejected")],
        "pinned": [line[1:] for line in lines(folder, "pinned")],
        "unpinned": [line[1:] for line in lines(folder, "unpinned")],
    }


def _folder() -> Path:
    return Path(os.environ[FOLDER])


def _append(name: str, line: list[str]) -> None:
    with _book(name) as file:
        _write(file, line)


class _book:  # noqa: N801 - used as a function
    """An open book, locked against other writers for as long as the block runs."""

    def __init__(self, name: str) -> None:
        self._path = _folder() / "books" / name

    def __enter__(self) -> int:
        self._file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        return self._file

    def __exit__(self, *_: object) -> None:
        os.close(self._file)


def _write(file: int, line: list[str]) -> None:
    os.write(file, _line(line))
    os.fsync(file)


def _line(fields: list[str]) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def _lines_of(file: int) -> list[list[str]]:
    return [json.loads(line) for line in os.pread(file, os.fstat(file).st_size, 0).splitlines()]
