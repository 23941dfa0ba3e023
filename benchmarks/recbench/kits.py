"""The worlds in memory: a desk with orders and money, and a maze of tools that lie or refuse.

Both have the same shape (read, prepare, wait, commit, tell), so that one program drives them; what a tool does to the
world differs, and in the maze it is the tools that a strategy prefers which fail. Called by the agent and the stage.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from benchmarks.recbench import errors
from benchmarks.recbench.truth import GOALS
from benchmarks.recbench.world import World

LABELS: Final = tuple(f"label {number:02d}" for number in range(20))
LONG_TOKENS: Final = 140_000  # of the page that is too long
READERS: Final = ("lantern", "map", "compass")


class Kit(World):
    """What both worlds do."""

    decisive = "prepare"

    def steps(self, goal: int) -> tuple[str, ...]:
        """Return the steps of a sub-goal."""
        raise NotImplementedError

    def symptom(self, goal: int, strategy: int) -> str:
        """Return how `strategy` shows that it cannot solve `goal`."""
        return self.truth.symptom(goal, max(0, strategy))

    def value(self, goal: int) -> int:
        """Return the right value."""
        return self.truth.chance("value", goal).between(1_000, 9_999)

    def read(self, goal: int, source: int) -> dict[str, Any]:
        """Return what `source` says of `goal`: the truth, an old value, a wrong one."""
        value, nth = self.value(goal), self.nth("read", goal)
        tokens = 400
        if self.truth.is_poisoned(goal, source):
            value += 13
        elif nth == 1 and self.truth.holds(self.truth.scenario.stale, "stale", goal):
            value -= 1
        if goal == self.truth.overflows_at and nth == 1:
            tokens = LONG_TOKENS
        return {"goal": goal, "value": value, "tokens": tokens}

    def write_files(self, goal: int, value: int, source: int) -> None:
        """Write what a part consists of; only the pipeline has files."""
        raise NotImplementedError

    def look(self, goal: int) -> str:
        """Return whether something slow is ready."""
        return "pending" if self.nth("poll", goal) <= self.truth.scenario.polls else "ready"

    def is_prepared(self, goal: int) -> bool:
        """Whether exactly the right thing is prepared: the independent check."""
        return [self.value(goal)] == [row.value for row in self.standing("prepare", goal)]

    def is_done(self, goal: int) -> bool:
        """Whether the sub-goal is reached, each effect once."""
        effects = [step for step in self.steps(goal) if step in {"prepare", "commit", "tell"}]
        return all([self.value(goal)] == [row.value for row in self.standing(step, goal)] for step in effects)

    def labels(self, goal: int) -> tuple[str, ...]:
        """Return the batch of a sub-goal."""
        return LABELS[: self.truth.scenario.batch] if goal % 3 == 1 else ()

    def is_complete(self) -> bool:
        """Whether the world is as the goal wants it, to the last row."""
        tagged = sorted((row.goal, row.value) for row in self.rows if row.kind == "tag" and not row.undone)
        wanted = [(goal, label) for goal in range(GOALS) for label in self.labels(goal)]
        return all(map(self.is_done, range(GOALS))) and tagged == wanted

    def needed(self) -> int:
        """Return how many calls a run makes that nothing disturbs and whose strategy is right."""
        calls = 0
        for goal in range(GOALS):
            steps, looks = len(self.steps(goal)), self.truth.scenario.polls
            thoughts = steps + 1 + (looks if goal % 2 else 0)  # every other time it is the model that waits
            calls += steps + thoughts + looks + len(self.labels(goal)) + 2  # audit, inspect
        return calls

    def lost(self, state: dict[str, Any]) -> int:
        """Count effects that the agent's record has, and the world has not."""
        goal, work = state["done"], state["work"]
        promised = [(step, place) for place in range(goal) for step in self.steps(place)]
        promised += [(step, goal) for step in work]
        effects = [(step, place) for step, place in promised if step in {"prepare", "commit", "tell"}]
        return sum(not self.standing(step, place) for step, place in effects)

    def doubles(self) -> int:
        """Count effects that are in the world more often than anybody wanted."""
        kinds: dict[tuple[str, int, Any], int] = {}
        for row in self.rows:
            place = (row.kind, row.goal, row.value if row.kind == "tag" else "")
            kinds[place] = kinds.get(place, 0) + (not row.undone)
        return sum(max(0, count - 1) for count in kinds.values())


class Desk(Kit):
    """Orders and money."""

    tool_of: Mapping[str, str] = {
        "read": "look_up", "prepare": "reserve", "wait": "delivery", "commit": "charge", "tell": "mail"
    }  # fmt: skip

    def steps(self, goal: int) -> tuple[str, ...]:
        """See Kit."""
        waits = ("wait",) if self.truth.scenario.polls else ()
        tells = ("tell",) if goal % 3 == 2 else ()
        return ("read", "prepare", *waits, "commit", *tells)

    def move(self, step: str, goal: int, work: dict[str, Any], strategy: int, wrong: str) -> dict[str, Any]:
        """Return the call that the model wants."""
        arguments: dict[str, Any] = {"goal": goal}
        if step == "read":
            arguments["source"] = max(0, strategy)
        if step in {"prepare", "commit", "tell"}:
            arguments["value"] = work["read"]["value"] if step == "prepare" else work["prepare"]["value"]
        if wrong == "check":
            arguments["value"] += 100 + strategy
        if wrong == "tool":
            arguments["value"] = -1
        return {"tool": self.tool_of[step], "arguments": arguments}


class Maze(Kit):
    """Rooms, and three tools that know the door; which of them can be trusted differs from room to room."""

    def steps(self, goal: int) -> tuple[str, ...]:
        """See Kit."""
        del goal
        waits = ("wait",) if self.truth.scenario.polls else ()
        return ("read", "prepare", *waits, "commit")

    def symptom(self, goal: int, strategy: int) -> str:
        """In the maze the tools are at fault; only a loop is the model's."""
        return "loop" if super().symptom(goal, strategy) == "loop" else ""

    def ask(self, goal: int, tool: int) -> dict[str, Any]:
        """Return what a reader says of a room: the truth, a lie, or an error for ever."""
        if not self.truth.solves[goal][tool]:
            symptom = super().symptom(goal, tool)
            self.note_dead_end()
            if symptom in {"tool", "refusal", "garbage"}:
                self.inject("request", goal)
                raise errors.of_tool("request", READERS[tool], 0)
            return {"goal": goal, "value": self.value(goal) + 7 + tool, "tokens": 400}
        return self.read(goal, tool)

    def move(self, step: str, goal: int, work: dict[str, Any], strategy: int, wrong: str) -> dict[str, Any]:
        """Return the call that the model wants."""
        del wrong
        arguments: dict[str, Any] = {"goal": goal}
        if step == "read":
            return {"tool": READERS[max(0, strategy)], "arguments": arguments}
        if step != "wait":
            arguments["value"] = work["read"]["value"] if step == "prepare" else work["prepare"]["value"]
        return {"tool": _MAZE_TOOL[step], "arguments": arguments}


_MAZE_TOOL: Final = {"prepare": "turn", "wait": "gate", "commit": "walk"}
