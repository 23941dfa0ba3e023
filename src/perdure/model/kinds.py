"""The numbers under which kinds of entries are on disk, their names in the log, and the version written today."""

from __future__ import annotations

from typing import Final

from perdure.model import entry as e

# The number of a kind is on disk: add rows, never change one. The name is what `log` prints.
KINDS: Final[tuple[tuple[int, str, type[e.Payload]], ...]] = (
    (1, "task_started", e.TaskStarted),
    (2, "lease_claimed", e.LeaseClaimed),
    (3, "task_resumed", e.TaskResumed),
    (4, "program_called", e.ProgramCalled),
    (5, "task_paused", e.TaskPausedEntry),
    (6, "task_parked", e.TaskParkedEntry),
    (7, "question_asked", e.QuestionAsked),
    (8, "question_answered", e.QuestionAnswered),
    (9, "message_received", e.MessageReceived),
    (10, "task_succeeded", e.TaskSucceeded),
    (11, "task_failed", e.TaskFailedEntry),
    (12, "task_cancelled", e.TaskCancelledEntry),
    (13, "task_forked", e.TaskForked),
    (14, "task_taken_over", e.TaskTakenOver),
    (15, "task_handed_back", e.TaskHandedBack),
    (20, "action_intended", e.ActionIntended),
    (21, "action_settled", e.ActionSettled),
    (22, "action_released", e.ActionReleased),
    (23, "action_reused", e.ActionReused),
    (30, "state_edited", e.StateEdited),
    (31, "plan_adopted", e.PlanAdopted),
    (32, "position_moved", e.PositionMoved),
    (33, "checkpoint_marked", e.CheckpointMarked),
    (34, "check_judged", e.CheckJudged),
    (35, "values_drawn", e.ValuesDrawn),
    (36, "note_written", e.NoteWritten),
    (37, "fact_stated", e.FactStated),
    (38, "state_migrated", e.StateMigrated),
    (39, "files_captured", e.FilesCaptured),
    (40, "step_began", e.StepBegan),
    (50, "failure_observed", e.FailureObserved),
    (51, "decision_taken", e.DecisionTaken),
    (52, "strategy_chosen", e.StrategyChosen),
    (53, "lesson_learned", e.LessonLearned),
    (54, "rollback_began", e.RollbackBegan),
    (55, "rollback_abandoned", e.RollbackAbandoned),
    (56, "rolled_back", e.RolledBackEntry),
    (57, "workspace_restored", e.WorkspaceRestored),
    (58, "stuck_noticed", e.StuckNoticed),
    (59, "health_changed", e.HealthChanged),
    (60, "snapshot_taken", e.SnapshotTaken),
    (61, "wait_began", e.WaitBegan),
    (62, "budget_set", e.BudgetSet),
)
# Kind -> version written today, where it is not the first.
VERSIONS: Final[dict[int, int]] = {
    1: 3, 2: 2, 7: 3, 9: 2, 11: 2, 13: 3, 20: 4, 21: 3, 30: 3, 31: 2, 33: 2, 50: 2, 52: 2, 54: 3,
}  # fmt: skip


def version_of(kind: int) -> int:
    """Return the version in which entries of `kind` are written today."""
    return VERSIONS.get(kind, 1)
