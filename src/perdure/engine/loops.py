"""`task.each`: a loop that remembers its place. Acts in its body are found by (loop, index, tool, arguments, n-th).

A loop inside a body is named after its place in the outer one, so that each turn of the outer loop has its own. A loop
that is left by `break`, `return` or an exception gives its place back when Python drops its iterator (CPython: at
once); until it has come to its end, a resumed program goes through the body it was in again.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
from collections import Counter
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Final, Generic, Self, TypeVar

from perdure.core.container import View
from perdure.engine import arguments
from perdure.engine.arguments import VIEWS
from perdure.engine.session import Session
from perdure.errors import ResumeDiverged, UsageError
from perdure.model import entry as e
from perdure.model.checkpoint import Position

T = TypeVar("T")


class Place:
    """One body of one loop, while it runs."""

    def __init__(self, session: Session, lap: int, loop: str, index: int) -> None:
        self.loop = loop
        self.index = index
        self._session = session
        self._lap = lap
        self.is_over = False  # the body has ended: a call that still comes from it would never be found again
        self._calls: Counter[tuple[str, bytes]] = Counter()

    def belongs_to(self, session: Session, lap: int) -> bool:
        """Whether this is a place of that call of that program."""
        return self._session is session and self._lap == lap

    def next_key(self, tool: str, digest: bytes) -> str:
        """Return the place of the body's next call of `tool` with these arguments.

        Calls with other arguments do not count: branches that run side by side come in any order.
        """
        if self.is_over:
            raise UsageError(f"{tool!r} is called from a body of loop {self.loop!r} that has ended; await it inside")
        self._calls[tool, digest] += 1
        return f"{self.index}/{digest.hex()[:16]}/{self._calls[tool, digest]}"

    def __str__(self) -> str:
        return f"{self.loop}[{self.index}]"


current_place: Final[ContextVar[Place | None]] = ContextVar("perdure_current_place", default=None)


class Each(Generic[T]):
    """The async iterator behind `task.each`."""

    def __init__(self, session: Session, lap: int, name: str, items: Iterable[T], begun: set[str]) -> None:
        self._session = session
        self._lap = lap
        self._place: Place | None = None  # first: what is refused below is deleted as well
        self._outer = current_place.get()
        inside = self._outer is not None and self._outer.belongs_to(session, lap)
        self._loop = f"{self._outer.loop}[{self._outer.index}].{name}" if inside and self._outer else name
        if self._loop in begun:
            raise UsageError(f"loop {self._loop!r} was begun already in this run of the program; give it another name")
        begun.add(self._loop)
        self._items: Iterator[T] = iter(items)
        self._index = -1
        self._open = b""  # digest of the item whose body runs
        self._trail = b""  # over the digests of all items before

    def __aiter__(self) -> Self:
        """Return an iterator of its own: a name for the loop must not keep it open when it is left."""
        return copy.copy(self)

    async def __anext__(self) -> T:
        """End the body before, skip what is done, begin the next."""
        if _is_asked_by_generator():
            raise UsageError(
                f"loop {self._loop!r} is gone through in an async generator, which may outlive it: use a list"
            )
        self._session.gate(f"loop {self._loop!r}", self._lap)
        self._end_body()
        recorded = self._recorded()
        for item in self._items:
            self._index += 1
            plain = View.plain_of(item) if isinstance(item, VIEWS) else item
            digest = arguments.digest(plain, self._session.fold.ledger.digest_base)
            if self._index < recorded.done:
                self._trail = _longer(self._trail, digest)
                continue
            self._refuse_other(recorded, digest)
            self._begin_body(recorded, digest)
            return item
        if self._index + 1 < recorded.done or recorded.item:
            begun = recorded.done + bool(recorded.item)
            self._diverged(f"has {self._index + 1} items now, {begun} were begun on record")
        if recorded.trail != self._trail:
            self._diverged("has other items than recorded")
        current_place.set(self._outer)
        raise StopAsyncIteration

    def __del__(self) -> None:
        """The loop was left: what follows is no longer in its body."""
        place = self._place
        if place is not None:
            place.is_over = True
            if current_place.get() is place:
                current_place.set(self._outer)

    def _recorded(self) -> Position:
        return self._session.fold.document.positions.get(self._loop, Position())

    def _end_body(self) -> None:
        if self._place is not None:
            self._place.is_over = True
        if self._open:
            self._refuse_open()
            self._trail = _longer(self._trail, self._open)
            self._open = b""
            self._move(self._index + 1, b"")

    def _refuse_open(self) -> None:
        """The body may not end on an effect in flight on record that it has not asked for again."""
        session = self._session
        for action in session.fold.ledger.open.values():
            if action.loop == self._loop and not action.effect.is_free and action.action not in session.claimed:
                task = session.fold.ledger.name
                question = f"a body of loop {self._loop!r} ended without making {action.tool} ({action.action}) again"
                raise ResumeDiverged(task, question, f"perdure settle {task} {action.action} --keep")

    def _begin_body(self, recorded: Position, digest: bytes) -> None:
        self._open = digest
        if recorded.item != digest:
            self._move(self._index, digest)
        self._place = Place(self._session, self._lap, self._loop, self._index)
        current_place.set(self._place)

    def _refuse_other(self, recorded: Position, digest: bytes) -> None:
        if self._index != recorded.done:
            return
        if recorded.item and recorded.item != digest:
            self._diverged(f"has another item at place {self._index} than recorded")
        if recorded.trail and recorded.trail != self._trail:
            self._diverged(f"has other items before place {self._index} than recorded")

    def _move(self, done: int, item: bytes) -> None:
        """Ride in the next append: a place that is lost with a crash only means that its body is gone through again."""
        self._session.put(e.PositionMoved(loop=self._loop, done=done, item=item, trail=self._trail))

    def _diverged(self, how: str) -> None:
        task = self._session.task
        question = f"loop {self._loop!r} {how}; give the recorded items, or roll back to before the loop"
        raise ResumeDiverged(task, question, f"perdure checkpoints {task}")


def _longer(trail: bytes, digest: bytes) -> bytes:
    return hashlib.sha256(trail + digest).digest()


def _is_asked_by_generator() -> bool:
    """Whether an async generator goes through the loop."""
    frame = inspect.currentframe()
    try:
        asked = frame.f_back if frame else None  # `__anext__`
        asker = asked.f_back if asked else None
        return asker is not None and bool(asker.f_code.co_flags & inspect.CO_ASYNC_GENERATOR)
    finally:
        del frame  # a frame that holds itself is not freed at once, nor is the loop behind it
