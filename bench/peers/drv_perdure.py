"""perdure as one more driver of the peers' benchmark: same work, same cells, same kill. Found there by `run.py`.

`base` and `work` are modules of that benchmark, not of ours.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress

import work
from base import Driver

import perdure

Tick = Callable[[int, str], None]


@perdure.tool(effect="pure")
async def act(number: int) -> list[dict[str, str]]:
    """Return the two messages of an action."""
    return work.action(number)


@perdure.tool(effect="idempotent")
async def act_outside(number: int, key: perdure.EffectKey) -> list[dict[str, str]]:  # noqa: ARG001 - a service's
    """The same as an effect: its intent is durable before it is called."""
    return work.action(number)


def keep(state, messages: list[dict[str, str]]) -> None:
    """Take an action into the state."""
    number = state["step"]
    small = work.small(number, state["plan"].plain(), state["cost"])
    state["messages"].extend(messages)
    state["plan"][number % 10]["status"] = small["plan"][number % 10]["status"]
    state["step"], state["cost"] = small["step"], small["cost"]


class _Left(Exception):
    """Leaves a task unfinished."""


class Perdure(Driver):
    """One task, one act with `then=` per action."""

    name = "perdure"
    about = "one task on SQLite, an act of a pure tool per action, its messages kept by then="
    tool = act

    def run(self, rid: str, n: int, tick: Tick) -> None:
        """See `base.Driver`."""
        asyncio.run(self._run_all([rid], n, tick))

    def run_many(self, rids: list[str], n: int, tick: Tick) -> None:
        """See `base.Driver`: all tasks of one runtime."""
        asyncio.run(self._run_all(rids, n, tick))

    def resume(self, rid: str) -> dict[str, object]:
        """See `base.Driver`."""
        return asyncio.run(self._state_of(rid))

    def _open(self) -> perdure.Runtime:
        return perdure.open(os.path.join(self.path, "perdure.db"))

    async def _run_all(self, rids: list[str], n: int, tick: Tick) -> None:
        async with self._open() as runtime:
            await asyncio.gather(*(self._run(runtime, rid, n, tick) for rid in rids))

    async def _run(self, runtime: perdure.Runtime, rid: str, n: int, tick: Tick) -> None:
        async with runtime.task(rid, state=work.new_state()) as task:
            tick(0, rid)
            for number in range(n):
                await task.act(self.tool, number, then=keep)
                tick(number + 1, rid)

    async def _state_of(self, rid: str) -> dict[str, object]:
        state = {}
        with suppress(_Left):
            async with self._open() as runtime, runtime.task(rid, state=work.new_state()) as task:
                state = task.state.plain()
                raise _Left
        return state


class PerdureOutside(Perdure):
    """As `Perdure`, each action an effect in the world: two commits."""

    name = "perdure, effects"
    about = "the same with an idempotent tool: the intent is committed before the call, the outcome after it"
    tool = act_outside


DRIVERS = {"perdure": Perdure, "perdure-effect": PerdureOutside}
