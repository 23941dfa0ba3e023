"""The journal's entries: one closed union of frozen facts, named in the past tense, and the envelope around each.

This page is the schema of a task's history. Kinds and versions may be added, never changed: an old one is read by
`codec/upcast.py`. Fields of type `Raw` hold values of user code as bytes of the value codec, so that whoever does not
need them need not decode them. Times are UTC in microseconds since 1970.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from perdure.model.budget import NO_COST, Budget, Cost
from perdure.model.effect import Effect, Standing
from perdure.model.failure import ErrorRecord, Failure
from perdure.model.files import FileChange, Uncovered
from perdure.model.ids import Holder
from perdure.model.strategy import Strategy

Raw = msgspec.Raw
NOTHING: Final = Raw(b"")


class _Payload(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Base of all payloads. A field more is a version more: an older reader must not pass over the unknown."""


# --- the task -------------------------------------------------------------------------------------------------------
class Driver(_Payload, frozen=True, kw_only=True):
    """Who calls the actions: a program found by import path, the ready-made agent, or an inline `with` block."""

    kind: Literal["program", "agent", "inline"]
    target: str = ""  # "pkg.mod:name" or "path/file.py:name"; the agent's model
    folder: str = ""  # where the import path is rooted
    arguments: Raw = NOTHING  # keyword arguments, or the agent's settings
    source_digest: str = ""  # of the program's source, to warn when it changed


class TaskStarted(_Payload, frozen=True, kw_only=True):
    """Seq 1: the task, and the first claim of its lease (epoch 1). It is checkpoint 0."""

    name: str
    goal: str
    driver: Driver
    holder: Holder
    state: Raw
    state_version: int = 1
    strategies: tuple[Strategy, ...] = ()
    failures_max: int = 3
    workspace: str = ""
    relative_digests: bool = False  # in digests, texts of the workspace count by their place in it (version 2)
    prior: tuple[tuple[str, int, int], ...] = ()  # (strategy, progress, failures) of earlier tasks (version 3)


class TaskForked(_Payload, frozen=True, kw_only=True):
    """Seq 1 of a fork. Entries 2 to `at` are the parent's, copied; from there on the two share nothing."""

    started: TaskStarted  # the parent's, with the fork's own name, workspace and holder (version 2: as that of 1)
    parent: str  # task id
    at: int  # entry of the parent at whose end the fork begins; the fork is whole once it has gone beyond
    parent_digest: bytes  # of that entry
    bases: tuple[tuple[int, str], ...] = ()  # (up to which entry, in which workspace): where it was before (version 2)


class LeaseClaimed(_Payload, frozen=True, kw_only=True):
    """A process took the task; the envelope's epoch is the new one."""

    holder: Holder
    by_hand: bool = False  # a person typed it: the count of starts in a row begins at zero
    after_crash: bool = False  # the last lease was found dead
    at_once: bool = False  # what the task waits for is not waited for to its end (version 2)


class TaskResumed(_Payload, frozen=True, kw_only=True):
    """Work goes on; `report` is what the resume check found, row by row: "ok name: text"."""

    report: tuple[str, ...] = ()


class ProgramCalled(_Payload, frozen=True, kw_only=True):
    """The program was called anew: attempt number `attempt` on this task."""

    attempt: int
    source_digest: str = ""  # of the program as it was at this call
    perdure: str = ""  # version of this library


class TaskPausedEntry(_Payload, frozen=True, kw_only=True):
    """Nothing runs; a resume goes on."""

    by: Literal["person", "signal", "storage"]
    reason: str = ""


class TaskParkedEntry(_Payload, frozen=True, kw_only=True):
    """Nothing runs until `until`."""

    until: int
    reason: str = ""


class QuestionAsked(_Payload, frozen=True, kw_only=True):
    """A person is needed."""

    question: str
    reason: Literal[  # the last four since version 2
        "question", "in_doubt", "limit", "handover", "crash_loop", "diverged", "exhausted", "auth", "quota", "takeover"
    ] = "question"
    action: str = ""
    key: str = ""  # of a question of the program: by it a resumed program finds the answer
    budget: str = ""  # what `--budget` would let a call go out that was over the budget (version 3)


