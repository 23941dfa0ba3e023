"""What is outside of the agent: services that keep books of their own, and the faults that befall each call.

It outlives every life of the agent. It knows nothing of perdure but the id of the action that calls, by which the
judge finds what was recorded of a fault. Called by the tools of the worlds, the model's stand-in and the stage.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final, Protocol

import msgspec

from benchmarks.recbench import errors
from benchmarks.recbench.truth import Grip, Truth

MODEL_S: Final = 1.0  # how long the model thinks
TOOL_S: Final = 0.3
TIMEOUT_S: Final = 10.0  # of every tool
HANGS_S: Final = 60.0
CALLS_MAX: Final = 1_500  # of one run; whoever needs more is going round in circles
QUOTA_S: Final = 6 * 3600.0

current_action: Final[ContextVar[str]] = ContextVar("recbench_action", default="")

# What an interrupted call meets, and how often; the second word says whether the effect has happened by then.
MODEL_FAULTS: Final = (("throttled", 4), ("capacity", 3), ("reset", 2), ("read", 2), ("hang", 1))
TOOL_FAULTS: Final = (("capacity", 3), ("reset", 2), ("read", 3), ("hang", 2))
CLASS_OF: Final = {
    "throttled": "throttled",
    "capacity": "capacity",
    "reset": "network",
    "read": "network",
    "hang": "timeout",
    "quota": "quota",
    "context": "context",
    "refusal": "refusal",
    "garbage": "output",
    "tool": "tool",
    "request": "request",
    "loop": "stuck",
}


class Timer(Protocol):
    """What the world needs of a clock."""

    def monotonic(self) -> float: ...  # noqa: D102 - seconds since the run began


class OverspentError(BaseException):
    """More calls than any sensible run needs: the run is ended from outside."""


class Injected(msgspec.Struct, kw_only=True):
    """One fault, as the world knows it."""

    number: int
    what: str
    action: str  # that met it
    at_s: float
    goal: int
    over_s: float = -1.0  # when the agent was past it; -1: never


class Row(msgspec.Struct, kw_only=True):
    """One line of the world's books."""

    kind: str
    goal: int
    value: Any
    key: str = ""
    undone: bool = False


class Loop(msgspec.Struct, kw_only=True):
    """The model repeats itself: how long, and since when."""

    grip: Grip
    strategy: int
    length: int  # of the transcript when it began
    turns: tuple[dict[str, Any], ...]
    injected: Injected
    turn: int = 0


