"""A person takes a task over, changes it by hand, and hands it back: what is written, and what is refused meanwhile.

    take over ─ epoch + 1, so the old process is fenced off ─ files as they are ─ TaskTakenOver
    edits     ─ StateEdited, PlanAdopted, each by the person
    hand back ─ files as they are, as somebody else's ─ TaskHandedBack, which says what was changed

The person needs no process that lives: each step is a visit that gives the lease back at once, and the entry keeps the
task theirs. Called by `visiting` (the steps) and `holding` (the refusals).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, cast

import msgspec

from perdure.codec.redact import cut_redacted
from perdure.core import statepath
from perdure.core.fold import Fold
from perdure.core.manifest import Manifest
from perdure.core.views import MapView
from perdure.engine import crashpoints
from perdure.engine.driving import Drivable
from perdure.engine.ending import hand_back_line
from perdure.engine.files import files_of
from perdure.engine.leases import is_alive
from perdure.engine.loading import entries, load_fold, operations_of
from perdure.engine.programs import Program
from perdure.engine.session import Session
from perdure.engine.state_types import view_of
from perdure.errors import NeedsHuman, NotTakenOver, RollbackUnderWay, TaskBusy, UsageError, WorkspaceError
from perdure.limits import ERROR_MESSAGE_BYTES_MAX, LEASE_CALL_MARGIN_S
from perdure.model import entry as e
from perdure.model.entry import Entry
from perdure.model.ids import check_name
from perdure.model.ledger import OpenAction, Takeover
from perdure.ports import Store

_NAMED_MAX: Final = 10  # places and paths that one line names
_VALUE_BYTES: Final = 80  # of a value that a line shows
_ABSENT: Final = object()
_NOT_BY_HAND: Final = frozenset({"", "late", "probe", "resume", "program"})  # who settles an action without a person


# --- the steps ------------------------------------------------------------------------------------------------------
async def take_over(session: Session, by: str) -> None:
    """Make the task a person's: nothing runs until they hand it back. Whoever has it already may say so again."""
    check_name(by, "name of a person")
    taken = session.fold.ledger.takeover
    if taken is not None and taken.by == by:
        return
    if taken is None:
        await _take_in_files(session)
    crashpoints.reach("during_takeover")
    session.put(e.TaskTakenOver(by=by, holder=session.robbed))
    await session.commit()
    crashpoints.reach("during_takeover")
    session.tell("taken_over", by=by)


async def hand_back(session: Session, by: str, word: str) -> tuple[str, ...]:
    """Give the task back to its program; return what was changed, a line for each kind. Raises NotTakenOver."""
    taken = _taken(session)
    by = check_name(by or taken.by, "name of a person")
    not_looked_at = await _take_in_files(session)
    crashpoints.reach("during_takeover")
    await session.commit()
    changes = (*await changes_since(session.world.store, session.fold, taken.seq), *not_looked_at)
    session.put(e.TaskHandedBack(by=by, changes=changes, word=cut_redacted(word.strip(), ERROR_MESSAGE_BYTES_MAX)))
    await session.commit()
    crashpoints.reach("during_takeover")
    session.tell("handed_back", by=by, changes=list(changes))
    return changes


async def edit_state(
    session: Session, assign: Sequence[tuple[str, object]], remove: Sequence[str], program: Drivable | None
) -> bool:
    """Put each value of `assign` at its place, in order, then remove what stands at those of `remove`; all or nothing.

    What is written is checked by the `state_type=` of `program`, where it has one and the state is of its version.
    Returns whether anything changed. Raises NotTakenOver, StatePathInvalid, StateInvalid, Unstorable.
    """
    taken = _taken(session)
    _refuse_in_rollback(session)
    steps = [(statepath.parse(text), value) for text, value in assign]
    gone = [statepath.parse(text) for text in remove]
    _show_by_type(session, program)
    change = session.begin_edit()
    try:
        for path, value in steps:
            statepath.put(change.view, path, value)
        for path in gone:
            statepath.remove(change.view, path)
        operations = change.finish()
        if operations:
            session.put_patch(operations, by=taken.by)
    except BaseException:
        change.undo()
        raise
    await session.commit()
    return bool(operations)


async def adopt_plan(session: Session, steps: Sequence[str]) -> bool:
    """Write another plan; return whether it is another one. Raises NotTakenOver, UsageError."""
    taken = _taken(session)
    _refuse_in_rollback(session)
    if not steps:
        raise UsageError("a plan has at least one step")
    plan = tuple(check_name(step, "step name") for step in steps)
    if plan == session.fold.document.plan:
        return False
    session.put(e.PlanAdopted(steps=plan, by=taken.by))
    await session.commit()
    return True


# --- what is refused meanwhile --------------------------------------------------------------------------------------
def refuse_taken(fold: Fold) -> None:
    """Raise NeedsHuman where a person has the task: nobody goes on with it until it is handed back."""
    ledger = fold.ledger
    if ledger.takeover is not None:
        raise NeedsHuman(fold.task, ledger.reason, hand_back_line(ledger.name), ledger.name)


