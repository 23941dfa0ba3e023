"""The masks of the known secrets: where one stands in a text or in bytes, and what is put there instead.

Nearly every text holds no secret, so what must be quick is to see that. Most spellings have a long run of letters,
digits and a few signs. A text without such a run holds none of them, which one pass in C shows; of one with runs, only
these are looked through. The few spellings without a run are looked for one by one. Does not change: `known.py` makes
a new one when it learns something. `codec/redact.py` asks it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from perdure.codec.spelling import SPELLING_BYTES_MIN, Spelling, spellings

_NEIGHBOUR: Final = "[A-Za-z0-9+/_-]?"
_SIGNS: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-%")
_IN_RUNS: Final = bytes(0x61 if code in _SIGNS else 0x20 for code in range(256))
_RUN: Final = b"a" * 16  # as `_IN_RUNS` shows it
_RUNS_MAX: Final = 1_000  # looked for one by one; then the rest of the text counts as one
_CORE: Final = re.compile(rb"[A-Za-z0-9+/_%-]{16,}")


def mask_of(name: str) -> str:
    """Return what stands in records in place of the text of the secret `name`."""
    return f"[secret {name}]"


class Masks:
    """All spellings of some secrets, and the mask of each."""

    __slots__ = ("_cores", "_few", "_firsts", "_ordered", "_raws", "_shortest", "longest")

    def __init__(self, named: Iterable[tuple[str, bytes]]) -> None:
        pairs = tuple(named)
        masks = [mask_of(name) for name, _ in pairs]
        found: dict[str, tuple[Spelling, str]] = {}
        for (_, secret), mask in zip(pairs, masks, strict=True):
            for spelling in spellings(secret):
                if not any(spelling.text in one for one in masks):  # it would be masked inside its own mask, for ever
                    found.setdefault(spelling.text, (spelling, mask))
        self._ordered = tuple(sorted(found.values(), key=lambda one: -len(one[0].text)))  # the longest first
        self._raws = {secret: mask for (_, secret), mask in zip(pairs, masks, strict=True) if not _is_text(secret)}
        texts = [one.text for one, _ in self._ordered]
        encoded = [*self._raws, *(_encoded(text) for text in texts)]
        cores = {raw: max(_CORE.findall(raw), key=len, default=b"") for raw in encoded}
        self._few = tuple(raw for raw, core in cores.items() if not core)
        self._cores = tuple(dict.fromkeys(core for core in cores.values() if core))
        self._shortest = min(map(len, encoded), default=SPELLING_BYTES_MIN)
        self.longest = max(map(len, texts), default=0)
        self._firsts: dict[str, list[str]] = {}
        for text in texts:
            self._firsts.setdefault(text[0], []).append(text)

    def are_in(self, raw: bytes) -> bool:
        """Whether a secret may stand in `raw`; False is certain."""
        if len(raw) < self._shortest:
            return False
        return any(few in raw for few in self._few) or self._has_core(raw)

    def in_text(self, text: str) -> str:
        """Return `text` with a mask in each place where a secret stood: the same object where none did."""
        return self._replaced(text) if self.are_in(_encoded(text)) else text

    def in_bytes(self, raw: bytes) -> bytes:
        """As `in_text`, for bytes that hold texts in UTF-8."""
        if not self.are_in(raw):
            return raw
        clear = raw
        for secret, mask in self._raws.items():
            if secret in clear:
                clear = clear.replace(secret, mask.encode())
        text = clear.decode("utf-8", "surrogateescape")
        made = self._replaced(text)
        return clear if made is text else made.encode("utf-8", "surrogateescape")

    def begun_in(self, text: str) -> int:
        """Return how many characters at the end of `text` may be the beginning of a secret that is not all there."""
        for start in range(max(0, len(text) - self.longest + 1), len(text)):
            spelt = self._firsts.get(text[start])
            if spelt is not None and any(one.startswith(text[start:]) for one in spelt):
                return len(text) - start
        return 0

    def _has_core(self, raw: bytes) -> bool:
        shown = raw.translate(_IN_RUNS)
        at = shown.find(_RUN)
        if at < 0 or not self._cores:
            return False
        runs = _runs_in(raw, shown, at)
        return any(core in runs for core in self._cores)

    def _replaced(self, text: str) -> str:
        for spelling, mask in self._ordered:
            if spelling.text in text:
                text = _replaced(text, spelling, mask)
        return text


def _runs_in(raw: bytes, shown: bytes, at: int) -> bytes:
    """Return the long runs of `raw`, from the one at `at` on, with gaps between them."""
    runs: list[bytes] = []
    while at >= 0 and len(runs) < _RUNS_MAX:
        end = shown.find(b" ", at)
        if end < 0:
            return b" ".join((*runs, raw[at:]))
        runs.append(raw[at:end])
        at = shown.find(_RUN, end)
    return b" ".join((*runs, raw[at:])) if at >= 0 else b" ".join(runs)


def _replaced(text: str, spelling: Spelling, mask: str) -> str:
    if not spelling.is_inside:
        return text.replace(spelling.text, mask)
    return re.sub(f"{_NEIGHBOUR}{re.escape(spelling.text)}{_NEIGHBOUR}", lambda _: mask, text)


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