class QuestionAnswered(_Payload, frozen=True, kw_only=True):
    """A person answered."""

    answer: Raw
    by: str = ""
    key: str = ""  # of the question; empty where a person has only let the task go on


class MessageReceived(_Payload, frozen=True, kw_only=True):
    """A message left the inbox; the store removed it in the same append."""

    message: str  # id
    what: Literal["pause", "cancel", "tell", "answer"]
    text: str = ""
    key: str = ""  # of an answer: the question that it is to; since version 2


class TaskTakenOver(_Payload, frozen=True, kw_only=True):
    """A person has taken the lease from whoever had it; the task is theirs until it is handed back."""

    by: str = "person"
    holder: Holder | None = None  # who worked on it until then, unless he was dead: his call may still be under way


class TaskHandedBack(_Payload, frozen=True, kw_only=True):
    """The person is done; `changes` says what they have changed, so that the agent looks before it acts."""

    by: str = "person"
    changes: tuple[str, ...] = ()
    word: str = ""


class TaskSucceeded(_Payload, frozen=True, kw_only=True):
    """The program returned."""

    result: Raw


class TaskFailedEntry(_Payload, frozen=True, kw_only=True):
    """Given up; the scene is kept."""

    reason: str
    budget: str = ""  # as of QuestionAsked (version 2)


class TaskCancelledEntry(_Payload, frozen=True, kw_only=True):
    """Ended by a person."""

    by: str = "person"


# --- actions --------------------------------------------------------------------------------------------------------
class ActionIntended(_Payload, frozen=True, kw_only=True):
    """A tool is about to be called."""

    action: str  # random id
    tool: str
    effect: Effect
    arguments: Raw
    digest: bytes  # sha256 of the canonical arguments (see `relative_digests`): how a loose outcome is found again
    key: str = ""  # the user's key, or the place in the `each` loop `loop`
    loop: str = ""
    effect_key: str = ""  # drawn here, handed to a keyed tool, the same over all attempts
    attempt: int = 1  # of this action: a dispatch under the same id after an interruption
    timeout_s: float = 0.0
    step: str = ""
    parent: str = ""  # the model call that asked for it
    strategy: str = ""
    paid: bool = False
    reduces: bool = False  # a `then=` waits for the outcome
    paths: tuple[str, ...] = ()  # of the workspace that it may write, "" = anywhere in it (version 2)
    provider: str = ""  # whom it calls (version 3)
    source: bool = False  # it brings information from outside (version 3)
    poll: bool = False  # it is meant to be asked again and again (version 3)
    reserve: Cost = NO_COST  # the most that it may cost: spent until it is settled (version 4)


class ActionSettled(_Payload, frozen=True, kw_only=True):
    """An action ended. The patch of its `then=` rides here: outcome and change of state are one fact."""

    action: str
    intent: int  # seq of its ActionIntended
    outcome: Literal["succeeded", "failed", "in_doubt"]
    result: Raw = NOTHING
    error: ErrorRecord | None = None
    patch: Raw = NOTHING  # operations; leaves may refer to `result`
    unapplied: str = ""  # why the patch is still to be made
    invalid: bool = False  # `valid=` did not hold, but the effect is in the world
    started_at: int = 0
    duration_us: int = 0
    tokens_in: int = 0  # what it cost: as its tool has charged, or what was reserved for it
    tokens_out: int = 0
    money: str = ""  # decimal text and currency
    by: str = ""  # "", "probe", "person", "resume": who settled it
    hollow: bool = False  # a source without `valid=` brought nothing: empty, or an error page (version 3)


class ActionReleased(_Payload, frozen=True, kw_only=True):
    """A loose outcome was set free by a person (`settle --keep`): it stays a fact, no call will claim it."""

    action: str
    by: str = "person"


