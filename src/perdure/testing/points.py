"""The crash points, and deaths that are played inside one process: what a kill leaves undone, without a kill.

A played death raises `Killed` at its place, and from then on nothing of that life reaches store or world. Real kills:
`PERDURE_CRASH` (`engine/crashpoints.py`). Called by the sweep, by tests; `Killed` by the simulation as well.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Generator

from perdure.engine import crashpoints
from perdure.errors import StoreError
from perdure.ports import Append, Store
from perdure.testing.faults import FaultyStore


class Killed(BaseException):
    """Plays SIGKILL inside one process: no handler of library or program may catch it."""


def crash_points() -> tuple[str, ...]:
    """Return the names of the points at which a task can be killed, in the order of an action."""
    return crashpoints.NAMES


class Death:
    """When a life ends: the `number`-th time that it comes by `where`.

    `where`: the name of a crash point, "any" (of them), "before_append", "after_append" (the store has it, the program
    does not know), "never".
    """

    def __init__(self, where: str = "never", number: int = 1) -> None:
        if where not in {*crashpoints.NAMES, "any", "before_append", "after_append", "never"}:
            raise ValueError(f"no crash point is called {where!r}; there are {', '.join(crash_points())} and any")
        self.where = where
        self.left = number
        self.is_dead = False
        self.points: list[str] = []  # crash points come by

    def meet(self, where: str) -> None:
        """Die if this is the place; once dead, everything that is still tried dies too. Raises Killed."""
        is_point = where in crashpoints.NAMES
        if is_point:
            self.points.append(where)
        if self.where == where or (self.where == "any" and is_point):
            self.left -= 1
        if self.is_dead or self.left == 0:
            self.is_dead = True
            raise Killed

    @contextlib.contextmanager
    def awaited(self) -> Generator[None]:
        """Let the crash points of this process lead here while the block runs."""
        with crashpoints.watched(self.meet):
            yield


class MortalStore(FaultyStore):
    """A handle on `store` through which nothing goes once its life has ended."""

    def __init__(self, store: Store, death: Death) -> None:
        super().__init__(store)
        self._death = death

    def append(self, task: str, append: Append) -> Awaitable[None]:
        """See `ports.Journal.append`; a life may end before and after it."""
        self._death.meet("before_append")
        answer = super().append(task, append)
        self._death.meet("after_append")
        return answer

    def _take(self, name: str) -> StoreError | None:
        if self._death.is_dead:
            raise Killed
        return super()._take(name)
