"""One run: a seed under a scenario, played by an arm in virtual time until it has ended. Judges nothing.

A life is a process on the shared store: killed at crash points as the scenario says, started again where the arm does
that. Between lives a person settles what nobody else can know, and time passes where the task waits for it. Called by
`measuring.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from benchmarks.recbench import tools
from benchmarks.recbench.arms import Arm
from benchmarks.recbench.kits import Desk, Kit, Maze
from benchmarks.recbench.truth import GOALS, Scenario, Truth
from benchmarks.recbench.world import OverspentError, current_action
from perdure.core.fold import Fold
from perdure.engine import crashpoints, leases
from perdure.engine.loading import load_fold
from perdure.engine.runtime import Runtime
from perdure.errors import NeedsHuman, TaskFailed, TaskParked, TaskPaused
from perdure.model import entry as e
from perdure.model.failure import ErrorRecord
from perdure.model.outcome import Failed, Succeeded
from perdure.stores.memory import MemoryStore, MemoryWorld
from perdure.testing.clock import FakeClock
from perdure.testing.points import Killed
from perdure.testing.simulation.chance import Chance, ChanceIds
from perdure.testing.simulation.lives import entries_of
from perdure.testing.simulation.loop import Process, VirtualLoop

TASK: Final = "bench"
GOAL: Final = "see to it that all six are done"
LIVES_MAX: Final = 120
KITS: Final[dict[str, type[Kit]]] = {"desk": Desk, "maze": Maze}


class Played(msgspec.Struct, kw_only=True):
    """What one run has left behind."""

    kit: Any
    fold: Fold | None
    entries: list[e.Entry]
    ending: str  # succeeded, failed, needs_human, killed, overspent, or another exception's name
    text: str
    lives: int
    settled_by_hand: int
    lasted_s: float
    began_at: int  # the world's second 0 in the time of the journal: UTC, microseconds


class Run:
    """One run on its way."""

    def __init__(self, kit: str, scenario: Scenario, arm: Arm, seed: int) -> None:
        self.arm = arm
        self.clock = FakeClock()
        self.began_at = self.clock.now()
        self.memory = MemoryWorld()
        self.world = KITS[kit](Truth(kit, seed, scenario), self.clock, knows=arm.knows)
        self.loop = VirtualLoop(self.clock)
        self.lives = 0
        self.settled = 0
        self.ending = ("", "")
        self._points = 0
        self._process: Process | None = None

    async def play(self) -> None:
        """Live until the task has ended, or the arm has nothing more to offer."""
        while self.lives < LIVES_MAX:
            self.lives += 1
            self.ending = await self._live()
            what = self.ending[0]
            if what == "killed" and self.arm.is_resumed:
                continue
            if what == "TaskParked" and self.arm.is_resumed:
                self._let_time_pass()
                continue
            if what == "NeedsHuman" and self.arm.is_resumed and await self._settle():
                continue
            return
        self.ending = ("overspent", "lived too often")

    def meet(self, point: str) -> None:
        """At a crash point: die, where the scenario says so."""
        self._points += 1
        rate = self.world.truth.scenario.crash / 4  # an action has four points
        if self._process is not None and self.world.truth.holds(rate, "crash", point, self._points):
            self.world.inject("crash", -1)
            self.loop.kill(self._process)
            raise Killed

    # --- one life ---------------------------------------------------------------------------------------------------
    async def _live(self) -> tuple[str, str]:
        process = self._process = Process(f"life {self.lives}")
        ids = ChanceIds(Chance(self.world.truth.seed, "ids", self.lives))
        ended: asyncio.Future[tuple[str, str]] = self.loop.create_future()
        task = self.loop.spawn(process, self._work(ids))
        process.at_death = lambda: None if ended.done() else ended.set_result(("killed", ""))
        task.add_done_callback(lambda done: None if ended.done() else ended.set_result(ending_of(done)))
        try:
            return await ended
        finally:
            self._process = None
            for token in ids.tokens:
                leases.lose_sight(token)

    async def _work(self, ids: ChanceIds) -> object:
        tools.here.set(self.world)
        store = MemoryStore(self.memory, self.clock)
        async with Runtime(store, self.clock, ids, hooks=(hear,), rules=self.arm.rules) as runtime:
            if self.ending[0] in {"", "killed"}:  # as whatever supervises a process does it
                return await runtime.run(self.arm.program, TASK, goal=GOAL)
            return await runtime.resume(TASK, self.arm.program)

    # --- between lives ----------------------------------------------------------------------------------------------
    def _let_time_pass(self) -> None:
        stored = next(iter(self.memory.tasks.values()))
        self.clock.advance(max(0.0, (stored.summary.until - self.clock.now()) / 1_000_000) + 1.0)

    async def _settle(self) -> bool:
        """Be the person who looks into the world; False where that is not what the task waits for."""
        fold = await self.fold()
        if fold is None or fold.ledger.rollback is not None:
            return False
        doubtful = [one for one in fold.ledger.open.values() if one.effect.retry == "never"]
        for action in doubtful:
            outcome = self._look(fold)
            ids = ChanceIds(Chance(self.world.truth.seed, "person", self.settled))
            async with Runtime(MemoryStore(self.memory, self.clock), self.clock, ids) as runtime:
                await runtime.settle(fold.task, action.action, outcome)
            self.settled += 1
        return bool(doubtful)

    def _look(self, fold: Fold) -> Any:
        goal = fold.tree.root["done"]
        found = self.world.standing("tell", goal)
        return Succeeded({"value": found[0].value}) if found else Failed(ErrorRecord(type="person", message="no mail"))

    async def fold(self) -> Fold | None:
        """Return the task as the store has it."""
        if not self.memory.tasks:
            return None
        return await load_fold(MemoryStore(self.memory, self.clock), next(iter(self.memory.tasks)))


def play(kit: str, scenario: Scenario, arm: Arm, seed: int) -> Played:
    """Play one run to its end."""
    run = Run(kit, scenario, arm, seed)

    async def whole() -> Fold | None:
        await run.play()
        return await run.fold()

    with crashpoints.watched(run.meet):
        fold = run.loop.run_until_complete(whole())
    run.world.end_loop()
    if run.ending[0] == "succeeded":
        run.world.progress(GOALS, 0)
    entries = entries_of(run.memory, fold.task) if fold is not None else []
    what, text = run.ending
    return Played(
        kit=run.world,
        fold=fold,
        entries=entries,
        ending=what,
        text=text,
        lives=run.lives,
        settled_by_hand=run.settled,
        lasted_s=run.clock.monotonic(),
        began_at=run.began_at,
    )


def hear(task: str, event: str, fields: Mapping[str, Any]) -> None:
    """Note which action is under way, so that the world can say which one has met a fault."""
    del task
    if event == "action_started":
        current_action.set(fields["action"])


def ending_of(done: asyncio.Task[Any]) -> tuple[str, str]:
    """Return how a life ended that was not killed. What is no ending of a run is a fault of ours, and raised."""
    if done.cancelled():
        return "cancelled", ""
    error = done.exception()
    if error is None:
        return "succeeded", ""
    if isinstance(error, OverspentError):
        return "overspent", ""
    if isinstance(error, NeedsHuman | TaskFailed | TaskParked | TaskPaused):
        return type(error).__name__, str(error)
    raise error
