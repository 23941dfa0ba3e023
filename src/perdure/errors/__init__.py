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
├── WorkspaceError         the folder of a task's files cannot be worked with
│   ├── WorkspaceBusy      another task works in it, inside it or around it
│   ├── WorkspaceInvalid   it cannot be the workspace, or is no longer the one that it was
│   ├── WorkspaceFull      no room left for a file that is to come back
│   ├── WorkspaceRefused   no rights, a read-only or failing disk; names the path
│   ├── OutsideWorkspace   a path of an agent leads out of it
│   ├── FileRefused        what an agent wants of a path in it cannot be done
│   ├── ProcessesRemain    processes of the task cannot be stopped or ended; names them
│   └── ProcessesUnsupported
├── SourceError            something outside could not be read or called
│   ├── AddressRefused     another scheme, a private network, a name that nobody knows
│   ├── ContentRefused     an answer of a kind that is not read
│   ├── SearchFailed       a search engine gave no answer that can be used
│   ├── ServerUnavailable  an MCP server cannot be started or reached; nothing was sent
│   ├── ServerLost         a call to an MCP server got no answer that says what became of it
│   └── ServerRefused      a tool of an MCP server has answered that it failed
├── CommandError           a program that an agent wanted to run
│   ├── CommandOutOfTime   it ran too long, and was ended with all that it had started
│   ├── GitFailed          git did not do what it was asked for
│   └── SandboxUnavailable the settings ask that it is isolated, and here it cannot be
├── CodecError             stored bytes are not what the codec writes
│   ├── UnknownTag         a tag of the value codec that this version does not know
│   └── UnknownKind        an entry kind or version that this version does not know
├── UsageError             the call was wrong and nothing was done
│   ├── Unstorable         a value outside the codec's domain
│   ├── LimitExceeded      a number of ``limits.py`` was passed
│   ├── SecretMissing      a secret whose text this process does not know
│   ├── ReadOnlyState, StaleView, EditClash, EditOpen
│   ├── ToolInvalid        a tool's declaration is incomplete or contradicts itself
│   ├── ArgumentsUnfit     what a model gives a tool is not what that takes
│   ├── ToolNotFound       the tool of an action on record is not declared here, or twice
│   ├── ToolUndeclared     a callable that was never declared as a tool
│   ├── ProgramNotImportable
│   ├── ConfigInvalid      an unknown key or a wrong value in a configuration
│   ├── CostInvalid        a cost, a sum of money or a budget that makes no sense
│   ├── CurrencyMismatch   a cost and a budget in different currencies
│   ├── PatternInvalid     a permission's pattern of calls that cannot be read
│   ├── GoalUnknown        the chosen model does not understand this goal
│   ├── ModelUnknown       no model of that name can be opened
│   ├── ApiKeyMissing      the model's provider wants a key, and none is set
│   ├── ExtraMissing       what the model needs is not installed; names the command
│   ├── ConversationInvalid  the messages of a request are none that a provider takes
│   ├── KeyReused          the same key with other arguments
│   ├── KeyMissing         an equal effect without a key is on record
│   ├── EffectNotAnchored  an effect's outcome could be lost by what comes next
│   ├── NestedAct          an act inside a running tool
│   ├── ActionsInFlight    not possible while actions are running
│   ├── CheckpointUnknown
│   ├── FileUnknown        no file stands at that path of the workspace at that entry
│   ├── ForkRefused        no task can begin at that moment of another
│   ├── ForkUnfinished     a fork whose making was cut short
│   ├── RollbackRefused    effects that cannot be taken back lie behind the checkpoint
│   ├── RollbackUnderWay   a rollback has begun, and this does not go with it
│   ├── ActionUnknown      ``settle`` was given an id that is not open or in doubt
│   ├── TaskMismatch       other goal, arguments or initial state than recorded
│   ├── TaskFinished       the task has ended
│   ├── BranchLeft         a call from a branch that was rolled back
│   ├── ForkedRuntime      a runtime used in a child of the process that opened it
│   ├── LoopBlocked        a call of perdure.sync in the thread of its own event loop
│   ├── PathOutside        a tool would write outside of the task's workspace
│   ├── NothingAsked       an answer to a task that waits for none
│   ├── QuestionUnclear    an answer that does not say to which of several questions it is
│   ├── QuestionNotOpen    an answer to a question that is answered, over, or was never asked
│   ├── NotTakenOver       a change by hand to a task that nobody has taken over
│   ├── StatePathInvalid   a place of the state that cannot be read, or is not there
│   ├── StateVersion       no migration leads from the recorded state to this program
│   └── StateInvalid       the state is not what ``state_type=`` says
├── ModelGone              where a model was asked there is none of that name
├── OutfitMissing          what an agent is to work with is not here: a key, a package, a file
├── LocalModelFailed       the model on this machine gave no reply
├── ServiceOdd             what answers for a model sends no reply, such as a web page; ``ReplyEndless``
├── ActionError
│   ├── ActionFailed       the tool failed; ``ActionTimedOut`` when its time ran out
│   ├── OutcomeUnknown     whether the effect happened is not known
│   ├── ReducerFailed      ``then=`` raised; the outcome is recorded, its patch is not
│   ├── CheckFailed        ``task.check`` was not met
│   └── ToolLeftOut        the strategy leaves this tool out
└── TaskStopped            how ``run`` ends without a result
├── TaskPaused, TaskParked, NeedsHuman, ResumeDiverged, TaskFailed, TaskCancelled, TaskBusy

