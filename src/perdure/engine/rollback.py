"""Going back to a checkpoint: a sequence of entries that can be killed anywhere; the next opener finishes it.

    RollbackBegan ─ each participant's moves, in order ─ RolledBack, facts that are carried ─ snapshot

`RollbackBegan` fixes what is to be done, so that whoever finishes it does the same. The state has no moves of its own:
`RolledBack` itself makes the document jump. First of the participants are the effects (`engine/undoing.py`), since a
rollback can be given up only until the first undo is sent. `core/rollback.py` says what lies behind a checkpoint.
"""

from __future__ import annotations

import shlex
from typing import Final

import msgspec

from perdure.codec.redact import cut_redacted
from perdure.core import rollback as core
from perdure.core.fold import Fold
from perdure.core.rollback import Behind, Gatherer
from perdure.engine import crashpoints
from perdure.engine.files import files_of
from perdure.engine.loading import arguments_of, digest_of_content, entries, load_fold, read_entry
from perdure.engine.session import Session
from perdure.engine.undoing import CARRY, Effects, carry_move, fact_in, undo_move
from perdure.errors import (
    ActionsInFlight,
    CheckpointUnknown,
    Damaged,
    RollbackRefused,
    RollbackUnderWay,
    RolledBack,
    UsageError,
)
from perdure.limits import ERROR_MESSAGE_BYTES_MAX
from perdure.model import entry as e
from perdure.model.decision import RollBack
from perdure.model.document import Document
from perdure.model.effect import Standing
from perdure.ports import Participant, Store

START: Final = core.START
_ARGUMENTS_SHOWN: Final = 200  # bytes of an effect's arguments in a fact


class Ahead(msgspec.Struct, frozen=True, kw_only=True):
    """A rollback as it would go: read from the journal, nothing done."""

    to_seq: int
    checkpoint: str
    behind: tuple[Behind, ...]  # effects behind the checkpoint, oldest first
    standing: tuple[Standing, ...]  # those of them that are in the world until something takes them back

    @property
    def impossible(self) -> tuple[Behind, ...]:
        """Those that nothing takes back."""
        return tuple(one for one in self.behind if one.effect.undo == "impossible")

    @property
    def undone(self) -> tuple[Behind, ...]:
        """Those that a function takes back, in the order in which it is called: newest first."""
        found = [one for one in self.behind if one.effect.undo == "function"]
        return tuple(sorted(found, key=lambda one: one.at, reverse=True))


async def look_ahead(store: Store, fold: Fold, name: str, to_seq: int = 0) -> Ahead:
    """Return what a rollback to `name` (`to_seq` says which, if not the newest) has to deal with.

    Raises CheckpointUnknown.
    """
    to_seq = to_seq or find_checkpoint(fold.document, fold.task, name)
    gatherer = Gatherer(to_seq, fold.ledger)
    intents: dict[str, e.Entry] = {}
    async for entry in entries(store, fold.task, to_seq):
        if missing := gatherer.needs(entry):
            _take(gatherer, intents, await read_entry(store, fold.task, missing))
        _take(gatherer, intents, entry)
    behind = gatherer.found()
    standing = [await _standing(store, fold, one, intents.get(one.action)) for one in behind if one.stands]
    return Ahead(to_seq=to_seq, checkpoint=name, behind=tuple(behind), standing=tuple(standing))


