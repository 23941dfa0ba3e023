"""Runs a program again on a record, lease by lease: each ends where the record of it ends, the next goes on from there.

That is the way of the record itself: what a killed process had not written is not made up, and what it had written is
found again by the next one, by the engine's own rules. The program runs in this thread, on a loop of its own whose time
passes at once. Called by `operations`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, cast

import msgspec

from perdure.codec import values
from perdure.core.recovery import Rules
from perdure.engine.boundary import Boundary
from perdure.engine.driving import Drivable, drive
from perdure.engine.loading import load_fold
from perdure.engine.migrations import prepare
from perdure.engine.replay.comparing import Divergence, text_of
from perdure.engine.replay.draws import Draws
from perdure.engine.replay.feeding import RecordedIds, ReplayTask, undoing
from perdure.engine.replay.following import Follower, Mode
from perdure.engine.replay.record import Record, RecordStore
from perdure.engine.replay.virtual import VirtualLoop
from perdure.engine.replay.walking import Walk
from perdure.engine.session import Session, World
from perdure.engine.ticker import Ticker
from perdure.errors import PerdureError, UsageError
from perdure.model import entry as e
from perdure.ports import Store

_TRIES_MAX: Final = 32  # of a tolerant replay, to find out which of several draws is the new one


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay has come to."""

    task: str
    name: str
    until: int  # the last entry that was looked at
    entries: int  # that the program made again, as recorded
    actions: int  # outcomes among them
    divergence: Divergence | None = None
    remarks: tuple[str, ...] = ()  # what a tolerant replay let pass

    @property
    def is_equal(self) -> bool:
        """Whether the program did what is on record."""
        return self.divergence is None


def play(record: Record, program: Drivable, mode: Mode = "strict") -> Replayed:
    """Run `program` on the record and return what came of it; calls no tool and writes nothing.

    To be called outside of any event loop. A tolerant replay in which something was drawn once too often is played
    again with another of the calls taken for the new one, until one is equal. Raises UsageError for an inline task.
    """
    if record.start.driver.kind == "inline":
        raise UsageError(f"task {record.start.name!r} is driven by a script: there is no program to run again")
    rules = Rules(unattended=_was_unattended(record), wait_inline_s=math.inf)  # the record says where it was parked
    first, draws = _play(record, program, mode, rules)
    if not first.is_equal and not rules.unattended:  # nothing but the difference may tell
        rules = msgspec.structs.replace(rules, unattended=_asks_where_it_failed(first))
        first, draws = _play(record, program, mode, rules) if rules.unattended else (first, draws)
    if first.is_equal or mode == "strict":
        return first
    pending: list[tuple[int, ...]] = [(number,) for surplus in draws.surplus for number in reversed(surplus.others)]
    tried: set[tuple[int, ...]] = set()
    while pending and len(tried) < _TRIES_MAX:
        skipped = pending.pop(0)
        if skipped in tried:
            continue
        tried.add(skipped)
        again, draws = _play(record, program, mode, rules, skipped)
        if again.is_equal:
            return again
        others = [number for surplus in draws.surplus for number in reversed(surplus.others) if number not in skipped]
        pending.extend((*skipped, number) for number in others)
    return first


def _play(
    record: Record, program: Drivable, mode: Mode, rules: Rules, skipped: tuple[int, ...] = ()
) -> tuple[Replayed, Draws]:
    player = _Player(record, program, mode, Draws(skipped), rules)
    loop = VirtualLoop(player.idle, player.stuck)
    try:
        loop.run_until_complete(player.run())
        return player.replayed(), player.draws
    finally:
        _end_all(loop)
        player.world.threads.shutdown(wait=False)


def _end_all(loop: VirtualLoop) -> None:
    """Close the loop; what a broken program has left on it is cancelled once and then forgotten."""

    async def end() -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=1.0)  # of the loop's time
        await loop.shutdown_asyncgens()

    loop.set_exception_handler(lambda _loop, _context: None)  # how it ends is nobody's concern any more
    loop.run_until_complete(end())
    loop.close()


class _ReplayClock:
    """`ports.Clock`: the time of the entry before, and what has passed since on the loop."""

    def __init__(self) -> None:
        self.walk: Walk | None = None
        self._seen = 0
        self._since = 0.0

    def now(self) -> int:
        """UTC in microseconds since 1970."""
        at = self.walk.fold.at if self.walk is not None else 0
        if at != self._seen:
            self._seen, self._since = at, self.monotonic()
        return at + int((self.monotonic() - self._since) * 1_000_000)

    def monotonic(self) -> float:
        """Seconds of the loop."""
        return asyncio.get_running_loop().time()


class _ReplaySession(Session):
    """A session whose lease nobody can take, and whose milestones are those on record, whatever the rules are today."""

    marks_milestones = False

    async def renew(self) -> None:
        """There is nothing to renew."""

    async def assure(self, action: str, timeout_s: float) -> None:
        """Nothing goes out."""


class _Fed(msgspec.Struct, frozen=True):
    """The program as the engine is to call it: with a task that replays."""

    program: Drivable
    follower: Follower

    @property
    def source_digest(self) -> str:
        """As the program's."""
        return self.program.source_digest

    @property
    def reached(self) -> Callable[[Any], object] | None:
        """As the program's."""
        return self.program.reached

    @property
    def fn(self) -> Callable[..., Coroutine[Any, Any, Any]]:
        """The function that the engine calls."""

        async def call(_task: object, **arguments: Any) -> Any:  # noqa: ANN401 - the program's
            result: Any = None
            with Boundary() as caught:
                result = await self.program.fn(ReplayTask(self.follower.session, self.follower), **arguments)
            await self.follower.until_late()
            if caught.error is not None:
                raise caught.error
            return result

        return call


