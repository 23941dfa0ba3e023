"""The conversation of an agent: how it is opened, what people say in it, and what is left out when it grows too long.

It stands in memory at "messages". The journal keeps every message; what is condensed is left out of the requests only.
Pure: yields moves. Called by `policy.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from perdure.agent.approaches.approach import Approach
from perdure.agent.kit import Kit
from perdure.agent.memory import plain
from perdure.agent.people import OFFERS
from perdure.agent.prompts import persona
from perdure.model.chat import Message, Offer
from perdure.model.move import Move, PolicyView, Remember
from perdure.tools.builtin.shown import shown

BYTES_PER_TOKEN: Final = 3  # of English text about four; few enough that a request is not too long unseen
WINDOW_USUAL: Final = 32_000  # tokens, where nobody says how many a model takes
FULL: Final = 0.75  # of the window: from here on the conversation is condensed,
KNOWN: Final = 0.9  # of what a model has refused as too long: so much is taken for its window
KEPT: Final = 0.35  # to this share, newest messages first
LINE_MAX: Final = 160  # letters that are left of a message
LINES_MAX, LINES_MIN = 200, 5  # that are left of older messages; half of what is kept, at most
TEXT_MIN: Final = 1_000  # letters that a text may always have
LOW: Final = (
    "Most of what this task may cost is used. Do only what is still needed most, then call `finish` with what there is."
)
WORD_MAX: Final = 20_000  # letters of what a person says at once

Memory = Any  # a writable view of the state


def opened(view: PolicyView, kit: Kit, approach: Approach) -> Iterator[Move]:
    """Open the conversation where there is none, and anew after a rollback or a change of strategy: from the brief."""
    mark = [view.strategy.name, len(view.lessons)]
    if list(view.memory.get("opened", ())) == mark:
        return
    is_first = "opened" not in view.memory
    system = persona(view, kit, approach)
    brief, heard, offers = view.brief(), len(view.messages), _offers(view, kit, approach)

    def change(memory: Memory) -> None:
        memory["opened"] = mark
        memory["messages"] = [
            Message(role="system", text=system, pinned=True),
            Message(role="user", text=brief, pinned=True),
            *(kit.first if is_first else ()),
        ]
        memory["offers"] = offers
        memory["hidden"] = kit.hidden
        memory["summary"] = []
        memory["ahead"] = {}
        memory["heard"] = heard
        memory.setdefault("turn", 0)
        for gone in ("claim", "is_warned"):
            memory.pop(gone, None)

    yield Remember(change=change)


def heard(view: PolicyView) -> Iterator[Move]:
    """Take what people have said since, and what recovery advises, into the conversation."""
    memory = view.memory
    new = list(view.messages[memory["heard"] :])
    if new:
        count = len(view.messages)

        def hear(memory: Memory) -> None:
            memory["heard"] = count
            for word in new:
                memory["messages"].append(Message(role="user", text=f"A person says: {_cut(word)}"))

        yield Remember(change=hear)
    if view.advice and view.advice.kind != "person" and memory.get("advised") != view.attempt:
        attempt, text = view.attempt, view.advice.text
        is_long = view.advice.kind == "condense"

        def heed(memory: Memory) -> None:
            memory["advised"] = attempt
            if is_long:  # what was too long once is not tried again
                size = size_of(memory["messages"])
                memory["room"] = min(memory.get("room", size), int(size * KNOWN))
                condense(memory, int(size * KEPT))
            else:
                memory["messages"].append(Message(role="user", text=text))

        yield Remember(change=heed)


def renewed(view: PolicyView, kit: Kit, approach: Approach) -> Iterator[Move]:
    """Take what has changed of settings and tools into memory: between two turns, so that no call in flight changes."""
    offers, hidden = _offers(view, kit, approach), kit.hidden
    if plain(view.memory["offers"]) != offers or plain(view.memory["hidden"]) != hidden:

        def change(memory: Memory) -> None:
            memory["offers"], memory["hidden"] = offers, hidden

        yield Remember(change=change)
    is_low = view.is_budget_low
    if is_low != view.memory.get("is_warned", False):

        def warn(memory: Memory) -> None:
            memory["is_warned"] = is_low  # no longer, where it was raised: it may come to an end again
            if is_low:
                memory["messages"].append(Message(role="user", text=LOW))

        yield Remember(change=warn)


def fitted(view: PolicyView, kit: Kit) -> Iterator[Move]:
    """Condense the conversation where the next request would come near the model's window."""
    window = window_of(view, kit)
    offers = len(json.dumps(plain(view.memory["offers"])))
    room = min(window * BYTES_PER_TOKEN - offers, view.memory.get("room", window * BYTES_PER_TOKEN))
    is_full = size_of(view.memory["messages"]) > room * FULL
    if is_full and view.memory.get("fitted") != view.memory["turn"]:  # once a turn: what is left may be too much still
        turn = view.memory["turn"]

        def fit(memory: Memory) -> None:
            memory["fitted"] = turn
            condense(memory, max(0, int(room * KEPT)))

        yield Remember(change=fit)


