"""A person (or the program) says how an open, doubtful or unclaimed action ended."""

from __future__ import annotations

import msgspec

from perdure.codec import leaves
from perdure.codec.leaves import LeafWriter
from perdure.engine.files import files_of
from perdure.engine.session import Session
from perdure.errors import ActionUnknown
from perdure.model import entry as e
from perdure.model.ledger import OpenAction
from perdure.model.outcome import Failed, InDoubt, Outcome, Succeeded
from perdure.tools.results import dump


async def settle(session: Session, action_id: str, outcome: Outcome | None, *, by: str) -> None:
    """Record `outcome` for an action that is open or in doubt; None keeps it as a fact that no call will claim.

    Succeeded: a later equal call is answered with the result (its `then=` still runs). Failed: it is made again. The
    undo of a rollback under way counts as done with the one, and with None what it was to take back stays.
    Raises ActionUnknown for any other action.
    """
    open_ = session.fold.ledger.open.get(action_id)
    document, rollback = session.fold.document, session.fold.ledger.rollback
    undo = rollback.undos.get(action_id) if rollback is not None else None
    loose = any(kept.action == action_id for kept in (*document.loose, *document.anchored.values()))
    files = files_of(session) if open_ is not None and open_.paths else None
    if files is not None and open_ is not None:
        await files.take_in(open_.paths, open_.action)  # from here on what changes is no longer its doing
    if outcome is None and (open_ is not None or loose or undo is not None):
        session.put(e.ActionReleased(action=action_id, by=by))
    elif outcome is not None and open_ is not None:
        _put_outcome(session, open_, outcome, by)
    elif undo is not None and isinstance(outcome, Succeeded):  # it failed, and counts as done all the same
        raw, writer = _encoded(outcome.result)
        done = e.ActionSettled(action=action_id, intent=undo.intent, outcome="succeeded", result=raw, by=by)
        session.put(done, blobs=writer.blobs)
    else:
        raise ActionUnknown(session.task, action_id)
    answered = session.fold.ledger.status == "needs_human"
    if answered and session.fold.ledger.question_action in {"", action_id}:
        word = "kept" if outcome is None else type(outcome).__name__.lower()
        session.put(e.QuestionAnswered(answer=msgspec.Raw(leaves.encode(word, LeafWriter())), by=by))
    await session.commit()


def _encoded(result: object) -> tuple[msgspec.Raw, LeafWriter]:
    writer = LeafWriter()
    return msgspec.Raw(leaves.encode(dump(result), writer)), writer


def _put_outcome(session: Session, action: OpenAction, outcome: Outcome, by: str) -> None:
    writer = LeafWriter()
    cost = action.reserve  # what it really did cost, nobody has said
    common = {"action": action.action, "intent": action.intent, "by": by, "money": cost.money}
    common |= {"tokens_in": cost.tokens_in, "tokens_out": cost.tokens_out}
    match outcome:
        case Succeeded(result):
            raw, writer = _encoded(result)
            unapplied = f"settled by {by}" if action.reduces else ""
            entry = e.ActionSettled(outcome="succeeded", result=raw, unapplied=unapplied, **common)  # type: ignore[arg-type]  # all of them fit
        case Failed(error):
            entry = e.ActionSettled(outcome="failed", error=error, **common)  # type: ignore[arg-type]  # as above
        case InDoubt():
            entry = e.ActionSettled(outcome="in_doubt", **common)  # type: ignore[arg-type]  # as above
    session.put(entry, blobs=writer.blobs)
