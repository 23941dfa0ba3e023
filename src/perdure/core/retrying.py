"""How long to wait before something that failed in passing is tried again, and when no longer. Pure.

One loop in the whole system: the program is called anew, and finds what is finished. First a few quick tries, each
after a random part of a ceiling that doubles ("full jitter": tasks that failed together do not come back together);
then, as long as the outage may last, slow ones. What the other side has said is waited out in full. Chance is taken
from the task's own journal, so that a restart or a replay comes to the same moment. Called by `core/recovery.py`.
"""

from __future__ import annotations

import zlib
from typing import Final

import msgspec

from perdure.limits import (
    OUTAGE_CEILING_S,
    OUTAGE_S,
    PASSING_MAX,
    RETRIES_MAX,
    RETRY_BASE_S,
    RETRY_CEILING_S,
    TOLD_WAIT_MAX_S,
)
from perdure.model.failure import ErrorRecord
from perdure.model.ledger import Ledger

_SPREAD: Final = 0.1  # of a wait that was told: so much may be added, and not more than `_SPREAD_MAX_S`
_SPREAD_MAX_S: Final = 1.0


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long a task puts up with faults that pass."""

    retries_max: int = RETRIES_MAX  # quick ones, of one call
    base_s: float = RETRY_BASE_S
    ceiling_s: float = RETRY_CEILING_S
    outage_s: float = OUTAGE_S  # how long one call may fail in passing before a person is asked; 0: not at all
    outage_ceiling_s: float = OUTAGE_CEILING_S  # of one wait in an outage
    passing_max: int = PASSING_MAX  # faults of the whole task since a person has looked


PATIENT: Final = Patience()


def is_quick(ledger: Ledger, patience: Patience) -> bool:
    """Whether the call that failed may be tried again soon."""
    return ledger.retries <= patience.retries_max


def may_wait(ledger: Ledger, patience: Patience, now: int) -> bool:
    """Whether an outage has not lasted too long, and the task has not had too many of them."""
    lasted_s = (now - ledger.passing_since) / 1_000_000
    return lasted_s < patience.outage_s and ledger.passing <= patience.passing_max


def pause_us(ledger: Ledger, error: ErrorRecord, patience: Patience) -> int:
    """Return after how many microseconds the call is to be tried again."""
    chance = chance_of(ledger)
    if error.wait_s > 0:
        told = min(error.wait_s, TOLD_WAIT_MAX_S)
        return int((told + chance * min(told * _SPREAD, _SPREAD_MAX_S)) * 1_000_000)
    quick = max(0, min(ledger.retries, patience.retries_max) - 1)
    ceiling = min(patience.base_s * 2**quick, patience.ceiling_s)
    if not is_quick(ledger, patience):  # in an outage at least half of the ceiling: there is no hurry
        slow = ledger.retries - patience.retries_max
        ceiling = min(patience.ceiling_s * 2 ** min(slow, 20) / 2, patience.outage_ceiling_s)
        return int((0.5 + chance / 2) * ceiling * 1_000_000)
    return int(chance * ceiling * 1_000_000)


def chance_of(ledger: Ledger) -> float:
    """Return a number in [0, 1) that other tasks, and other attempts of this one, do not have."""
    text = f"{ledger.name} {ledger.started_at} {ledger.attempt} {ledger.retries}"
    return zlib.crc32(text.encode()) / 2**32
