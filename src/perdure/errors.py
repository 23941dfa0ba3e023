"""Every exception that perdure raises, in one tree. Raised everywhere, caught by users and by the CLI.

PerdureError
├── StoreError
│   ├── StoreBusy          another process holds the store's write lock for too long
│   ├── StoreFull          no room left on the device; nothing was written
│   ├── StoreBroken        the store failed in a way after which nothing it says can be trusted
│   ├── StoreTooNew        written by a later version of perdure; left untouched
│   ├── StoreUnreadable    not a perdure store, or no permission to read it
│   ├── Damaged            stored bytes do not match their digests; names task and seq
│   ├── LogDamaged         a file of the log is damaged; names file and line
│   ├── Conflict           the journal's head is not where the writer thought
│   ├── Fenced             the writer's lease epoch is old
│   ├── NameTaken          an unfinished task of that name exists
│   ├── TaskUnknown        no task of that name or id
│   ├── TaskAmbiguous      a prefix fits more than one task
│   └── Unsupported        a power that this store does not declare
├── CodecError             stored bytes are not what the codec writes
│   ├── UnknownTag         a tag of the value codec that this version does not know
│   └── UnknownKind        an entry kind or version that this version does not know
├── UsageError             the call was wrong and nothing was done
│   ├── Unstorable         a value outside the codec's domain
│   ├── LimitExceeded      a number of ``limits.py`` was passed
│   ├── ReadOnlyState, StaleView, EditClash, EditOpen
│   ├── ToolInvalid        a tool's declaration is incomplete or contradicts itself
│   ├── ToolUndeclared     a callable that was never declared as a tool
│   ├── ProgramNotImportable
│   ├── ConfigInvalid      an unknown key or a wrong value in a configuration
│   ├── GoalUnknown        the chosen model does not understand this goal
│   ├── KeyReused          the same key with other arguments
│   ├── KeyMissing         an equal effect without a key is on record
│   ├── EffectNotAnchored  an effect's outcome could be lost by what comes next
│   ├── NestedAct          an act inside a running tool
│   ├── ActionsInFlight    not possible while actions are running
│   ├── CheckpointUnknown
│   ├── ActionUnknown      ``settle`` was given an id that is not open or in doubt
│   ├── TaskMismatch       other goal, arguments or initial state than recorded
│   ├── TaskFinished       the task has ended
│   ├── BranchLeft         a call from a branch that was rolled back
│   ├── ForkedRuntime      a runtime used in a child of the process that opened it
│   ├── LoopBlocked        a call of perdure.sync in the thread of its own event loop
│   ├── NothingAsked       an answer to a task that waits for none
│   ├── StateVersion       no migration leads from the recorded state to this program
│   └── StateInvalid       the state is not what ``state_type=`` says
├── ActionError
│   ├── ActionFailed       the tool failed; ``ActionTimedOut`` when its time ran out
│   ├── OutcomeUnknown     whether the effect happened is not known
│   ├── ReducerFailed      ``then=`` raised; the outcome is recorded, its patch is not
│   └── CheckFailed        ``task.check`` was not met
└── TaskStopped            how ``run`` ends without a result
├── TaskPaused, TaskParked, NeedsHuman, ResumeDiverged, TaskFailed, TaskCancelled, TaskBusy

Unwound (BaseException)    leaves a program so that no ``except Exception`` keeps it
├── RolledBack             the document jumped; the program is called anew
└── StopRequested          a pause or cancel was asked for, by a person or a signal
"""

from __future__ import annotations

from typing import Any


class PerdureError(Exception):
    """Base of all errors of this library."""


class StoreError(PerdureError):
    """The store refused or failed."""


class StoreBusy(StoreError):
    """Another process held the write lock for longer than `waited_s`."""

    def __init__(self, place: str, pid: int | None, waited_s: float) -> None:
        self.place = place
        self.pid = pid
        self.waited_s = waited_s
        holder = f"process {pid}" if pid else "another process"
        super().__init__(
            f"{holder} has kept the write lock of {place!r} for {waited_s:.0f} s; try again when it has ended"
        )


