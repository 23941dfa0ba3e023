"""What an agent works with in this process: its settings, its models, its tools. Nothing of it is recorded.

Made by `load_agent`'s program when it is called, closed when that call ends. Policies read it; it decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from perdure.agent.settings import AgentSettings
from perdure.agent.thinking import thinking
from perdure.model.chat import Message, Offer
from perdure.model.effect import Effect
from perdure.model.strategy import Strategy
from perdure.ports import Model
from perdure.tools import Tool

PROMPT_STRATEGIES: Final = ("plan_execute", "reflexion", "one_shot", "tree_of_thoughts", "rewoo")  # the usual one first

OpenModel = Callable[[str], Model]


class Kit(msgspec.Struct, kw_only=True):
    """One call of the program has one."""

    settings: AgentSettings
    models: Mapping[str, Model]  # by name
    tools: Mapping[str, Tool[..., Any]]  # by name and alias
    offers: tuple[Offer, ...]  # of the tools that the model may call, in the order in which they are offered
    effects: Mapping[str, Effect] = {}  # of tools whose effect hangs on settings and machine
    first: tuple[Message, ...] = ()  # what the conversation begins with, behind the brief
    thinkers: dict[str, Tool[..., Any]] = {}  # by name of the model

    def thinker(self, strategy: Strategy) -> tuple[Model, Tool[..., Any]]:
        """Return the model that thinks under `strategy`, and the tool that asks it.

        Strategies stand on record since the start: one whose model was changed since goes by the one in its place.
        """
        if strategy.model and strategy.model not in self.models:
            return self.judge()
        return self._opened(strategy.model or self.settings.model)

    def judge(self) -> tuple[Model, Tool[..., Any]]:
        """Return the model that judges and reflects, and the tool that asks it."""
        return self._opened(self.settings.fast_model or self.settings.model)

    def _opened(self, name: str) -> tuple[Model, Tool[..., Any]]:
        model = self.models[name]
        if name not in self.thinkers:
            self.thinkers[name] = thinking(model)
        return model, self.thinkers[name]

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """All names of each tool, by each of them: patterns of permissions may know it by another than the model."""
        return {name: (tool.name, *tool.aliases) for name, tool in self.tools.items()}

    def ordered(self, strategy: Strategy) -> list[Offer]:
        """Return the offers, the tools of `strategy` first, without those that only other strategies name."""
        named = {name for other in strategies_of(self.settings) for name in other.tools}
        first = {name: place for place, name in enumerate(strategy.tools)}
        own = [offer for offer in self.offers if offer["name"] in first or not (first and offer["name"] in named)]
        return sorted(own, key=lambda offer: first.get(offer["name"], len(first)))

    @property
    def hidden(self) -> dict[str, Any]:
        """The settings as tools get them in their hidden parameter."""
        plain: dict[str, Any] = msgspec.to_builtins(self.settings)
        return plain


def strategies_of(settings: AgentSettings) -> tuple[Strategy, ...]:
    """Return the ways to go about a goal, the chosen prompt strategy first; recovery changes between them."""
    chosen = settings.prompt_strategy or PROMPT_STRATEGIES[0]
    others = [name for name in PROMPT_STRATEGIES if name != chosen]
    usual = [Strategy(name=name, prompt=name, temperature=settings.temperature) for name in (chosen, *others)]
    smaller = Strategy(name="smaller_steps", prompt="plan_execute", change="smaller_steps")
    fallen_back = (
        [Strategy(name="other_model", prompt=chosen, model=settings.fast_model)] if settings.fast_model else []
    )
    return (usual[0], *fallen_back, smaller, *usual[1:])
