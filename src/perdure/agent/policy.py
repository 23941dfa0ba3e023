"""What a thinking agent does next: the first thing that its memory shows to be missing.

    open the conversation ─ answer the calls of the last reply ─ judge what it claims ─ hear people
        ─ what the prompt strategy wants done ─ make room ─ ask the model ─ again

It keeps nothing itself, so it goes on after a kill where memory says. Pure. Driven by `loop.py`; memory is

    opened     strategy and lessons for which the conversation was opened
    messages   the conversation (`model.chat.Message`); results of calls stand in the reply that made them
    offers     what the model may call (`model.chat.Offer`)
    turn       replies so far; a call is numbered TURN.PLACE
    heard      words of people that are in the conversation · advised: the call of the program whose advice is
    hidden     settings as tools get them · is_warned: of the budget · room: bytes that a request may have, as learned
    ahead      the prompt strategy's own: steps, checks, ways, errands, lessons
    looked     when it was last looked whether the goal is reached already · met: it is
    claim      what is said to be reached and not judged yet · claimed: the turn that has said so last
    summary    lines that stand for messages that are left out · fitted: the turn in which that was last done
    counted    the turn that was last counted as a failure · plans, replans: how many were made
    settings   as they are now, where they have changed since the start
    plan, step, done, todo, marks, said, reached
"""

from __future__ import annotations

from collections.abc import Iterator

from perdure.agent import claims, context, turns
from perdure.agent.approaches import approach_called
from perdure.agent.kit import PROMPT_STRATEGIES, Kit
from perdure.model.move import Finish, Move, PolicyView


class ThinkingPolicy:
    """`ports.Policy` that asks a model."""

    def __init__(self, kit: Kit) -> None:
        self.kit = kit

    def next(self, view: PolicyView) -> Move:
        """Return the first move that memory does not show as made."""
        return next(self._missing(view))

    def _missing(self, view: PolicyView) -> Iterator[Move]:
        """Yield what is still to be done, in order; only the first is ever made."""
        kit = self.kit
        approach = approach_called(view.strategy.prompt or kit.settings.prompt_strategy or PROMPT_STRATEGIES[0])
        yield from context.opened(view, kit, approach)
        if "reached" in view.memory:
            yield Finish(result=view.memory["reached"])
        yield from turns.answered(view, kit)
        yield from claims.claimed(view, approach)
        yield from claims.judged(view, kit, approach)
        yield from turns.counted(view)
        yield from claims.met(view)
        yield from context.heard(view)
        yield from context.renewed(view, kit, approach)
        yield from approach.ahead(view, kit)
        yield from claims.already(view)
        yield from context.fitted(view, kit)
        yield from turns.thought(view, kit)
