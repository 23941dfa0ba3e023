"""A named semantic anchor in a task's history, and a loop's place in it."""

from __future__ import annotations

import msgspec


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A seq at which no intent was open, why it was made and what verified it."""

    name: str
    seq: int
    changed: int  # seq of the last change of the document before it: equal `changed` = same document
    place: str = ""  # in which body of an `each` loop it was marked
    reason: str = "program"  # program, person, milestone
    verdict: str = ""  # "", "passed", "failed"
    verifier: str = ""  # who or what judged it
    about: str = ""  # of a milestone: the step or the path that it is about


class Position(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far a named `each` loop has come on this branch."""

    done: int = 0  # items whose body ended
    item: bytes = b""  # digest of the item whose body is open, empty between items
    trail: bytes = b""  # digest over the finished items, in order
