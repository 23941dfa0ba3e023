"""The prompt strategies, by AutoGPT's names: how an agent goes about its goal. Each is one module here."""

from __future__ import annotations

from typing import Final

from perdure.agent.approaches.approach import Approach
from perdure.agent.approaches.one_shot import OneShot
from perdure.agent.approaches.plan_execute import PlanExecute
from perdure.agent.approaches.reflexion import Reflexion
from perdure.agent.approaches.rewoo import Rewoo
from perdure.agent.approaches.tree_of_thoughts import TreeOfThoughts
from perdure.errors import ConfigInvalid

APPROACHES: Final[dict[str, Approach]] = {
    one.name: one for one in (OneShot(), PlanExecute(), Reflexion(), Rewoo(), TreeOfThoughts())
}


def approach_called(name: str) -> Approach:
    """Return a prompt strategy. Raises ConfigInvalid naming those there are."""
    if name not in APPROACHES:
        raise ConfigInvalid("prompt_strategy", f"{name!r} is not one of {', '.join(sorted(APPROACHES))}")
    return APPROACHES[name]


__all__ = ["APPROACHES", "Approach", "approach_called"]
