"""`one_shot`: every reply is thought and call in one, without a plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from perdure.agent.kit import Kit
from perdure.model.chat import Offer
from perdure.model.move import Move, PolicyView

MANNER: Final = (
    "Work without a plan. In each reply say in one or two sentences what you think and what you do next, and call the "
    "one tool that does it (several at once where they do not hang on each other). Call `finish` when the goal is "
    "reached."
)


class OneShot:
    """No request but the turns."""

    name = "one_shot"
    manner = MANNER
    offers: tuple[Offer, ...] = ()

    def ahead(self, view: PolicyView, kit: Kit) -> Iterator[Move]:  # noqa: ARG002 - nothing is to be done
        """Yield nothing."""
        yield from ()

    def claims(self, view: PolicyView) -> str:  # noqa: ARG002 - always
        """Return "goal": there is nothing smaller."""
        return "goal"

    def missed(self, memory: Any, why: str) -> None:  # noqa: ANN401 - a view of the state
        """Change nothing."""
