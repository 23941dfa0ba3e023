"""Reads payloads of earlier versions: a chain of small functions from version n to n + 1, applied to the decoded JSON.

An entry on disk is never rewritten; whoever reads it gets today's shape. `tests/unit/codec/test_upcast.py` shows the
mechanism.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]


def _unchanged(fields: dict[str, Any]) -> dict[str, Any]:
    """The later version only has a field more, whose default says what the earlier one meant."""
    return fields


UPCASTERS: Final[Mapping[tuple[int, int], Upcaster]] = {  # (kind, version) -> function to version + 1
    (1, 1): _unchanged,  # TaskStarted: relative_digests
    (1, 2): _unchanged,  # TaskStarted: prior, and the `change` of its strategies
    (2, 1): _unchanged,  # LeaseClaimed: at_once
    (7, 1): _unchanged,  # QuestionAsked: more reasons
    (7, 2): _unchanged,  # QuestionAsked: budget
    (9, 1): _unchanged,  # MessageReceived: key
    (11, 1): _unchanged,  # TaskFailed: budget
    (13, 1): _unchanged,  # TaskForked: that of its TaskStarted
    (13, 2): _unchanged,  # as above
    (20, 1): _unchanged,  # ActionIntended: paths
    (20, 2): _unchanged,  # ActionIntended: provider, source, poll
    (20, 3): _unchanged,  # ActionIntended: reserve
    (21, 1): _unchanged,  # ActionSettled: how its error was classified
    (21, 2): _unchanged,  # ActionSettled: hollow
    (30, 1): _unchanged,  # StateEdited: by
    (30, 2): _unchanged,  # StateEdited: counts
    (31, 1): _unchanged,  # PlanAdopted: by
    (33, 1): _unchanged,  # CheckpointMarked: verifier, about
    (50, 1): _unchanged,  # FailureObserved: how its error was classified
    (52, 1): _unchanged,  # StrategyChosen: the `change` of its strategy
    (54, 1): _unchanged,  # RollbackBegan: standing
    (54, 2): _unchanged,  # RollbackBegan: strategy, lesson
}


def upcast(
    kind: int, version: int, target: int, fields: dict[str, Any], table: Mapping[tuple[int, int], Upcaster] = UPCASTERS
) -> dict[str, Any]:
    """Return `fields` of a payload in the shape of version `target`.

    Raises LookupError where a step is missing: that is a fault of this release, not of the stored entry.
    """
    for step in range(version, target):
        fields = table[kind, step](fields)
    return fields