class _Player:
    """One replay."""

    def __init__(self, record: Record, program: Drivable, mode: Mode, draws: Draws, rules: Rules) -> None:
        self.draws = draws
        self._record = record
        self._program = program
        self._mode: Mode = mode
        self._store = RecordStore(record, 1)
        self._clock = _ReplayClock()
        self._follower: Follower | None = None
        self._walk: Walk | None = None
        self.world = World(
            store=cast("Store", self._store),
            clock=self._clock,
            ids=RecordedIds(),
            ticker=Ticker(_NoTime()),
            threads=ThreadPoolExecutor(1),
            rules=rules,
            has_disk=False,
        )

    def idle(self) -> bool:
        """See `virtual`."""
        return self._follower is not None and self._follower.idle()

    def stuck(self, has_timers: bool) -> bool:  # noqa: FBT001 - as `virtual` asks
        """See `virtual`."""
        return self._follower is not None and self._follower.stuck(has_timers=has_timers)

    async def run(self) -> None:
        """Go through the record."""
        fold = await load_fold(self.world.store, self._record.task, at=1)
        walk = self._walk = self._clock.walk = Walk(self._record, fold, self._store)
        arguments = self._arguments()
        while walk.place < len(self._record.entries) and walk.divergence is None:
            walk.enter_lease()
            if await _come_to_program(walk):
                await self._lease(walk, arguments)
            walk.leave_lease()
        if self._mode == "tolerant" and walk.divergence is None:
            await self._compare_state(walk)

    def replayed(self) -> Replayed:
        """Return what came of it."""
        walk = self._walk
        if walk is None:
            raise RuntimeError("nothing was replayed")
        return Replayed(
            task=self._record.task,
            name=self._record.start.name,
            until=len(self._record.entries),
            entries=walk.entries,
            actions=walk.actions,
            divergence=walk.divergence,
            remarks=tuple(walk.remarks),
        )

    async def _lease(self, walk: Walk, arguments: Mapping[str, Any]) -> None:
        """Let the program run as one process did."""
        world = self.world
        follower = Follower(walk, self.draws, self._mode, (world.store, world.clock, world.ids))
        session = follower.session = _ReplaySession(world, follower)
        session.perform = undoing(follower)
        keeper = asyncio.current_task()
        if keeper is None:
            raise RuntimeError("a replay runs in a task")
        follower.keeper = keeper
        prepare(session, self._program)
        program = cast("Drivable", _Fed(self._program, follower))
        runner = session.runner = asyncio.create_task(drive(session, program, arguments), name="perdure replay")
        self._follower = follower
        await asyncio.wait([runner])
        follower.close(_how(runner))
        for left in asyncio.all_tasks() - {keeper, runner}:
            left.cancel()
            await asyncio.wait([left])
        self._follower = None

    async def _compare_state(self, walk: Walk) -> None:
        """Hold the state that the program has come to against the recorded one."""
        recorded = await load_fold(self.world.store, self._record.task)
        if values.canonical(recorded.tree.root) != values.canonical(walk.fold.tree.root):
            walk.diverge(None, f"the state {text_of(walk.fold.tree.root)}, on record {text_of(recorded.tree.root)}")

    def _arguments(self) -> dict[str, Any]:
        raw = bytes(self._record.start.driver.arguments)
        return dict(cast("dict[str, Any]", values.decode(raw))) if raw else {}


class _NoTime:
    """The clock of a ticker that never ticks: a tool that is not called takes no time."""

    def now(self) -> int:
        """The beginning."""
        return 0

    def monotonic(self) -> float:
        """The beginning."""
        return 0.0


async def _come_to_program(walk: Walk) -> bool:
    """Take in what was written before the program was called in this lease; return whether it was."""
    while (entry := walk.next) is not None:
        if isinstance(entry.payload, e.ProgramCalled):
            return True
        await walk.take_in_later(entry)
    return False


def _was_unattended(record: Record) -> bool:
    """Whether the task was failed where a person would have been asked; the setting itself is not on record."""
    found = (bytes(entry.payload.decision) for entry in record.entries if isinstance(entry.payload, e.DecisionTaken))
    at_budget = (one.payload.budget for one in record.entries if isinstance(one.payload, e.TaskFailedEntry))
    return any(b'"type":"abandon"' in raw for raw in found) or any(at_budget)


def _asks_where_it_failed(replayed: Replayed) -> bool:
    """Whether the program asks a person where on record the task was failed instead."""
    found = replayed.divergence
    return found is not None and (found.expected.split()[0], found.came.split()[0]) == ("task_failed", "question_asked")


def _how(runner: asyncio.Task[Any]) -> str:
    """Say how the program has ended. Raises what is neither its own failure nor one of ours."""
    if runner.cancelled():
        return "the program was cancelled"
    error = runner.exception()
    if error is None:
        return f"the program returned {text_of(runner.result())}"
    if not isinstance(error, PerdureError):
        raise error
    return f"{type(error).__name__}: {error}"
