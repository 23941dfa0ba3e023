"""Recovery as the engine obeys it: observes what has left the program, asks `core/recovery.decide`, does what it says.

    failed ─▶ FailureObserved ─▶ DecisionTaken ─▶ wait │ go back │ change strategy │ park │ ask │ end ─▶ called anew

What was decided stands in the ledger until it is obeyed: whoever opens the task after a kill goes on with it, so a
wait ends when it was to end, and a rollback that was decided is made. Called by `driving`.
"""

from __future__ import annotations

from typing import Any, Final, assert_never, cast

import msgspec

from perdure.codec import leaves
from perdure.codec.leaves import LeafWriter
from perdure.core import recovery
from perdure.core.container import View
from perdure.engine import crashpoints
from perdure.engine.boundary import Boundary
from perdure.engine.ending import ask_person, fail, needs_human, next_after_pause, pause
from perdure.engine.rollback import put_strategy, roll_back
from perdure.engine.session import Session
from perdure.engine.waiting import wait_until
from perdure.errors import (
    ActionError,
    ActionFailed,
    ActionsInFlight,
    CheckFailed,
    RollbackRefused,
    TaskPaused,
    TaskStopped,
    ToolNotFound,
)
from perdure.model import entry as e
from perdure.model.decision import (
    Abandon,
    Ask,
    ChangeStrategy,
    Condense,
    Continue,
    Decision,
    Finish,
    Nudge,
    Park,
    Pause,
    Reask,
    Retry,
    RollBack,
)
from perdure.tools.recording import record_error
from perdure.tools.results import dump

_CHAIN_MAX: Final = 20


async def recover(session: Session, error: Exception | None, reached: Any) -> tuple[Any] | None:  # noqa: ANN401 - a function of the program's, or None
    """Observe what has left the program (None: what was noticed beside it), decide, obey.

    Returns None when the program shall be called anew, and the result in a tuple where its goal is reached already.
    """
    await _observe(session, error)
    crashpoints.reach("during_recovery")
    return await _decide(session, reached, error)


async def go_on(session: Session, reached: Any) -> None:  # noqa: ANN401 - as `recover`
    """Decide what was observed before this process had the task, and obey what was decided and is not obeyed yet.

    Where the goal is reached already the program is called all the same: only it can claim what it has done.
    """
    ledger = session.fold.ledger
    if ledger.is_undecided:
        await _decide(session, reached, None)
    elif ledger.decided is not None:
        await obey(session, ledger.decided)


async def _decide(session: Session, reached: Any, error: Exception | None) -> tuple[Any] | None:  # noqa: ANN401 - as `recover`
    fold, world = session.fold, session.world
    result = _result_if_reached(session, reached)
    now = fold.ledger.failed_at or world.clock.now()  # a wait begins with its failure, whoever decides on it, and when
    decision, row = recovery.decide(fold.document, fold.ledger, world.rules, now, is_reached=result is not None)
    put_decision(session, decision, row)
    await session.commit()
    crashpoints.reach("during_recovery")
    session.tell("decision", decision=type(decision).__name__, row=row, error=_told(session))
    try:
        await obey(session, decision)
    except TaskStopped as stopped:
        raise stopped from error
    return result if isinstance(decision, Finish) else None


async def obey(session: Session, decision: Decision) -> None:
    """Do what was decided; returns when the program shall be called anew."""
    match decision:
        case Retry(at):
            await session.commit()
            await wait_until(session, at, _told(session) or "a wait that was told")
        case RollBack():
            await _go_back(session, decision)
        case ChangeStrategy(strategy, lesson):
            await _change_strategy(session, strategy, lesson)
        case Park(until, reason):
            await session.commit()
            await wait_until(session, until, reason)
        case Pause(reason):
            await pause(session, "storage", reason)
            raise TaskPaused(session.task, f"no room on the disk: {reason}", next_after_pause(session.fold))
        case Ask(question, reason):
            await ask_person(session, question, reason, _doubtful(session, question) if reason == "in_doubt" else "")
            raise needs_human(session)
        case Abandon(reason):
            await fail(session, reason)
        case Continue() | Finish() | Reask() | Nudge() | Condense():
            await session.commit()  # what is advised stands in the ledger
        case _:
            assert_never(decision)


def put_decision(session: Session, decision: Decision, row: str) -> None:
    """Put a decision into the journal."""
    session.put(e.DecisionTaken(decision=msgspec.Raw(msgspec.json.encode(decision)), row=row))


def put_failure(session: Session, error: Exception) -> None:
    """Put what is observed of an error."""
    record = error.error if isinstance(error, ActionFailed) else record_error(error, session.world.clock.now())
    of_action = _action_error_in(error)
    action = of_action.action if of_action else ""
    session.put(recovery.observe(record, session.fold.ledger, action=action, tool=getattr(of_action, "tool", "")))
    if isinstance(error, CheckFailed):
        error.is_observed = True


async def _observe(session: Session, error: Exception | None) -> None:
    ledger = session.fold.ledger
    if isinstance(error, CheckFailed) and error.is_observed and ledger.is_undecided:
        return  # it was, in the append of its verdict
    if error is not None:
        put_failure(session, error)
    elif ledger.alarm is not None:
        session.put(e.FailureObserved(failure=ledger.alarm, counted=True))
    await session.commit()


def _result_if_reached(session: Session, reached: Any) -> tuple[Any] | None:  # noqa: ANN401 - as `recover`
    """Return what `reached=` says of the state, where that is true; what it raises, or nobody can store, means no."""
    if reached is None:
        return None
    result: object = None
    with Boundary() as caught:
        result = reached(session.fold.tree.view())
        result = View.plain_of(result) if isinstance(result, View) else result
        leaves.encode(dump(result), LeafWriter())
    if caught.error is not None:
        session.tell("reached_failed", error=f"{type(caught.error).__name__}: {caught.error}")
    if caught.error is not None or not result:
        return None
    return (None,) if result is True else (result,)


async def _go_back(session: Session, decision: RollBack) -> None:
    """Roll back as decided; where that turns out to be impossible, change the strategy where the task stands."""
    reason = f"decided: {decision.lesson}"
    try:
        await roll_back(session, decision.checkpoint, reason=reason, decided=decision)
    except (RollbackRefused, ToolNotFound, ActionsInFlight) as refused:
        if session.fold.ledger.rollback is not None:
            raise  # it has begun: only the way forward is left
        session.tell("rollback_refused", checkpoint=decision.checkpoint, error=str(refused))
        await _change_strategy(session, decision.strategy, decision.lesson)


async def _change_strategy(session: Session, name: str, lesson: str) -> None:
    put_strategy(session, name, lesson)
    await session.commit()
    session.tell("strategy_chosen", strategy=name, lesson=lesson)


def _told(session: Session) -> str:
    failure = session.fold.ledger.last_failure
    return f"{failure.error.type}: {failure.error.message}" if failure is not None else ""


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


def _doubtful(session: Session, question: str) -> str:
    """Return the open action that the question names."""
    return next((action for action in session.fold.ledger.open if action in question), "")
