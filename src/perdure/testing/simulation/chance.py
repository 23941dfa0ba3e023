"""Chance that is the same in every run: a seed gives the same draws on every machine and version of Python.

Not for production (`perdure.ids_source`) and not for secrets. Called by the simulation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final, TypeVar

T = TypeVar("T")

_MASK: Final = (1 << 64) - 1
_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


class Chance:
    """A stream of draws named by `seed`; streams with other names have nothing in common (SplitMix64)."""

    def __init__(self, *seed: object) -> None:
        named = "/".join(map(str, seed)).encode()
        self._state = int.from_bytes(hashlib.blake2b(named, digest_size=8).digest(), "big")

    def bits(self) -> int:
        """Return 64 bits."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = ((self._state ^ (self._state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)

    def below(self, number: int) -> int:
        """Return an integer from 0 to `number` - 1."""
        return self.bits() % number

    def between(self, lowest: int, highest: int) -> int:
        """Return an integer from `lowest` to `highest`, both included."""
        return lowest + self.bits() % (highest - lowest + 1)

    def share(self) -> float:
        """Return a float in [0, 1)."""
        return (self.bits() >> 11) / (1 << 53)

    def holds(self, probability: float) -> bool:
        """Return True with that probability."""
        return self.share() < probability

    def pick(self, items: Sequence[T]) -> T:
        """Return one of `items`."""
        return items[self.bits() % len(items)]

    def weighted(self, items: Sequence[tuple[T, int]]) -> T:
        """Return one of `items`, each as likely as the weight beside it."""
        left = self.below(sum(weight for _, weight in items))
        for item, weight in items:
            left -= weight
            if left < 0:
                return item
        raise ValueError("weights are positive")


class ChanceIds:
    """`ports.Ids` on a `Chance`."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self.tokens: list[str] = []  # of runtimes and tasks

    def task_id(self) -> str:
        """32 hex digits."""
        self.tokens.append(self.salt().hex())
        return self.tokens[-1]

    def short_id(self) -> str:
        """22 letters."""
        high, low = self._chance.bits(), self._chance.bits()
        drawn = (high << 64) | low
        letters: list[str] = []
        for _ in range(22):
            drawn, place = divmod(drawn, len(_LETTERS))
            letters.append(_LETTERS[place])
        return "".join(letters)

    def salt(self) -> bytes:
        """16 bytes."""
        return self._chance.bits().to_bytes(8, "big") + self._chance.bits().to_bytes(8, "big")

    def random(self) -> float:
        """A float in [0, 1)."""
        return self._chance.share()
