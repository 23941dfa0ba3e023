"""Draws what a simulated task is to do and which of its calls fail how; says what it must come to.

Plays nothing. Called by `lives.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

import msgspec

import perdure
from perdure.codec import values
from perdure.model.entry import Driver
from perdure.model.strategy import Strategy
from perdure.testing.simulation import steps as s
from perdure.testing.simulation.chance import Chance
from perdure.testing.simulation.outside import EFFECTS, FREE, Fault, Outside

ACTIONS_MIN: Final = 25
_MIXED: Final = (*EFFECTS, *EFFECTS, *FREE)
_FAULTS: Final[tuple[tuple[Fault, int], ...]] = (
    ("unreachable", 3),
    ("cut", 3),
    ("refused", 2),
    ("hangs", 2),
    ("malformed", 1),
)
_STRATEGIES: Final = (
    Strategy("plain", prompt="do it", source="web"),
    Strategy("careful", prompt="do it slowly", source="web"),
    Strategy("elsewhere", prompt="do it", source="books", model="large"),
    Strategy("help", change="ask"),
)
_CHECKED: Final[tuple[tuple[s.Verdict, int], ...]] = (("output", 4), ("suspicious", 1), ("tool", 2), ("refusal", 1))
_KINDS: Final = (
    ("keyed", 6), ("loop", 3), ("nested", 2), ("act and edit", 4), ("then", 3), ("group", 3), ("map", 2), ("mark", 3),
    ("check", 2), ("caught", 2), ("go back", 2), ("words", 1), ("question", 1), ("circle", 1), ("think", 2),
)  # fmt: skip


class Player:
    """A program (`engine.driving.Drivable`) that plays steps."""

    state_version = 1
    failures_max = 3
    source_digest = ""
    reached = None

    def __init__(self, steps: tuple[s.Step, ...], outside: Outside, strategies: tuple[Strategy, ...] = ()) -> None:
        self.steps = steps
        self.strategies = strategies
        self._outside = outside

    @property
    def fn(self) -> Callable[..., Coroutine[Any, Any, Any]]:
        """The function that the engine calls."""
        return self._play

    @property
    def state(self) -> dict[str, Any]:
        """The state at the start, fresh each time."""
        return {"got": {}, "log": [], "seen": {}}

    def driver(self, arguments: Mapping[str, object]) -> Driver:
        """Whoever simulates hands the program over, it is never looked for."""
        return Driver(kind="program", target="simulation:player", arguments=msgspec.Raw(values.encode(dict(arguments))))

    def expected(self) -> dict[str, Any]:
        """Return the state in the end, which is the result as well."""
        state = self.state
        for step in self.steps:
            step.expect(state)
        return state

    async def _play(self, task: perdure.Task) -> Any:
        for step in self.steps:
            await step.play(task, self._outside)
        return task.state.plain()


def draw_program(chance: Chance, outside: Outside) -> Player:
    """Return a program of at least ACTIONS_MIN actions."""
    steps: list[s.Step] = []
    while sum(step.actions for step in steps) < ACTIONS_MIN - 3:
        steps.append(_draw_step(chance, f"s{len(steps)}", steps))
    steps.append(s.Loop(name="last", tool=chance.pick(EFFECTS), length=2, edits=False))
    steps += [s.Anchored(name=f"held {place}", tool=chance.pick(EFFECTS)) for place in range(chance.below(3))]
    _draw_faults(chance, steps, outside)
    number = chance.pick((0, 0, 1, 2, 3, 4))
    if number:
        _draw_dead_ends(chance, steps, outside)
    return Player(tuple(steps), outside, _STRATEGIES[:number])


def _draw_dead_ends(chance: Chance, steps: list[s.Step], outside: Outside) -> None:
    """Let steps fail so often that recovery has to change something."""
    for step in steps:
        if isinstance(step, s.Check) and not step.caught:
            outside.patience[step.name] = chance.weighted(((0, 3), (2, 3), (4, 3), (9, 1)))
        if isinstance(step, s.Circle):
            outside.patience[step.name] = chance.pick((0, 5, 12, 25))


def draw_neighbour(chance: Chance, outside: Outside) -> Player:
    """Return a small program that shares runtime and store with the other, and nothing else."""
    names = [f"next door {place}" for place in range(chance.between(2, 5))]
    return Player(tuple(s.Keyed(name=name, tool=chance.pick(EFFECTS), reduces=True) for name in names), outside)


def _draw_step(chance: Chance, name: str, before: list[s.Step]) -> s.Step:
    match chance.weighted(_KINDS):
        case "keyed":
            return s.Keyed(name=name, tool=chance.pick(_MIXED), reduces=chance.holds(0.6))
        case "loop":
            return s.Loop(name=name, tool=chance.pick(_MIXED), length=chance.below(4), edits=chance.holds(0.5))
        case "nested":
            return s.Nested(name=name, tool=chance.pick(_MIXED), outer=chance.between(1, 2), inner=chance.below(3))
        case "act and edit":
            return s.ActAndEdit(name=name, tools=_draw_loose(chance))
        case "then":
            return s.Then(name=name, tool=chance.pick(_MIXED))
        case "group":
            tools = tuple(chance.pick(_MIXED) for _ in range(chance.between(2, 4)))
            return s.Group(name=name, tools=tools, edit_s=chance.pick((0.0, 0.0, 0.1, 0.4, 1.3)))
        case "map":
            return s.Map(name=name, tool=chance.pick(("read", "study", "send", "post")), width=chance.between(2, 4))
        case "mark":
            return s.Mark(name=name)
        case "check":
            return s.Check(name=name, caught=chance.holds(0.5), says=chance.weighted(_CHECKED))
        case "think":
            return s.Think(name=name, times=chance.between(1, 3))
        case "circle":
            return s.Circle(name=name, turns=chance.between(1, 12))
        case "caught":
            return s.Caught(name=name, tool=chance.pick(FREE))
        case "go back":
            marks = [f"mark {step.name}" for step in before if isinstance(step, s.Mark)]
            return s.GoBack(name=name, to=chance.pick([*marks, "start"]))
        case "question":
            return s.Question(name=name, fails=chance.holds(0.3))
        case _:
            return s.Words(name=name)


def _draw_loose(chance: Chance) -> tuple[str, ...]:
    if chance.holds(0.5):
        return (chance.pick(EFFECTS),)
    return tuple(chance.pick(FREE) for _ in range(chance.between(1, 3)))


def _draw_faults(chance: Chance, steps: list[s.Step], outside: Outside) -> None:
    for step in steps:
        if isinstance(step, s.Check) and chance.holds(0.5):
            outside.patience[step.name] = chance.between(1, 3)
        for item in step.items:
            if chance.holds(0.5 if isinstance(step, s.Caught) else 0.06):
                number = chance.pick((5, 5, 12)) if chance.holds(0.06) else chance.between(1, 2)
                outside.faults[item] = [chance.weighted(_FAULTS) for _ in range(number)]
