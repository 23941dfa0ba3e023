"""The plan of a task: how far it is, how each step is checked, and what was found. Called by `perdure plan`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from perdure.agent.checks import checks_of
from perdure.core.fold import Fold
from perdure.engine.loading import load_fold, read_entry
from perdure.model import entry as e
from perdure.ports import Store


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of a plan."""

    name: str
    done: bool = False  # its check has passed on this branch
    current: bool = False  # it is the one that was begun last
    check: str = ""  # how it is known to be reached, where its plan says so: that of the ready-made agent does
    verdict: Literal["", "passed", "failed"] = ""  # of the newest judgement that still counts
    why: str = ""  # how that was found out, or what is missing
    entry: int = 0  # of that judgement


async def plan_of(store: Store, name: str) -> tuple[Step, ...]:
    """Return the steps of the present plan, in order. Raises TaskUnknown, TaskAmbiguous, Damaged."""
    fold = await load_fold(store, (await store.find(name)).task)
    checks = checks_of(fold.tree.root) if fold.ledger.driver is not None and fold.ledger.driver.kind == "agent" else {}
    return tuple([await _step(store, fold, step, checks) for step in fold.document.plan])


async def _step(store: Store, fold: Fold, step: str, checks: Mapping[str, str]) -> Step:
    document = fold.document
    found = Step(name=step, done=step in document.checks, current=step == document.step, check=checks.get(step, ""))
    seq = document.checks.get(step, 0) or document.failing.get(step, 0)
    judged = (await read_entry(store, fold.task, seq)).payload if seq else None
    if not isinstance(judged, e.CheckJudged):
        return found
    verdict: Literal["passed", "failed"] = "passed" if judged.passed else "failed"
    return msgspec.structs.replace(found, verdict=verdict, why=judged.reason, entry=seq)
