"""What each entry means for document and ledger: one rule a kind, and the only place that says it.

Called by `core/fold.py` with the fold as the entry before has left it. A rule reads nothing but entry and fold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from perdure.core import awaiting, health, milestones, questions, reckoning, rollback, spending, watching
from perdure.core.keeping import (
    drop_loose,
    forget_failed,
    has_tried,
    keep,
    keep_effect_key,
    keep_outcome,
    mark_applied,
    open_action,
)
from perdure.core.resume import failed_key_of, key_of
from perdure.model import entry as e
from perdure.model.budget import NO_COST
from perdure.model.checkpoint import Checkpoint, Position
from perdure.model.document import Kept
from perdure.model.entry import Header
from perdure.model.ledger import Ledger, Robbed, Takeover
from perdure.model.patch import Op
from perdure.model.status import TAKEOVER, UNFINISHED

if TYPE_CHECKING:
    from perdure.core.fold import Fold


# --- the task -------------------------------------------------------------------------------------------------------
def _task_started(fold: Fold, header: Header, payload: e.TaskStarted, _patched: bool) -> None:  # noqa: FBT001 - one signature for all rules
    ledger = fold.ledger
    ledger.name, ledger.goal, ledger.driver = payload.name, payload.goal, payload.driver
    ledger.workspace, ledger.strategies = payload.workspace, payload.strategies
    ledger.failures_max = payload.failures_max
    ledger.digest_base = payload.workspace if payload.relative_digests else ""
    ledger.holder, ledger.started_at = payload.holder, header.at
    reckoning.start(ledger, payload)
    fold.document.state_version = payload.state_version


def _task_forked(fold: Fold, header: Header, payload: e.TaskForked, _patched: bool) -> None:  # noqa: FBT001
    _task_started(fold, header, payload.started, _patched)
    fold.ledger.parent, fold.ledger.forked_at, fold.ledger.former_bases = payload.parent, payload.at, payload.bases


def _lease_claimed(fold: Fold, header: Header, payload: e.LeaseClaimed, _patched: bool) -> None:  # noqa: FBT001
    ledger = fold.ledger
    spending.end_work(ledger, fold.at)  # whoever had it has done nothing since his last entry
    ledger.unmended |= payload.after_crash or ledger.holder is None or ledger.holder.boot != payload.holder.boot
    ledger.holder = payload.holder
    is_excused = payload.by_hand or ledger.settled_under_lease or reckoning.is_waiting(ledger)
    is_start_in_row = payload.after_crash and not is_excused
    ledger.starts_in_row = ledger.starts_in_row + 1 if is_start_in_row else 0
    ledger.settled_under_lease = False
    reckoning.note_claim(ledger, payload)
    if header.branch > fold.branch:
        _begin_own_life(fold, header)


def _begin_own_life(fold: Fold, header: Header) -> None:
    """A fork has taken over what it gets from its parent: from here on it runs, on the next branch."""
    fold.branch = header.branch
    fold.document.asking = {}  # the program asks again
    fold.ledger.decided, fold.ledger.alarm, fold.ledger.is_undecided = None, None, False  # that was about the parent
    fold.ledger.takeover = None  # a person has the parent, not the fork
    spending.note_dropped(fold.ledger, (action for action in fold.ledger.open.values() if action.effect.is_free))
    fold.ledger.open = {name: action for name, action in fold.ledger.open.items() if not action.effect.is_free}
    _set_status(fold, header.at, "running", "")


def _task_resumed(fold: Fold, header: Header, _payload: e.TaskResumed, _patched: bool) -> None:  # noqa: FBT001
    _set_status(fold, header.at, "running", "")
    fold.ledger.unmended = False


def _program_called(fold: Fold, header: Header, payload: e.ProgramCalled, _patched: bool) -> None:  # noqa: FBT001
    spending.begin_work(fold.ledger, header.at)
    fold.ledger.attempt = payload.attempt
    reckoning.note_call(fold.ledger)


def _task_paused(fold: Fold, header: Header, payload: e.TaskPausedEntry, _patched: bool) -> None:  # noqa: FBT001
    _set_status(fold, header.at, "paused", f"by {payload.by}" + (f": {payload.reason}" if payload.reason else ""))
    reckoning.note_pause(fold.ledger)


def _task_parked(fold: Fold, header: Header, payload: e.TaskParkedEntry, _patched: bool) -> None:  # noqa: FBT001
    _set_status(fold, header.at, "parked", payload.reason)
    fold.ledger.until = payload.until


def _question_asked(fold: Fold, header: Header, payload: e.QuestionAsked, _patched: bool) -> None:  # noqa: FBT001
    others = fold.ledger.question_keys
    _set_status(fold, header.at, "needs_human", f"{payload.reason}: {payload.question}")
    fold.ledger.question_action, fold.ledger.budget_asked = payload.action, payload.budget
    if payload.key:
        questions.note_asked(fold.document, fold.ledger, payload, others)


def _question_answered(fold: Fold, header: Header, payload: e.QuestionAnswered, _patched: bool) -> None:  # noqa: FBT001
    if payload.key:
        fold.document.changed = header.seq
        if not questions.note_answered(fold.document, fold.ledger, payload):
            return  # it waits for something else or for others too, or was paused meanwhile
    _set_status(fold, header.at, "running", questions.ANSWERED)
    reckoning.note_answer(fold.document, fold.ledger)


def _message_received(fold: Fold, _header: Header, payload: e.MessageReceived, _patched: bool) -> None:  # noqa: FBT001
    ledger = fold.ledger
    is_word = payload.what == "answer" and not payload.key
    if payload.what == "tell" or (is_word and not questions.only_open(fold.document, ledger)):
        ledger.messages.append(payload.text)
    if is_word and awaiting.waits_for_word(ledger):
        reckoning.note_word(ledger, payload.text)
    elif payload.what == "cancel" or (payload.what == "pause" and not ledger.asked):
        ledger.asked = payload.what


def _task_taken_over(fold: Fold, header: Header, payload: e.TaskTakenOver, _patched: bool) -> None:  # noqa: FBT001
    ledger, before = fold.ledger, fold.ledger.takeover
    ledger.takeover = None
    _set_status(fold, header.at, "needs_human", f"{TAKEOVER}{payload.by}")
    ledger.takeover = Takeover(by=payload.by, at=header.at, seq=before.seq if before is not None else header.seq)
    if payload.holder is not None:
        ledger.robbed = Robbed(holder=payload.holder, epoch=header.epoch)
        robbed = {name: msgspec.structs.replace(one, is_robbed=True) for name, one in ledger.open.items()}
        ledger.open.update(robbed)


def _task_handed_back(fold: Fold, header: Header, payload: e.TaskHandedBack, _patched: bool) -> None:  # noqa: FBT001
    fold.ledger.takeover, fold.ledger.handed_at = None, header.at
    _set_status(fold, header.at, "paused", f"handed back by {payload.by}")
    drop_loose(fold.document, fold.ledger, fold.epoch, keep_effects=True)  # what was read before is read again
    reckoning.note_handed_back(fold.document, fold.ledger, payload, header.seq)


def _task_succeeded(fold: Fold, header: Header, _payload: e.TaskSucceeded, _patched: bool) -> None:  # noqa: FBT001
    _set_status(fold, header.at, "succeeded", "")
    fold.ledger.result_seq = header.seq
    fold.document.loose, fold.document.places = [], {}  # no call will ask for them any more


def _task_failed(fold: Fold, header: Header, payload: e.TaskFailedEntry, _patched: bool) -> None:  # noqa: FBT001
    _set_status(fold, header.at, "failed", payload.reason)
    fold.ledger.budget_asked = payload.budget


def _task_cancelled(fold: Fold, header: Header, payload: e.TaskCancelledEntry, _patched: bool) -> None:  # noqa: FBT001
    _set_status(fold, header.at, "cancelled", f"by {payload.by}")


def _set_status(fold: Fold, at: int, status: str, reason: str) -> None:
    ledger = fold.ledger
    if ledger.takeover is not None and status in UNFINISHED:
        return  # whatever is asked and answered meanwhile, a person has it until it is handed back
    ledger.takeover = None
    ledger.question_keys, ledger.budget_asked = (), ""
    spending.note_status(ledger, status, at)
    ledger.status, ledger.reason, ledger.until, ledger.question_action = status, reason, 0, ""  # type: ignore[assignment]  # callers pass members of Status
    if status != "needs_human":
        ledger.asked = ""  # it is obeyed, or overtaken


# --- actions --------------------------------------------------------------------------------------------------------
def _action_intended(fold: Fold, header: Header, payload: e.ActionIntended, _patched: bool) -> None:  # noqa: FBT001
    if not payload.effect.is_free:
        fold.last_effect = header.seq
        rollback.note_intent(fold.document, fold.ledger, payload)
    if fold.ledger.rollback is not None:
        rollback.note_undo(fold.ledger.rollback, payload, header.seq)
    fold.ledger.calls += 1
    if payload.attempt > 1:
        spending.note_again(fold.ledger, payload)
    if fold.ledger.waits:
        fold.ledger.waits.pop(payload.provider, None)  # it waits no longer
    fold.ledger.open[payload.action] = open_action(header, payload)


def _action_settled(fold: Fold, header: Header, payload: e.ActionSettled, patched: bool) -> None:  # noqa: FBT001
    ledger = fold.ledger
    ledger.settled_under_lease = True
    if payload.tokens_in or payload.tokens_out or payload.money:
        spending.note_settled(ledger, payload)
    if ledger.standing or ledger.rollback is not None:
        rollback.note_outcome(ledger, payload, header.seq)
    action = ledger.open.pop(payload.action, None)
    if action is None:
        return  # a late word on something that was settled already: it stays in the journal, nothing follows
    health.note_call(ledger, action, payload, header.at)
    if payload.outcome == "in_doubt":
        ledger.failed_call, ledger.failed_provider = (action.action, action.tool, action.digest), action.provider
        ledger.open[payload.action] = msgspec.structs.replace(action, in_doubt=True, reserve=NO_COST)
        return
    ledger.actions += 1
    if ledger.strategies:
        reckoning.note_action(fold.document, ledger, action)
    if action.branch == fold.branch and ledger.rollback is None:
        watching.note_settled(fold.document, ledger, payload, action, (header.seq, header.at))
    if payload.outcome == "failed":
        was_stopped = payload.error is not None and payload.error.failure_class == "cancelled"
        if not was_stopped:  # to be stopped is no failure
            ledger.failed_actions += 1
            ledger.failed_call, ledger.failed_provider = (action.action, action.tool, action.digest), action.provider
        keep_effect_key(ledger, action)
    else:
        if ledger.failed_keys:
            ledger.failed_keys.pop(failed_key_of(action.tool, action), None)
        if patched or action.key or action.digest == ledger.retried[1]:
            reckoning.note_success(ledger, action, is_further=patched or bool(action.key))
    if action.branch == fold.branch and (payload.outcome == "succeeded" or has_tried(payload, action)):
        keep_outcome(fold, header.seq, payload, action, is_patched=patched)
    if fold.document.impossible_at:
        rollback.note_impossible(fold.document, ledger, header.seq)


def _action_released(fold: Fold, _header: Header, payload: e.ActionReleased, _patched: bool) -> None:  # noqa: FBT001
    document, ledger = fold.document, fold.ledger
    released = ledger.open.pop(payload.action, None)
    if released is not None:
        spending.note_dropped(ledger, (released,))
        keep_effect_key(ledger, released)  # should an equal call come all the same, its service knows it
    document.loose = [kept for kept in document.loose if kept.action != payload.action]
    document.anchored = {key: kept for key, kept in document.anchored.items() if kept.action != payload.action}
    ledger.facts.append(rollback.note_release(ledger, payload.action))


def _action_reused(fold: Fold, header: Header, payload: e.ActionReused, patched: bool) -> None:  # noqa: FBT001
    rollback.note_reuse(fold.document, fold.ledger, payload, header.seq)
    kept = Kept(
        action=payload.action,
        tool=payload.tool,
        digest=payload.digest,
        intent=header.seq,
        settled=payload.settled,
        key=payload.key,
        free=False,
        unapplied=bool(payload.unapplied),
    )
    keep(fold, header.seq, kept, payload.loop, is_patched=patched, reduces=payload.reduces)
    rollback.note_impossible(fold.document, fold.ledger, header.seq)


# --- the document ---------------------------------------------------------------------------------------------------
def _state_edited(fold: Fold, header: Header, payload: e.StateEdited, _patched: bool) -> None:  # noqa: FBT001
    if payload.action:
        mark_applied(fold.document, payload.action)
    fold.document.changed = header.seq
    is_programs_own = not (payload.action or payload.by)  # only then it has passed all calls before
    fold.document.edited = header.seq if is_programs_own else fold.document.edited
    if payload.by:
        fold.document.human_at = header.seq
    for name, by in payload.counts.items():
        fold.ledger.counts[name] = fold.ledger.counts.get(name, 0) + by
    drop_loose(fold.document, fold.ledger, fold.epoch, keep_effects=not is_programs_own)


def _state_migrated(fold: Fold, header: Header, payload: e.StateMigrated, _patched: bool) -> None:  # noqa: FBT001
    """The new state stands in the tree already: whoever puts or reads the entry has put it there."""
    fold.document.state_version = payload.to_version
    fold.document.changed = header.seq
    fold.touched.mark((Op(kind="clear", path=()),), header.seq)


def _files_captured(fold: Fold, header: Header, payload: e.FilesCaptured, _patched: bool) -> None:  # noqa: FBT001
    document = fold.document
    if payload.changes:
        fold.files.apply(payload.changes, header.at if payload.action else 0)
        document.files_changed = header.seq
    if payload.action and payload.changes:
        watching.note_files(document, payload)
    if payload.action and document.failing:
        document.unproven = milestones.unproven_with(document.unproven, payload.changes, header.seq)
    if payload.uncovered is not None:
        document.uncovered = payload.uncovered
    document.is_all_captured |= bool(payload.digest) and "" in payload.paths


def _plan_adopted(fold: Fold, header: Header, payload: e.PlanAdopted, _patched: bool) -> None:  # noqa: FBT001
    fold.document.plan = payload.steps
    fold.document.plans += not payload.by  # of the program, which counts its own
    fold.document.changed = header.seq
    if payload.by:
        fold.document.human_at = header.seq


def _position_moved(fold: Fold, header: Header, payload: e.PositionMoved, _patched: bool) -> None:  # noqa: FBT001
    document, loop = fold.document, payload.loop
    document.positions[loop] = Position(done=payload.done, item=payload.item, trail=payload.trail)
    document.places.pop(loop, None)
    document.changed = header.seq
    if not payload.item and len(document.positions) > 1:  # a body ended: the loops inside it are over
        inner = [name for name in document.positions if name.startswith(f"{loop}[")]
        for name in inner:
            del document.positions[name]
            document.places.pop(name, None)


def _checkpoint_marked(fold: Fold, header: Header, payload: e.CheckpointMarked, _patched: bool) -> None:  # noqa: FBT001
    document = fold.document
    mark = Checkpoint(
        name=payload.name,
        seq=header.seq,
        changed=document.last_change,
        place=payload.place,
        reason=payload.reason,
        verdict=payload.verdict,
        verifier=payload.verifier,
        about=payload.about,
    )
    document.checkpoints.append(mark)
    if payload.reason == "milestone":
        document.milestones[milestones.key_of(payload.name, payload.about)] = header.seq
    if payload.reason != "program":
        return  # the program knows nothing of it: what it may ask for again stays as it is
    drop_loose(fold.document, fold.ledger, fold.epoch, keep_effects=True)
    for kept in document.loose:
        if not (kept.free or kept.unapplied or kept.failed):
            document.anchored[key_of(kept.tool, kept.digest.hex())] = kept
    document.loose = [kept for kept in document.loose if kept.free or kept.unapplied or kept.failed]


def _step_began(fold: Fold, header: Header, payload: e.StepBegan, _patched: bool) -> None:  # noqa: FBT001
    document = fold.document
    document.step, document.steps, document.changed = payload.name, document.steps + 1, header.seq
    document.failing, document.unproven = {}, {}


def _check_judged(fold: Fold, header: Header, payload: e.CheckJudged, _patched: bool) -> None:  # noqa: FBT001
    document = fold.document
    health.note_check(fold.ledger, passed=payload.passed)
    if not payload.passed and payload.name not in document.checks:
        document.failing[payload.name] = header.seq
    if payload.passed and payload.name not in document.checks:
        document.checks[payload.name] = header.seq
        reckoning.note_passed(document, fold.ledger, payload.name, header.seq)
    if payload.passed and document.failing.pop(payload.name, 0) and not document.failing:
        document.unproven = {}


# --- recovery -------------------------------------------------------------------------------------------------------
def _failure_observed(fold: Fold, header: Header, payload: e.FailureObserved, _patched: bool) -> None:  # noqa: FBT001
    forget_failed(fold.document, payload.failure.action)
    reckoning.note_failure(fold.document, fold.ledger, payload, header.at)


def _decision_taken(fold: Fold, _header: Header, payload: e.DecisionTaken, _patched: bool) -> None:  # noqa: FBT001
    reckoning.note_decision(fold.document, fold.ledger, payload)


def _strategy_chosen(fold: Fold, header: Header, payload: e.StrategyChosen, _patched: bool) -> None:  # noqa: FBT001
    reckoning.note_strategy(fold.document, fold.ledger, payload.strategy)
    fold.document.changed = fold.document.strategy_at = header.seq


def _rollback_abandoned(fold: Fold, _header: Header, _payload: e.RollbackAbandoned, _patched: bool) -> None:  # noqa: FBT001
    fold.ledger.rollback = fold.ledger.decided = None


def _rolled_back(fold: Fold, header: Header, _payload: e.RolledBackEntry, _patched: bool) -> None:  # noqa: FBT001
    """`jump` has put the earlier document in place, with what its checkpoint held."""
    reckoning.note_rolled_back(fold.document, fold.ledger)
    fold.document.changed = header.seq


def _in_ledger(note: Callable[[Ledger, Any], None]) -> Callable[..., None]:
    """Return the rule of an entry that concerns the ledger alone."""

    def rule(fold: Fold, _header: Header, payload: e.Payload, _patched: bool) -> None:  # noqa: FBT001
        note(fold.ledger, payload)

    return rule


def _recorded_only(_fold: Fold, _header: Header, _payload: e.Payload, _patched: bool) -> None:  # noqa: FBT001
    """Nothing follows from it for document and ledger."""


def _fact_stated(fold: Fold, _header: Header, payload: e.FactStated, _patched: bool) -> None:  # noqa: FBT001
    fold.ledger.facts.append(payload.text)
    watching.note_progress(fold.document, fold.ledger)


def _snapshot_taken(fold: Fold, _header: Header, payload: e.SnapshotTaken, _patched: bool) -> None:  # noqa: FBT001
    fold.confirmed.add((payload.at_seq, payload.digest))


RULES: Final[dict[type, Callable[..., None]]] = {
    e.TaskStarted: _task_started,
    e.TaskForked: _task_forked,
    e.LeaseClaimed: _lease_claimed,
    e.TaskResumed: _task_resumed,
    e.ProgramCalled: _program_called,
    e.TaskPausedEntry: _task_paused,
    e.TaskParkedEntry: _task_parked,
    e.QuestionAsked: _question_asked,
    e.QuestionAnswered: _question_answered,
    e.MessageReceived: _message_received,
    e.TaskTakenOver: _task_taken_over,
    e.TaskHandedBack: _task_handed_back,
    e.TaskSucceeded: _task_succeeded,
    e.TaskFailedEntry: _task_failed,
    e.TaskCancelledEntry: _task_cancelled,
    e.ActionIntended: _action_intended,
    e.ActionSettled: _action_settled,
    e.ActionReleased: _action_released,
    e.ActionReused: _action_reused,
    e.StateEdited: _state_edited,
    e.PlanAdopted: _plan_adopted,
    e.PositionMoved: _position_moved,
    e.CheckpointMarked: _checkpoint_marked,
    e.StepBegan: _step_began,
    e.CheckJudged: _check_judged,
    e.ValuesDrawn: _recorded_only,
    e.FilesCaptured: _files_captured,
    e.NoteWritten: _recorded_only,
    e.FactStated: _fact_stated,
    e.StateMigrated: _state_migrated,
    e.FailureObserved: _failure_observed,
    e.DecisionTaken: _decision_taken,
    e.StuckNoticed: _in_ledger(reckoning.note_stuck),
    e.HealthChanged: _in_ledger(health.note_changed),
    e.WaitBegan: _in_ledger(health.note_wait),
    e.StrategyChosen: _strategy_chosen,
    e.LessonLearned: _in_ledger(lambda ledger, learned: ledger.lessons.append(learned.text)),
    e.RollbackBegan: _in_ledger(rollback.begin),
    e.RollbackAbandoned: _rollback_abandoned,
    e.RolledBackEntry: _rolled_back,
    e.WorkspaceRestored: _recorded_only,
    e.SnapshotTaken: _snapshot_taken,
    e.BudgetSet: _in_ledger(spending.note_budget),
}