class ActionReused(_Payload, frozen=True, kw_only=True):
    """A call was answered by an equal effect that an earlier branch has left in the world; the patch of its `then=`."""

    action: str  # id of the earlier action
    tool: str
    settled: int  # seq of its outcome
    digest: bytes
    key: str = ""
    loop: str = ""
    reduces: bool = False  # the call has a `then=`
    patch: Raw = NOTHING  # operations
    unapplied: str = ""  # why the patch is still to be made


# --- the document ---------------------------------------------------------------------------------------------------
class StateEdited(_Payload, frozen=True, kw_only=True):
    """The state changed apart from an action, or by the reducer of `action` whose outcome stood without its patch."""

    patch: Raw
    action: str = ""
    by: str = ""  # a person, where one has done it by hand (version 2)
    counts: dict[str, int] = {}  # what was counted with it, by name: no rollback takes that back (version 3)


class PlanAdopted(_Payload, frozen=True, kw_only=True):
    """The ordered sub-goals."""

    steps: tuple[str, ...]
    by: str = ""  # a person, where one has written it (version 2)


class PositionMoved(_Payload, frozen=True, kw_only=True):
    """A named loop began item `index` (`item` = its digest), or ended its body (`item` empty, `done` = how many)."""

    loop: str
    done: int
    item: bytes = b""
    trail: bytes = b""  # digest over the items before, in order


class CheckpointMarked(_Payload, frozen=True, kw_only=True):
    """A named moment without open intents."""

    name: str
    place: str = ""  # in which body of an `each` loop
    reason: Literal["program", "person", "milestone"] = "program"
    verdict: str = ""
    digest: bytes = b""  # of the state, where it was taken
    verifier: str = ""  # what judged it: "check NAME", "valid", "rule RULE", "tool NAME", "milestone NAME" (version 2)
    about: str = ""  # of a milestone: the step or the path that it is about (version 2)


class StepBegan(_Payload, frozen=True, kw_only=True):
    """Work on a step of the plan began; it lasts until the next one does."""

    name: str


class CheckJudged(_Payload, frozen=True, kw_only=True):
    """A named check was evaluated."""

    name: str
    passed: bool
    reason: str = ""


class ValuesDrawn(_Payload, frozen=True, kw_only=True):
    """What `task.now()`, `random()` and `new_id()` gave, in order."""

    values: Raw


class StateMigrated(_Payload, frozen=True, kw_only=True):
    """The state was brought to the version of its program, after a jump of the fold; `state` is all of it."""

    from_version: int
    to_version: int
    state: Raw


class FilesCaptured(_Payload, frozen=True, kw_only=True):
    """Files of the workspace changed since the last capture; their bytes are blobs of the same append."""

    changes: tuple[FileChange, ...]
    paths: tuple[str, ...] = ("",)  # where was looked, "" = everywhere
    digest: bytes = b""  # of the manifest with these changes; empty where more of the same look follows
    action: str = ""  # whose doing; "": found between actions, so somebody else's
    uncovered: tuple[Uncovered, ...] | None = None  # all paths that no capture holds, where they are not as before


class NoteWritten(_Payload, frozen=True, kw_only=True):
    """One line for people."""

    text: str
    fields: Raw = NOTHING


class FactStated(_Payload, frozen=True, kw_only=True):
    """A verified fact."""

    text: str
    source: str = ""


# --- recovery -------------------------------------------------------------------------------------------------------
class FailureObserved(_Payload, frozen=True, kw_only=True):
    """A failure left the program, or a check was not met."""

    failure: Failure
    counted: bool


class DecisionTaken(_Payload, frozen=True, kw_only=True):
    """What recovery decided and by which row of its table."""

    decision: Raw  # of model.decision.Decision
    row: str


class StrategyChosen(_Payload, frozen=True, kw_only=True):
    """Another strategy from now on."""

    strategy: Strategy  # version 2: with its `change`


class LessonLearned(_Payload, frozen=True, kw_only=True):
    """What an abandoned branch taught."""

    text: str


class StuckNoticed(_Payload, frozen=True, kw_only=True):
    """The run goes round in circles; `entries` show it."""

    rule: str
    entries: tuple[int, ...]
    period: int = 0
    text: str = ""


