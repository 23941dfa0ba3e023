"""`reflexion`: as one_shot; after each claim that was not met, a separate request asks for the lesson."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from perdure.agent.asking import Question, asked
from perdure.agent.kit import Kit
from perdure.agent.prompts import reflection
from perdure.model.chat import Offer
from perdure.model.move import Move, PolicyView

MANNER: Final = (
    "Work without a plan, one call after the other. When something was not good enough you will be reminded of what is "
    "to be learned from it: obey that. Call `finish` when the goal is reached."
)


class Reflexion:
    """Turns, and a request for a lesson after each failure."""

    name = "reflexion"
    manner = MANNER
    offers: tuple[Offer, ...] = ()

    def ahead(self, view: PolicyView, kit: Kit) -> Iterator[Move]:
        """Reflect on what was not met and is not reflected on yet."""
        ahead = view.memory["ahead"]
        missed = list(ahead.get("missed", ()))
        number = len(ahead.get("lessons", ()))
        if len(missed) <= number:
            return

        def keep(memory: Any, said: Mapping[str, Any]) -> None:  # noqa: ANN401 - a view of the state
            lesson = said["filled"]["lesson"]
            memory["ahead"].setdefault("lessons", []).append(lesson)
            memory["messages"].append({"role": "user", "text": f"What is to be learned from it: {lesson}"})

        key = f"reflection {view.memory['turn']}.{number + 1}"
        question = Question(form="reflection", messages=reflection(view, missed[number]), key=key, by_judge=True)
        yield asked(view, kit, question, keep)

    def claims(self, view: PolicyView) -> str:  # noqa: ARG002 - always
        """Return "goal"."""
        return "goal"

    def missed(self, memory: Any, why: str) -> None:  # noqa: ANN401 - a view of the state
        """Note what is to be reflected on."""
        memory["ahead"].setdefault("missed", []).append(why)
