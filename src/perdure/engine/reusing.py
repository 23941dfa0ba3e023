"""An effect of a branch that was left answers an equal call of this one: its result and its `then=`, in one append.

`core/resume.py` says when. Called by `engine/action.py` only.
"""

from __future__ import annotations

from typing import Final

from perdure.codec.redact import cut_redacted
from perdure.core.resume import again_key
from perdure.engine.boundary import Boundary
from perdure.engine.loading import read_entry, result_of
from perdure.engine.outcomes import Ending, Work, rebuilt, reduce
from perdure.engine.session import Session
from perdure.errors import ReducerFailed, StopRequested, UsageError
from perdure.limits import ERROR_MESSAGE_BYTES_MAX
from perdure.model import entry as e
from perdure.model.effect import Standing
from perdure.model.failure import ErrorRecord
from perdure.model.ids import plain_text
from perdure.model.outcome import Failed, Outcome, Succeeded
from perdure.model.patch import Op

_YES: Final = frozenset({"yes", "y"})


async def reuse(session: Session, work: Work, standing: Standing, *, again: bool = False) -> Outcome | None:
    """Answer a call by `standing`; None where another call has taken that meanwhile. Raises ReducerFailed."""
    store, task = session.world.store, session.task
    settled = (await read_entry(store, task, standing.settled)).payload
    if not isinstance(settled, e.ActionSettled):
        raise UsageError(f"entry {standing.settled} of task {task!r} is no outcome")
    result = await result_of(store, task, standing.settled, settled)
    while not session.edit_closed.is_set():
        await session.edit_closed.wait()
    session.gate(f"act {work.call.tool!r}", work.lap)
    now = session.fold.ledger.standing.get(standing.action)
    if now is None or (now.used and not again):
        return None
    failure = _put(session, work, settled, standing, rebuilt(work, result, settled.by))
    session.claim(standing.action)
    await session.commit()
    session.tell("action_reused", action=standing.action, tool=work.call.tool, seq=standing.settled)
    if failure is not None:
        raise failure
    if settled.error is not None:
        return Failed(settled.error)
    result = await result_of(store, task, standing.settled, settled)  # the reducer may have changed what it was given
    return Succeeded(rebuilt(work, result, settled.by), valid=not settled.invalid)


def may_make_again(session: Session, work: Work, standing: Standing) -> bool:
    """Whether a person has allowed the call although all equal effects are used up. Raises StopRequested to ask."""
    key = again_key(work.call.tool, work.call.digest)
    said = session.fold.document.answers.get(key)
    if said is not None:
        return is_yes(said)
    no = "answers it with the recorded result" if standing.settled else "fails the call: no result of it is on record"
    text = (
        f"{work.call.tool!r} was made with the same arguments before a rollback (action {standing.action}) and cannot "
        f"be taken back; no other call may be answered by it. Make it once more? (yes makes it, no {no})"
    )
    raise StopRequested(session.task, "question", cut_redacted(text, ERROR_MESSAGE_BYTES_MAX), key)


def is_yes(answer: str) -> bool:
    """Whether a person has allowed it: by "yes" and nothing else."""
    return answer.strip().lower() in _YES


async def reuse_again(session: Session, work: Work, standing: Standing) -> Outcome:
    """A person has said no: the recorded result answers the call, where there is one."""
    if standing.settled:
        outcome = await reuse(session, work, standing, again=True)
        if outcome is not None:
            return outcome
    return Failed(ErrorRecord(type="NotMade", message="a person has said that it shall not be made once more"))


def _put(
    session: Session, work: Work, settled: e.ActionSettled, standing: Standing, typed: object
) -> ReducerFailed | None:
    """Put the entry, with the patch of `then=`; return what the reducer raised, if it did."""
    ending = Ending(outcome="succeeded", typed=typed)
    operations: tuple[Op, ...] = ()
    patch, unapplied, failure = e.NOTHING, "", None
    if work.then is not None and settled.error is not None:
        unapplied = "its result could not be stored"
    elif work.then is not None:
        with Boundary() as caught:
            operations, patch = reduce(session, work, ending)
        if caught.error is not None:
            unapplied = cut_redacted(f"{type(caught.error).__name__}: {caught.error}", ERROR_MESSAGE_BYTES_MAX)
            failure = ReducerFailed(standing.action, work.call.tool, caught.error)
            failure.__cause__ = caught.error
    call = work.call
    reused = e.ActionReused(
        action=standing.action,
        tool=call.tool,
        settled=standing.settled,
        digest=call.digest,
        key=call.key,
        loop=call.loop,
        reduces=work.then is not None,
        patch=patch,
        unapplied=plain_text(unapplied),
    )
    session.put(reused, operations=operations, blobs=ending.writer.blobs)
    return failure
