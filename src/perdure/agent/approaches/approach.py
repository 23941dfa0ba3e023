"""What a prompt strategy decides: what is done before a turn, and what a reply without a call means. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from perdure.agent.checks import as_made
from perdure.agent.kit import Kit
from perdure.model.chat import Offer
from perdure.model.move import Move, PolicyView


class Approach(Protocol):
    """One prompt strategy. Keeps nothing; its own part of memory is `memory["ahead"]`."""

    @property
    def name(self) -> str:
        """AutoGPT's name of it."""
        ...

    @property
    def manner(self) -> str:
        """What the prompt says of how to go about it."""
        ...

    @property
    def offers(self) -> tuple[Offer, ...]:
        """What the model may call beside the tools and what every agent may."""
        ...

    def ahead(self, view: PolicyView, kit: Kit) -> Iterator[Move]:
        """Yield what is to be done before the next turn."""
        ...

    def claims(self, view: PolicyView) -> str:
        """Return what a reply without a call says to be reached: "step", "goal"."""
        ...

    def missed(self, memory: Any, why: str) -> None:  # noqa: ANN401 - a view of the state
        """Change memory where a claim was not met, beside telling the model why."""
        ...


def goal_check(memory: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return how it is known whether the goal is reached; a judge decides where nothing else was found."""
    return as_made(memory["ahead"].get("goal_check", {}))


def step_check(memory: Mapping[str, Any], title: str) -> Mapping[str, Any]:
    """Return how it is known whether the step `title` is reached."""
    steps = memory["ahead"].get("steps", ())
    none: Mapping[str, Any] = {}
    return as_made(next((step["check"] for step in steps if step["title"] == title), none))
