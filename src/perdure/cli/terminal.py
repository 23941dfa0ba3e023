"""Everything that is printed. Results go to stdout, what is said about them to stderr.

Text of tasks and tools is shown without its control characters, on any console, ASCII ones included. JSON goes out
as UTF-8 bytes whatever the console's encoding is. No colours where stdout is no terminal or NO_COLOR is set.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
import time
from collections.abc import Sequence
from typing import IO, Any, Final, Literal

from perdure.cli import masking
from perdure.codec.redact import redact

_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_STATUS_EVERY_S: Final = 0.05
_COLUMN_MIN: Final = 24  # characters that a column keeps on a narrow terminal; the last one gives way first
_FILE_COLUMNS: Final = 10_000  # into a file or pipe, nothing is cut


def prepare() -> None:
    """Make stdout and stderr take any text: what they cannot show becomes an escape.

    One that is closed leads nowhere from now on: else the store's file could be opened in its place.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number, which is this one
    sys.stdin = sys.stdin or open(0, encoding="utf-8")  # noqa: SIM115 - as long as the process
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    masking.mask_output()


def as_text(argument: str) -> str:
    """Return an argument of the command line as UTF-8, whatever encoding the locale has made Python take it for."""
    return os.fsencode(argument).decode("utf-8", "surrogateescape")


class StatusLine:
    """One line on stderr that is written over, where stderr is a terminal; whatever else is printed clears it."""

    def __init__(self) -> None:
        self._is_shown = False
        self._next_at = 0.0

    def show(self, text: str) -> None:
        """Show `text` instead of what was shown; at most twenty times a second, so that it costs nothing."""
        now = time.monotonic()
        if now < self._next_at or not is_live(sys.stderr):
            return
        self._next_at = now + _STATUS_EVERY_S
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write("\r" + clean(text).replace("\n", " ")[:width] + "\x1b[K")
        sys.stderr.flush()
        self._is_shown = True

    def clear(self) -> None:
        """Take the line away."""
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._is_shown = False


status: Final = StatusLine()


def say(text: str = "") -> None:
    """Print a line of results."""
    status.clear()
    print(clean(text), flush=True)


def complain(text: str) -> None:
    """Print a line about what is going on."""
    status.clear()
    print(clean(text), file=sys.stderr, flush=True)


def say_json(value: Any) -> None:  # noqa: ANN401 - any struct or plain value
    """Print one value as one line of JSON."""
    import msgspec

    from perdure.logs.plain import to_line

    say_bytes(to_line(msgspec.to_builtins(value)))


def say_bytes(line: bytes) -> None:
    """Print bytes of UTF-8 as they are."""
    status.clear()
    sys.stdout.flush()
    binary = getattr(sys.stdout, "buffer", None)
    line = redact(line)
    if binary is None:  # a stream of text only, as in some tests and notebooks
        sys.stdout.write(line.decode())
    else:
        binary.write(line)
        binary.flush()


def say_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under headings; cut to the width of a terminal, whole elsewhere."""
    from rich.console import Console
    from rich.table import Table

    console = Console(file=sys.stdout, markup=False, emoji=False, highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    overflow: Literal["ellipsis", "crop"] = "ellipsis" if console.encoding == "utf-8" else "crop"
    cells = [[_cell(cell, console.encoding) for cell in row] for row in rows]
    for index, heading in enumerate(headings):
        widest = max([len(heading), *(len(row[index]) for row in cells)])
        least = 0 if index == len(headings) - 1 else min(widest, _COLUMN_MIN)
        table.add_column(heading, no_wrap=True, overflow=overflow, min_width=least)
    for row in cells:
        table.add_row(*row)
    if not console.is_terminal:
        console.width = _FILE_COLUMNS
    with console.capture() as shown:
        console.print(table)
    for line in shown.get().splitlines():
        print(line.rstrip(), flush=True)


def say_markdown(text: str) -> None:
    """Print a page of Markdown: laid out on a terminal, as it is elsewhere."""
    if not is_live(sys.stdout) or sys.stdout.encoding.lower() != "utf-8":
        say(text.rstrip("\n"))
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console(file=sys.stdout, emoji=False).print(Markdown(clean(text), hyperlinks=False))


def is_live(stream: IO[str]) -> bool:
    """Whether lines on `stream` can be written over."""
    return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def clean(text: str) -> str:
    """Return `text` with control characters (but line ends and tabs) and bidirectional ones as escapes."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def _cell(text: str, encoding: str) -> str:
    """Return a cell as it will be shown, so that columns stay in line on any console."""
    return clean(text).replace("\n", " ").encode(encoding, "backslashreplace").decode(encoding)
