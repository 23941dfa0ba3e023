"""How actions fail, and how a task stops without a result. The tree stands in the package."""

from __future__ import annotations

from typing import Any

from perdure.errors.base import PerdureError


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

    def __init__(self, name: str, reason: str = "", failure_class: str = "output") -> None:
        self.name = name
        self.reason = reason
        self.action = ""
        self.failure_class = failure_class
        self.is_observed = False  # whether the failure is on record already
        super().__init__(f"check {name!r} was not met" + (f": {reason}" if reason else ""))


class ToolLeftOut(ActionError):
    """The strategy leaves this tool out; nothing was done."""

    failure_class = "output"

    def __init__(self, tool: str, strategy: str, tools: tuple[str, ...]) -> None:
        self.tool = tool
        self.action = ""
        super().__init__(f"strategy {strategy!r} leaves {tool!r} out; its tools, in order, are: {', '.join(tools)}")


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
    """Another living process holds the task, or a person has taken it over from this one; `holder` names who."""

    def __init__(self, task: str, holder: str, name: str = "", taken_by: str = "", next_command: str = "") -> None:
        self.holder = holder
        self.taken_by = taken_by
        how = f"was taken over by {taken_by}; this process stops" if taken_by else f"is being worked on by {holder}"
        super().__init__(task, f"task {name or task!r} {how}", next_command)


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


class Alarmed(Unwound):
    """Something was noticed beside the program (it goes round in circles): it is left, and recovery decides."""

    def __init__(self, task: str, what: str) -> None:
        super().__init__(task, f"task {task!r}: {what}")


class StopRequested(Unwound):
    """A pause or a cancellation was asked for."""

    def __init__(self, task: str, what: str, by: str, key: str = "") -> None:
        self.what = what
        self.by = by  # who asked for it; of a question or a failure: its text
        self.key = key  # of a question
        super().__init__(task, f"{what} of task {task!r} was asked for by {by}")
