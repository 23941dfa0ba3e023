"""Keeps known secrets off the console: all that the command, a program or a tool of this process prints goes through.

Not what another process prints, which a tool has started: its output is its own. Called by `terminal.prepare`.
"""

from __future__ import annotations

import atexit
import io
import os
import sys
from typing import Any, Final, TextIO

from perdure.codec.known import process
from perdure.codec.redact import TextStream


class Masked(io.TextIOBase):
    """A text stream in front of another one, which gets everything but secrets.

    What may be the beginning of a secret is held back until more comes; `finish` lets it out. Anything else but
    writing is the other stream's.
    """

    def __init__(self, inner: TextIO) -> None:
        self._inner = inner
        self._stream = TextStream()

    def write(self, text: str, /) -> int:
        """Write `text` as far as it is known to hold no secret; return how long it is."""
        clear = self._stream.take(text)
        if clear:
            self._inner.write(clear)
        return len(text)

    def finish(self) -> None:
        """Write what was held back."""
        rest = self._stream.finish()
        if rest:
            self._inner.write(rest)

    def flush(self) -> None:
        """Flush the other stream."""
        self._inner.flush()

    def close(self) -> None:
        """Stay open: the other stream is not ours."""

    def writable(self) -> bool:
        """Whether it takes writes: always."""
        return True

    def isatty(self) -> bool:
        """Whether the other stream leads to a terminal."""
        return self._inner.isatty()

    def fileno(self) -> int:
        """Return the file descriptor of the other stream."""
        return self._inner.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]  # a plain attribute in the other stream
        """The encoding of the other stream."""
        return self._inner.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]  # as above
        """What the other stream does with letters that it cannot encode."""
        return self._inner.errors

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the other stream has
        return getattr(self._inner, name)


def mask_output() -> None:
    """Let stdout and stderr of this process show no secret of its environment, nor any other that it comes to know."""
    process.read_environment(os.environ)
    for name in _STREAMS:
        stream = getattr(sys, name)
        if not isinstance(stream, Masked):
            masked = Masked(stream)
            atexit.register(masked.finish)
            setattr(sys, name, masked)


_STREAMS: Final = ("stdout", "stderr")
