"""The program loop: calls a program until it has ended; how it ended is for `recovering` and `ending`.

program ─ returned ─────────────────────────▶ its result, recorded
─ failed, or noticed to be stuck ───▶ recovering ─▶ called anew, or it ends
─ rolled back ──────────────────────▶ called anew
─ stop requested ───────────────────▶ ending: paused, cancelled, failed, asked
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from typing import Any, Protocol, cast

import msgspec

from perdure.codec import leaves
from perdure.codec.leaves import LeafWriter
from perdure.core import recovery
from perdure.engine.boundary import Boundary, cancellations, comes_of_cancellation
from perdure.engine.ending import ask_person, in_doubt, needs_human, next_after_pause, obey_stop, pause, resume_line
from perdure.engine.loading import load_fold
from perdure.engine.loops import current_place
from perdure.engine.marking import milestones_of
from perdure.engine.recovering import go_on, obey, put_decision, recover
from perdure.engine.session import Session
from perdure.engine.task import Task
from perdure.errors import (
    ActionError,
    Alarmed,
    PerdureError,
    ResumeDiverged,
    RollbackUnderWay,
    RolledBack,
    StopRequested,
    StoreError,
    StoreFull,
    TaskPaused,
)
from perdure.limits import PROGRAM_CALLS_MAX
from perdure.model import entry as e
from perdure.model.decision import Finish
from perdure.model.strategy import Strategy
from perdure.tools.results import dump


class Drivable(Protocol):
    """What the loop needs of a program; `engine.programs.Program` is one, the ready-made agent another."""

    @property
    def fn(self) -> Callable[..., Coroutine[Any, Any, Any]]: ...  # noqa: D102 - called with (task, **arguments)
    @property
    def state(self) -> dict[str, Any]: ...  # noqa: D102 - the state at the start, fresh each time
    @property
    def state_version(self) -> int: ...  # noqa: D102
    @property
    def strategies(self) -> tuple[Strategy, ...]: ...  # noqa: D102
    @property
    def failures_max(self) -> int: ...  # noqa: D102
    @property
    def source_digest(self) -> str: ...  # noqa: D102
    @property
    def reached(self) -> Callable[[Any], object] | None: ...  # noqa: D102 - says of the state whether the goal is reached
    def driver(self, arguments: Mapping[str, object]) -> e.Driver: ...  # noqa: D102


async def drive(session: Session, program: Drivable, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401 - the result
    """Call `program` until it has a result and return it, or raise a TaskStopped that says why there is none."""
    session.milestones = milestones_of(program)
    session.heeds_alarms = True
    calls, passing = 0, 0  # in a row; those that end with a passing fault have a maximum of their own
    while calls < PROGRAM_CALLS_MAX:
        before, passing = passing, session.fold.ledger.passing
        calls = calls + 1 if passing == before else 0
        try:
            async with obeyed(session):
                await go_on(session, program.reached)
                result = await _call(session, program, arguments)
        except RolledBack:
            continue
        if result is not None:
            return result[0]
    await ask_person(session, f"the program was called {PROGRAM_CALLS_MAX} times without an end", "limit")
    raise needs_human(session)


@contextlib.asynccontextmanager
async def obeyed(session: Session) -> AsyncGenerator[None]:
    """Around one call of a program, or an inline block: what ends it in order is written, and raised as what it is."""
    try:
        if session.stop is not None:
            raise session.stop
        yield
    except StopRequested as stop:
        await _end_what_runs(session)
        raise await obey_stop(session, stop) from None
    except asyncio.CancelledError:
        await _end_what_runs(session, now=True)
        if session.stop is None:
            await pause(session, "signal", "cancelled")
            raise
        if session.runner is not None:
            session.runner.uncancel()  # it was the request's own cancellation
        raise await obey_stop(session, session.stop) from None
    except ResumeDiverged as diverged:
        action = shlex.split(diverged.next_command)[3] if "settle" in diverged.next_command else ""
        await ask_person(session, diverged.question, "diverged", action)
        raise
    except StoreFull as full:
        session.sequencer.dead = session.sequencer.dead or full
        stored = session.fold
        with contextlib.suppress(StoreError):
            stored = await load_fold(session.world.store, session.task)  # without what found no room
        doubt = "; what it was doing is in doubt and has to be settled first" if in_doubt(stored) else ""
        raise TaskPaused(session.task, f"the store is full: {full}{doubt}", next_after_pause(stored)) from full


async def _end_what_runs(session: Session, *, now: bool = False) -> None:
    """Drain the session; being asked once more meanwhile means now, and keeps nothing from being written."""
    try:
        await session.drain(now=now)
    except asyncio.CancelledError:
        if session.runner is not None:
            session.runner.uncancel()
        await session.drain(now=True)


@contextlib.contextmanager
def ungrouped() -> Generator[None]:
    """Let our own unwinding out of the exception group into which a task group has put it."""
    try:
        yield
    except BaseExceptionGroup as group:
        raise _unwound_in(group) or group from None


async def finish(session: Session, result: object) -> Any:  # noqa: ANN401 - the result as recorded
    """Record success and return the result as it reads back.

    Raises ResumeDiverged or NeedsHuman instead where an effect is unclaimed, open or in doubt.
    """
    await session.drain()
    if session.fold.ledger.rollback is not None:
        line = resume_line(session.fold.ledger.name)
        raise RollbackUnderWay(session.task, "its program went on all the same, and is not listened to", line)
    session.refuse_left_behind("its end", at_end=True)
    document, ledger, world = session.fold.document, session.fold.ledger, session.world
    decision, row = recovery.decide(document, ledger, world.rules, world.clock.now(), has_returned=True)
    if not isinstance(decision, Finish):
        put_decision(session, decision, row)
        await obey(session, decision)
    writer = LeafWriter()
    raw = leaves.encode(dump(result), writer)
    session.put(e.TaskSucceeded(result=msgspec.Raw(raw)), blobs=writer.blobs)
    await session.commit()
    session.runner = None  # it has ended: there is nothing to be cancelled any more
    session.tell("succeeded", name=ledger.name)
    return leaves.decode(raw, writer.blobs)


async def _call(session: Session, program: Drivable, arguments: Mapping[str, Any]) -> tuple[Any] | None:
    """One call of the program: its result in a tuple, or None when it shall be called anew."""
    session.begin_call(program.source_digest)
    session.tell("program_called", attempt=session.fold.ledger.attempt)
    current_place.set(None)
    result: Any = None
    asked_before = cancellations()
    try:
        with Boundary() as caught:
            with ungrouped():
                result = await program.fn(Task(session), **arguments)
            return (await finish(session, result),)
    except Alarmed:
        await session.drain()
        return await _leave(session, program, None)
    error = caught.error
    await session.drain()
    if error is None:
        raise RuntimeError("a boundary without an error")
    ours = _ours_in(error)
    if ours is not None:
        raise ours
    if session.stop is not None:
        raise session.stop  # what leaves a program that was asked to stop comes of that, and is no failure
    if comes_of_cancellation(error, asked_before):
        raise asyncio.CancelledError
    return await _leave(session, program, error)


async def _leave(session: Session, program: Drivable, error: Exception | None) -> tuple[Any] | None:
    """The program has failed (None: something was noticed beside it): the result, or None when it is called anew."""
    reached = await recover(session, error, program.reached)
    return None if reached is None else (await finish(session, reached[0]),)


def _ours_in(error: BaseException) -> BaseException | None:
    """Return what is no failure of the program's work: wrong use, a broken store, an ending. It goes to the caller."""
    if isinstance(error, BaseExceptionGroup):
        members = cast("tuple[BaseException, ...]", error.exceptions)
        return next((found for member in members if (found := _ours_in(member)) is not None), None)
    return error if isinstance(error, PerdureError) and not isinstance(error, ActionError) else None


def _unwound_in(error: BaseException) -> BaseException | None:
    """Return our own unwinding where a task group has wrapped it."""
    if isinstance(error, RolledBack | StopRequested | Alarmed):
        return error
    if not isinstance(error, BaseExceptionGroup):
        return None
    members = cast("tuple[BaseException, ...]", error.exceptions)
    return next((found for member in members if (found := _unwound_in(member)) is not None), None)
