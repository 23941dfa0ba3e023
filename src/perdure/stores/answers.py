"""What `append` returns: an answer that is known already, or one that is still to come.

Not futures: awaiting a known answer neither suspends nor needs a loop, and one to come can be awaited by many of whom
each may be cancelled, without a shield around every wait. Made by the stores, awaited by the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any, Final, NoReturn, cast


class Done:
    """An append that is written."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        """End at once."""
        return _NOTHING


class Refused:
    """An append that is not written; awaiting it raises why."""

    __slots__ = ("_error",)

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __await__(self) -> NoReturn:
        """Raise the refusal."""
        raise self._error


class Promised:
    """An append on its way. Who is cancelled while he waits takes it from nobody else."""

    __slots__ = ("_is_answered", "_refusal", "_waiting")

    def __init__(self) -> None:
        self._is_answered = False
        self._refusal: Exception | None = None
        self._waiting: list[asyncio.Future[None]] = []

    def answer(self, refusal: Exception | None) -> None:
        """Tell all who wait, and whoever comes later: None is yes. Called once, on the thread of their loop."""
        self._is_answered, self._refusal = True, refusal
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    def __await__(self) -> Generator[Any, None, None]:
        """Wait for the answer; raise the refusal if it is one."""
        if not self._is_answered:
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            yield from waiting
        if self._refusal is not None:
            raise self._refusal


_NOTHING: Final = cast("Generator[None, None, None]", iter(()))  # any iterator will do, and this is the cheapest
DONE: Final = Done()
