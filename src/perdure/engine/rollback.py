"""Going back to a checkpoint: a sequence of entries that can be killed anywhere; the next opener finishes it.

    RollbackBegan ─ each participant's moves, in order ─ RolledBack ─ snapshot

The state is the first participant and has no moves of its own: `RolledBack` itself makes the document jump. Workspace
and effects join as further participants.
"""

from __future__ import annotations

from typing import Final

from perdure.engine import crashpoints
from perdure.engine.files import files_of
from perdure.engine.loading import entries, load_fold
from perdure.engine.session import Session
from perdure.errors import ActionsInFlight, CheckpointUnknown, RolledBack
from perdure.model import entry as e
from perdure.model.document import Document
from perdure.ports import Participant

START: Final = "start"  # TaskStarted is checkpoint 0
_EFFECTS_NAMED_MAX: Final = 10


async def roll_back(
    session: Session, name: str, *, reason: str = "", participants: tuple[Participant, ...] = ()
) -> RolledBack:
    """Roll the task back to the newest checkpoint `name` ("name#2": the second; "start": the beginning).

    Effects behind the checkpoint stay in the world: they are named in a note and in the journal. Returns the exception
    that unwinds the program. Raises CheckpointUnknown; ActionsInFlight while actions run or
    effects are open, since those could no longer be told apart from what the new branch does.
    """
    open_effects = [a.action for a in session.fold.ledger.open.values() if not a.effect.is_free]
    open_edit = () if session.edit_closed.is_set() else ("an open edit",)
    if session.running or open_effects or open_edit:
        raise ActionsInFlight("rollback", (*session.running, *open_effects, *open_edit))
    to_seq = find_checkpoint(session.fold.document, session.task, name)
    participants = participants or _participants(session)
    moves = [f"{one.name} {move}" for one in participants for move in await one.prepare(to_seq)]
    kept = await _effects_after(session, to_seq)
    if kept:
        text = f"rollback to {name!r}: {len(kept)} effect(s) stay in the world: {', '.join(kept[:_EFFECTS_NAMED_MAX])}"
        session.put(e.NoteWritten(text=text))
        session.tell("note", text=text)
    session.put(e.RollbackBegan(to_seq=to_seq, checkpoint=name, reason=reason, moves=tuple(moves)))
    await session.commit()
    crashpoints.reach("during_rollback")
    await finish_rollback(session, participants)
    return RolledBack(session.task, name)


async def finish_rollback(session: Session, participants: tuple[Participant, ...] = ()) -> None:
    """Bring the rollback on record to its end; does nothing where none is under way."""
    pending = session.fold.ledger.rollback
    if pending is None:
        return
    participants = participants or _participants(session)
    by_name = {participant.name: participant for participant in participants}
    for move in pending.moves:
        crashpoints.reach("during_rollback")
        owner, _, what = move.partition(" ")
        await by_name[owner].apply(what)
    earlier = await load_fold(session.world.store, session.task, pending.to_seq)
    session.sequencer.jump(e.RolledBackEntry(to_seq=pending.to_seq, checkpoint=pending.checkpoint), earlier)
    session.claimed.clear()
    session.lap += 1
    try:
        if session.adapt is not None:
            session.adapt()
    finally:
        await session.commit()
    crashpoints.reach("during_rollback")
    for participant in participants:
        await participant.done(pending.to_seq)
    session.tell("rolled_back", checkpoint=pending.checkpoint, to_seq=pending.to_seq)


def _participants(session: Session) -> tuple[Participant, ...]:
    """Return what takes part in a rollback of this task, beside its state."""
    files = files_of(session)
    return (files,) if files is not None else ()


def find_checkpoint(document: Document, task: str, name: str) -> int:
    """Return the seq of the newest checkpoint called `name`, of the n-th for "name#n", 1 for "start"."""
    marks = document.checkpoints
    found = [mark.seq for mark in marks if mark.name == name]
    if found:
        return found[-1]
    base, _, number = name.rpartition("#")
    numbered = [mark.seq for mark in marks if mark.name == base]
    if number.isascii() and number.isdigit() and 1 <= int(number) <= len(numbered):
        return numbered[int(number) - 1]
    if name == START:
        return 1
    raise CheckpointUnknown(task, name, (START, *dict.fromkeys(mark.name for mark in marks)))


async def _effects_after(session: Session, to_seq: int) -> list[str]:
    """Return the effects that happened behind entry `to_seq`, as "tool (action id)"."""
    await session.commit()
    intended: dict[str, str] = {}
    happened: list[str] = []
    async for entry in entries(session.world.store, session.task, to_seq):
        match entry.payload:
            case e.ActionIntended(action=action, tool=tool, effect=effect) if not effect.is_free:
                intended[action] = tool
            case e.ActionSettled(action=action, outcome="succeeded") if action in intended:
                happened.append(f"{intended[action]} ({action})")
            case _:
                pass
    return happened
