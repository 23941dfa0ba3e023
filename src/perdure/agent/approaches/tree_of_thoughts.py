"""`tree_of_thoughts`: several ways are thought of and weighed; the best is followed, then the next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from perdure.agent.approaches import planning
from perdure.agent.asking import Question, asked
from perdure.agent.kit import Kit
from perdure.agent.prompts import candidates, scores
from perdure.model.move import Move, PolicyView

WAYS: Final = 3
MISSES_MAX: Final = 2  # claims of one way that may fail before the next is taken
MANNER: Final = (
    "Several ways were thought of, and the most promising was chosen. Work on the step that you are told, and call "
    "`step_done` when it is done. When the whole goal is reached, call `finish`."
)


class TreeOfThoughts:
    """One request for the ways, one that weighs them, then turns along the best; where it fails, along the next."""

    name = "tree_of_thoughts"
    manner = MANNER
    offers = (planning.STEP_DONE,)

    def ahead(self, view: PolicyView, kit: Kit) -> Iterator[Move]:
        """Think of ways, weigh them, follow one."""
        ahead, number = view.memory["ahead"], view.memory.get("plans", 0)
        if "ways" not in ahead:
            messages = candidates(view, WAYS)
            yield asked(view, kit, Question(form="candidates", messages=messages, key=f"plan {number + 1}"), _keep_ways)
        if "order" not in ahead:
            question = Question(
                form="scores", messages=scores(view, ahead["ways"]), key=f"scores {number}", by_judge=True
            )
            yield asked(view, kit, question, _keep_order)
        yield from planning.followed(view)

    def claims(self, view: PolicyView) -> str:
        """Return "step" while there is one."""
        return "step" if planning.next_step(view) else "goal"

    def missed(self, memory: Any, why: str) -> None:  # noqa: ANN401, ARG002 - a view of the state
        """Take the next way where this one has failed too often."""
        ahead = memory["ahead"]
        ahead["misses"] = ahead.get("misses", 0) + 1
        if ahead["misses"] >= MISSES_MAX and len(ahead["order"]) > 1:
            ahead["misses"] = 0
            ahead["order"] = list(ahead["order"])[1:]
            _follow(memory)


def _keep_ways(memory: Any, said: Mapping[str, Any]) -> None:  # noqa: ANN401 - a view of the state
    memory["plans"] = memory.get("plans", 0) + 1
    memory["ahead"]["ways"] = said["filled"]["approaches"]
    memory["ahead"]["goal_check"] = said["filled"]["goal_check"]


def _keep_order(memory: Any, said: Mapping[str, Any]) -> None:  # noqa: ANN401 - as above
    given = said["filled"]["scores"]
    places = range(len(memory["ahead"]["ways"]))
    memory["ahead"]["order"] = sorted(places, key=lambda place: -(given[place] if place < len(given) else 0))
    _follow(memory)


def _follow(memory: Any) -> None:  # noqa: ANN401 - as above
    way = memory["ahead"]["ways"][memory["ahead"]["order"][0]]
    planning.hold(memory, way["steps"], memory["ahead"]["goal_check"])
    memory["messages"].append({"role": "user", "text": f"The way to go: {way['idea']}"})
