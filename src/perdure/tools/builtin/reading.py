"""Bytes of a file as the text that a model reads. Not the way to the file (`inside.py`). Pure but for what it is given.

UTF-8 goes first; an encoding is guessed only where that fails, and what is no text is refused and not shown as noise.
Called by `files.py` and `searching.py`.
"""

from __future__ import annotations

import codecs
from typing import BinaryIO, Final

from perdure.errors import FileRefused
from perdure.limits import READ_FILE_BYTES_MAX, SCANNED_FILE_BYTES_MAX

_LOOKED_AT_BYTES: Final = 64 * 1024  # for a guess
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_KINDS: Final = (
    (b"%PDF-", "a PDF"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"PK\x03\x04", "a ZIP archive, or a document that is one (docx, xlsx, jar)"),
    (b"\x1f\x8b", "gzip"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3", "a SQLite database"),
)


def read_whole(file: BinaryIO, path: str, size_bytes: int) -> str:
    """Return a file's text. Raises FileRefused where it is no text, or too large for one answer."""
    if size_bytes <= READ_FILE_BYTES_MAX:
        content = file.read(READ_FILE_BYTES_MAX + 1)
        if len(content) <= READ_FILE_BYTES_MAX:  # it may have grown since it was looked at
            return text_of(content, path)
    raise FileRefused(
        path,
        f"is too large to be read at once ({size_bytes:,} bytes, {READ_FILE_BYTES_MAX:,} at most): "
        "give first_line and lines, or look for what you need with search_in_files",
    )


def read_lines(file: BinaryIO, path: str, first: int, count: int) -> str:
    """Return lines `first` (from 1) to `first + count - 1` of a file, with their ends; `count` 0: up to the last.

    Raises FileRefused where it is no text, has fewer lines, or the lines are too long for one answer.
    """
    content = file.read(SCANNED_FILE_BYTES_MAX + 1)
    if len(content) > SCANNED_FILE_BYTES_MAX:
        raise FileRefused(
            path, f"is larger than {SCANNED_FILE_BYTES_MAX:,} bytes: take it apart with execute_shell (split, sed -n)"
        )
    lines = lines_of(text_of(content, path))
    if first > max(len(lines), 1):
        raise FileRefused(path, f"has only {len(lines):,} lines")
    text = "".join(lines[first - 1 : first - 1 + count if count else None])
    if len(text.encode("utf-8", "backslashreplace")) > READ_FILE_BYTES_MAX:
        raise FileRefused(path, f"has more than {READ_FILE_BYTES_MAX:,} bytes in these lines: ask for fewer")
    return text


def lines_of(text: str) -> list[str]:
    """Return the lines of a text with their ends; only LF ends one, as in editors and in every other tool."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def text_of(content: bytes, path: str, *, guess: bool = True) -> str:
    """Decode: by its mark, as UTF-8, or as what it most likely is (without `guess`: as Latin-1).

    Raises FileRefused where it is no text.
    """
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            try:
                return content.decode(encoding)
            except UnicodeDecodeError:
                break
    if b"\0" in content:
        raise _binary(content, path)
    try:
        return content.decode()
    except UnicodeDecodeError:
        return _guessed(content, path) if guess else content.decode("latin-1")


def _guessed(content: bytes, path: str) -> str:
    from charset_normalizer import from_bytes

    best = None if _kind(content) else from_bytes(content[:_LOOKED_AT_BYTES]).best()
    if best is None:
        raise _binary(content, path)
    return content.decode(best.encoding, "replace")


def _binary(content: bytes, path: str) -> FileRefused:
    kind = _kind(content)
    looks = f"; it looks like {kind}" if kind else ""
    return FileRefused(
        path, f"is no text ({len(content):,} bytes{looks}): nothing of it is shown; execute_python_code can read it"
    )


def _kind(content: bytes) -> str:
    return next((kind for magic, kind in _KINDS if content.startswith(magic)), "")
