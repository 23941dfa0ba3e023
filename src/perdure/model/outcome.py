"""How an action ended: three possibilities, as values."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.model.failure import ErrorRecord


class Succeeded(msgspec.Struct, frozen=True):
    """The tool returned; `result` is the recorded value, decoded afresh for each caller."""

    result: Any
    valid: bool = True  # False: the tool's `valid=` did not hold for the result of an effect


class Failed(msgspec.Struct, frozen=True):
    """The tool raised, ran out of time or was cancelled, and nothing of it is left in the world."""

    error: ErrorRecord


class InDoubt(msgspec.Struct, frozen=True):
    """It may have happened or not."""

    reason: str


Outcome = Succeeded | Failed | InDoubt