class StoreFull(StoreError):
    """No room left; the append was undone and can be made again when there is room."""

    def __init__(self, place: str) -> None:
        self.place = place
        super().__init__(f"no room left on the device of {place!r}: nothing was written; free some space and resume")


class StoreBroken(StoreError):
    """The store failed in a way that makes further writes unsafe; it is closed for good."""

    def __init__(self, place: str, reason: str) -> None:
        self.place = place
        self.reason = reason
        super().__init__(f"store {place!r} failed: {reason}; it is closed, its files are left as they are")


class StoreTooNew(StoreError):
    """The store was written by a later version."""

    def __init__(self, place: str, found: int, known: int) -> None:
        self.place = place
        self.found = found
        self.known = known
        super().__init__(
            f"store {place!r} has schema {found}, this perdure knows up to {known}: nothing was touched; upgrade"
        )


class StoreUnreadable(StoreError):
    """The file is there, but it is not a perdure store or may not be read."""

    def __init__(self, place: str, reason: str) -> None:
        self.place = place
        self.reason = reason
        super().__init__(f"{place!r} cannot be opened as a store: {reason}; nothing was changed")


class Damaged(StoreError):
    """Stored bytes contradict their digests or their order."""

    def __init__(self, task: str, seq: int, reason: str) -> None:
        self.task = task
        self.seq = seq
        self.reason = reason
        super().__init__(f"journal of task {task!r} is damaged at entry {seq}: {reason}; nothing was changed")


class LogDamaged(StoreError):
    """A file of the log holds something else than lines of the log; the store is not touched by that."""

    def __init__(self, path: str, line: int, offset: int, reason: str) -> None:
        self.path = path
        self.line = line
        self.offset = offset
        self.reason = reason
        super().__init__(
            f"{path!r} is damaged at line {line} (byte {offset}): {reason}; the store has all of it: "
            "leave out --from-files, or make the files anew with --rebuild"
        )


class Conflict(StoreError):
    """An append did not start right after the journal's head."""

    def __init__(self, task: str, expected_seq: int, head_seq: int) -> None:
        self.task = task
        self.expected_seq = expected_seq
        self.head_seq = head_seq
        super().__init__(f"task {task!r}: append expected head {expected_seq}, found {head_seq}; read it again")


class Fenced(StoreError):
    """An append named an old epoch: another process has taken the task over."""

    def __init__(self, task: str, epoch: int, current: int) -> None:
        self.task = task
        self.epoch = epoch
        self.current = current
        super().__init__(f"task {task!r} was taken over (epoch {current}, ours was {epoch}); stop working on it")


class NameTaken(StoreError):
    """An unfinished task of that name exists."""

    def __init__(self, name: str, task: str) -> None:
        self.name = name
        self.task = task
        super().__init__(
            f"name {name!r} belongs to unfinished task {task!r}; resume or cancel that one, or choose a name"
        )


class TaskUnknown(StoreError):
    """No such task."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"no task has the name or id {name!r}; `perdure list --all` shows them")


class TaskAmbiguous(StoreError):
    """A prefix fits several tasks."""

    def __init__(self, prefix: str, names: tuple[str, ...]) -> None:
        self.prefix = prefix
        self.names = names
        super().__init__(f"{prefix!r} fits {len(names)} tasks ({', '.join(names[:5])}); give more of the name")


class Unsupported(StoreError):
    """The store does not declare this power."""

    def __init__(self, store: str, power: str) -> None:
        self.store = store
        self.power = power
        super().__init__(f"store {store!r} cannot {power}; its `capabilities` say what it can")


class CodecError(PerdureError):
    """Stored bytes are not what the codec writes."""


class UnknownTag(CodecError):
    """A value tag of a later version."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        super().__init__(f"value tag {tag!r} is not known to this version of perdure; upgrade it")


class UnknownKind(CodecError):
    """An entry kind or version of a later release."""

    def __init__(self, kind: int, version: int, seq: int) -> None:
        self.kind = kind
        self.version = version
        self.seq = seq
        super().__init__(f"entry {seq} has kind {kind} version {version}, unknown to this perdure; upgrade it")