async def roll_back(
    session: Session,
    name: str,
    *,
    reason: str = "",
    carry: bool = False,
    force: bool = False,
    decided: RollBack | None = None,
) -> RolledBack:
    """Roll the task back to the newest checkpoint `name` ("name#2": the second; "start": the beginning).

    Effects behind the checkpoint are taken back where they have an undo. Those that cannot be stay in the world and
    answer equal calls of the new branch: with `carry` each is also stated as a fact, with `force` not. `decided`: by
    recovery, which says to which entry, and what follows. Returns the exception that unwinds the program. Raises
    CheckpointUnknown; RollbackRefused where something cannot be taken back and neither is said; ToolNotFound;
    ActionsInFlight while actions run.
    """
    if carry and force:
        raise UsageError("carry and force exclude each other: either the new branch is told of the effects, or not")
    _refuse_in_flight(session)
    await session.commit()
    ahead = await look_ahead(session.world.store, session.fold, name, decided.to_seq if decided else 0)
    if ahead.impossible and not (carry or force):
        line = f"perdure rollback {shlex.quote(session.fold.ledger.name)} --to {shlex.quote(name)}"
        raise RollbackRefused(session.task, name, tuple(map(str, ahead.impossible)), line)
    moves = [undo_move(one) for one in ahead.undone]
    if carry:
        moves += [carry_move(one, await _fact_of(session, one)) for one in ahead.impossible if one.is_claimable]
    for one in ahead.undone:
        await Effects(session).check(one)
    files = files_of(session)
    if files is not None:
        moves += [f"{files.name} {move}" for move in await files.prepare(ahead.to_seq)]
    _refuse_in_flight(session)
    session.put(
        e.RollbackBegan(
            to_seq=ahead.to_seq,
            checkpoint=name,
            reason=cut_redacted(reason, ERROR_MESSAGE_BYTES_MAX),
            moves=tuple(moves),
            standing=ahead.standing,
            strategy=decided.strategy if decided else "",
            lesson=decided.lesson if decided else "",
        )
    )
    await session.commit()
    session.tell("rollback_began", checkpoint=name, to_seq=ahead.to_seq, moves=moves)
    crashpoints.reach("during_rollback")
    await finish_rollback(session)
    return RolledBack(session.task, name)


async def finish_rollback(session: Session) -> None:
    """Bring the rollback on record to its end; does nothing where none is under way.

    Raises StopRequested where an undo fails (a person is asked, the next opener tries it again), ToolNotFound.
    """
    pending = session.fold.ledger.rollback
    if pending is None:
        return
    session.lap += 1  # the call of the program is over, whatever it catches
    session.claimed.clear()
    files = files_of(session)
    participants: dict[str, Participant] = {one.name: one for one in (Effects(session), files) if one is not None}
    for move in pending.moves:
        crashpoints.reach("during_rollback")
        owner, _, what = move.partition(" ")
        if owner in participants or session.world.has_disk:  # a replay touches no files
            await participants[owner].apply(what)
    store, to_seq = session.world.store, pending.to_seq
    earlier = await (load_fold(store, session.task, to_seq) if files is None else files.fold_at(to_seq))
    session.sequencer.jump(e.RolledBackEntry(to_seq=pending.to_seq, checkpoint=pending.checkpoint), earlier)
    for move in pending.moves:
        if move.startswith(CARRY):
            session.put(e.FactStated(text=fact_in(move), source="rollback"))
    if pending.strategy:
        put_strategy(session, pending.strategy, pending.lesson)
    session.claimed.clear()
    session.lap += 1
    try:
        if session.adapt is not None:
            session.adapt()
    finally:
        await session.commit()
    crashpoints.reach("during_rollback")
    for participant in participants.values():
        await participant.done(pending.to_seq)
    session.tell("rolled_back", checkpoint=pending.checkpoint, to_seq=pending.to_seq)


def put_strategy(session: Session, name: str, lesson: str) -> None:
    """Put a lesson, and the strategy with which the task goes on."""
    if lesson:
        session.put(e.LessonLearned(text=lesson))
    chosen = next((one for one in session.fold.ledger.strategies if one.name == name), None)
    if chosen is not None:
        session.put(e.StrategyChosen(strategy=chosen))


async def abandon_rollback(session: Session, reason: str) -> None:
    """Give up the rollback on record: the task goes on where it was. Raises RollbackUnderWay, UsageError.

    Possible until something of it is done: the first undo sent, or (where there is none) the files touched.
    """
    pending = session.fold.ledger.rollback
    line = f"perdure resume {shlex.quote(session.fold.ledger.name)}"
    if pending is None:
        raise UsageError(f"task {session.fold.ledger.name!r} is in no rollback; there is nothing to give up")
    if pending.undos:
        sent = next(iter(pending.undos.values()))
        raise RollbackUnderWay(
            session.task, f"{sent.tool!r} was sent (entry {sent.intent}), it only goes forward", line
        )
    if pending.moves and not Effects.is_first(pending.moves):
        raise RollbackUnderWay(session.task, "its files may be on their way back, it only goes forward", line)
    session.put(e.RollbackAbandoned(reason=reason))
    await session.commit()
    session.tell("rollback_abandoned", checkpoint=pending.checkpoint)


