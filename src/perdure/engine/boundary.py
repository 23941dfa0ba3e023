"""Where code that is not ours ends: the one place in the engine that catches whatever it raises.

Used for tools, reducers, hooks and programs. Cancellation, Ctrl-C and our own unwinding are no `Exception` and pass.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Boundary:
    """`with Boundary() as caught:` runs foreign code; afterwards `caught.error` is what it raised, or None."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> bool:
        if isinstance(error, Exception):
            self.error = error
            return True
        return False