def refuse_under_way(store: Store, fold: Fold, now: int, *, is_resume: bool) -> None:
    """Raise TaskBusy while an effect may be under way in the living process from which the task was taken.

    A probe, an undo or a second try would come too early: nobody could tell what became of the first. (A resume may
    send a keyed call again: its service drops one of the two.) It is over with its process, or with its time-out.
    """
    robbed = fold.ledger.robbed
    if robbed is None:
        return
    harmless = {"free", "keyed"} if is_resume else {"free"}
    left = [one for one in fold.ledger.open.values() if one.epoch < robbed.epoch and one.effect.retry not in harmless]
    flying = max(left, key=_ends_at, default=None)
    if flying is None or now >= _ends_at(flying) or is_alive(robbed.holder, store) is False:
        return
    when = datetime.fromtimestamp(_ends_at(flying) / 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    who = f"{robbed.holder}, from which it was taken over: its {flying.tool} (action {flying.action}) may run"
    raise TaskBusy(fold.task, f"{who} until {when}; wait, or end that process", fold.ledger.name)


def _ends_at(action: OpenAction) -> int:
    return action.intended_at + round((action.timeout_s + LEASE_CALL_MARGIN_S) * 1_000_000)


def _taken(session: Session) -> Takeover:
    taken = session.fold.ledger.takeover
    if taken is None:
        name = session.fold.ledger.name
        raise NotTakenOver(name, f"perdure take-over {shlex.quote(name)}")
    return taken


def _refuse_in_rollback(session: Session) -> None:
    if session.fold.ledger.rollback is not None:
        name = shlex.quote(session.fold.ledger.name)
        line = f"perdure rollback {name} --abandon, or {hand_back_line(session.fold.ledger.name)}"
        raise RollbackUnderWay(session.task, "nothing can be changed by hand before it is over", line)


# --- state and files ------------------------------------------------------------------------------------------------
def _show_by_type(session: Session, program: Drivable | None) -> None:
    fold = session.fold
    if not isinstance(program, Program) or program.state_type is None:
        return
    if program.state_version == fold.document.state_version:
        fold.tree.shown = cast("type[MapView]", view_of(program.state_type, dict))


async def _take_in_files(session: Session) -> tuple[str, ...]:
    """Take in the files as they are; return why they could not be looked at, which keeps nobody from anything."""
    files = files_of(session)
    if files is None:
        return ()
    if session.fold.ledger.rollback is not None:
        return ("files: not looked at, since a rollback is under way",)
    try:
        await files.at_takeover()
    except WorkspaceError as error:
        text = f"files: not looked at: {error}"
        session.put(e.NoteWritten(text=cut_redacted(text, ERROR_MESSAGE_BYTES_MAX)))
        return (cut_redacted(text, ERROR_MESSAGE_BYTES_MAX),)
    return ()


# --- what was changed -----------------------------------------------------------------------------------------------
async def changes_since(store: Store, fold: Fold, seq: int) -> tuple[str, ...]:
    """Return what a person has changed since they took the task over by entry `seq`, a line for each kind.

    `fold` is that of the head, and what it holds is durable.
    """
    seen = _Seen()
    async for entry in entries(store, fold.task, seq):
        await seen.take(store, fold.task, entry)
    then = (await load_fold(store, fold.task, seq)).files
    return seen.lines(fold, then)


class _Seen:
    """What the entries of a takeover tell."""

    def __init__(self) -> None:
        self._places: dict[str, tuple[int, object]] = {}  # places in the state: (entry, path)
        self._planned_at = 0
        self._files: set[str] = set()
        self._settled: list[str] = []
        self._back_to = ""

    async def take(self, store: Store, task: str, entry: Entry) -> None:
        """Take in the next one."""
        seq = entry.header.seq
        match entry.payload:
            case e.StateEdited(by=by) if by:
                for operation in await operations_of(store, task, entry):
                    self._places[statepath.spell(operation.path)] = (seq, operation.path)
            case e.PlanAdopted(by=by) if by:
                self._planned_at = seq
            case e.FilesCaptured(action="") as captured:
                self._files.update(change.path for change in captured.changes)
            case e.ActionSettled(by=by) as settled if by not in _NOT_BY_HAND:
                self._settled.append(f"{settled.action} {settled.outcome}")
            case e.ActionReleased() as released:
                self._settled.append(f"{released.action} kept")
            case e.RolledBackEntry() as back:
                self._back_to = back.checkpoint
                self._places = {text: found for text, found in self._places.items() if found[0] <= back.to_seq}
                self._planned_at = self._planned_at if self._planned_at <= back.to_seq else 0
            case _:
                pass

    def lines(self, fold: Fold, then: Manifest) -> tuple[str, ...]:
        """Return them as lines; `then` is what stood in the workspace before."""
        places = [_place_line(fold, text, path) for text, (_, path) in self._places.items()]
        files = [line for path in sorted(self._files) if (line := _file_line(path, then, fold.files))]
        plan = [" > ".join(fold.document.plan)] if self._planned_at else []
        parts = (
            ("rollback", [f"to {self._back_to!r}"] if self._back_to else []),
            ("state", places),
            ("plan", plan),
            ("files", files),
            ("actions", self._settled),
        )
        return tuple(cut_redacted(f"{kind}: {_listed(told)}", ERROR_MESSAGE_BYTES_MAX) for kind, told in parts if told)


def _listed(told: Iterable[str]) -> str:
    every = list(told)
    more = f" and {len(every) - _NAMED_MAX} more" if len(every) > _NAMED_MAX else ""
    return ", ".join(every[:_NAMED_MAX]) + more


def _place_line(fold: Fold, text: str, path: object) -> str:
    found = statepath.find(fold.tree.root, cast("tuple[object, ...]", path), _ABSENT)
    if found is _ABSENT:
        return f"{text} (removed)"
    if found is None or isinstance(found, str | int | float):
        return f"{text} = {cut_redacted(msgspec.json.encode(found).decode(), _VALUE_BYTES)}"
    return f"{text} ({type(found).__name__})"


def _file_line(path: str, then: Manifest, now: Manifest) -> str:
    """Return the path and what became of it, "" where all is as before."""
    if then.get(path) == now.get(path):
        return ""
    if now.get(path) is None:
        return f"{path} (removed)"
    return f"{path} (new)" if then.get(path) is None else path