class UsageError(PerdureError):
    """The call was wrong; nothing was done."""


class Unstorable(UsageError):
    """A value outside the codec's domain, with the path to it."""

    def __init__(self, path: tuple[object, ...], type_name: str, reason: str = "") -> None:
        self.path = path
        self.type_name = type_name
        self.reason = reason
        place = "".join(f"[{step!r}]" for step in path) or "the value itself"
        why = f" ({reason})" if reason else ""
        super().__init__(f"cannot store {type_name} at {place}{why}; use plain values (see `perdure.codec.values`)")


class LimitExceeded(UsageError):
    """A maximum of ``limits.py`` was passed."""

    def __init__(self, what: str, found: int, maximum: int) -> None:
        self.what = what
        self.found = found
        self.maximum = maximum
        super().__init__(f"{what}: {found} is over the maximum of {maximum}")


class ReadOnlyState(UsageError):
    """A write to a view that only reads."""

    def __init__(self) -> None:
        super().__init__("task.state is read-only; change it in `async with task.edit() as state:` or in `then=`")


class StaleView(UsageError):
    """A view whose container has left the state."""

    def __init__(self, path: tuple[object, ...]) -> None:
        self.path = path
        super().__init__(f"the part of the state once at {path!r} is no longer there; read it again from task.state")


class EditClash(UsageError):
    """A second edit was begun while one is open on the same tree."""

    def __init__(self) -> None:
        super().__init__("an edit of this state is already open; leave its `async with` block first")


class EditOpen(UsageError):
    """An act, edit or checkpoint inside an edit's body."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"{what} inside `task.edit()`: leave the block first, an edit only changes the state")


class ToolInvalid(UsageError):
    """A tool's declaration is refused at registration."""

    def __init__(self, tool: str, reason: str) -> None:
        self.tool = tool
        self.reason = reason
        super().__init__(f"tool {tool!r} is refused: {reason}")


class ToolUndeclared(UsageError):
    """A callable that was never declared."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"{name!r} is not declared as a tool; say what it does to the world: "
            f'`{name} = perdure.tool(effect="pure")({name})` (pure, idempotent, verifiable, irreversible, workspace)'
        )


class ProgramNotImportable(UsageError):
    """The program cannot be found again by another process."""

    def __init__(self, target: str, reason: str) -> None:
        self.target = target
        self.reason = reason
        super().__init__(f"program {target!r} cannot be imported: {reason}")


class ConfigInvalid(UsageError):
    """A configuration holds an unknown key or a wrong value."""

    def __init__(self, place: str, reason: str) -> None:
        self.place = place
        self.reason = reason
        super().__init__(f"{place}: {reason}")


class GoalUnknown(UsageError):
    """The chosen model does not understand the goal; `forms` are those it does."""

    def __init__(self, goal: str, forms: tuple[str, ...]) -> None:
        self.goal = goal
        self.forms = forms
        known = "\n".join(f"  {form}" for form in forms)
        super().__init__(f"goal {goal!r} is not one this model understands; it knows:\n{known}")


class KeyReused(UsageError):
    """The same tool and key with other arguments."""

    def __init__(self, tool: str, key: str, seq: int) -> None:
        self.tool = tool
        self.key = key
        self.seq = seq
        super().__init__(
            f"tool {tool!r} was called under key {key!r} with other arguments (entry {seq}); use another key; where an "
            "argument comes from a model or the clock, give that call a key as well"
        )


class KeyMissing(UsageError):
    """An equal effect without a key is on record, held by a checkpoint only.

    A resumed program could not tell this call from that one: it would be skipped, or made twice.
    """

    def __init__(self, tool: str, seq: int) -> None:
        self.tool = tool
        self.seq = seq
        super().__init__(
            f"a call of {tool!r} without a key is on record (entry {seq}), and whether this is the same one cannot be "
            "told; give each call its own: `task.using(key=...).act(...)`, or `perdure settle TASK ACTION --keep`"
        )


class EffectNotAnchored(UsageError):
    """The next act would make it impossible to find an effect's outcome again."""

    def __init__(self, action: str, tool: str) -> None:
        self.action = action
        self.tool = tool
        super().__init__(
            f"action {action!r} of tool {tool!r} had an effect and nothing holds its outcome yet; before the next act "
            "write `await task.checkpoint(...)`, an `edit`, or give that act a key: `task.using(key=...).act(...)`"
        )


