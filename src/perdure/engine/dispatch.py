"""Calls a tool's function: on the loop or in a thread, within its time. Records nothing (that is `action.py`)."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Protocol

from perdure.engine.boundary import Boundary
from perdure.engine.session import Running, Session, current_tool
from perdure.errors import UsageError
from perdure.limits import PROBE_ATTEMPTS_MAX, RETRY_BASE_S
from perdure.model.outcome import Outcome
from perdure.tools import Tool


class OutOfTimeError(TimeoutError):
    """The tool's time ran out."""

    failure_class = "timeout"

    def __init__(self, timeout_s: float) -> None:
        super().__init__(f"no result within {timeout_s:g} s")


class Job(Running, Protocol):
    """What is called: `action.Work`."""

    effect_key: str

    @property
    def given(self) -> Mapping[str, object]: ...  # noqa: D102 - the arguments by name
    @property
    def timeout_s(self) -> float: ...  # noqa: D102


async def call(
    session: Session, job: Job, runner: asyncio.Task[Any], outlived: Callable[[asyncio.Future[Any]], None]
) -> Any:  # noqa: ANN401 - whatever the tool returns
    """Return what the tool returns; raise what it raises, or OutOfTimeError. `runner` is the asyncio task that asks.

    A thread cannot be stopped: where one still runs when the call is over, `outlived` is told of it.
    """
    tool, given, effect_key = job.tool, job.given, job.effect_key
    token = current_tool.set(job)
    deadline = session.world.ticker.arm(job.timeout_s, runner)
    thread: asyncio.Future[Any] | None = None
    try:
        if tool.quick:
            return tool.call(given, effect_key)
        if tool.is_coroutine:
            return await tool.call(given, effect_key)
        thread = _start_thread(session, partial(_call_in_thread, tool, given, effect_key))
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        if thread is not None:
            outlived(thread)
        if deadline.caught():
            raise OutOfTimeError(job.timeout_s) from None
        raise
    finally:
        session.world.ticker.disarm(deadline)
        current_tool.reset(token)


def _start_thread(session: Session, work: Callable[[], Any]) -> asyncio.Future[Any]:
    """Have `work` done by a thread that sees the context variables of the caller."""
    context = contextvars.copy_context()

    def run() -> Any:  # noqa: ANN401 - whatever the tool returns
        return context.run(work)

    return asyncio.get_running_loop().run_in_executor(session.world.threads, run)


def _call_in_thread(tool: Tool[..., Any], given: Mapping[str, object], effect_key: str) -> Any:  # noqa: ANN401
    """Call the tool; a StopIteration, which no future can carry, comes as a RuntimeError, as from a coroutine."""
    try:
        return tool.call(given, effect_key)
    except StopIteration as error:
        raise RuntimeError(f"tool {tool.name!r} raised StopIteration (next() of something at its end?)") from error


async def probe(session: Session, tool: Tool[..., Any], given: Mapping[str, object]) -> Any:  # noqa: ANN401
    """Ask the world whether the effect happened.

    True or a result (not a bool): it did; False: it did not; None: nobody knows, also when the probe itself fails
    three times.
    """
    question = tool.probe
    if question is None:
        raise UsageError(f"tool {tool.name!r} has no probe")
    function: Any = question
    for attempt in range(PROBE_ATTEMPTS_MAX):
        with Boundary() as caught:
            async with asyncio.timeout(tool.timeout_s):
                return await _asked(session, function, given)
        session.tell("probe_failed", tool=tool.name, error=str(caught.error))
        await asyncio.sleep(RETRY_BASE_S * 2**attempt)
    return None


def when_done(
    thread: asyncio.Future[Any], settle: Callable[[BaseException | None, object], Awaitable[Outcome | None]]
) -> asyncio.Future[Outcome | None]:
    """Call `settle(error, value)` on this loop when `thread` has ended; the future has what it returns."""

    async def wait() -> Outcome | None:
        await asyncio.wait([thread])
        if thread.cancelled():
            return None
        error = thread.exception()
        with Boundary():  # nobody waits for sure: what is refused here stands in the journal or kills the handle
            return await settle(error, None if error else thread.result())
        return None

    return asyncio.ensure_future(wait())


async def _asked(session: Session, function: Any, given: Mapping[str, object]) -> Any:  # noqa: ANN401
    if inspect.iscoroutinefunction(getattr(function, "__wrapped__", function)):
        return await function(**given)
    loop = asyncio.get_running_loop()
    answer = await loop.run_in_executor(session.world.threads, lambda: function(**given))
    return await answer if inspect.isawaitable(answer) else answer
