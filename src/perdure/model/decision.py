"""What recovery can decide, as values: they are recorded, shown and tested without any I/O.

The loop that obeys them is `engine/driving.py`, with one `match`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

AskReason = Literal["in_doubt", "limit", "exhausted", "auth", "quota"]


class Continue(msgspec.Struct, frozen=True, tag="continue"):
    """Go on: nothing is wrong."""


class Retry(msgspec.Struct, frozen=True, tag="retry"):
    """Call the program anew at `at` (UTC, microseconds since 1970)."""

    at: int


class Reask(msgspec.Struct, frozen=True, tag="reask", omit_defaults=True):
    """Call the program anew, telling it why the last answer, or (`rephrase`) the request, was refused."""

    error: str
    rephrase: bool = False


class Nudge(msgspec.Struct, frozen=True, tag="nudge"):
    """Call the program anew, telling it that it goes round in circles."""

    text: str


class Condense(msgspec.Struct, frozen=True, tag="condense"):
    """Call the program anew, telling it that its context was too long."""

    error: str


class RollBack(msgspec.Struct, frozen=True, tag="roll_back"):
    """Go back to the checkpoint `checkpoint` (of entry `to_seq`), and on with `strategy`, knowing `lesson`."""

    to_seq: int
    checkpoint: str
    strategy: str
    lesson: str


class ChangeStrategy(msgspec.Struct, frozen=True, tag="change_strategy"):
    """Go on from here with `strategy`, knowing `lesson`."""

    strategy: str
    lesson: str


class Park(msgspec.Struct, frozen=True, tag="park"):
    """Nothing can be done until `until`."""

    until: int
    reason: str


class Pause(msgspec.Struct, frozen=True, tag="pause"):
    """Nothing can be done until somebody has made room: the disk is full."""

    reason: str


class Ask(msgspec.Struct, frozen=True, tag="ask", omit_defaults=True):
    """Hand the task to a person with a question."""

    question: str
    reason: AskReason = "limit"


class Finish(msgspec.Struct, frozen=True, tag="finish"):
    """The program has returned, or its goal is reached already; record the result."""


class Abandon(msgspec.Struct, frozen=True, tag="abandon"):
    """Give up: the task has failed, its scene is kept."""

    reason: str


Decision = (
    Continue | Retry | Reask | Nudge | Condense | RollBack | ChangeStrategy | Park | Pause | Ask | Finish | Abandon
)
