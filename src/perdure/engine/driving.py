"""The program loop: calls a program until it has ended, and obeys what `core/recovery.decide` says of each ending.

program ─ returned ──────────┐
─ failed ─ observed ─┴▶ decide ─▶ Finish │ Retry │ Ask │ Abandon
─ rolled back ─▶ called anew
─ stop requested ─▶ paused, cancelled, failed, asked
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from typing import Any, Final, Never, Protocol, assert_never, cast

import msgspec

from perdure.codec import leaves
from perdure.codec.leaves import LeafWriter
from perdure.core import recovery, resume
from perdure.core.fold import Fold
from perdure.engine import crashpoints
from perdure.engine.boundary import Boundary, cancellations, comes_of_cancellation
from perdure.engine.loading import load_fold
from perdure.engine.loops import current_place
from perdure.engine.marking import milestones_of
from perdure.engine.session import Session
from perdure.engine.task import Task
from perdure.errors import (
    ActionError,
    ActionFailed,
    NeedsHuman,
    OutcomeUnknown,
    PerdureError,
    ResumeDiverged,
    RollbackUnderWay,
    RolledBack,
    StopRequested,
    StoreError,
    StoreFull,
    TaskCancelled,
    TaskFailed,
    TaskPaused,
    TaskStopped,
)
from perdure.limits import CRASH_LOOP_STARTS_MAX, ERROR_MESSAGE_BYTES_MAX, PROGRAM_CALLS_MAX
from perdure.model import entry as e
from perdure.model.decision import Abandon, Ask, Continue, Decision, Finish, Retry
from perdure.model.failure import Failure
from perdure.model.ids import cut_text
from perdure.model.strategy import Strategy
from perdure.tools.recording import record_error
from perdure.tools.results import dump

_CHAIN_MAX: Final = 20


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
    def driver(self, arguments: Mapping[str, object]) -> e.Driver: ...  # noqa: D102


async def drive(session: Session, program: Drivable, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401 - the result
    """Call `program` until it has a result and return it, or raise a TaskStopped that says why there is none."""
    session.milestones = milestones_of(program)
    for _ in range(PROGRAM_CALLS_MAX):
        try:
            async with obeyed(session):
                result = await _call(session, program, arguments)
        except RolledBack:
            continue
        if result is not None:
            return result[0]
    await ask_person(session, f"the program was called {PROGRAM_CALLS_MAX} times without an end", "limit")
    raise _needs_human(session)


async def ask_person(session: Session, question: str, reason: Any, action: str = "", key: str = "") -> None:  # noqa: ANN401 - a member of QuestionAsked.reason
    """Write the question; the task waits for its answer. Where nobody can be asked it fails instead: TaskFailed."""
    text = cut_text(question, ERROR_MESSAGE_BYTES_MAX)
    if session.world.rules.unattended:
        await _fail(session, text)
    session.put(e.QuestionAsked(question=text, reason=reason, action=action, key=key))
    await session.commit()
    session.tell("stopped", status="needs_human", reason=text)


async def hand_over(session: Session, question: str) -> Never:
    """A stop found before the program was called: the task waits for a person, and nothing of its program has run."""
    ledger = session.fold.ledger
    if ledger.status != "needs_human":
        doubtful = next((a.action for a in ledger.open.values() if a.effect.retry == "never"), "")
        await ask_person(session, question, "in_doubt" if doubtful else "handover", doubtful)
    raise NeedsHuman(session.task, question, _show(session), ledger.name)


async def refuse_crash_loop(session: Session) -> None:
    """Raise NeedsHuman where start after start has ended in a crash and nothing was settled in between."""
    ledger = session.fold.ledger
    if ledger.starts_in_row < CRASH_LOOP_STARTS_MAX:
        return
    tools = ", ".join(sorted({f"{a.tool} ({a.action})" for a in ledger.open.values()})) or "no action"
    question = f"{ledger.starts_in_row} starts in a row ended in a crash with nothing settled; open was: {tools}"
    await ask_person(session, question, "crash_loop")
    raise NeedsHuman(session.task, question, _resume(ledger.name), ledger.name)


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
            await _pause(session, "signal", "cancelled")
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
        doubt = "; what it was doing is in doubt and has to be settled first" if _in_doubt(stored) else ""
        raise TaskPaused(session.task, f"the store is full: {full}{doubt}", _next_after_pause(stored)) from full


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
        line = _resume(session.fold.ledger.name)
        raise RollbackUnderWay(session.task, "its program went on all the same, and is not listened to", line)
    session.refuse_left_behind("its end", at_end=True)
    document, ledger, world = session.fold.document, session.fold.ledger, session.world
    decision, row = recovery.decide(document, ledger, world.rules, world.clock.now(), has_returned=True)
    if not isinstance(decision, Finish):
        _put_decision(session, decision, row)
        await _obey(session, decision, row)
    writer = LeafWriter()
    raw = leaves.encode(dump(result), writer)
    session.put(e.TaskSucceeded(result=msgspec.Raw(raw)), blobs=writer.blobs)
    await session.commit()
    session.runner = None  # it has ended: there is nothing to be cancelled any more
    session.tell("succeeded")
    return leaves.decode(raw, writer.blobs)


async def _call(session: Session, program: Drivable, arguments: Mapping[str, Any]) -> tuple[Any] | None:
    """One call of the program: its result in a tuple, or None when it shall be called anew."""
    session.begin_call(program.source_digest)
    session.tell("program_called", attempt=session.fold.ledger.attempt)
    current_place.set(None)
    result: Any = None
    asked_before = cancellations()
    with Boundary() as caught:
        with ungrouped():
            result = await program.fn(Task(session), **arguments)
        return (await finish(session, result),)
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
    await _recover(session, error)
    return None


async def _recover(session: Session, error: Exception) -> None:
    """Observe the failure that left the program, decide, obey; returns when the program shall be called anew."""
    await _observe(session, error)
    crashpoints.reach("during_recovery")
    fold, world = session.fold, session.world
    decision, row = recovery.decide(fold.document, fold.ledger, world.rules, world.clock.now())
    _put_decision(session, decision, row)
    session.tell("decision", decision=type(decision).__name__, row=row, error=str(error))
    try:
        await _obey(session, decision, row)
    except TaskStopped as stopped:
        raise stopped from error


async def _obey(session: Session, decision: Decision, row: str) -> None:
    """Do what was decided; returns when the program shall be called anew."""
    match decision:
        case Retry(at):
            await session.commit()
            await _wait_until(session, at)
        case Ask(question):
            reason = "in_doubt" if row == "effects_open" else "limit"
            await ask_person(session, question, reason, _doubtful(session) if reason == "in_doubt" else "")
            raise _needs_human(session)
        case Abandon(reason):
            await _fail(session, reason)
        case Continue() | Finish():
            await session.commit()
        case _:
            assert_never(decision)


async def _observe(session: Session, error: Exception) -> None:
    record = error.error if isinstance(error, ActionFailed) else record_error(error)
    failure_class = record.failure_class
    passing = failure_class in recovery.PASSING and not isinstance(error, OutcomeUnknown)
    of_action = _action_error_in(error)
    action = of_action.action if of_action else ""
    tool = getattr(of_action, "tool", "")
    failure = Failure(failure_class=failure_class, error=record, action=action, tool=tool)
    session.put(e.FailureObserved(failure=failure, counted=not passing))
    await session.commit()


def _action_error_in(error: BaseException) -> ActionError | None:
    """Return the failed call behind `error`, where the program has wrapped it."""
    pending: list[BaseException | None] = [error]
    for _ in range(_CHAIN_MAX):
        found = pending.pop(0) if pending else None
        if isinstance(found, ActionError):
            return found
        if isinstance(found, BaseExceptionGroup):
            pending += cast("tuple[BaseException, ...]", found.exceptions)
        if found is not None:
            pending.append(found.__cause__ or found.__context__)
    return None


async def _wait_until(session: Session, at: int) -> None:
    """Wait out a decided pause; a request to stop ends it."""
    clock = session.world.clock
    while (left := (at - clock.now()) / 1_000_000) > 0:
        if session.stop is not None:
            raise session.stop
        await asyncio.sleep(min(left, 0.25))


async def obey_stop(session: Session, stop: StopRequested) -> PerdureError:
    """Write what was asked for; return what `run` raises."""
    name, ledger = session.fold.ledger.name, session.fold.ledger
    match stop.what:
        case "cancel":
            session.put(e.TaskCancelledEntry(by=stop.by))
            error: PerdureError = TaskCancelled(session.task, f"task {name!r} was cancelled by {stop.by}")
        case "fail":
            session.put(e.TaskFailedEntry(reason=stop.by))
            error = TaskFailed(session.task, f"task {name!r} failed: {stop.by}", _show(session))
        case "undo":  # what failed is on record
            ended = ledger.status == "failed"
            return TaskFailed(session.task, ledger.reason, _show(session)) if ended else _needs_human(session)
        case "question":
            if not stop.key or ledger.question_key != stop.key:
                await ask_person(session, stop.by, "question", key=stop.key)
            return _needs_human(session)
        case _:
            by = "signal" if stop.by == "signal" else "person"
            await _pause(session, by, "")
            return TaskPaused(session.task, f"task {name!r} was paused by {stop.by}", _next_after_pause(session.fold))
    await session.commit()
    session.tell("stopped", status=ledger.status, reason=ledger.reason)
    return error


async def _pause(session: Session, by: Any, reason: str) -> None:  # noqa: ANN401 - a member of TaskPausedEntry.by
    if session.sequencer.dead is None:
        session.put(e.TaskPausedEntry(by=by, reason=reason))
        await session.commit()
        session.tell("stopped", status="paused", reason=session.fold.ledger.reason)


async def _fail(session: Session, reason: str) -> Never:
    session.put(e.TaskFailedEntry(reason=reason))
    await session.commit()
    session.tell("stopped", status="failed", reason=reason)
    raise TaskFailed(session.task, f"task {session.fold.ledger.name!r} failed: {reason}", _show(session))


def _needs_human(session: Session) -> NeedsHuman:
    ledger = session.fold.ledger
    doubtful = ledger.question_action
    command = _settle(ledger.name, doubtful) if doubtful else _show(session)
    if ledger.rollback is not None and doubtful in ledger.rollback.undos:
        command = _resume(ledger.name)
    if ledger.question_key:
        command = f"perdure answer {shlex.quote(ledger.name)} TEXT"
    return NeedsHuman(session.task, ledger.reason, command, ledger.name)


def _in_doubt(fold: Fold) -> str:
    """Return the action of which only a person can say what became of it, "" where there is none."""
    return next((a.action for a in fold.ledger.open.values() if resume.rule_for(a) == "doubt"), "")


def _next_after_pause(fold: Fold) -> str:
    action = _in_doubt(fold)
    return _settle(fold.ledger.name, action) if action else _resume(fold.ledger.name)


def _settle(name: str, action: str) -> str:
    return f"perdure settle {shlex.quote(name)} {action} --happened | --did-not-happen"


def _resume(name: str) -> str:
    return f"perdure resume {shlex.quote(name)}"


def _doubtful(session: Session) -> str:
    return next((a.action for a in session.fold.ledger.open.values() if not a.effect.is_free), "")


def _show(session: Session) -> str:
    return f"perdure show {shlex.quote(session.fold.ledger.name)}"


def _put_decision(session: Session, decision: Decision, row: str) -> None:
    session.put(e.DecisionTaken(decision=msgspec.Raw(msgspec.json.encode(decision)), row=row))


def _ours_in(error: BaseException) -> BaseException | None:
    """Return what is no failure of the program's work: wrong use, a broken store, an ending. It goes to the caller."""
    if isinstance(error, BaseExceptionGroup):
        members = cast("tuple[BaseException, ...]", error.exceptions)
        return next((found for member in members if (found := _ours_in(member)) is not None), None)
    return error if isinstance(error, PerdureError) and not isinstance(error, ActionError) else None


def _unwound_in(error: BaseException) -> BaseException | None:
    """Return our own unwinding where a task group has wrapped it."""
    if isinstance(error, RolledBack | StopRequested):
        return error
    if not isinstance(error, BaseExceptionGroup):
        return None
    members = cast("tuple[BaseException, ...]", error.exceptions)
    return next((found for member in members if (found := _unwound_in(member)) is not None), None)
