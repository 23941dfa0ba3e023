"""Which checkpoints a rollback may go back to, which effects lie behind one, and what the ledger keeps of them.

Pure. A rollback reads the `undo` of an effect and nothing else of it, and takes one in doubt as having happened. The
engine (`engine/rollback.py`) reads the journal and obeys; the fold calls the functions at the end for each entry.
"""

from __future__ import annotations

from typing import Final

import msgspec

from perdure.core import spending
from perdure.core.resume import again_key
from perdure.model import entry as e
from perdure.model.checkpoint import Checkpoint
from perdure.model.document import Document
from perdure.model.effect import Effect, Undo
from perdure.model.entry import Entry
from perdure.model.ledger import Ledger, Rollback, UndoSent

START: Final = "start"  # TaskStarted is checkpoint 0
EFFECT: Final = "effect"  # the checkpoint that nobody marks: behind the newest effect that cannot be taken back
_UNDO_KEY: Final = "undo "
_STANDS: Final = frozenset({"impossible", "function"})


# --- which checkpoint -----------------------------------------------------------------------------------------------
def checkpoints(document: Document) -> list[Checkpoint]:
    """Return all checkpoints of the branch, newest first: the marked ones, the one behind an effect, and the start."""
    after = [document.after_effect] if document.after_effect is not None else []
    marks = sorted([*document.checkpoints, *after], key=lambda mark: mark.seq, reverse=True)
    return [*marks, Checkpoint(name=START, seq=1, changed=1)]


def admissible(document: Document, ledger: Ledger) -> list[Checkpoint]:
    """Return the checkpoints behind which lies no effect that cannot be taken back, and no person's change.

    Newest first. Only to one of these a rollback goes by itself; a person may go past the others, saying what is to
    become of the effects.
    """
    barrier = max(document.impossible_at, document.human_at)
    for action in ledger.open.values():
        if stays(action.effect.undo, action.intent, ledger) and action.action not in ledger.standing:
            barrier = max(barrier, action.intent)  # nobody knows whether it happened, so it has
    return [mark for mark in checkpoints(document) if mark.seq >= barrier]


def stays(undo: Undo, seq: int, ledger: Ledger) -> bool:
    """Whether a rollback cannot take back the effect of which entry `seq` tells.

    What a fork has from its parent is in the world once: the parent's, to keep or to take back.
    """
    return undo == "impossible" or (undo == "function" and seq <= ledger.forked_at)


# --- what lies behind it --------------------------------------------------------------------------------------------
class Behind(msgspec.Struct, frozen=True, kw_only=True):
    """One effect behind a checkpoint, on the branch that is to be left."""

    action: str
    tool: str
    effect: Effect
    intent: int  # seq
    settled: int = 0  # seq of the outcome, 0 where it is in doubt
    is_claimable: bool = True  # False: a person has said that no call shall claim it
    at: int = 0  # seq of the entry that put it on this branch

    def __str__(self) -> str:
        return f"{self.tool} (action {self.action})"

    @property
    def is_in_doubt(self) -> bool:
        """Whether nobody knows if it happened."""
        return not self.settled

    @property
    def stands(self) -> bool:
        """Whether it is in the world until something takes it back; files and what leaves nothing are not."""
        return self.effect.undo in _STANDS


class Gatherer:
    """Finds the effects behind entry `to_seq`, from the entries behind it, given in order."""

    def __init__(self, to_seq: int, ledger: Ledger) -> None:
        self._to_seq = to_seq
        self._ledger = ledger
        self._seen: set[str] = set()
        self._found: dict[str, Behind] = {}

    def needs(self, entry: Entry) -> int:
        """Return the seq of the intent that must be given before `entry`, 0 where none is missing."""
        settled = entry.payload
        is_unknown = isinstance(settled, e.ActionSettled) and settled.action not in self._seen
        return settled.intent if is_unknown and settled.action not in self._ledger.standing else 0  # type: ignore[union-attr]  # narrowed by is_unknown

    def take(self, entry: Entry) -> None:
        """Take an entry in: one behind `to_seq`, or an intent that was asked for."""
        seq = entry.header.seq
        match entry.payload:
            case e.ActionIntended() as intent:
                self._seen.add(intent.action)
                if not intent.effect.is_free:
                    self._put(intent.action, intent.tool, intent.effect, intent=seq, at=seq)
            case e.ActionReused() as reused if reused.action in self._ledger.standing:
                undo = self._ledger.standing[reused.action].undo
                effect = Effect(retry="never", undo=undo)
                self._put(reused.action, reused.tool, effect, settled=reused.settled, at=seq)
            case e.ActionSettled(action=action, outcome="failed"):
                self._found.pop(action, None)
            case e.ActionSettled(action=action, outcome="succeeded") if action in self._found:
                self._change(action, settled=seq, at=seq)
            case e.ActionReleased(action=action) if action in self._found:
                self._change(action, is_claimable=False)
            case e.RolledBackEntry(to_seq=back_to):
                self._found = {one.action: one for one in self._found.values() if one.at <= back_to}
            case _:
                pass

    def found(self) -> list[Behind]:
        """Return them, oldest first."""
        return [one for one in self._found.values() if one.at > self._to_seq]

    def _put(self, action: str, tool: str, effect: Effect, *, intent: int = 0, settled: int = 0, at: int) -> None:
        if stays(effect.undo, intent or settled, self._ledger):
            effect = msgspec.structs.replace(effect, undo="impossible")
        self._found[action] = Behind(action=action, tool=tool, effect=effect, intent=intent, settled=settled, at=at)

    def _change(self, action: str, **fields: int | bool) -> None:
        self._found[action] = msgspec.structs.replace(self._found[action], **fields)


