"""Awaitables whose answer is known already: what `append` returns when nothing is left to wait for.

Not futures: awaiting one neither suspends nor needs a loop. Made by the stores, awaited by the engine.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, NoReturn, cast


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


_NOTHING: Final = cast("Generator[None, None, None]", iter(()))  # any iterator will do, and this is the cheapest
DONE: Final = Done()