def find_checkpoint(document: Document, task: str, name: str) -> int:
    """Return the seq of the checkpoint that `name` means.

    The newest of that name; "name#n": the n-th; "start": the beginning; "effect": behind the newest effect that cannot
    be taken back; a number: the checkpoint with that seq. Raises CheckpointUnknown.
    """
    marks = document.checkpoints
    found = [mark.seq for mark in marks if mark.name == name]
    if found:
        return found[-1]
    base, _, number = name.rpartition("#")
    numbered = [mark.seq for mark in marks if mark.name == base]
    if number.isascii() and number.isdigit() and 1 <= int(number) <= len(numbered):
        return numbered[int(number) - 1]
    for mark in core.checkpoints(document):
        if name in {str(mark.seq), mark.name}:
            return mark.seq
    names = reversed([mark.name for mark in core.checkpoints(document)])
    raise CheckpointUnknown(task, name, tuple(dict.fromkeys(names)))


def _refuse_in_flight(session: Session) -> None:
    """Raise ActionsInFlight while something could still arrive, or be written, on the branch that is to be left."""
    open_edit = () if session.edit_closed.is_set() else ("an open edit",)
    late = tuple(action for action in session.late if action in session.fold.ledger.open)  # of the others nothing comes
    if session.running or late or open_edit:
        raise ActionsInFlight("rollback", (*session.running, *late, *open_edit))
    if session.fold.ledger.rollback is not None:
        line = f"perdure resume {shlex.quote(session.fold.ledger.name)}"
        raise RollbackUnderWay(session.task, "another cannot begin before it is over", line)


def _take(gatherer: Gatherer, intents: dict[str, e.Entry], entry: e.Entry) -> None:
    gatherer.take(entry)
    if isinstance(entry.payload, e.ActionIntended) and not entry.payload.effect.is_free:
        intents[entry.payload.action] = entry


async def _standing(store: Store, fold: Fold, one: Behind, intent: e.Entry | None) -> Standing:
    """Return what the ledger is to keep of an effect. One that was reused goes back to what it was before."""
    if intent is None or not isinstance(intent.payload, e.ActionIntended):
        known = fold.ledger.standing.get(one.action)
        if known is None:
            raise Damaged(fold.task, one.at, f"the intent of action {one.action} is missing")
        return msgspec.structs.replace(known, used=False)
    seq = intent.header.seq
    return Standing(
        action=one.action,
        tool=one.tool,
        digest=await digest_of_content(store, fold.task, seq, intent.payload, fold.ledger.digest_base_at(seq)),
        settled=one.settled,
        undo=one.effect.undo,
        used=not one.is_claimable,
    )


async def _fact_of(session: Session, one: Behind) -> str:
    """Return the sentence that tells a new branch of an effect that stays."""
    store, task = session.world.store, session.task
    seq = one.intent
    if not seq:  # it was reused: its outcome names its intent
        settled = (await read_entry(store, task, one.settled)).payload
        seq = settled.intent if isinstance(settled, e.ActionSettled) else 0
    intent = (await read_entry(store, task, seq)).payload
    given = await arguments_of(store, task, seq, intent) if isinstance(intent, e.ActionIntended) else {}
    shown = cut_redacted(", ".join(f"{name}={value!r}" for name, value in given.items()), _ARGUMENTS_SHOWN)
    how = "may have happened" if one.is_in_doubt else "has happened"
    text = f"{one.tool}({shown}) {how} on a branch that was left, and stays in the world (action {one.action})"
    return cut_redacted(text, ERROR_MESSAGE_BYTES_MAX)