class HealthChanged(_Payload, frozen=True, kw_only=True):
    """What is called fails, or brings nothing valid, too often, or no longer does."""

    of: str  # "tool NAME" or "provider NAME"
    is_bad: bool
    calls: int  # that were judged: the newest since the last word on it
    succeeded: int
    valid: int  # of those that succeeded


class WaitBegan(_Payload, frozen=True, kw_only=True):
    """A call waits for its provider until `until`, not longer."""

    provider: str
    until: int
    reason: str = ""


class RollbackBegan(_Payload, frozen=True, kw_only=True):
    """Going back to the end of entry `to_seq`; from here on only forward, or given up before the first undo."""

    to_seq: int
    checkpoint: str
    reason: str = ""
    moves: tuple[str, ...] = ()  # what each participant will do, in order
    standing: tuple[Standing, ...] = ()  # effects behind the checkpoint; those with a move are undone (version 2)
    strategy: str = ""  # with which it goes on (version 3)
    lesson: str = ""  # (version 3)


class WorkspaceRestored(_Payload, frozen=True, kw_only=True):
    """The files are back, as far as they are the task's own."""

    restored: int  # paths put back
    kept: tuple[str, ...] = ()  # paths left as they are, because somebody else has changed them since


class RollbackAbandoned(_Payload, frozen=True, kw_only=True):
    """The rollback was given up before its first undo."""

    reason: str


class RolledBackEntry(_Payload, frozen=True, kw_only=True):
    """The document is the one after entry `to_seq` again; the envelope's branch is the new one."""

    to_seq: int
    checkpoint: str


class BudgetSet(_Payload, frozen=True, kw_only=True):
    """What the task may cost in all from now on; what is spent stays spent."""

    budget: Budget
    by: str = ""  # a person, where one has set it after the start


class SnapshotTaken(_Payload, frozen=True, kw_only=True):
    """A stored snapshot was confirmed: it holds the fold after entry `at_seq`."""

    at_seq: int
    digest: bytes


Payload = (
    TaskStarted | TaskForked | LeaseClaimed | TaskResumed | ProgramCalled | TaskPausedEntry | TaskParkedEntry
    | QuestionAsked | QuestionAnswered | MessageReceived | TaskTakenOver | TaskHandedBack | TaskSucceeded
    | TaskFailedEntry | TaskCancelledEntry | ActionIntended | ActionSettled | ActionReleased | ActionReused
    | StateEdited | PlanAdopted | PositionMoved | CheckpointMarked | StepBegan | CheckJudged | ValuesDrawn
    | FilesCaptured | NoteWritten | FactStated | StateMigrated | FailureObserved | DecisionTaken | StrategyChosen
    | LessonLearned | StuckNoticed | HealthChanged | WaitBegan | RollbackBegan | RollbackAbandoned | RolledBackEntry
    | WorkspaceRestored | SnapshotTaken | BudgetSet
)  # fmt: skip


def start_of(payload: object) -> TaskStarted | None:
    """Return what a task was started with, from the payload of its entry 1; None for any other."""
    if isinstance(payload, TaskForked):
        return payload.started
    return payload if isinstance(payload, TaskStarted) else None


class Header(msgspec.Struct, frozen=True, gc=False):  # texts and numbers: part of no cycle
    """The clear part of an entry: readable and linkable without any key."""

    task: str  # 32 hex digits
    seq: int  # dense, from 1
    epoch: int  # of the lease under which it was written
    at: int  # information only: order is by seq
    branch: int
    kind: int
    version: int
    flags: int  # codec flags: 1 = compressed
    key_id: int  # 0 = not encrypted
    prev: bytes  # digest of the entry before, 32 bytes
    payload_digest: bytes  # over a random salt and the payload as first encoded


class Entry(msgspec.Struct, frozen=True):
    """One entry as read from a journal, its digests verified."""

    header: Header
    payload: Payload
    digest: bytes  # of the header, so of everything up to here
    size: int  # bytes as stored