def window_of(view: PolicyView, kit: Kit) -> int:
    """Return how many tokens a request may have."""
    model, _ = kit.thinker(view.strategy)
    known = kit.settings.context_max or model.context_tokens or WINDOW_USUAL
    return min(known, model.context_tokens or known)


def condense(memory: Memory, room: int) -> None:
    """Leave of the conversation what is pinned, a line for each older message, and the newest that fit into `room`.

    The newest of all stays whatever its size; where it does not fit, its long texts are shown by head and tail.
    """
    messages: list[Any] = plain(memory["messages"])
    pinned = [message for message in messages if message.get("pinned")]
    others = [message for message in messages if not (message.get("pinned") or message.get("condensed"))]
    kept = 1
    while kept < len(others) and size_of(others[-kept - 1 :]) <= room:
        kept += 1
    lines = [*plain(memory["summary"]), *(line for message in others[:-kept] for line in _lines(message))]
    lines = lines[-max(LINES_MIN, min(LINES_MAX, room // (2 * LINE_MAX))) :]
    memory["summary"] = lines
    told = "What went before, in short:\n" + "\n".join(lines)
    left = others[-kept:] if size_of(others[-kept:]) <= room else [_shortened(one, room) for one in others[-kept:]]
    memory["messages"] = [*pinned, {"role": "user", "text": told, "condensed": True}, *left]


def _shortened(message: dict[str, Any], room: int) -> dict[str, Any]:
    """Return a message in which no text is longer than its share of `room`. What a provider kept of it goes."""
    texts = [text for text in _texts(message) if len(text) > TEXT_MIN]
    if not texts:
        return message
    share = max(TEXT_MIN, room // (2 * len(texts)))  # of letters: some have more than one byte
    return {name: _shown(value, share) for name, value in message.items() if name != "kept"}


def _texts(value: object) -> Iterator[str]:
    """Yield all texts in a value of JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        inner = cast("dict[str, object]", value).values() if isinstance(value, dict) else cast("list[object]", value)
        for one in inner:
            yield from _texts(one)


def _shown(value: Any, share: int) -> Any:  # noqa: ANN401 - any value of JSON
    if isinstance(value, str):
        return shown(value, share)
    if isinstance(value, dict):
        return {name: _shown(one, share) for name, one in cast("dict[str, Any]", value).items()}
    return [_shown(one, share) for one in cast("Sequence[Any]", value)] if isinstance(value, list) else value


def size_of(messages: Sequence[Mapping[str, Any]]) -> int:
    """Return about how many bytes of a request `messages` make."""
    return sum(_size(message) for message in messages)


def _size(message: Mapping[str, Any]) -> int:
    size = len(message["text"].encode("utf-8", "replace")) + 20
    for call in message.get("calls", ()):
        size += len(str(plain(call["arguments"]))) + 60
    for result in message.get("results", {}).values():
        size += len(str(plain(result))) + 40
    return size


def _lines(message: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for what was said, and one for each call and what came of it."""
    if message["text"].strip():
        yield f"- {message['role']}: {_line(message['text'])}"
    for call in message.get("calls", ()):
        result = message["results"].get(call["id"], {})
        came = result.get("text", "") if "failed" not in result else f"failed: {result['failed']['message']}"
        yield f"- {call['name']}({_line(json.dumps(call['arguments'], ensure_ascii=False))}): {_line(came)}"


def _line(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= LINE_MAX else flat[: LINE_MAX - 1] + "…"


def _offers(view: PolicyView, kit: Kit, approach: Approach) -> list[Offer]:
    return [*kit.ordered(view.strategy), *OFFERS, *approach.offers]


def _cut(word: str) -> str:
    return word if len(word) <= WORD_MAX else f"{word[:WORD_MAX]}… ({len(word) - WORD_MAX} letters more)"