class NestedAct(UsageError):
    """An act inside a running tool."""

    def __init__(self, tool: str) -> None:
        self.tool = tool
        super().__init__(f"act inside the running tool {tool!r}: let the program call both, one after the other")


class ActionsInFlight(UsageError):
    """Not possible while actions run."""

    def __init__(self, what: str, actions: tuple[str, ...]) -> None:
        self.what = what
        self.actions = actions
        super().__init__(
            f"{what} while {len(actions)} action(s) are not over ({', '.join(actions[:3])}); await or settle them first"
        )


class CheckpointUnknown(UsageError):
    """No checkpoint of that name on this branch."""

    def __init__(self, task: str, name: str, known: tuple[str, ...]) -> None:
        self.task = task
        self.name = name
        self.known = known
        super().__init__(
            f"task {task!r} has no checkpoint {name!r} on this branch; it has: {', '.join(known) or 'none'}"
        )


class ActionUnknown(UsageError):
    """`settle` was given an action that is neither open, in doubt nor loose."""

    def __init__(self, task: str, action: str) -> None:
        self.task = task
        self.action = action
        super().__init__(f"task {task!r} has no open or doubtful action {action!r}; `perdure show {task}` lists them")


class TaskMismatch(UsageError):
    """The task is recorded with other `what` than given."""

    def __init__(self, task: str, what: str) -> None:
        self.task = task
        self.what = what
        super().__init__(f"task {task!r} was started with another {what}; give the same, or choose another name")


class TaskFinished(UsageError):
    """The task has ended and takes no more actions."""

    def __init__(self, task: str, status: str) -> None:
        self.task = task
        self.status = status
        super().__init__(f"task {task!r} has ended ({status}): nothing more is done in it; start another")


class BranchLeft(UsageError):
    """A call from code whose call of the program is over: rolled back, failed, or ended."""

    def __init__(self, task: str, branch: int) -> None:
        self.task = task
        self.branch = branch
        super().__init__(f"this call for task {task!r} came from a call of its program that is over; it was not made")


class ForkedRuntime(UsageError):
    """A runtime used in a forked child."""

    def __init__(self, opened_by: int, used_by: int) -> None:
        self.opened_by = opened_by
        self.used_by = used_by
        super().__init__(f"runtime opened by process {opened_by} is used by its child {used_by}; open one there")


class LoopBlocked(UsageError):
    """A call of `perdure.sync` in the thread of its own event loop, which would wait for itself for ever."""

    def __init__(self) -> None:
        super().__init__(
            "this call was made in the thread of the event loop that has to do it; "
            "in `then=` and in coroutine tools use what they are given, elsewhere the API with await"
        )


class NothingAsked(UsageError):
    """An answer to a task that waits for none."""

    def __init__(self, name: str, why: str, next_command: str = "") -> None:
        self.name = name
        self.next_command = next_command
        then = f"; next: {next_command}" if next_command else ""
        super().__init__(f"task {name!r} has asked nothing that an answer could go to ({why}){then}")


class StateVersion(UsageError):
    """No migration leads from the recorded state to what the program expects; nothing of it was run."""

    def __init__(self, task: str, found: int, wanted: int, reason: str) -> None:
        self.task = task
        self.found = found
        self.wanted = wanted
        super().__init__(f"the state of task {task!r} has version {found}, its program wants {wanted}: {reason}")


class StateInvalid(UsageError):
    """The state, or what was to be put there, is not what the program's `state_type=` says."""

    def __init__(self, type_name: str, path: tuple[object, ...], reason: str) -> None:
        self.type_name = type_name
        self.path = path
        where = "".join(f"[{step!r}]" for step in path)
        super().__init__(f"state{where} is no {type_name}: {reason}")


