"""`plan_execute`: a plan first, with a check for each step; then step by step, and a new plan when the facts change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from perdure.agent.approaches import planning
from perdure.agent.kit import Kit
from perdure.agent.people import offer_of
from perdure.model.move import Move, PolicyView

MANNER: Final = (
    "There is a plan. Work on the step that you are told, and on nothing else; call `step_done` when it is done. When "
    "what you find shows that the plan is wrong, call `replan`. When the whole goal is reached, call `finish`."
)
REPLAN: Final = offer_of(
    "replan",
    "Ask for a new plan, because what you have found shows that this one leads nowhere.",
    {"reason": {"type": "string", "description": "What you have found."}},
)


class PlanExecute:
    """One request for the plan, then turns."""

    name = "plan_execute"
    manner = MANNER
    offers = (planning.STEP_DONE, REPLAN)

    def ahead(self, view: PolicyView, kit: Kit) -> Iterator[Move]:
        """Plan, then begin the next step."""
        yield from planning.planned(view, kit)
        yield from planning.followed(view)

    def claims(self, view: PolicyView) -> str:
        """Return "step" while there is one."""
        return "step" if planning.next_step(view) else "goal"

    def missed(self, memory: Any, why: str) -> None:  # noqa: ANN401 - a view of the state
        """Change nothing: the model goes on with the step."""
