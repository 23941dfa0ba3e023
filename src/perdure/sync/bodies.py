"""The bodies of plain programs: each runs in the thread that waits for it, or in one of its own."""
# ruff: noqa: ANN401 - acts pass on a tool's own parameters and results, programs return what they like

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from contextvars import ContextVar, copy_context
from typing import Any, Final

from perdure.engine import task as handles
from perdure.engine.portal import Desk, Portal
from perdure.errors import StopRequested
from perdure.limits import THREAD_LEAVE_S
from perdure.sync.task import Task

desk_of_caller: Final[ContextVar[Desk | None]] = ContextVar("perdure_desk", default=None)  # of the thread in `run`


async def run_body(fn: Callable[..., Any], task: handles.Task, arguments: Mapping[str, Any]) -> Any:
    """Call a plain program in the thread that waits for it, or in one of its own; on the loop, as its program."""
    portal = Portal.here()
    desk = desk_of_caller.get() or _new_desk(task.name)
    job, done = portal.serve(desk, lambda: _called(fn, Task(portal, task), arguments), copy_context())
    done.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # perhaps nobody waits any more
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        if job.cancelled():  # by Ctrl-C in its thread
            raise StopRequested(task.id, "pause", "signal") from None
        portal.close()
        await asyncio.wait({done}, timeout=THREAD_LEAVE_S)
        raise


def _called(fn: Callable[..., Any], task: Task, arguments: Mapping[str, Any]) -> Any:
    try:
        return fn(task, **arguments)
    except StopIteration as stopped:  # no future can carry it
        raise RuntimeError("the program raised StopIteration") from stopped


def _new_desk(name: str) -> Desk:
    """Return a thread for one plain program; it does not keep the process alive."""
    desk = Desk()
    threading.Thread(target=desk.attend, name=f"perdure-program {name}", daemon=True).start()
    return desk