class ActionError(PerdureError):
    """Something about one action. `action` is its id."""

    action: str


class ActionFailed(ActionError):
    """The tool failed; `error` is the recorded `model.failure.ErrorRecord` (type, message, failure class, causes)."""

    def __init__(self, action: str, tool: str, error: Any) -> None:  # noqa: ANN401 - model.failure.ErrorRecord, a layer above
        self.action = action
        self.tool = tool
        self.error = error
        self.failure_class = error.failure_class
        super().__init__(f"{tool} failed: {error.type}: {error.message}")


class ActionTimedOut(ActionFailed):
    """The tool's time ran out and nothing of it is in the world."""


class OutcomeUnknown(ActionError):
    """Whether the effect happened is not known; `perdure settle` is the way out."""

    def __init__(self, task: str, action: str, tool: str) -> None:
        self.task = task
        self.action = action
        self.tool = tool
        super().__init__(
            f"whether {tool!r} (action {action}) happened is not known, and it must not be sent twice; look, then: "
            f"perdure settle {task} {action} --happened | --did-not-happen"
        )


class ReducerFailed(ActionError):
    """`then=` raised. The outcome is recorded; the next matching act runs only the reducer."""

    def __init__(self, action: str, tool: str, cause: BaseException) -> None:
        self.action = action
        self.tool = tool
        super().__init__(
            f"then= of {tool!r} raised {type(cause).__name__}: {cause}; the outcome is kept, the state is not changed"
        )


class CheckFailed(ActionError):
    """A check was not met."""

    def __init__(self, name: str, reason: str = "") -> None:
        self.name = name
        self.reason = reason
        self.action = ""
        self.failure_class = "output"
        super().__init__(f"check {name!r} was not met" + (f": {reason}" if reason else ""))


class TaskStopped(PerdureError):
    """`run` ended without a result. `task` is the id, `next_command` what to type."""

    def __init__(self, task: str, message: str, next_command: str = "") -> None:
        self.task = task
        self.next_command = next_command
        super().__init__(message + (f"; next: {next_command}" if next_command else ""))


class TaskPaused(TaskStopped):
    """Paused by a person, a signal or a full disk."""


class TaskParked(TaskStopped):
    """Waiting until `until` (UTC, microseconds since 1970)."""

    def __init__(self, task: str, until: int, message: str, next_command: str = "") -> None:
        self.until = until
        super().__init__(task, message, next_command)


class NeedsHuman(TaskStopped):
    """A person must decide; `question` says what."""

    def __init__(self, task: str, question: str, next_command: str = "", name: str = "") -> None:
        self.question = question
        super().__init__(task, f"task {name or task!r} needs a person: {question}", next_command)


class ResumeDiverged(NeedsHuman):
    """The program no longer makes the calls whose outcomes are on record."""


class TaskFailed(TaskStopped):
    """The task has failed; its scene is kept."""


class TaskCancelled(TaskStopped):
    """The task was cancelled."""


class TaskBusy(TaskStopped):
    """Another living process holds the task; `holder` names it."""

    def __init__(self, task: str, holder: str, name: str = "") -> None:
        self.holder = holder
        super().__init__(task, f"task {name or task!r} is being worked on by {holder}")


class Unwound(BaseException):
    """Leaves a program so that the engine can go on; never caught by user code."""

    def __init__(self, task: str, message: str) -> None:
        self.task = task
        super().__init__(message)


class RolledBack(Unwound):
    """The document jumped back to `checkpoint`; local variables are no longer true."""

    def __init__(self, task: str, checkpoint: str) -> None:
        self.checkpoint = checkpoint
        super().__init__(task, f"task {task!r} was rolled back to {checkpoint!r}")


class StopRequested(Unwound):
    """A pause or a cancellation was asked for."""

    def __init__(self, task: str, what: str, by: str, key: str = "") -> None:
        self.what = what
        self.by = by  # who asked for it; of a question or a failure: its text
        self.key = key  # of a question
        super().__init__(task, f"{what} of task {task!r} was asked for by {by}")
