"""Where code that is not ours ends: the one place in the engine that catches whatever it raises.

Used for tools, reducers, hooks and programs. Cancellation, Ctrl-C and our own unwinding are no `Exception` and pass.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Final, Self

_CHAIN_MAX: Final = 20


class Boundary:
    """`with Boundary() as caught:` runs foreign code; afterwards `caught.error` is what it raised, or None."""

    error: Exception | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> bool:
        if isinstance(error, Exception):
            self.error = error
            return True
        return False


def cancellations() -> int:
    """Return how often the running task was asked to end, and has not said that this was heeded."""
    running = asyncio.current_task()
    return running.cancelling() if running is not None else 0


def comes_of_cancellation(error: BaseException, before: int) -> bool:
    """Whether foreign code has made `error` of a request to end that came since there were `before` of them.

    The count alone does not say so: task groups of some versions of Python leave it higher than it was.
    """
    if cancellations() <= before:
        return False
    found: BaseException | None = error
    for _ in range(_CHAIN_MAX):
        if found is None or isinstance(found, asyncio.CancelledError):
            break
        found = found.__cause__ or found.__context__
    return found is not None
