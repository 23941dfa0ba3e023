"""Worlds in which tests of the engine play: a store in memory, a clock that stands still, counted ids, and death.

A `World` outlives the runtimes opened on it, as a database outlives processes. `World.live` runs one life of a program
in an event loop of its own; a life can be ended at any append or crash point, after which nothing of it reaches the
world. Called by tests only.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final

import perdure
from perdure.codec import values
from perdure.core.fold import Fold
from perdure.core.recovery import Rules
from perdure.core.retrying import Patience
from perdure.engine import leases
from perdure.engine.loading import entries, load_fold
from perdure.engine.runtime import Runtime
from perdure.model.entry import Driver, Entry, Raw
from perdure.model.strategy import Strategy
from perdure.stores.memory import MemoryStore, MemoryWorld
from perdure.testing import Death, FakeClock
from perdure.testing.points import MortalStore

DEAD: Final = "dead"  # what `World.live` returns for a life that was ended


class Stop(perdure.UsageError):
    """Ends a life in order: wrong use goes to the caller and leaves the task unfinished."""


def counted(
    calls: list[Any], effect: Any = "pure", result: object = None, name: str = "read", **options: Any
) -> perdure.Tool[..., Any]:
    """Return a tool that counts its calls and returns its argument (or `result`)."""

    async def fn(item: int = 0) -> object:
        calls.append(item)
        return item if result is None else result

    return perdure.tool(effect=effect, name=name, **options)(fn)  # type: ignore[no-any-return]


async def until(holds: Callable[[], object]) -> None:
    """Let the others work until `holds()`."""
    while not holds():  # noqa: ASYNC110 - whatever it waits for: a thread, a call, an entry
        await asyncio.sleep(0)


class StillClock(FakeClock):
    """A clock that only moves when it is told to, or by `step_us` at each look."""

    def __init__(self, step_us: int = 1) -> None:
        super().__init__(step_us=step_us)


class CountedIds:
    """Ids that count: the same in every run of a test."""

    def __init__(self) -> None:
        self.drawn = 0

    def task_id(self) -> str:
        """32 hex digits."""
        return self.salt().hex()

    def short_id(self) -> str:
        """22 letters."""
        self.drawn += 1
        return f"id{self.drawn:020d}"

    def salt(self) -> bytes:
        """16 bytes."""
        self.drawn += 1
        return self.drawn.to_bytes(16, "big")

    def random(self) -> float:
        """A float in [0, 1)."""
        self.drawn += 1
        return self.drawn / (1 << 53)


IMPATIENT = Rules(patience=Patience(outage_s=0))  # after the quick tries a person is asked at once


class Play:
    """A program for tests: any coroutine function, nested ones too."""

    def __init__(
        self,
        fn: Callable[..., Coroutine[Any, Any, Any]],
        *,
        state: Mapping[str, Any] | None = None,
        strategies: tuple[Strategy, ...] = (),
        failures_max: int = 3,
        reached: Callable[[Any], object] | None = None,
    ) -> None:
        self.fn = fn
        self.state_version = 1
        self.strategies = strategies
        self.failures_max = failures_max
        self.reached = reached
        self.source_digest = ""
        self._state = values.copy(dict(state or {}))

    @property
    def state(self) -> dict[str, Any]:
        """The state at the start, fresh each time."""
        return values.copy(self._state)  # type: ignore[return-value]

    def driver(self, arguments: Mapping[str, object]) -> Driver:
        """How it would be found again: it cannot, tests hand it over."""
        return Driver(kind="program", target="tests:play", arguments=Raw(values.encode(dict(arguments))))


class World:
    """One store, and all that its lives share."""

    def __init__(self) -> None:
        self.memory = MemoryWorld()
        self.clock = StillClock()
        self.ids = CountedIds()
        self.points: list[str] = []  # crash points of the last life

    def store(self, death: Death | None = None) -> MortalStore:
        """Return a new handle."""
        return MortalStore(MemoryStore(self.memory, self.clock), death or Death())

    @contextlib.asynccontextmanager
    async def runtime(self, death: Death | None = None, **options: Any) -> AsyncIterator[Runtime]:
        """Open a runtime on the world; one that dies leaves its lease held and itself unseen."""
        async with perdure.open(self.store(death), clock=self.clock, ids=self.ids, **options) as runtime:
            yield runtime

    def live(
        self,
        play: Any,
        name: str = "job",
        *,
        death: Death | None = None,
        args: Mapping[str, Any] | None = None,
        goal: str = "",
        **options: Any,
    ) -> Any:
        """Run `play` in one life; return its result, or DEAD."""
        return self.do(lambda runtime: runtime.run(play, name, goal=goal, args=args), death, **options)

    def do(
        self, work: Callable[[Runtime], Coroutine[Any, Any, Any]], death: Death | None = None, **options: Any
    ) -> Any:
        """Let `work(runtime)` be done in a life of its own; return what it returns, or DEAD."""
        death = death or Death()

        async def life() -> Any:
            async with self.runtime(death, **options) as runtime:
                return await work(runtime)

        with dying(death):
            try:
                return asyncio.run(life())
            except BaseException:
                if death.is_dead:
                    return DEAD
                raise
            finally:
                self.points = death.points

    def fold(self, name: str = "job") -> Fold:
        """Return the task as its journal tells it, folded from entry 1."""

        async def load() -> Fold:
            store = self.store()
            return await load_fold(store, (await store.find(name)).task)

        return asyncio.run(load())

    def state(self, name: str = "job") -> dict[Any, Any]:
        """Return the state of a task as its journal tells it."""
        return self.fold(name).tree.root

    def journal(self, name: str = "job") -> list[Entry]:
        """Return all entries of a task."""

        async def read() -> list[Entry]:
            store = self.store()
            return [entry async for entry in entries(store, (await store.find(name)).task)]

        return asyncio.run(read())

    def kinds(self, name: str = "job") -> list[str]:
        """Return the names of the entries of a task, in order."""
        return [type(entry.payload).__name__ for entry in self.journal(name)]


def dying(death: Death) -> AbstractContextManager[None]:
    """Let crash points lead to `death` while the block runs."""
    return death.awaited()


@contextlib.contextmanager
def thought_dead(runtime: Runtime) -> Iterator[None]:
    """Let others see no sign of life of `runtime`, which goes on all the same."""
    token = runtime._presence.holder.token
    leases.lose_sight(token)
    try:
        yield
    finally:
        leases._here.add(token)
