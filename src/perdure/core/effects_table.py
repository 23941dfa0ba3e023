"""What becomes of an effect that a kill met: one row for each `retry` and crash point, one for each `undo`.

Rendered into docs/explanation/effects.md; `tests/crash/test_effects_table.py` kills a real program in every cell of it.
The code that does it is `core/resume.rule_for` and `core/rollback.py`; here it is said, not decided.
"""

from __future__ import annotations

from typing import Final

import msgspec

from perdure.model.effect import Retry, Undo

POINTS: Final = ("before_intent", "after_intent", "after_effect", "after_outcome")


class Resumed(msgspec.Struct, frozen=True):
    """What a resume does with a call that was killed at a point."""

    retry: Retry
    then: tuple[str, str, str, str]  # at each of POINTS
    calls: tuple[int, int, int, int]  # that the service has seen in all, in the end
    asks: tuple[bool, bool, bool, bool]  # whether a person is asked before


class TakenBack(msgspec.Struct, frozen=True):
    """What a rollback does with an effect behind its checkpoint, and what an equal call on the new branch meets."""

    undo: Undo
    fate: str  # in a word
    then: str
    in_doubt: str


RESUME: Final = (
    Resumed("free", ("made", "made", "made again", "answered"), (1, 1, 2, 1), (False, False, False, False)),
    Resumed(
        "keyed",
        ("made", "sent under its key", "sent again under its key", "answered"),
        (1, 1, 2, 1),
        (False, False, False, False),
    ),
    Resumed(
        "probe",
        ("made", "the probe says no: made", "the probe says yes: answered", "answered"),
        (1, 1, 1, 1),
        (False, False, False, False),
    ),
    Resumed(
        "restore",
        ("made", "files go back, made", "files go back, made again", "answered"),
        (1, 1, 2, 1),
        (False, False, False, False),
    ),
    Resumed(
        "never",
        ("made", "a person is asked", "a person is asked", "answered"),
        (1, 1, 1, 1),
        (False, True, True, False),
    ),
)
ROLLBACK: Final = (
    TakenBack("nothing", "nothing to take back", "an equal call is made", "forgotten; an equal call is made"),
    TakenBack("function", "taken back", "its undo is called; an equal call is made", "the same"),
    TakenBack("workspace", "goes with the files", "the files go back; an equal call is made", "the same"),
    TakenBack(
        "impossible",
        "stays",
        "refused, or it stays (`--carry`, `--force`) and answers an equal call",
        "refused, or it stays, and an equal call goes on by its `retry`",
    ),
)
FATES: Final = {row.undo: row.fate for row in ROLLBACK}


def combinations() -> list[tuple[Retry, Undo]]:
    """Return the answers that go together: free leaves nothing behind, and files go back with files."""
    fixed: list[tuple[Retry, Undo]] = [("free", "nothing"), ("restore", "workspace")]
    undos: tuple[Undo, ...] = ("nothing", "function", "impossible")
    retries: tuple[Retry, ...] = ("keyed", "probe", "never")
    return fixed + [(retry, undo) for retry in retries for undo in undos]
