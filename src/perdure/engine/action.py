"""The critical section: one call of a tool, from its gate to its durable outcome.

    gate ─ find ─▶ intent written ─▶ tool runs ─▶ outcome + patch written
                   (free tools: the intent waits for the outcome, at most 50 ms)

`core/resume.py` says whether a call is already answered, this module does what it says. Crash points have their names
in `engine/crashpoints.py`. Called by `engine/task.py` only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, Final

import msgspec

from perdure.core import resume
from perdure.core.resume import (
    Answered,
    Call,
    Clash,
    Fresh,
    Interrupted,
    LeftBehind,
    Reused,
    Twin,
    Unanchored,
    UsedUp,
)
from perdure.engine import arguments, crashpoints, dispatch, reusing
from perdure.engine.boundary import Boundary, cancellations, comes_of_cancellation
from perdure.engine.budgeting import make_room
from perdure.engine.files import files_of
from perdure.engine.loading import read_entry, result_of
from perdure.engine.outcomes import (
    GUARDED,
    Ending,
    Options,
    Reducer,
    Work,
    fail,
    is_uncertain,
    judge,
    rebuilt,
    reduce,
    succeed,
    write,
)
from perdure.engine.providers import Providers
from perdure.engine.session import Session
from perdure.engine.waiting import admitted
from perdure.errors import EffectNotAnchored, KeyMissing, KeyReused, ReducerFailed, ToolInvalid, UsageError
from perdure.limits import TICK_S
from perdure.model import entry as e
from perdure.model.failure import ErrorRecord
from perdure.model.ledger import OpenAction
from perdure.model.outcome import Failed, InDoubt, Outcome, Succeeded
from perdure.model.patch import Op
from perdure.tools import Tool
from perdure.tools.paths import paths_of
from perdure.tools.recording import record_error

_TURNS_MAX: Final = 20  # that branches beside a call are given to ask for what is on record


def perform(
    session: Session, tool: Tool[..., Any], given: Mapping[str, object], options: Options, then: Reducer | None
) -> Coroutine[Any, Any, tuple[str, Outcome]]:
    """Answer one call of `tool` with the arguments `given` by name; return (action id, outcome), to be awaited."""
    if not session.edit_closed.is_set() and arguments.has_views(given):
        return _perform_after_edit(session, tool, given, options, then)
    if session.is_alarmed:
        return _perform_after_effects(session, tool, given, options, then)
    work = prepare(session, tool, given, options, then)
    return _answer_alone(session, work) if work.call.key else _answer(session, work)


async def _perform_after_edit(
    session: Session, tool: Tool[..., Any], given: Mapping[str, object], options: Options, then: Reducer | None
) -> tuple[str, Outcome]:
    """A view as argument is the state on record: what an open edit shows of it may never be."""
    lap = session.lap
    while not session.edit_closed.is_set():
        await session.edit_closed.wait()
    session.gate(f"act {tool.name!r}", lap)
    return await perform(session, tool, given, options, then)


async def _perform_after_effects(
    session: Session, tool: Tool[..., Any], given: Mapping[str, object], options: Options, then: Reducer | None
) -> tuple[str, Outcome]:
    """The program is to be left: effects in flight come to their ends first, and nothing new is begun beside them."""
    lap = session.lap
    while session.is_alarmed and session.has_effect_in_flight:
        await asyncio.sleep(TICK_S)
        session.gate(f"act {tool.name!r}", lap)
    session.gate(f"act {tool.name!r}", lap)
    return await perform(session, tool, given, options, then)


async def settle_late(session: Session, work: Work, error: BaseException | None, value: object) -> Outcome | None:
    """Settle an action whose thread outlived its call; None where it stays as it is.

    That is where somebody has settled it in the meantime, and where its error leaves it in doubt.
    """
    if work.action not in session.fold.ledger.open or session.sequencer.dead is not None or session.is_closed:
        return None
    if error is None:
        return await succeed(session, work, value, by="late")
    record = record_error(error, session.world.clock.now())
    if is_uncertain(record) and not work.call.effect.is_free:
        return None
    await write(session, work, Ending(outcome="failed", error=record, by="late"))
    return Failed(record)


def prepare(
    session: Session, tool: Tool[..., Any], given: Mapping[str, object], options: Options, then: Reducer | None
) -> Work:
    """Return one call of `tool` as it would set out now; nothing is done.

    Raises Unstorable, ToolInvalid, PathOutside.
    """
    name = options.name or tool.name
    effect = options.effect or tool.effect
    fold = session.fold
    result_type = tool.result_type if options.result_type is None else options.result_type  # may be refused: first
    if effect.undo == "function":
        _note_undoable(session, tool, name)
    place = None if options.key else options.place
    keyed, base = bool(options.key or place), fold.ledger.digest_base
    recorded = arguments.record(dict(given), fold.touched, fold.seq, keyed=keyed, base=base)
    call = Call(
        tool=name,
        effect=effect,
        digest=recorded.digest,
        key=place.next_key(name, recorded.digest) if place else options.key,
        loop=place.loop if place else "",
        takes_loose=not (tool.poll or options.fresh),
        reduces=then is not None,
        names=(name, *tool.aliases),
        content=arguments.digest(recorded.plain, base) if fold.ledger.standing and not effect.is_free else b"",
        is_undo=options.is_undo,
    )
    work = Work(
        session=session,
        tool=tool,
        call=call,
        arguments=recorded,
        options=options,
        then=then,
        action=session.world.ids.short_id(),
        result_type=result_type,
        lap=session.lap,
    )
    if tool.may_write_files and fold.ledger.workspace:
        work.paths = paths_of(tool, work.given, fold.ledger.workspace)
    return work


def _note_undoable(session: Session, tool: Tool[..., Any], name: str) -> None:
    """Remember the tool for a rollback here; another process must find it, too, by its name. Raises ToolInvalid."""
    if tool.undo_function is None or name not in {tool.name, *tool.aliases}:
        why = "a rollback could not find what takes it back; declare it with `undo=`, and with that name"
        raise ToolInvalid(name, why)
    session.undoable[name] = tool


async def _answer_alone(session: Session, work: Work) -> tuple[str, Outcome]:
    """The same key twice at once: the second waits for the first, and is then answered by its outcome."""
    key = resume.key_of(work.tool.name, f"{work.call.loop}\n{work.call.key}")
    while (other := session.busy_keys.get(key)) is not None:
        await asyncio.shield(other)
        session.gate(f"act {work.call.tool!r}", work.lap)
    mine = session.busy_keys[key] = asyncio.get_running_loop().create_future()
    try:
        return await _answer(session, work)
    finally:
        del session.busy_keys[key]
        mine.set_result(None)


async def _answer(session: Session, work: Work) -> tuple[str, Outcome]:
    fold = session.fold
    match resume.find(work.call, fold.document, fold.ledger, session.claimed, session.loose):
        case Answered(kept):
            session.claim(kept.action)
            return kept.action, await _hand_out(session, work, kept.settled, unapplied=kept.unapplied)
        case Interrupted(action):
            return action.action, await _go_on(session, work, action)
        case Fresh(effect_key):
            return await _set_out(session, work, effect_key)
        case Reused(standing):
            reused = await reusing.reuse(session, work, standing)
            return await _answer(session, work) if reused is None else (standing.action, reused)
        case UsedUp(standing):
            if reusing.may_make_again(session, work, standing):
                return await _set_out(session, work, "")
            return standing.action, await reusing.reuse_again(session, work, standing)
        case Clash(seq):
            raise KeyReused(work.call.tool, work.call.key, seq)
        case Unanchored(kept):
            raise EffectNotAnchored(kept.action, kept.tool)
        case Twin(kept):
            keep = f"perdure settle {fold.ledger.name} {kept.action} --keep"
            raise KeyMissing(work.call.tool, kept.settled, keep)
        case LeftBehind():
            if await _is_asked_for_after_all(session, work):
                return await _answer(session, work)
            session.refuse_left_behind(f"another call of {work.call.tool!r}", at_end=True)
            raise KeyMissing(work.call.tool, fold.seq, f"perdure show {fold.ledger.name}")


async def _set_out(session: Session, work: Work, effect_key: str) -> tuple[str, Outcome]:
    if work.tool.key_parameter is not None:
        work.effect_key = _effect_key(session, work, effect_key)
    return work.action, await _run(session, work)


async def _is_asked_for_after_all(session: Session, work: Work) -> bool:
    """Whether a branch beside this one asks for the effect on record: it may only not have had its turn yet."""
    for _ in range(_TURNS_MAX):
        await asyncio.sleep(TICK_S / 5)
        session.gate(f"act {work.call.tool!r}", work.lap)
        found = resume.find(work.call, session.fold.document, session.fold.ledger, session.claimed, session.loose)
        if not isinstance(found, LeftBehind):
            return True
    return False


def _effect_key(session: Session, work: Work, failed: str) -> str:
    """Return that of an equal call that failed, unless another call uses it at this moment, else a new one."""
    in_use = any(action.effect_key == failed for action in session.fold.ledger.open.values())
    return failed if failed and not (work.options.fresh or in_use) else session.world.ids.short_id()


async def _hand_out(session: Session, work: Work, seq: int, *, unapplied: bool) -> Outcome:
    """Return the recorded outcome at `seq`; run its reducer if that is still to be done."""
    await session.until_durable(seq)
    store = session.world.store
    entry = await read_entry(store, session.task, seq)
    settled = entry.payload
    if not isinstance(settled, e.ActionSettled):
        raise UsageError(f"entry {seq} of task {session.task!r} is no outcome")
    session.tell("action_found", action=settled.action, tool=work.call.tool, seq=seq)
    if settled.error is not None:
        return Failed(settled.error)
    result = await result_of(store, session.task, seq, settled)
    if unapplied and work.then is not None:
        while not session.edit_closed.is_set():
            await session.edit_closed.wait()
        session.gate(f"act {work.call.tool!r}", work.lap)
        if not _is_unapplied(session, settled.action):  # an equal call beside this one has taken it
            return (await _answer(session, work))[1]
        await _apply_late(session, work, settled.action, rebuilt(work, result, settled.by))
        result = await result_of(store, session.task, seq, settled)  # the reducer may have changed what it was given
    return Succeeded(rebuilt(work, result, settled.by), valid=not settled.invalid)


def _is_unapplied(session: Session, action: str) -> bool:
    document = session.fold.document
    groups = (document.loose, document.keyed.values(), *(group.values() for group in document.places.values()))
    return any(kept.action == action and kept.unapplied for group in groups for kept in group)


async def _apply_late(session: Session, work: Work, action: str, value: object) -> None:
    """Run the reducer of an outcome that stood without its patch."""
    ending = Ending(outcome="succeeded", typed=value)
    operations: tuple[Op, ...] = ()
    patch = e.NOTHING
    with Boundary() as caught:
        operations, patch = reduce(session, work, ending)
    if caught.error is not None:
        raise ReducerFailed(action, work.call.tool, caught.error) from caught.error
    session.put(e.StateEdited(patch=patch, action=action), operations=operations, blobs=ending.writer.blobs)
    await session.commit()


async def _go_on(session: Session, work: Work, earlier: OpenAction) -> Outcome:
    """An earlier run dispatched this call and never settled it: its `retry` says what to do."""
    work.action, work.effect_key, work.attempt = earlier.action, earlier.effect_key, earlier.attempt + 1
    work.intent = earlier.intent
    session.claim(work.action)
    crashpoints.reach("during_recovery")
    session.running[work.action] = _this_task()  # whoever ends this call of the program waits for it from here on
    try:
        return await _go_on_alone(session, work, earlier)
    finally:
        session.running.pop(work.action, None)


async def _go_on_alone(session: Session, work: Work, earlier: OpenAction) -> Outcome:
    late = session.late.get(work.action)
    if late is not None:
        outcome = await asyncio.shield(late)
        if outcome is not None:
            return outcome
        session.gate(f"act {work.call.tool!r}", work.lap)
        if work.action not in session.fold.ledger.open:  # somebody has settled it
            session.claimed.discard(work.action)
            return (await _answer(session, work))[1]
    files = files_of(session) if earlier.paths else None
    match resume.rule_for(earlier):
        case "run":
            if files is not None and earlier.effect.retry == "restore":
                await files.put_back(earlier)
            return await _run(session, work)
        case "probe":
            return await _ask_the_world(session, work, earlier)
        case "doubt":
            return await _leave_in_doubt(session, work, "interrupted before its outcome was known")


async def _ask_the_world(session: Session, work: Work, earlier: OpenAction) -> Outcome:
    clock = session.world.clock
    settled_by = earlier.intended_at + int((earlier.timeout_s + work.tool.settle_s) * 1_000_000)
    wait_s = (settled_by - clock.now()) / 1_000_000
    found = await dispatch.probe(session, work.tool, work.arguments.plain)
    if found is False and wait_s > 0:  # "no" counts only when a slow first call could no longer arrive
        await asyncio.sleep(wait_s)
        found = await dispatch.probe(session, work.tool, work.arguments.plain)
    session.gate(f"act {work.call.tool!r}", work.lap)
    if found is None:
        return await _leave_in_doubt(session, work, "the probe could not tell whether it happened")
    if found is False:
        return await _run(session, work)
    value = None if found is True else found
    if work.action not in session.fold.ledger.standing:
        return await succeed(session, work, value, by="probe")
    then, work.then = work.then, None  # it happened on a branch that was left; this call is then answered by it
    await succeed(session, work, value, by="probe")
    work.then = then
    session.claimed.discard(work.action)
    return (await _answer(session, work))[1]


async def _leave_in_doubt(session: Session, work: Work, reason: str) -> Outcome:
    open_ = session.fold.ledger.open.get(work.action)
    if open_ is None or not open_.in_doubt:
        record = ErrorRecord(type="InDoubt", message=reason)
        await write(session, work, Ending(outcome="in_doubt", error=record, by="resume"))
    return InDoubt(reason)


def _run(session: Session, work: Work) -> Coroutine[Any, Any, Outcome]:
    """Intent, tool, outcome; before that, a call of a provider waits until it may go out."""
    providers = session.world.providers if work.tool.provider else None
    return _run_now(session, work) if providers is None else _run_admitted(session, work, providers)


async def _run_admitted(session: Session, work: Work, providers: Providers) -> Outcome:
    async with admitted(session, work, providers):
        return await _run_now(session, work)


async def _run_now(session: Session, work: Work) -> Outcome:
    if not session.slots.try_take():
        await session.slots.take()
        try:
            session.gate(f"act {work.call.tool!r}", work.lap)  # it may have waited long
        except BaseException:
            session.slots.give()
            raise
    runner = session.running[work.action] = _this_task()
    session.claim(work.action)
    files = files_of(session) if work.paths else None
    try:
        if files is not None:
            await files.before(work)
        await _intend(session, work)
        if work.tool.paid and session.files is not None and session.files.is_watching:
            async with session.files.ahead():
                return await _dispatch(session, work, runner)
        return await _dispatch(session, work, runner)
    finally:
        session.running.pop(work.action, None)
        session.slots.give()
        if files is not None:
            files.forget(work.action)


def _this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    if task is None:
        raise UsageError("an act is made inside an asyncio task")
    return task


async def _intend(session: Session, work: Work) -> None:
    crashpoints.reach("before_intent")
    if session.fold.ledger.budget is not None and not work.call.is_undo:
        await make_room(session, work)
    call, clock = work.call, session.world.clock
    document = session.fold.document
    intent = e.ActionIntended(
        action=work.action,
        tool=call.tool,
        effect=call.effect,
        arguments=msgspec.Raw(work.arguments.raw),
        digest=call.digest,
        key=call.key,
        loop=call.loop,
        effect_key=work.effect_key,
        attempt=work.attempt,
        timeout_s=work.timeout_s,
        step=document.step,
        strategy=_strategy_name(session) if session.fold.ledger.strategies else "",
        reduces=work.then is not None,
    )  # no more than 15 names in one call: from there on Python takes twice as long
    tool = work.tool
    if not (call.takes_loose and tool.is_plain):
        is_poll = not call.takes_loose
        intent = msgspec.structs.replace(
            intent, paid=tool.paid, paths=work.paths, provider=tool.provider, source=tool.source, poll=is_poll
        )
    if tool.paid:
        intent = msgspec.structs.replace(intent, reserve=work.options.reserve)
    if work.options.asked_by is not None:
        asking = document.keyed.get(resume.key_of(*work.options.asked_by))
        intent = msgspec.structs.replace(intent, parent=asking.action if asking is not None else "")
    work.intent = session.put(intent, blobs=work.arguments.blobs)
    is_guarded = call.effect.retry in GUARDED
    if is_guarded:
        session.sequencer.lease_s = session.tenure.extend(work.action, work.timeout_s)
    if not call.effect.is_free or work.tool.paid or call.is_undo:
        try:
            await session.commit()  # the intent is durable before the effect; before an undo, whatever it is
        except asyncio.CancelledError as error:
            record = msgspec.structs.replace(record_error(error), message="cancelled before the tool was called")
            await write(session, work, Ending(outcome="failed", error=record))
            raise
    crashpoints.reach("after_intent")
    if is_guarded:
        await session.assure(work.action, work.timeout_s)
    work.started_at, work.began = clock.now(), clock.monotonic()
    if session.world.hooks:
        session.tell("action_started", action=work.action, tool=call.tool, key=call.key, attempt=work.attempt)


async def _dispatch(session: Session, work: Work, runner: asyncio.Task[Any]) -> Outcome:
    value: object = None
    before = runner.cancelling()
    with Boundary() as caught:
        try:
            value = await dispatch.call(session, work, runner, lambda thread: _outlived(session, work, thread))
        except asyncio.CancelledError as error:
            outcome = await fail(session, work, error)
            if cancellations() == before:
                return outcome  # nobody has cancelled us: something inside the tool was, and it let that out
            raise
    if caught.error is None:
        crashpoints.reach("after_effect")
        return await (succeed(session, work, value) if work.tool.valid is None else judge(session, work, value))
    outcome = await fail(session, work, caught.error)
    if comes_of_cancellation(caught.error, before):
        raise asyncio.CancelledError
    return outcome


def _outlived(session: Session, work: Work, thread: asyncio.Future[Any]) -> None:
    """The call is over and its thread is not: what it comes to settles the action, if that is still open then."""
    late = dispatch.when_done(thread, lambda error, value: settle_late(session, work, error, value))
    session.late[work.action] = late
    late.add_done_callback(lambda _: session.late.pop(work.action, None))


def _strategy_name(session: Session) -> str:
    return session.fold.ledger.strategies[session.fold.document.strategy].name
