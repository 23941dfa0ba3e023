"""How one call ended: judged, rebuilt, and written together with the patch of its `then=`.

The second half of the critical section (`engine/action.py` is the first): from what the tool returned or raised to the
durable outcome. The outcome is always written, also where its patch cannot be made.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, Final, Literal

import msgspec

from perdure.codec import leaves
from perdure.codec.leaves import LeafWriter
from perdure.codec.redact import cut_redacted
from perdure.core import health, spending
from perdure.core.breaker import Turn
from perdure.core.milestones import has_substance
from perdure.core.resume import Call
from perdure.engine import arguments, crashpoints, marking
from perdure.engine.boundary import Boundary
from perdure.engine.loops import Place
from perdure.engine.noticing import notice_circle
from perdure.engine.session import Session
from perdure.errors import ReducerFailed, UsageError
from perdure.limits import EDIT_WAIT_S, ERROR_MESSAGE_BYTES_MAX
from perdure.model import entry as e
from perdure.model.budget import NO_COST, Cost
from perdure.model.effect import Effect
from perdure.model.failure import ErrorRecord
from perdure.model.ids import plain_text
from perdure.model.outcome import Failed, InDoubt, Outcome, Succeeded
from perdure.model.patch import Op
from perdure.tools import Tool
from perdure.tools.recording import record_error
from perdure.tools.results import dump, rebuild

Reducer = Callable[[Any, Any], object]
GUARDED: Final = frozenset({"probe", "never"})  # may not go out while somebody else might hold the task
_UNCERTAIN: Final = frozenset({"network", "timeout", "cancelled"})
_UNCERTAIN_STATUSES: Final = frozenset({500, 502, 504})  # the server, or what stands before it, has lost its way
_UNCHANGEABLE: Final = (str, bytes, int, float, NoneType)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What `task.using(...)` sets for one call."""

    key: str = ""
    place: Place | None = None  # set by `each`: the body from which the call comes
    timeout_s: float | None = None
    fresh: bool = False
    result_type: Any = None
    effect: Effect | None = None
    name: str = ""
    is_undo: bool = False  # set by the engine: the call takes another one back
    reserve: Cost = NO_COST  # the most that the call may cost
    asked_by: tuple[str, str] | None = None  # (tool, key) of the call that asked for this one


class Work(msgspec.Struct, kw_only=True):
    """One call on its way."""

    session: Session
    tool: Tool[..., Any]
    call: Call
    arguments: arguments.Recorded
    options: Options
    then: Reducer | None
    action: str
    result_type: object  # to which the result is rebuilt
    effect_key: str = ""
    requested: tuple[str, ...] = ()  # checkpoints that the tool asks for
    charged: Cost | None = None  # what it says that the call has cost
    counted: Cost = NO_COST  # of that, what stands on record already: it was in doubt, and ends late
    attempt: int = 1
    paths: tuple[str, ...] = ()  # of the workspace, where the call may write
    intent: int = 0
    lap: int = 0  # of the session, when the call was made
    started_at: int = 0
    began: float | None = None  # monotonic; None: it never went out
    turn: Turn | None = None  # among the calls of its provider

    @property
    def given(self) -> Mapping[str, object]:
        """What the tool gets, by parameter name."""
        return self.arguments.plain

    @property
    def timeout_s(self) -> float:
        """How long the tool may take."""
        return self.tool.timeout_s if self.options.timeout_s is None else self.options.timeout_s


class Ending(msgspec.Struct, kw_only=True):
    """How one call ended, before it is written."""

    outcome: Literal["succeeded", "failed", "in_doubt"]
    raw: bytes = b""  # the encoded result
    writer: LeafWriter = msgspec.field(default_factory=LeafWriter)
    typed: object = None  # the result as the caller and the reducer see it
    error: ErrorRecord | None = None
    invalid: bool = False
    hollow: bool = False
    by: str = ""


async def judge(session: Session, work: Work, value: object) -> Outcome:
    """Apply `valid=`: a free result that fails it is a failed call; an effect's stays, marked."""
    valid = work.tool.valid
    if valid is None:
        return await succeed(session, work, value)
    holds = False
    with Boundary():  # a result that its own check cannot read is not valid
        holds = bool(valid(value))
    if holds or not work.call.effect.is_free:
        return await succeed(session, work, value, invalid=not holds)
    error = ErrorRecord(type="InvalidResult", message="the result does not pass valid=", failure_class="output")
    await write(session, work, Ending(outcome="failed", error=error))
    return Failed(error)


