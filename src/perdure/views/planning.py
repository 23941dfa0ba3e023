"""The plan of a task, and how far it is. Called by `perdure plan`."""

from __future__ import annotations

import msgspec

from perdure.engine.loading import load_fold
from perdure.ports import Store


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of a plan."""

    name: str
    done: bool = False  # its check has passed on this branch
    current: bool = False  # it is the one that was begun last


async def plan_of(store: Store, name: str) -> tuple[Step, ...]:
    """Return the steps of the present plan, in order. Raises TaskUnknown, TaskAmbiguous, Damaged."""
    document = (await load_fold(store, (await store.find(name)).task)).document
    return tuple(Step(name=step, done=step in document.checks, current=step == document.step) for step in document.plan)
