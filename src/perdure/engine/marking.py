"""Writes milestones: behind an entry that makes a rule of `core/milestones.py` hold, into the append of that entry.

So a milestone and its cause are durable together, and no kill comes between them: a resumed program, which does not
make the cause again, does not make the milestone again either. Two more come from user code: a tool may ask for a
checkpoint with its outcome (`engine/inside.py`), and a function declared with `@milestone` beside the program is asked
after each success. A program that uses none of this pays for a few looks at attributes. Called by `outcomes`,
`handle`, `task` and `runtime`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from perdure.codec import leaves
from perdure.codec.leaves import LeafWriter
from perdure.codec.redact import cut_redacted
from perdure.core.milestones import Seen, has_open_effect, is_draft, is_known, marked, milestones_after, waits_for
from perdure.engine.boundary import Boundary
from perdure.engine.session import Session
from perdure.errors import ActionsInFlight, UsageError
from perdure.limits import ERROR_MESSAGE_BYTES_MAX
from perdure.model import entry as e
from perdure.model.ids import check_name

if TYPE_CHECKING:
    from perdure.engine.outcomes import Ending, Work

_FAILED: Final = "milestone_failed"  # field of the note about a function that raised
_EXAMPLE: Final = "write `@perdure.milestone` over a plain `def name(view): …` that returns a checkpoint's name or None"


class MilestoneView(msgspec.Struct, frozen=True, kw_only=True):
    """What a milestone function is shown: the state (read-only), and the action that has just succeeded."""

    state: Any
    tool: str
    result: Any  # as recorded: plain values


@dataclass(frozen=True, kw_only=True)
class Milestone:
    """A declared milestone function. Calling it calls the function."""

    fn: Callable[[MilestoneView], str | None]
    name: str

    def __call__(self, view: MilestoneView) -> str | None:
        """Call the function itself."""
        return self.fn(view)


def milestone(fn: Callable[[MilestoneView], str | None]) -> Milestone:
    """Declare a milestone beside a program: `@perdure.milestone` over a plain function of a `MilestoneView`.

    It is called after each action of the program that succeeds, and returns the name of the checkpoint that is reached
    now, or None. A name is marked once per branch. What it raises is noted in the journal, and it is not asked again
    in this run. Raises UsageError where it is no plain function.
    """
    if not inspect.isfunction(fn) or inspect.iscoroutinefunction(fn):
        raise UsageError(f"{fn!r} can be no milestone; {_EXAMPLE}")
    return Milestone(fn=fn, name=fn.__name__)


def milestones_of(program: object) -> tuple[Milestone, ...]:
    """Return the milestone functions that stand in the module of `program`, in their order."""
    module = sys.modules.get(str(getattr(getattr(program, "fn", None), "__module__", "")))
    values = {id(value): value for value in vars(module).values()} if module else {}
    return tuple(value for value in values.values() if isinstance(value, Milestone))


def is_concerned(session: Session, work: Work) -> bool:
    """Whether an outcome of `work` can be a milestone at all."""
    return bool(work.tool.source or work.requested or session.milestones or work.paths)


def mark_outcome(session: Session, work: Work, ending: Ending, settled: e.ActionSettled) -> None:
    """Put the milestones that are due now that `settled` was put; to be called in the same step, before the commit."""
    drafts = session.files.drafts_of(work.action) if work.paths and session.files is not None else ()
    if not session.marks_milestones or settled.by == "late" or has_open_effect(session.fold.ledger):
        return  # one that came late may be of a branch that was left
    document, tool = session.fold.document, work.tool
    result: object = None
    is_first = tool.source and not is_known(document, "knowledge", document.step)
    if ending.raw and (is_first or session.milestones):
        result = leaves.decode(ending.raw, ending.writer.blobs)
    seen = Seen(is_source=is_first, is_judged=tool.valid is not None and not settled.by, result=result, drafts=drafts)
    _put_all(session, milestones_after(settled, document, session.fold.ledger, seen))
    if settled.error is not None:
        return
    _put_all(session, tuple(marked(name, f"tool {work.call.tool}") for name in work.requested))
    if session.milestones and session.edit_closed.is_set():  # what an open edit shows may never be
        _ask_functions(session, MilestoneView(state=session.fold.tree.view(), tool=work.call.tool, result=result))


def put_plan(session: Session, steps: tuple[str, ...]) -> None:
    """Put a plan, and the milestone that it is."""
    _put_marking(session, e.PlanAdopted(steps=steps), Seen())


async def drafts_waiting_for(session: Session, lap: int, check: str) -> tuple[str, ...]:
    """Return at which paths a draft stands that has waited for `check` to pass."""
    paths = waits_for(session.fold.document, check) if session.marks_milestones else ()
    if not paths or check in session.fold.document.checks:
        return ()
    drafts = await _drafts_at(session, paths)
    session.refuse_other_lap(lap)
    return drafts


def put_passed(session: Session, check: str, drafts: tuple[str, ...], reason: str = "") -> None:
    """Put that a check has passed, and what follows from it: a step that is done, `drafts` that have waited for it."""
    if check not in session.fold.document.checks:
        _put_marking(session, e.CheckJudged(name=check, passed=True, reason=reason), Seen(drafts=drafts))


def is_of_milestone(note: e.NoteWritten) -> bool:
    """Whether a line tells of a milestone function that raised: no program has written it."""
    return bytes(note.fields).startswith(b'{"%s":' % _FAILED.encode())


def tell_marked(session: Session) -> None:
    """Tell the hooks of the milestones that are durable now."""
    untold, session.untold = session.untold, []
    for event, fields in untold:
        session.tell(event, **fields)


async def mark_by_hand(session: Session, name: str, by: str) -> int:
    """Mark a checkpoint of a person; return its entry. What the program may ask for again stays as it is.

    Raises ActionsInFlight while an effect is open or in doubt.
    """
    check_name(name, "checkpoint name")
    ledger = session.fold.ledger
    if has_open_effect(ledger):
        open_ = tuple(action.action for action in ledger.open.values() if not action.effect.is_free)
        raise ActionsInFlight(f"checkpoint {name!r}", open_)
    seq = session.put(e.CheckpointMarked(name=name, reason="person", verifier=by))
    await session.commit()
    session.tell("checkpoint_marked", name=name, seq=seq, reason="person")
    return seq


def _put_marking(session: Session, payload: e.Payload, seen: Seen) -> None:
    session.put(payload)
    if session.marks_milestones:
        _put_all(session, milestones_after(payload, session.fold.document, session.fold.ledger, seen))


def _put_all(session: Session, due: tuple[e.CheckpointMarked, ...]) -> None:
    for mark in due:
        seq = session.put(mark)
        session.untold.append(("checkpoint_marked", {"name": mark.name, "seq": seq, "reason": mark.reason}))


def _ask_functions(session: Session, view: MilestoneView) -> None:
    for one in session.milestones:
        name: str | None = None
        with Boundary() as caught:
            name = one(view)
            if name is not None:
                check_name(name, "checkpoint name")
        if caught.error is not None:
            session.milestones = tuple(other for other in session.milestones if other is not one)
            text = f"milestone {one.name!r} is not asked any more: {type(caught.error).__name__}: {caught.error}"
            fields = msgspec.Raw(leaves.encode({_FAILED: one.name}, LeafWriter()))
            session.put(e.NoteWritten(text=cut_redacted(text, ERROR_MESSAGE_BYTES_MAX), fields=fields))
            session.untold.append(("note", {"text": text}))
        elif name is not None and not is_known(session.fold.document, name):
            _put_all(session, (marked(name, f"milestone {one.name}"),))


async def _drafts_at(session: Session, paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return at which of `paths` a draft stands, as the store has it."""
    await session.commit()
    nodes = {path: node for path in paths if (node := session.fold.files.get(path)) is not None and node.digest}
    blobs = await session.world.store.blobs([node.digest for node in nodes.values()])
    return tuple(path for path, node in nodes.items() if is_draft(blobs.get(node.digest, b"")))