class World:
    """The services together, their books, and what was done to whom."""

    goal_word = "order"
    model_faults = MODEL_FAULTS
    tool_faults = TOOL_FAULTS

    def __init__(self, truth: Truth, clock: Timer, *, knows: bool) -> None:
        self.truth = truth
        self.clock = clock
        self.knows = knows  # the agent is the oracle
        self.rows: list[Row] = []
        self.calls: Counter[str] = Counter()  # by tool
        self.faults: list[Injected] = []
        self.loops: list[tuple[float, float, int]] = []  # when the model repeated itself, and how often
        self.loop: Loop | None = None
        self.came_on_s: list[float] = []  # when the agent came further than ever
        self.dead_ends_s: list[float] = []  # when a strategy did what cannot lead anywhere
        self.quota_until_s = 0.0
        self.deepest = 0  # how many steps were passed at most, over all sub-goals
        self.met: Counter[str] = Counter()
        self.pace = 1.0  # how long everything takes, beside what it would take in earnest

    def keep(self) -> None:
        """Something has changed: a world that is to outlive its process writes itself down here."""

    # --- books ------------------------------------------------------------------------------------------------------
    def write(self, kind: str, goal: int, value: Any, key: str = "") -> Row:
        """Take an effect in, once per key."""
        for row in self.rows:
            if key and row.key == key:
                return row
        row = Row(kind=kind, goal=goal, value=value, key=key)
        self.rows.append(row)
        self.keep()
        return row

    def standing(self, kind: str, goal: int) -> list[Row]:
        """Return the effects that are in the world."""
        return [row for row in self.rows if row.kind == kind and row.goal == goal and not row.undone]

    def undo(self, kind: str, goal: int, value: Any) -> None:
        """Take the newest such effect back, where there is one."""
        for row in reversed(self.standing(kind, goal)):
            if row.value == value:
                row.undone = True
                self.keep()
                return

    # --- calls ------------------------------------------------------------------------------------------------------
    def nth(self, *what: object) -> int:
        """Count `what`, and return the how-manieth it is."""
        name = " ".join(map(str, what))
        self.met[name] += 1
        return self.met[name]

    def count(self, tool: str) -> None:
        """Count a call. Raises OverspentError where there were too many."""
        self.calls[tool] += 1
        self.keep()
        if self.calls.total() > CALLS_MAX:
            raise OverspentError

    async def serve(self, tool: str, goal: int, do: Callable[[], Any]) -> Any:
        """One call of a service about `goal`: `do()`, unless something happens before or after it."""
        self.count(tool)
        draw = self.truth.chance("call", tool, goal, self.nth("call", tool, goal))
        await asyncio.sleep(TOOL_S * self.pace)
        if not draw.holds(self.truth.scenario.interrupted):
            return do()
        what = draw.weighted(self.tool_faults)
        fault = self.inject(what, goal)
        if what != "capacity" and draw.holds(0.5):
            do()  # the effect happens, the answer is lost
        if what == "hang":
            await asyncio.sleep(HANGS_S)
        raise errors.of_tool(what, tool, fault.number)

    async def interrupt_model(self, provider: int, goal: int, nth: int) -> None:
        """Let a call of the model meet what the scenario has for it."""
        draw = self.truth.chance("model", goal, nth)
        await asyncio.sleep(MODEL_S * self.pace)
        self._refuse_over_quota(provider, goal)
        if not draw.holds(self.truth.scenario.interrupted):
            return
        what = draw.weighted(self.model_faults)
        fault = self.inject(what, goal)
        if what == "hang":
            await asyncio.sleep(HANGS_S)
        wait_s = draw.between(1, 30) * self.pace if what == "throttled" else 0
        raise errors.of_model(provider, what, fault.number, wait_s)

    def _refuse_over_quota(self, provider: int, goal: int) -> None:
        now_s = self.clock.monotonic()
        if provider == 0 and self.calls["think"] == self.truth.quota_at and not self.quota_until_s:
            self.quota_until_s = now_s + QUOTA_S
        left_s = self.quota_until_s - now_s
        if provider == 0 and left_s > 0:
            raise errors.of_model(provider, "quota", self.inject("quota", goal).number, left_s)

    # --- what the judge wants to know -------------------------------------------------------------------------------
    def inject(self, what: str, goal: int) -> Injected:
        """Note a fault."""
        now_s = self.clock.monotonic()
        fault = Injected(number=len(self.faults), what=what, action=current_action.get(), at_s=now_s, goal=goal)
        self.faults.append(fault)
        self.keep()
        return fault

    def progress(self, goal: int, steps: int) -> None:
        """The agent is past so many steps of `goal`: whatever was in its way is over where it is further than ever."""
        deep = goal * 100 + steps
        if deep <= self.deepest:
            return
        self.deepest = deep
        now_s = self.clock.monotonic()
        self.came_on_s.append(now_s)
        for fault in reversed(self.faults):
            if fault.over_s >= 0:
                break
            fault.over_s = now_s
        self.keep()

    def note_dead_end(self) -> None:
        """The strategy that is followed cannot solve this, and has just shown it."""
        self.dead_ends_s.append(self.clock.monotonic())
        self.keep()

    def begin_loop(self, loop: Loop) -> None:
        """The model begins to repeat itself."""
        self.loop = loop
        self.keep()

    def end_loop(self) -> None:
        """It no longer does."""
        if self.loop is not None:
            self.loops.append((self.loop.injected.at_s, self.clock.monotonic(), self.loop.turn))
        self.loop = None