async def fail(session: Session, work: Work, error: BaseException) -> Outcome:
    """Write that the tool raised: a failure, or doubt where the effect may be in the world all the same."""
    record = record_error(error, session.world.clock.now())
    if work.call.effect.is_free or not is_uncertain(record):
        await write(session, work, Ending(outcome="failed", error=record))
        return Failed(record)
    await write(session, work, Ending(outcome="in_doubt", error=record))
    if work.call.effect.retry == "keyed":
        return Failed(record)  # it may be sent again under the same key: for the caller this is a passing failure
    return InDoubt(f"{record.type}: {record.message}")


def is_uncertain(record: ErrorRecord) -> bool:
    """Whether an effect that has failed so may be in the world all the same: then it is in doubt, not failed."""
    return record.failure_class in _UNCERTAIN or record.status in _UNCERTAIN_STATUSES


async def succeed(session: Session, work: Work, value: object, *, invalid: bool = False, by: str = "") -> Outcome:
    """Write what the tool returned; return it as it reads back."""
    writer, raw = LeafWriter(), b""
    recorded: object = None
    typed: object = None
    with Boundary() as caught:
        raw, recorded = leaves.record(dump(value), writer)
        typed = rebuilt(work, recorded, by)
    if caught.error is not None:
        return await _unstorable(session, work, caught.error)
    if work.then is not None:
        writer.refer_to(recorded)  # now: the reducer may change what it is given
    ending = Ending(outcome="succeeded", raw=raw, writer=writer, typed=typed, invalid=invalid, by=by)
    if work.tool.source:
        ending.hollow = work.tool.valid is None and not (work.tool.poll or has_substance(recorded))
    failure = await write(session, work, ending)
    if failure is not None:
        raise failure
    if work.then is not None and not isinstance(typed, _UNCHANGEABLE):
        typed = rebuilt(work, leaves.decode(raw, writer.blobs), by)
    return Succeeded(typed, valid=not invalid)


def rebuilt(work: Work, recorded: object, by: str) -> object:
    """Return a recorded result as its type. A probe or a person may only have said that it happened: that is None."""
    if recorded is None and by not in {"", "late"}:
        return None
    return rebuild(recorded, work.result_type)


async def _unstorable(session: Session, work: Work, refused: Exception) -> Outcome:
    """A result that cannot be stored, or is not what the tool promises: never a reason to run an effect again."""
    record = msgspec.structs.replace(record_error(refused), failure_class="output")
    outcome: Literal["failed", "succeeded"] = "failed" if work.call.effect.is_free else "succeeded"
    await write(session, work, Ending(outcome=outcome, error=record, invalid=True))
    return Failed(record)


async def write(session: Session, work: Work, ending: Ending) -> ReducerFailed | None:
    """Write the outcome, and with it the patch of `then=`; return what the reducer raised, if it did.

    The outcome is always written. Where its patch cannot be made (the reducer raised, an edit stays open for over a
    second) it is unapplied: the next matching act runs only the reducer.
    """
    cancelled = await session.files.after(work) if work.paths and session.files is not None else None
    reduces = work.then is not None and ending.outcome == "succeeded" and ending.error is None
    is_held_up = reduces and not session.edit_closed.is_set()
    if is_held_up:
        cancelled = await _wait_for_edit(session) or cancelled
        is_held_up = not session.edit_closed.is_set()
    operations: tuple[Op, ...] = ()
    patch, unapplied, failure = e.NOTHING, "", None
    if work.then is not None and ending.outcome == "succeeded" and ending.error is not None:
        unapplied = "its result could not be stored"
    elif is_held_up:
        unapplied = "an edit was open for too long"
    elif reduces:
        with Boundary() as caught:
            operations, patch = reduce(session, work, ending)
        if caught.error is not None:
            unapplied = cut_redacted(f"{type(caught.error).__name__}: {caught.error}", ERROR_MESSAGE_BYTES_MAX)
            failure = ReducerFailed(work.action, work.call.tool, caught.error)
            failure.__cause__ = caught.error
    settled = _settled(session, work, ending, patch, unapplied)
    if work.tool.paid or work.charged is not None or ending.by:
        settled = _with_cost(session, work, settled)
    seq = session.put(settled, operations=operations, blobs=ending.writer.blobs)
    if session.fold.ledger.circling:
        notice_circle(session)
    if marking.is_concerned(session, work):
        marking.mark_outcome(session, work, ending, settled)
    if work.turn is not None or health.may_change(session.fold.ledger, settled):
        _note_health(session, work, ending)
    if work.call.effect.retry in GUARDED:
        session.sequencer.lease_s = session.tenure.shorten(work.action)
    await session.commit()
    crashpoints.reach("after_outcome")
    if session.world.hooks:
        _tell_settled(session, work, ending, seq)
        if session.fold.ledger.budget is not None and not session.has_told_low:
            _tell_low(session)
    if session.untold:
        marking.tell_marked(session)
    if cancelled is not None:
        raise cancelled
    return failure


