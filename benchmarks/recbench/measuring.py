"""One run as figures: what was reached, what it cost, what was done twice, and which faults were told apart.

What counts is the world's own books and its own list of faults; the journal is read only for what the agent was told.
Called by `running.py`, in several processes at once.
"""

from __future__ import annotations

from typing import Final

import msgspec

from benchmarks.recbench.stage import Played
from benchmarks.recbench.world import CLASS_OF, Injected
from perdure.model import entry as e

LOOP_TURNS_MIN: Final = 8  # a loop that ends by itself before so many turns need not be noticed
_LATE_S: Final = 1.0  # so long after its last turn a loop may be noticed


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one run."""

    world: str
    scenario: str
    arm: str
    seed: int
    is_solvable: bool
    completed: bool  # ended as succeeded, and the world is as wanted, to the last row
    false_success: bool  # ended as succeeded, and it is not
    handed_over: bool  # a person was asked what to do
    ending: str
    text: str
    calls: int
    needed: int  # by a run that nothing disturbs
    lasted_s: float
    lives: int
    settled_by_hand: int
    rollbacks: int
    doubles: int
    lost: int
    loops: int  # noticed, or so long that they had to be
    noticed: int
    false_stops: int  # while the model did not repeat itself, and its strategy was no dead end
    told: tuple[tuple[str, str], ...]  # (class, class as told) of each fault that came to the agent
    recovered: tuple[tuple[str, float], ...]  # (fault, seconds until the agent was further than ever)


def measure(world: str, scenario: str, arm: str, seed: int, played: Played) -> Record:
    """Return the figures of a run."""
    kit, fold = played.kit, played.fold
    state = fold.tree.root if fold is not None else {"done": 0, "work": {}}
    is_complete = kit.is_complete()
    succeeded = played.ending == "succeeded"
    firings = [entry.header.at for entry in played.entries if _is_firing(entry)]
    loops, noticed, false_stops = _compare_loops(played, [(at - played.began_at) / 1_000_000 for at in firings])
    return Record(
        world=world,
        scenario=scenario,
        arm=arm,
        seed=seed,
        is_solvable=kit.truth.is_solvable,
        completed=succeeded and is_complete,
        false_success=succeeded and not is_complete,
        handed_over=played.ending == "NeedsHuman",
        ending=played.ending,
        text=played.text[:300],
        calls=kit.calls.total(),
        needed=kit.needed(),
        lasted_s=played.lasted_s,
        lives=played.lives,
        settled_by_hand=played.settled_by_hand,
        rollbacks=fold.ledger.rollbacks if fold is not None else 0,
        doubles=kit.doubles(),
        lost=kit.lost(state)
        if fold is None or fold.ledger.rollback is None
        else 0,  # else its record is on its way back
        loops=loops,
        noticed=noticed,
        false_stops=false_stops,
        told=tuple(_told(played, fault) for fault in kit.faults if _is_told(played, fault)),
        recovered=tuple((fault.what, fault.over_s - fault.at_s) for fault in kit.faults if fault.over_s >= 0),
    )


def _is_firing(entry: e.Entry) -> bool:
    payload = entry.payload
    return isinstance(payload, e.FailureObserved) and payload.failure.failure_class == "stuck"


def _compare_loops(played: Played, firings_s: list[float]) -> tuple[int, int, int]:
    """Return how many loops there were, how many of them were noticed, and how often a loop was seen where none was."""
    loops = [(turns, any(begin <= at <= end + _LATE_S for at in firings_s)) for begin, end, turns in played.kit.loops]
    noticed = sum(is_noticed for _, is_noticed in loops)
    missed = sum(turns >= LOOP_TURNS_MIN and not is_noticed for turns, is_noticed in loops)
    outside = [at for at in firings_s if not any(begin <= at <= end + _LATE_S for begin, end, _ in played.kit.loops)]
    return noticed + missed, noticed, sum(not _goes_round(played, at) for at in outside)


def _goes_round(played: Played, at_s: float) -> bool:
    """Whether the agent has run into a dead end again without coming on between: a circle too, whoever leads there."""
    came_on_s = max((one for one in played.kit.came_on_s if one <= at_s), default=0.0)
    return sum(came_on_s <= dead_end <= at_s for dead_end in played.kit.dead_ends_s) > 1


# --- classes --------------------------------------------------------------------------------------------------------
def _is_told(played: Played, fault: Injected) -> bool:
    return fault.what in CLASS_OF and fault.what != "loop" and _outcome_of(played, fault) is not None


def _told(played: Played, fault: Injected) -> tuple[str, str]:
    outcome = _outcome_of(played, fault)
    told = outcome.error.failure_class if outcome is not None and outcome.error is not None else "none"
    return CLASS_OF[fault.what], told


def _outcome_of(played: Played, fault: Injected) -> e.ActionSettled | None:
    """Return the outcome that came of a fault; None where the process died before it was written."""
    same = [other.at_s for other in played.kit.faults if other.action == fault.action and other.number > fault.number]
    for entry in played.entries:
        payload, at_s = entry.payload, (entry.header.at - played.began_at) / 1_000_000
        if at_s < fault.at_s or getattr(payload, "action", "") != fault.action:
            continue
        if isinstance(payload, e.ActionIntended) and at_s > fault.at_s:
            return None  # sent again: whoever had met the fault was dead before he could say so
        if isinstance(payload, e.ActionSettled):
            return payload if not any(other <= at_s for other in same) else None
    return None
