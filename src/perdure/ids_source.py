"""The real source of chance (`ports.Ids`): operating-system randomness, drawn in blocks, a call being a syscall."""

from __future__ import annotations

import base64
import os

_BLOCK = 4096


class SystemIds:
    """`ports.Ids` on os.urandom. Not shared between threads; a forked child must not use its parent's."""

    def __init__(self) -> None:
        self._drawn: list[bytes] = []

    def task_id(self) -> str:
        """32 hex digits."""
        return self.salt().hex()

    def short_id(self) -> str:
        """22 letters of 128 random bits, the first of them no dash: people type ids on command lines."""
        while True:
            drawn = base64.urlsafe_b64encode(self.salt())[:22].decode("ascii")
            if drawn[0] != "-":
                return drawn

    def salt(self) -> bytes:
        """16 random bytes."""
        if not self._drawn:
            block = os.urandom(_BLOCK)
            self._drawn = [block[start : start + 16] for start in range(0, _BLOCK, 16)]
        return self._drawn.pop()

    def random(self) -> float:
        """A float in [0, 1) with 53 random bits."""
        return (int.from_bytes(self.salt()[:7], "big") >> 3) / (1 << 53)