def _note_health(session: Session, work: Work, ending: Ending) -> None:
    """Tell the breaker of the provider, and write where a tool or a provider has become bad, or good again."""
    world, tool, provider = session.world, work.call.tool, work.tool.provider
    if not session.marks_milestones:
        return
    if work.turn is not None and world.providers is not None:
        world.providers.note(provider, work.turn, ending.error, world.clock, world.ids)
    changed = health.judge(session.fold.ledger, tool, provider, world.rules.health)
    if changed is None:
        return
    session.put(changed)
    if provider and changed.is_bad and world.providers is not None:
        world.providers.open(provider, health.sentence(changed), world.clock, world.ids)
    session.tell("health_changed", of=changed.of, is_bad=changed.is_bad, text=health.sentence(changed))


async def _wait_for_edit(session: Session) -> asyncio.CancelledError | None:
    """Wait until no edit is open, not for ever; return a cancellation, since the outcome is written all the same."""
    try:
        async with asyncio.timeout(EDIT_WAIT_S):
            while not session.edit_closed.is_set():
                await session.edit_closed.wait()
    except TimeoutError:
        return None
    except asyncio.CancelledError as cancelled:
        return cancelled
    return None


def _tell_settled(session: Session, work: Work, ending: Ending, seq: int) -> None:
    told: dict[str, Any] = {"action": work.action, "tool": work.call.tool, "seq": seq, "outcome": ending.outcome}
    if work.began is not None:
        told["duration_us"] = int((session.world.clock.monotonic() - work.began) * 1_000_000)
    if ending.error is not None:
        told["error"] = f"{ending.error.type}: {ending.error.message}"
    if work.counted != NO_COST:
        told["cost"] = work.counted
    session.tell("action_settled", **told)


def _tell_low(session: Session) -> None:
    """Tell the hooks, once in each process, from when on the soft share of the budget is used."""
    state = spending.state_of(session.fold.ledger, session.fold.at)
    if state.is_low:
        session.has_told_low = True
        session.tell("budget_low", text="; ".join(line.text for line in spending.lines_of(state)))


def reduce(session: Session, work: Work, ending: Ending) -> tuple[tuple[Op, ...], e.Raw]:
    """Run `then=` on the state; return its operations and their encoded patch. What it raises leaves nothing behind."""
    if work.then is None:
        return (), e.NOTHING
    edit = session.begin_edit()
    try:
        returned: object = work.then(edit.view, ending.typed)
        refuse_awaitable(returned)
        operations = edit.finish()
        if not operations:
            return (), e.NOTHING
        return operations, msgspec.Raw(leaves.encode_patch(operations, ending.writer))
    except BaseException:
        edit.undo()
        raise


def refuse_awaitable(returned: object) -> None:
    """Raise where `then=` turns out to be a coroutine function: its changes would come when nobody listens."""
    if returned is not None and inspect.isawaitable(returned):
        if inspect.iscoroutine(returned):
            returned.close()
        raise UsageError("then= must be a plain function, not a coroutine function")


def _settled(session: Session, work: Work, ending: Ending, patch: e.Raw, unapplied: str) -> e.ActionSettled:
    clock = session.world.clock
    return e.ActionSettled(
        action=work.action,
        intent=work.intent,
        outcome=ending.outcome,
        result=msgspec.Raw(ending.raw) if ending.raw else e.NOTHING,
        error=ending.error,
        patch=patch,
        unapplied=plain_text(unapplied),
        invalid=ending.invalid,
        hollow=ending.hollow,
        started_at=work.started_at,
        duration_us=int((clock.monotonic() - work.began) * 1_000_000) if work.began is not None else 0,
        by=ending.by,
    )


def _with_cost(session: Session, work: Work, settled: e.ActionSettled) -> e.ActionSettled:
    """Return the outcome with what the call has cost (`core/spending.cost_of`).

    One that goes back to an earlier process, which nobody asked what it had charged, cost what was reserved; one that
    never went out cost nothing.
    """
    if settled.by in {"probe", "resume"}:
        open_ = session.fold.ledger.open.get(work.action)
        cost = open_.reserve if open_ is not None else NO_COST
    elif work.began is not None:
        cost = spending.cost_of(work.charged, work.options.reserve, settled.error).without(work.counted)
        work.counted += cost
    else:
        cost = NO_COST
    session.sequencer.renew_summary()
    return msgspec.structs.replace(settled, tokens_in=cost.tokens_in, tokens_out=cost.tokens_out, money=cost.money)
