"""What `task.now()`, `random()` and `new_id()` give in a replay: what the record says, in the order of the calls.

A call is answered from the group that was written before the next entry, so one call too many never shifts the values
behind the next entry. Within a group it cannot be told which call is the new one: `playing` tries them. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from perdure.engine.replay.walking import Walk, drawn_in
from perdure.model import entry as e


class Surplus(msgspec.Struct, frozen=True):
    """A call that had no value on record, and the calls of the same kind before it that had one in its group."""

    number: int
    others: tuple[int, ...]


class Draws:
    """The calls of one replay. `skipped` holds the numbers of those that are taken for new ones."""

    def __init__(self, skipped: Sequence[int] = ()) -> None:
        self.surplus: list[Surplus] = []
        self._skipped = frozenset(skipped)
        self._calls = 0
        self._given: dict[int, int] = {}  # seq of a group -> how many of its values were given
        self._group: list[tuple[int, str]] = []  # calls answered since the last entry: number, what

    def take(self, walk: Walk, what: str, kind: type, *, side_by_side: bool) -> object | None:
        """Return the recorded value of this call, None where it has none."""
        self._calls += 1
        found = None if self._calls in self._skipped else self._find(walk, side_by_side=side_by_side)
        if found is not None:
            seq, values = found
            given = self._given.get(seq, 0)
            if given == 0:
                self._group = []
            if given < len(values) and type(values[given]) is kind:
                self._given[seq] = given + 1
                self._group.append((self._calls, what))
                return values[given]
        others = tuple(number for number, before in self._group if before == what)
        self.surplus.append(Surplus(self._calls, others))
        return None

    def is_done(self, walk: Walk) -> bool:
        """Whether all values of the group that comes next were given, and another entry is asked for."""
        entry = walk.next
        if entry is None or not isinstance(entry.payload, e.ValuesDrawn):
            return False
        return self._given.get(entry.header.seq, 0) >= len(drawn_in(entry.payload, walk.record))

    def invent(self, what: str) -> object:
        """Return a value for a call that has none on record: the same in every replay."""
        digest = hashlib.sha256(f"{what} {self._calls}".encode()).digest()
        number = int.from_bytes(digest[:6], "big")
        match what:
            case "now":
                return number
            case "random":
                return number / (1 << 48)
            case _:
                return digest.hex()[:22]

    def _find(self, walk: Walk, *, side_by_side: bool) -> tuple[int, list[object]] | None:
        """Return the group to draw from: the next entry, or where coroutines run side by side one further on."""
        for entry in walk.ahead():
            if isinstance(entry.payload, e.ValuesDrawn):
                values = drawn_in(entry.payload, walk.record)
                if self._given.get(entry.header.seq, 0) < len(values) or not side_by_side:
                    return entry.header.seq, values
            elif not (side_by_side or isinstance(entry.payload, e.MessageReceived | e.SnapshotTaken)):
                return None
        return None
