"""Requests to a model beside the conversation: a plan, a judgement, a lesson. Each asks for JSON of a form. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure.agent.kit import Kit
from perdure.agent.thinking import request_of
from perdure.model.chat import Message
from perdure.model.move import Act, Keep, PolicyView


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One such request; `key` is unique on the branch."""

    form: str
    messages: Sequence[Message]
    key: str
    by_judge: bool = False  # asked of the model that judges, not of the one that works


def asked(view: PolicyView, kit: Kit, question: Question, keep: Keep) -> Act:
    """Return the move that asks, and keeps the answer by `keep(memory, said)`; what it says is in said["filled"]."""
    model, think = kit.judge() if question.by_judge else kit.thinker(view.strategy)
    messages = list(question.messages)
    return Act(
        tool=think,
        arguments={"model_name": model.name, "messages": messages, "offers": [], "form": question.form},
        key=question.key,
        keep=keep,
        on_failure="leave",
        reserve=model.estimate(request_of(messages, [], question.form, None)),
    )
