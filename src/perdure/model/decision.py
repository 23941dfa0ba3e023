"""What recovery can decide, as values: they are recorded, shown and tested without any I/O.

The loop that obeys them is `engine/programs.py`, with one `match`. More decisions join with the recovery work.
"""

from __future__ import annotations

import msgspec


class Continue(msgspec.Struct, frozen=True, tag="continue"):
    """Go on: nothing is wrong."""


class Retry(msgspec.Struct, frozen=True, tag="retry"):
    """Call the program anew at `at` (UTC, microseconds since 1970)."""

    at: int


class Ask(msgspec.Struct, frozen=True, tag="ask"):
    """Hand the task to a person with a question."""

    question: str


class Finish(msgspec.Struct, frozen=True, tag="finish"):
    """The program has returned; record its result."""


class Abandon(msgspec.Struct, frozen=True, tag="abandon"):
    """Give up: the task has failed, its scene is kept."""

    reason: str


Decision = Continue | Retry | Ask | Finish | Abandon