Unwound (BaseException)    leaves a program so that no ``except Exception`` keeps it
├── RolledBack             the document jumped; the program is called anew
├── Alarmed                the run was noticed to be stuck or unwell; recovery decides
└── StopRequested          a pause or cancel was asked for, by a person or a signal
"""

from __future__ import annotations

from perdure.errors.base import (
    PerdureError,
)
from perdure.errors.endings import (
    ActionError,
    ActionFailed,
    ActionTimedOut,
    Alarmed,
    CheckFailed,
    NeedsHuman,
    OutcomeUnknown,
    ReducerFailed,
    ResumeDiverged,
    RolledBack,
    StopRequested,
    TaskBusy,
    TaskCancelled,
    TaskFailed,
    TaskParked,
    TaskPaused,
    TaskStopped,
    ToolLeftOut,
    Unwound,
)
from perdure.errors.models import (
    ApiKeyMissing,
    ConversationInvalid,
    ExtraMissing,
    LocalModelFailed,
    ModelGone,
    ModelUnknown,
    OutfitMissing,
    ReplyEndless,
    ServiceOdd,
)
from perdure.errors.programs import (
    CommandError,
    CommandOutOfTime,
    GitFailed,
    SandboxUnavailable,
)
from perdure.errors.sources import (
    AddressRefused,
    ContentRefused,
    SearchFailed,
    ServerLost,
    ServerRefused,
    ServerUnavailable,
    SourceError,
)
from perdure.errors.store import (
    BlobMissing,
    CodecError,
    Conflict,
    Damaged,
    Fenced,
    LogDamaged,
    NameTaken,
    StoreBroken,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreTooNew,
    StoreUnreadable,
    TaskAmbiguous,
    TaskUnknown,
    UnknownKind,
    UnknownTag,
    Unsupported,
)
from perdure.errors.usage import (
    ActionsInFlight,
    ActionUnknown,
    ArgumentsUnfit,
    BranchLeft,
    CheckpointUnknown,
    ConfigInvalid,
    CostInvalid,
    CurrencyMismatch,
    EditClash,
    EditOpen,
    EffectNotAnchored,
    FileUnknown,
    ForkedRuntime,
    ForkRefused,
    ForkUnfinished,
    GoalUnknown,
    KeyMissing,
    KeyReused,
    LimitExceeded,
    LoopBlocked,
    NestedAct,
    NothingAsked,
    NotTakenOver,
    PathOutside,
    PatternInvalid,
    ProgramNotImportable,
    QuestionNotOpen,
    QuestionUnclear,
    ReadOnlyState,
    RollbackRefused,
    RollbackUnderWay,
    SecretMissing,
    StaleView,
    StateInvalid,
    StatePathInvalid,
    StateVersion,
    TaskFinished,
    TaskMismatch,
    ToolInvalid,
    ToolNotFound,
    ToolUndeclared,
    Unstorable,
    UsageError,
)
from perdure.errors.workspace import (
    FileRefused,
    OutsideWorkspace,
    ProcessesRemain,
    ProcessesUnsupported,
    WorkspaceBusy,
    WorkspaceError,
    WorkspaceFull,
    WorkspaceInvalid,
    WorkspaceRefused,
)

__all__ = [
    "ActionError",
    "ActionFailed",
    "ActionTimedOut",
    "ActionUnknown",
    "ActionsInFlight",
    "AddressRefused",
    "Alarmed",
    "ApiKeyMissing",
    "ArgumentsUnfit",
    "BlobMissing",
    "BranchLeft",
    "CheckFailed",
    "CheckpointUnknown",
    "CodecError",
    "CommandError",
    "CommandOutOfTime",
    "ConfigInvalid",
    "Conflict",
    "ContentRefused",
    "ConversationInvalid",
    "CostInvalid",
    "CurrencyMismatch",
    "Damaged",
    "EditClash",
    "EditOpen",
    "EffectNotAnchored",
    "ExtraMissing",
    "Fenced",
    "FileRefused",
    "FileUnknown",
    "ForkRefused",
    "ForkUnfinished",
    "ForkedRuntime",
    "GitFailed",
    "GoalUnknown",
    "KeyMissing",
    "KeyReused",
    "LimitExceeded",
    "LocalModelFailed",
    "LogDamaged",
    "LoopBlocked",
    "ModelGone",
    "ModelUnknown",
    "NameTaken",
    "NeedsHuman",
    "NestedAct",
    "NotTakenOver",
    "NothingAsked",
    "OutcomeUnknown",
    "OutfitMissing",
    "OutsideWorkspace",
    "PathOutside",
    "PatternInvalid",
    "PerdureError",
    "ProcessesRemain",
    "ProcessesUnsupported",
    "ProgramNotImportable",
    "QuestionNotOpen",
    "QuestionUnclear",
    "ReadOnlyState",
    "ReducerFailed",
    "ReplyEndless",
    "ResumeDiverged",
    "RollbackRefused",
    "RollbackUnderWay",
    "RolledBack",
    "SandboxUnavailable",
    "SearchFailed",
    "SecretMissing",
    "ServerLost",
    "ServerRefused",
    "ServerUnavailable",
    "ServiceOdd",
    "SourceError",
    "StaleView",
    "StateInvalid",
    "StatePathInvalid",
    "StateVersion",
    "StopRequested",
    "StoreBroken",
    "StoreBusy",
    "StoreError",
    "StoreFull",
    "StoreTooNew",
    "StoreUnreadable",
    "TaskAmbiguous",
    "TaskBusy",
    "TaskCancelled",
    "TaskFailed",
    "TaskFinished",
    "TaskMismatch",
    "TaskParked",
    "TaskPaused",
    "TaskStopped",
    "TaskUnknown",
    "ToolInvalid",
    "ToolLeftOut",
    "ToolNotFound",
    "ToolUndeclared",
    "UnknownKind",
    "UnknownTag",
    "Unstorable",
    "Unsupported",
    "Unwound",
    "UsageError",
    "WorkspaceBusy",
    "WorkspaceError",
    "WorkspaceFull",
    "WorkspaceInvalid",
    "WorkspaceRefused",
]
