"""The world with real files: a pipeline that writes parts into a folder, played on SQLite and killed by SIGKILL.

Each life is a fork of this process, armed at a crash point. What the world knows is written down at each change, since
it has to outlive the lives. Time is real and everything takes a hundredth of what it takes elsewhere; calls that hang
and quotas are left to the other worlds. Called by `running.py`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any, Final, Never

import msgspec

from benchmarks.recbench import tools
from benchmarks.recbench.arms import Arm
from benchmarks.recbench.kits import Desk
from benchmarks.recbench.measuring import Record, measure
from benchmarks.recbench.stage import GOAL, TASK, Played, ending_of, hear
from benchmarks.recbench.truth import GOALS, Scenario, Truth
from benchmarks.recbench.world import MODEL_FAULTS, TOOL_FAULTS, Injected, Loop, Row
from perdure.clock import SystemClock
from perdure.engine import crashpoints
from perdure.engine.loading import entries, load_fold
from perdure.engine.runtime import Runtime
from perdure.ids_source import SystemIds
from perdure.stores.opening import open_store

LIVES_MAX: Final = 60
_PACE: Final = 0.01
_POINTS_OF_ACTION: Final = 4
_POINTS_MAX: Final = 400
_LIFE_S: Final = 60  # no life takes longer


class Kept(msgspec.Struct):
    """What of the world outlives a life."""

    rows: list[Row]
    calls: dict[str, int]
    met: dict[str, int]
    faults: list[Injected]
    loops: list[tuple[float, float, int]]
    loop: Loop | None
    deepest: int
    came_on_s: list[float]
    dead_ends_s: list[float]


class Pipeline(Desk):
    """Parts in a folder, each of them published once it is right."""

    goal_word = "part"
    model_faults = tuple(fault for fault in MODEL_FAULTS if fault[0] != "hang")
    tool_faults = tuple(fault for fault in TOOL_FAULTS if fault[0] != "hang")
    tool_of = {"read": "look_up", "prepare": "write_part", "commit": "publish"}  # noqa: RUF012 - a table

    def __init__(self, truth: Truth, began_s: float, folder: Path, *, knows: bool) -> None:
        super().__init__(truth, _Since(began_s), knows=knows)
        self.pace = _PACE
        self.work = folder / "work"
        self._file = folder / "world.json"
        if self._file.exists():
            self._recall(msgspec.json.decode(self._file.read_bytes(), type=Kept))

    def steps(self, goal: int) -> tuple[str, ...]:
        """See Kit."""
        del goal
        return ("read", "prepare", "commit")

    def move(self, step: str, goal: int, work: dict[str, Any], strategy: int, wrong: str) -> dict[str, Any]:
        """As at the desk; a part also says from which source it is."""
        move = super().move(step, goal, work, strategy, wrong)
        if step == "prepare":
            move["arguments"]["source"] = max(0, strategy)
        return move

    def write_files(self, goal: int, value: int, source: int) -> None:
        """Write a part and its draft."""
        (self.work / f"draft_{goal}_{source}.txt").write_text(f"draft of {value}\n")
        (self.work / f"part_{goal}.txt").write_text(f"{value}\n")

    def is_prepared(self, goal: int) -> bool:
        """Whether the part in the folder is right."""
        part = self.work / f"part_{goal}.txt"
        return part.exists() and part.read_text() == f"{self.value(goal)}\n"

    def is_done(self, goal: int) -> bool:
        """Whether the part is right, and published once."""
        return self.is_prepared(goal) and [self.value(goal)] == [row.value for row in self.standing("commit", goal)]

    def is_complete(self) -> bool:
        """Whether all parts are there, and no draft of a way that led nowhere."""
        drafts = {path.name for path in self.work.glob("draft_*")}
        good = {f"draft_{goal}_{way}.txt" for goal in range(GOALS) for way, can in enumerate(self._ways(goal)) if can}
        return super().is_complete() and drafts <= good

    def lost(self, state: dict[str, Any]) -> int:
        """Count parts and publications that the agent's record has, and the world has not."""
        goal, work = state["done"], state["work"]
        parts = [*range(goal), *([goal] if "prepare" in work else [])]
        published = [*range(goal), *([goal] if "commit" in work else [])]
        missing = sum(not (self.work / f"part_{part}.txt").exists() for part in parts)
        return missing + sum(not self.standing("commit", part) for part in published)

    def _ways(self, goal: int) -> tuple[bool, ...]:
        return self.truth.solves[goal]

    # --- outliving lives --------------------------------------------------------------------------------------------
    def keep(self) -> None:
        """Write the world down; a kill leaves the old text or the new one."""
        kept = Kept(
            rows=self.rows,
            calls=dict(self.calls),
            met=dict(self.met),
            faults=self.faults,
            loops=self.loops,
            loop=self.loop,
            deepest=self.deepest,
            came_on_s=self.came_on_s,
            dead_ends_s=self.dead_ends_s,
        )
        beside = self._file.with_suffix(".new")
        beside.write_bytes(msgspec.json.encode(kept))
        beside.replace(self._file)

    def _recall(self, kept: Kept) -> None:
        self.rows, self.faults, self.loops, self.loop = kept.rows, kept.faults, kept.loops, kept.loop
        self.calls, self.met, self.deepest = Counter(kept.calls), Counter(kept.met), kept.deepest
        self.came_on_s, self.dead_ends_s = kept.came_on_s, kept.dead_ends_s
        if self.loop is not None:  # it is one of them, and not a copy
            self.loop.injected = self.faults[self.loop.injected.number]


