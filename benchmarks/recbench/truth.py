"""What is hidden from the agent: which strategy can solve what, and which faults are waiting. Draws, and nothing else.

Every draw is named (seed, what it is about, the how-manieth), so that all arms meet the same truth, whatever they do.
Called by the worlds and the stage.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from perdure.testing.simulation.chance import Chance

GOALS: Final = 6  # sub-goals of a task
STRATEGIES: Final = 3

Symptom = Literal["check", "tool", "refusal", "garbage", "loop"]
Grip = Literal["light", "context", "strategy", "never"]  # what ends a loop: a hint, a fresh context, another strategy

# How a strategy shows that it cannot solve a sub-goal, and how often each way is drawn.
SYMPTOMS: Final[tuple[tuple[Symptom, int], ...]] = (
    ("check", 4),
    ("tool", 3),
    ("refusal", 1),
    ("garbage", 1),
    ("loop", 1),
)
GRIPS: Final[tuple[tuple[Grip, int], ...]] = (("light", 3), ("context", 4), ("strategy", 3))
LATE: Final = 0.5  # so many of the time-outs come after the effect


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """How often each fault is met. Rates are per call, shares per task."""

    name: str
    able: tuple[float, ...] = (0.8, 0.6, 0.6)  # that strategy s can solve a sub-goal
    crash: float = 0.0  # rate: killed somewhere in an action
    interrupted: float = 0.0  # rate: 429, 5xx, resets, time-outs before and after the effect
    garbage: float = 0.0  # rate: an answer of the model that is none
    loop: float = 0.0  # rate: the model begins to repeat itself
    quota: float = 0.0  # share: the daily quota of the first provider is used up at some call
    poison: float = 0.0  # share: from some sub-goal on a source says wrong things
    stale: float = 0.0  # share of sub-goals: the first read gives an old value
    overflow: float = 0.0  # share: at some sub-goal the context grows too long
    overrun: float = 0.0  # share: the goal is reached, and the agent goes on
    polls: int = 0  # looks until something slow is ready
    batch: int = 0  # equal calls with different arguments, in a row
    unsolvable: float = 0.0  # share: one sub-goal that no strategy can solve


class Truth:
    """What one seed hides under one scenario, in a world: each world has draws of its own."""

    def __init__(self, world: str, seed: int, scenario: Scenario) -> None:
        self.seed = f"{world} {seed}"
        self.scenario = scenario
        self.poisoned_from = self._place("poison", scenario.poison)
        self.overflows_at = self._place("overflow", scenario.overflow)
        self.quota_at = 1 + Chance(seed, "quota at").below(12) if self.holds(scenario.quota, "quota") else 0
        self.overruns = self.holds(scenario.overrun, "overrun")
        hopeless = self._place("unsolvable", scenario.unsolvable)
        self.solves = tuple(
            tuple(goal != hopeless and self._solves(goal, strategy) for strategy in range(STRATEGIES))
            for goal in range(GOALS)
        )

    @property
    def is_solvable(self) -> bool:
        """Whether some strategy can solve each sub-goal."""
        return all(map(any, self.solves))

    def right_for(self, goal: int) -> int | None:
        """Return the first strategy that can solve sub-goal `goal`, None where none can."""
        return next((strategy for strategy, can in enumerate(self.solves[goal]) if can), None)

    def is_poisoned(self, goal: int, source: int) -> bool:
        """Whether `source` says wrong things about sub-goal `goal`; only the first source is ever poisoned."""
        return source == 0 and self.poisoned_from is not None and goal >= self.poisoned_from

    def symptom(self, goal: int, strategy: int) -> Symptom:
        """Return how `strategy` fails at sub-goal `goal`."""
        return Chance(self.seed, "symptom", goal, strategy).weighted(SYMPTOMS)

    def grip(self, *what: object) -> Grip:
        """Return what ends the loop that is called `what`."""
        return Chance(self.seed, "grip", *what).weighted(GRIPS)

    def holds(self, probability: float, *what: object) -> bool:
        """Return whether `what` comes true, with that probability; the same at each call."""
        return probability > 0 and Chance(self.seed, *what).holds(probability)

    def chance(self, *what: object) -> Chance:
        """Return the draws called `what`."""
        return Chance(self.seed, *what)

    def _solves(self, goal: int, strategy: int) -> bool:
        able = self.scenario.able[strategy]
        return self.holds(able, "able", goal, strategy) and not self.is_poisoned(goal, strategy)

    def _place(self, what: str, share: float) -> int | None:
        """Return the sub-goal at which `what` waits, None where it does not."""
        return Chance(self.seed, what, "at").below(GOALS) if self.holds(share, what) else None


ONLY_TRUTH: Final = Scenario(name="truth only")
ALL: Final = Scenario(
    name="all",
    crash=0.03,
    interrupted=0.10,
    garbage=0.08,
    loop=0.03,
    quota=0.1,
    poison=0.1,
    stale=0.05,
    overflow=0.1,
    overrun=0.1,
    polls=6,
    batch=8,
)
ALONE: Final = (
    Scenario(name="crash", crash=0.15),
    Scenario(name="interrupted", interrupted=0.30),
    Scenario(name="garbage", garbage=0.25),
    Scenario(name="loop", loop=0.10),
    Scenario(name="quota", quota=1.0),
    Scenario(name="poisoned source", poison=1.0),
    Scenario(name="stale read", stale=0.4),
    Scenario(name="overflow", overflow=1.0),
    Scenario(name="goes on", overrun=1.0),
    Scenario(name="polling", polls=20, batch=20),
    Scenario(name="unsolvable", unsolvable=1.0),
)
SCENARIOS: Final = {scenario.name: scenario for scenario in (ONLY_TRUTH, ALL, *ALONE)}