def undo_key(action: str) -> str:
    """Return the key under which the undo of `action` is made, and found again after a kill."""
    return _UNDO_KEY + action


# --- what the fold keeps: each is called for one kind of entry --------------------------------------------------------
def note_intent(document: Document, ledger: Ledger, intent: e.ActionIntended) -> None:
    """An effect of a branch that was left is sent again on this one; or a person said "again"."""
    ledger.standing.pop(intent.action, None)
    if document.answers:
        document.answers.pop(again_key(intent.tool, intent.digest), None)


def note_undo(rollback: Rollback, intent: e.ActionIntended, seq: int) -> None:
    """An undo is sent, whatever its `retry`."""
    if intent.key.startswith(_UNDO_KEY):
        undone = intent.key.removeprefix(_UNDO_KEY)
        rollback.undos[intent.action] = UndoSent(of=undone, tool=intent.tool, intent=seq)


def note_outcome(ledger: Ledger, settled: e.ActionSettled, seq: int) -> None:
    """An effect of a branch that was left is no longer in doubt; or something was taken back."""
    standing = ledger.standing.get(settled.action)
    if standing is not None and settled.outcome == "succeeded":
        ledger.standing[settled.action] = msgspec.structs.replace(standing, settled=seq)
    elif standing is not None and settled.outcome == "failed":
        del ledger.standing[settled.action]
    rollback = ledger.rollback
    if rollback is None or settled.outcome == "in_doubt":
        return
    if settled.action in rollback.undos and settled.outcome == "succeeded":
        _note_end(rollback.undone, rollback.undos[settled.action].of)
    rollback.standing = tuple(
        msgspec.structs.replace(one, settled=seq) if one.action == settled.action else one for one in rollback.standing
    )
    if settled.outcome == "failed" and any(one.action == settled.action for one in rollback.standing):
        _note_end(rollback.undone, settled.action)  # a person has said that it did not happen


def note_release(ledger: Ledger, action: str) -> str:
    """A person lets no call claim the effect; or an undo is given up, and what it was to take back stays.

    Returns the fact that follows.
    """
    if action in ledger.standing:
        ledger.standing[action] = msgspec.structs.replace(ledger.standing[action], used=True)
    rollback = ledger.rollback
    if rollback is not None and action in rollback.undos:
        sent = rollback.undos[action]
        _note_end(rollback.kept, sent.of)
        return f"action {sent.of} stays in the world; {sent.tool} did not take it back"
    if rollback is not None and any(one.action == action for one in rollback.standing):
        _note_end(rollback.kept, action)
    return f"action {action} is kept as it happened; no call will claim it"


def note_impossible(document: Document, ledger: Ledger, seq: int) -> None:
    """Where an effect that cannot be taken back is over and no other is open, this moment is a checkpoint."""
    after = document.after_effect
    if after is not None and after.seq >= document.impossible_at:
        return
    if all(action.effect.is_free or action.action in ledger.standing for action in ledger.open.values()):
        document.after_effect = Checkpoint(name=EFFECT, seq=seq, changed=document.last_change, reason=EFFECT)


def note_reuse(document: Document, ledger: Ledger, reused: e.ActionReused, seq: int) -> None:
    """An effect of a branch that was left is one of this branch from here on."""
    standing = ledger.standing[reused.action]
    ledger.standing[reused.action] = msgspec.structs.replace(standing, used=True)
    document.answers.pop(again_key(reused.tool, reused.digest), None)
    if stays(standing.undo, standing.settled, ledger):
        document.impossible_at = seq


def begin(ledger: Ledger, began: e.RollbackBegan) -> None:
    """A rollback is under way."""
    ledger.rollback = Rollback(
        to_seq=began.to_seq,
        checkpoint=began.checkpoint,
        moves=began.moves,
        standing=began.standing,
        strategy=began.strategy,
        lesson=began.lesson,
    )


def end(ledger: Ledger) -> None:
    """The rollback is over: what was not taken back stands for equal calls, and what is in doubt stays so."""
    rollback = ledger.rollback
    ledger.rollback, ledger.rollbacks = None, ledger.rollbacks + 1
    to_seq = rollback.to_seq if rollback is not None else 0
    for one in rollback.standing if rollback is not None else ():
        if rollback is not None and one.action in rollback.undone:
            ledger.standing.pop(one.action, None)
        else:
            ledger.standing[one.action] = one
    kept = {
        name: action
        for name, action in ledger.open.items()
        if not action.effect.is_free and (action.intent <= to_seq or name in ledger.standing)
    }
    spending.note_dropped(ledger, (action for name, action in ledger.open.items() if name not in kept))
    ledger.open = kept


def _note_end(among: list[str], action: str) -> None:
    if action not in among:
        among.append(action)
