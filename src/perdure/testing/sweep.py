"""The crash sweep of a user's own program, in one process: it dies at each of its points, goes on, and nobody can tell.

Deaths are played (`points.py`): what a kill would leave undone is left undone, and the services of the test, which live
in its memory, go on. For real kills see docs/how-to/crash-sweep.md. Needs no pytest; `plugin.py` makes a fixture of it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

import perdure
from perdure.clock import SystemClock
from perdure.codec import values
from perdure.engine import dispatch
from perdure.engine.boundary import Boundary
from perdure.engine.driving import Drivable
from perdure.engine.loading import entries, load_fold
from perdure.engine.runtime import Runtime
from perdure.errors import NeedsHuman
from perdure.model import entry as e
from perdure.model.failure import ErrorRecord
from perdure.model.ledger import OpenAction
from perdure.model.outcome import Failed, Outcome, Succeeded
from perdure.ports import Store
from perdure.stores.memory import MemoryStore, MemoryWorld
from perdure.stores.opening import open_store
from perdure.testing.points import Death, MortalStore

TASK: Final = "swept"
_LIVES_MAX: Final = 20
_POINTS_MAX: Final = 10_000
_DAY_S: Final = 86_400.0  # passes between two lives, so that nothing of the life before is still under way


class CrashSweepFailed(AssertionError):
    """A death could be told from outside: says where it was, and which effect or action was made twice."""


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """A sweep in which no death could be told."""

    points: tuple[str, ...]  # the crash points at which the program died, in order
    calls: Mapping[str, int]  # how often each call was made undisturbed, e.g. {"send(text='hello')": 1}
    result: Any


class CrashSweep(msgspec.Struct, kw_only=True):
    """A sweep of `program`: first undisturbed, then with a death at its first point, its second, and so on."""

    program: Drivable
    args: Mapping[str, Any] = {}
    goal: str = ""
    workspace: str = ""
    reset: Callable[[], object] | None = None  # makes the outside world as it was, before each run
    world: Callable[[], object] | None = None  # returns what the outside world holds, to be compared
    settle: Callable[[str, Mapping[str, object]], Outcome] | None = (
        None  # plays the person: (tool, arguments) -> outcome
    )
    store: Literal["memory", "sqlite"] = "memory"
    folder: str = ""  # for "sqlite": an empty folder

    def run(self) -> Swept:
        """Sweep; raises CrashSweepFailed where a death can be told, and what the program raises undisturbed."""
        undisturbed = self._play(0, Death())
        if undisturbed.error is not None:
            raise undisturbed.error
        points: list[str] = []
        for number in range(1, _POINTS_MAX):
            death = Death("any", number)
            played = self._play(number, death)
            if not death.is_dead:
                break
            points.append(death.points[-1])
            wrong = _compare(played, undisturbed)
            if wrong:
                raise CrashSweepFailed(
                    f"killed at {death.points[-1]} (point {number}): " + "\n  ".join(wrong)
                ) from played.error
        calls = {str(call): count for call, count in undisturbed.succeeded.items()}
        return Swept(points=tuple(points), calls=calls, result=undisturbed.result)

    def _play(self, number: int, death: Death) -> _Played:
        if self.reset is not None:
            self.reset()
        place = _Place(self.store, Path(self.folder) / f"sweep-{number}")
        played = _Played()
        with _recorded(played), Boundary() as caught:
            for _ in range(_LIVES_MAX):
                if asyncio.run(self._live(place, death, played)):
                    return played
                death = Death() if death.is_dead else death
                place.clock.leap(_DAY_S)
            raise TimeoutError(f"it has not ended after {_LIVES_MAX} lives")
        played.error = caught.error
        asyncio.run(self._look(place, played))
        return played

    async def _live(self, place: _Place, death: Death, played: _Played) -> bool:
        """One life; whether it came to the end of the program."""
        asyncio.get_running_loop().set_exception_handler(_Mourner(death))
        with _Mourner(death), death.awaited():
            try:
                async with place.opened(death) as runtime:
                    await self._work(runtime, played)
                    return True
            except NeedsHuman:
                if not await self._settle(place, played):
                    raise
        return False

    async def _work(self, runtime: Runtime, played: _Played) -> None:
        played.result = await runtime.run(self.program, TASK, args=self.args, goal=self.goal, workspace=self.workspace)
        await self._note(runtime.store, played)

    async def _look(self, place: _Place, played: _Played) -> None:
        """Note what is there of a task that did not come to its end."""
        async with place.opened(Death()) as runtime:
            if await runtime.store.tasks():
                await self._note(runtime.store, played)

    async def _note(self, store: Store, played: _Played) -> None:
        task = (await store.find(TASK)).task
        fold = await load_fold(store, task)
        played.state = values.canonical(fold.tree.root)
        played.world = self.world() if self.world is not None else None
        await _count(store, task, played)

    async def _settle(self, place: _Place, played: _Played) -> bool:
        """Be the person who says of doubtful actions how they ended; whether there were any."""
        async with place.opened(Death()) as runtime:
            task = (await runtime.store.find(TASK)).task
            fold = await load_fold(runtime.store, task)
            doubtful = [action for action in fold.ledger.open.values() if action.in_doubt or not action.effect.is_free]
            for action in doubtful:
                await runtime.settle(task, action.action, self._outcome_of(action, played))
            return bool(doubtful)

    def _outcome_of(self, action: OpenAction, played: _Played) -> Outcome:
        call = played.made.get(action.action)
        if call is None:
            return Failed(ErrorRecord(type="DidNotHappen", message="it was interrupted before it was called"))
        if self.settle is not None:
            return self.settle(call.tool, call.arguments)
        if action.action in played.returned:
            return Succeeded(played.returned[action.action])
        return Failed(ErrorRecord(type="DidNotHappen", message="it was interrupted before it returned"))


def crash_sweep(program: Drivable, **options: Any) -> Swept:  # noqa: ANN401 - the fields of CrashSweep
    """Kill `program` at each of its crash points; raises CrashSweepFailed where a kill can be told from outside.

    What a kill may not change: result, state, what `world()` returns; no finished action is made again, no effect
    happens twice. `options`: `args`, `goal`, `workspace`, `reset`, `world`, `settle`, `store`, `folder` (see
    `CrashSweep`). Not inside a running event loop.
    """
    return CrashSweep(program=program, **options).run()


# --- what is looked at ----------------------------------------------------------------------------------------------
class _Call(msgspec.Struct, frozen=True):
    """One call of a tool, as a person would write it."""

    tool: str
    arguments: Mapping[str, object]
    is_free: bool
    is_poll: bool

    def __str__(self) -> str:
        return f"{self.tool}({', '.join(f'{name}={value!r:.60}' for name, value in self.arguments.items())})"

    def __hash__(self) -> int:
        return hash(str(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Call) and str(self) == str(other)


class _Played(msgspec.Struct, kw_only=True):
    """What came of one case."""

    result: Any = None
    error: Exception | None = None  # what it ended by instead
    state: bytes = b""
    world: object = None
    made: dict[str, _Call] = {}  # by action id
    begun: Counter[_Call] = msgspec.field(default_factory=Counter)  # how often each was called
    returned: dict[str, object] = {}  # by action id: what the tool returned
    succeeded: Counter[_Call] = msgspec.field(default_factory=Counter)
    actions: dict[_Call, list[str]] = {}  # those that succeeded, with the entries that say so


@contextlib.contextmanager
def _recorded(played: _Played) -> Generator[None]:
    """Note every call of a tool while the block runs."""
    call_tool = dispatch.call

    async def call(session: Any, job: Any, runner: Any, outlived: Any) -> Any:  # noqa: ANN401 - as dispatch.call
        made = _Call(job.tool.name, dict(job.given), job.tool.effect.is_free, job.tool.poll)
        played.made[job.action] = made
        played.begun[made] += 1
        value = await call_tool(session, job, runner, outlived)
        played.returned[job.action] = value
        return value

    dispatch.call = call
    try:
        yield
    finally:
        dispatch.call = call_tool


async def _count(store: Store, task: str, played: _Played) -> None:
    """Count what the journal holds as done."""
    async for entry in entries(store, task):
        match entry.payload:
            case e.ActionSettled(action=action, outcome="succeeded") if action in played.made:
                call = played.made[action]
                played.succeeded[call] += 1
                played.actions.setdefault(call, []).append(f"action {action} (entry {entry.header.seq})")
            case _:
                pass


def _compare(played: _Played, undisturbed: _Played) -> list[str]:
    """Return what could be told, the doubled effects first."""
    wrong: list[str] = []
    for call, count in played.succeeded.items():
        if count > undisturbed.succeeded[call] and not call.is_poll:
            what = "a finished action ran twice" if call.is_free else "an effect was doubled"
            wrong.append(f"{what}: {call} is on record {count} times: {', '.join(played.actions[call])}")
    if played.world != undisturbed.world:
        again = [
            str(call) for call in played.begun if not call.is_free and played.begun[call] > undisturbed.begun[call]
        ]
        sent = f"; sent again: {', '.join(again)} (does the service honour its key?)" if again else ""
        wrong.append(f"the world is {played.world!r:.300}, undisturbed {undisturbed.world!r:.300}{sent}")
    if played.error is not None:
        wrong.append(f"it ended by {type(played.error).__name__}: {played.error}")
    elif values.canonical(played.result) != values.canonical(undisturbed.result):
        wrong.append(f"the result is {played.result!r:.300}, undisturbed {undisturbed.result!r:.300}")
    if played.state != undisturbed.state:
        wrong.append("the state is another one")
    return sorted(wrong, key=lambda line: not line.startswith("an effect"))


class _Mourner:
    """Keeps to itself what a dead life still raises."""

    def __init__(self, death: Death) -> None:
        self._death = death

    def __enter__(self) -> None: ...

    def __exit__(self, *_raised: object) -> bool:
        return self._death.is_dead

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not self._death.is_dead:
            loop.default_exception_handler(context)


# --- where it is played ---------------------------------------------------------------------------------------------
class _LeapingClock(SystemClock):
    """The real clock, moved on between two lives."""

    def __init__(self) -> None:
        self._ahead_us = 0

    def now(self) -> int:
        return super().now() + self._ahead_us

    def leap(self, seconds: float) -> None:
        self._ahead_us += int(seconds * 1_000_000)


class _Place:
    """The store of one case; it outlives the lives on it."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.clock = _LeapingClock()
        self._kind = kind
        self._folder = folder
        self._memory = MemoryWorld()

    @contextlib.asynccontextmanager
    async def opened(self, death: Death) -> AsyncGenerator[Runtime]:
        """Open a runtime on it for a life that ends with `death`."""
        store: Store = MemoryStore(self._memory, self.clock)
        if self._kind == "sqlite":
            store = await open_store(self._folder / "perdure.db", self.clock)
        try:
            async with perdure.open(MortalStore(store, death), clock=self.clock) as runtime:
                yield runtime
        finally:
            await store.close()
