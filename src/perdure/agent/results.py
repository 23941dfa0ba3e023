"""The results of a reply's calls: where they stand in memory, and how they are put there. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from perdure.agent.memory import plain
from perdure.model.chat import Result
from perdure.model.move import Remember


def text(shown: str) -> Result:
    """Return the result of a call that succeeded, as the model is shown it."""
    return {"text": shown}


def failed(kind: str, message: str) -> Result:
    """Return the result of a call that was not made, or failed."""
    return {"failed": {"type": kind, "message": message}}


def put(memory: Any, place: int, brought: Mapping[str, Result]) -> None:  # noqa: ANN401 - a view of the state
    """Write results, by call id, into the reply at `place`."""
    for call, result in brought.items():
        memory["messages"][place]["results"][call] = result


def given(place: int, brought: Mapping[str, Result]) -> Remember:
    """Return the move that writes results into the reply at `place`."""
    return Remember(change=lambda memory: put(memory, place, brought))


def unanswered(message: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the calls of a message that have no result yet, as plain values: schemas and patterns know no views."""
    for call in message.get("calls", ()):
        if call["id"] not in message["results"]:
            yield plain(call)


def all_failed(message: Mapping[str, Any]) -> bool:
    """Whether a message has calls, and none of them has brought anything."""
    answers = [message["results"].get(call["id"], {}) for call in message.get("calls", ())]
    return bool(answers) and all("failed" in answer for answer in answers)
