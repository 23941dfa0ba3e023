"""Whether a store handle may still be used: shared by its writer and its readers, so that what one learns both heed."""

from __future__ import annotations

from typing import TypeVar

from perdure.errors import StoreBroken, StoreError

E = TypeVar("E", bound=Exception)


class Health:
    """Open, closed, or broken for good."""

    __slots__ = ("_place", "broken", "end")

    def __init__(self, place: str) -> None:
        self._place = place
        self.end: StoreError | None = None  # why nothing more is accepted
        self.broken: StoreBroken | None = None  # why not even what is queued is written

    def close(self) -> None:
        """Accept nothing more."""
        self.end = self.end or StoreBroken(self._place, "this handle was closed")

    def note(self, error: StoreError) -> StoreError:
        """Return `error`; where it leaves no trust in the store, nothing more is written or read."""
        if isinstance(error, StoreBroken):
            self.broken = self.end = error
        return error

    def check(self) -> None:
        """Raise where nothing more is accepted."""
        if self.end is not None:
            raise another(self.end)


def another(error: E, cause: BaseException | None = None) -> E:
    """Return an error like `error`: each waiter gets one of its own, so that tracebacks do not mix."""
    copy = type(error).__new__(type(error), *error.args)
    copy.__dict__.update(error.__dict__)
    copy.__cause__ = cause or error.__cause__
    return copy
