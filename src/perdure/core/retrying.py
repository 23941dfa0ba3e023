"""How long to wait before something that failed in passing is tried again, and when no longer. Pure.

One loop in the whole system: the program is called anew, and finds what is finished. First a few quick tries, each
after a random part of a ceiling that doubles ("full jitter": tasks that failed together do not come back together);
then, as long as the outage may last, slow ones. What the other side has said is waited out in full, and never less
than the wait that would have come without it: "in a second", said again and again, is no reason to ask each second.
Chance is taken from the task's own journal, so that a restart or a replay comes to the same moment. All counts stand
in the ledger: a restart does not give a task new tries; only a person's word does. Called by `core/recovery.py`.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Final

import msgspec

from perdure.core import health
from perdure.limits import (
    OUTAGE_CEILING_S,
    OUTAGE_S,
    PASSING_MAX,
    PROVIDER_FAULTS_MAX,
    RETRIES_MAX,
    RETRY_BASE_S,
    RETRY_CEILING_S,
)
from perdure.model.failure import ErrorRecord
from perdure.model.ledger import Ledger

Count = Annotated[int, msgspec.Meta(ge=0)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]

_SPREAD: Final = 0.1  # of a wait that was told: so much may be added, and not more than `_SPREAD_MAX_S`
_SPREAD_MAX_S: Final = 1.0
_DOUBLINGS_MAX: Final = 20


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long a task puts up with faults that pass."""

    retries_max: Count = RETRIES_MAX  # quick ones, of one call
    base_s: Seconds = RETRY_BASE_S
    ceiling_s: Seconds = RETRY_CEILING_S
    outage_s: Seconds = OUTAGE_S  # how long one call may fail in passing before a person is asked; 0: not at all
    outage_ceiling_s: Seconds = OUTAGE_CEILING_S  # of one wait in an outage
    passing_max: Count = PASSING_MAX  # faults of the whole task since a person has looked
    provider_max: Count = PROVIDER_FAULTS_MAX  # those of one provider


PATIENT: Final = Patience()


def is_quick(ledger: Ledger, patience: Patience) -> bool:
    """Whether the call that failed may be tried again soon."""
    return ledger.retries <= patience.retries_max


def may_wait(ledger: Ledger, patience: Patience, now: int) -> bool:
    """Whether an outage has not lasted too long; time in which no process had the task counts, too."""
    return (now - ledger.passing_since) / 1_000_000 < patience.outage_s


def is_in_budget(ledger: Ledger, patience: Patience) -> bool:
    """Whether neither the task nor the provider of the call that failed has had too many faults."""
    faults = health.faults_of(ledger, ledger.failed_provider)
    return ledger.passing <= patience.passing_max and faults <= patience.provider_max


def pause_us(ledger: Ledger, error: ErrorRecord, patience: Patience) -> int:
    """Return after how many microseconds the call is to be tried again."""
    backoff = backoff_us(ledger, patience)
    if not error.wait_s > 0:  # nor where it is no number
        return backoff
    told = health.told_us(error)
    spread = min(told * _SPREAD, _SPREAD_MAX_S * 1_000_000)
    return max(told + int(chance_of(ledger) * spread), backoff)


def backoff_us(ledger: Ledger, patience: Patience) -> int:
    """Return how long to wait where nothing was said, in microseconds."""
    chance = chance_of(ledger)
    if is_quick(ledger, patience):
        doublings = min(max(0, ledger.retries - 1), _DOUBLINGS_MAX)
        return int(chance * min(patience.base_s * 2**doublings, patience.ceiling_s) * 1_000_000)
    doublings = min(ledger.retries - patience.retries_max - 1, _DOUBLINGS_MAX)
    ceiling_s = min(patience.ceiling_s / 2 * 2**doublings, patience.outage_ceiling_s)
    return int((0.5 + chance / 2) * ceiling_s * 1_000_000)  # at least half of it: there is no hurry in an outage


def chance_of(ledger: Ledger) -> float:
    """Return a number in [0, 1) that other tasks, and other attempts of this one, do not have."""
    text = f"{ledger.name}\n{ledger.started_at} {ledger.attempt} {ledger.retries}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=4).digest()) / 2**32