class _Since:
    """Seconds since a run began, the same in each of its lives."""

    def __init__(self, began_s: float) -> None:
        self._began_s = began_s

    def monotonic(self) -> float:
        return time.time() - self._began_s


class Run(msgspec.Struct, frozen=True):
    """One run: where it is, and what it plays."""

    folder: Path
    scenario: Scenario
    arm: Arm
    seed: int
    began_s: float

    def world(self) -> Pipeline:
        """Return the world as it was written down last."""
        truth = Truth("files", self.seed, self.scenario)
        return Pipeline(truth, self.began_s, self.folder, knows=self.arm.knows)


def play(scenario: Scenario, arm: Arm, seed: int) -> Record:
    """Play one run in a folder of its own, which is gone afterwards; return its figures."""
    with tempfile.TemporaryDirectory(prefix="recbench-") as name:
        run = Run(Path(name), msgspec.structs.replace(scenario, quota=0.0, polls=0), arm, seed, time.time())
        (run.folder / "work").mkdir()
        lives, ending = 0, ("killed", "")
        while lives < LIVES_MAX and ending[0] == "killed" and (arm.is_resumed or lives == 0):
            lives += 1
            ending = _fork(run, lives)
            if ending[0] == "killed":
                run.world().inject("crash", -1)
        played = asyncio.run(_look(run, lives, ending))
        return measure("files", scenario.name, arm.name, seed, played)


def _fork(run: Run, life: int) -> tuple[str, str]:
    """Let a child live one life; return how it ended."""
    said = run.folder / "ending.json"
    said.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        _live(run, life, said)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return "killed", ""
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
        return "overspent", f"a life took more than {_LIFE_S} s"
    if not said.exists():
        raise RuntimeError(f"a life of seed {run.seed} under arm {run.arm.name!r} ended by {status} without a word")
    what, text = msgspec.json.decode(said.read_bytes(), type=tuple[str, str])
    return what, text


def _live(run: Run, life: int, said: Path) -> Never:
    """One life, in the child."""
    code = 1
    try:
        signal.alarm(_LIFE_S)
        world = run.world()
        crashpoints.arm(_death_of(world.truth, life))
        said.write_bytes(msgspec.json.encode(asyncio.run(_work(run, world))))
        code = 0
    finally:
        if code:
            traceback.print_exc()
        os._exit(code)


def _death_of(truth: Truth, life: int) -> str:
    """Return at which crash point a life ends, "" where it may go on to its end."""
    rate = truth.scenario.crash / _POINTS_OF_ACTION
    draw = truth.chance("death", life)
    point = next((number for number in range(1, _POINTS_MAX) if draw.holds(rate)), 0) if rate else 0
    return f"any:{point}" if point else ""


async def _work(run: Run, world: Pipeline) -> tuple[str, str]:
    tools.here.set(world)
    clock, rules = SystemClock(), run.arm.brisk_rules(_PACE)
    store = await open_store(f"sqlite:///{run.folder / 'store.db'}", clock)
    try:
        async with Runtime(store, clock, SystemIds(), hooks=(hear,), rules=rules) as runtime:
            work = asyncio.create_task(runtime.run(run.arm.program, TASK, goal=GOAL, workspace=str(world.work)))
            await asyncio.wait([work])
            return ending_of(work)
    finally:
        await store.close()


async def _look(run: Run, lives: int, ending: tuple[str, str]) -> Played:
    """Return what is left of a run."""
    world = run.world()
    world.end_loop()
    if ending[0] == "succeeded":
        world.progress(GOALS, 0)
    store = await open_store(f"sqlite:///{run.folder / 'store.db'}", SystemClock())
    try:
        summaries = await store.tasks()
        fold = await load_fold(store, summaries[0].task) if summaries else None
        journal = [entry async for entry in entries(store, fold.task)] if fold is not None else []
    finally:
        await store.close()
    return Played(
        kit=world,
        fold=fold,
        entries=journal,
        ending=ending[0],
        text=ending[1],
        lives=lives,
        settled_by_hand=0,
        lasted_s=world.clock.monotonic(),
        began_at=int(run.began_s * 1_000_000),
    )
