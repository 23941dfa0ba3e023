"""What keeps a model from being asked, and what the model on this machine fails by. The tree stands in the package."""

from __future__ import annotations

from collections.abc import Mapping

from perdure.errors.base import PerdureError
from perdure.errors.usage import UsageError

_BAD_REQUEST = 400
_OK = 200
_SHOWN_CHARS_MAX = 300  # of what its process wrote


class ModelUnknown(UsageError):
    """No model of that name can be opened."""

    def __init__(self, model: str, reason: str) -> None:
        self.model = model
        self.reason = reason
        super().__init__(
            f"model {model!r} cannot be opened: {reason}; a model is named PROVIDER:NAME, such as "
            f"anthropic:claude-sonnet-5-5, or is one of local and offline"
        )


class ApiKeyMissing(UsageError):
    """The model's provider wants a key, and none is set."""

    def __init__(self, model: str, variables: tuple[str, ...], task: str = "", place: str = "") -> None:
        self.model = model
        self.variables = variables  # any of them will do
        self.task = task  # that was to go on, "" where none was
        self.place = place  # where it found its key the last time, "" where that is not on record
        names = " or ".join(variables)
        if task:
            last = f"; the last time it came from {place}" if place else ""
            text = f"task {task!r} cannot go on: its model {model!r} needs {names} in the environment or in .env{last}"
        else:
            text = f"model {model!r} needs a key of its provider: set {names} in the environment or in .env, "
            text += "or choose another model with --model"
        super().__init__(text)


class ExtraMissing(UsageError):
    """What the model needs is not installed."""

    def __init__(self, model: str, command: str) -> None:
        self.model = model
        self.command = command
        super().__init__(f"model {model!r} needs what is not installed here: {command}")


class OutfitMissing(PerdureError):
    """What an agent is to work with is not here: a key, a package, a file of tools or servers. A person must bring it.

    Nothing that the agent has done is at fault, so recovery asks, and leaves everything as it is.
    """

    failure_class = "auth"

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"{reason}; the task stands as it is, and goes on when that is here")


class ModelGone(PerdureError):
    """Where the model was asked there is none of that name, or nothing that answers for models: a person must look.

    No other conversation would be answered either, so nothing of it is given up.
    """

    failure_class = "auth"

    def __init__(self, model: str, reason: str) -> None:
        self.model = model
        self.reason = reason
        super().__init__(f"model {model!r} is not there: {reason}; is its name right, and --base-url, if one is given?")


class ConversationInvalid(UsageError):
    """The messages of a request are no conversation that a provider takes."""

    def __init__(self, place: int, reason: str) -> None:
        self.place = place
        self.reason = reason
        super().__init__(f"message {place} of the request: {reason}; nothing was sent")


class ServiceOdd(PerdureError):
    """What a model's service has answered is no reply: a web page, a redirect, one piece instead of a stream."""

    def __init__(
        self,
        model: str,
        reason: str,
        *,
        failure_class: str | None = None,
        body: Mapping[str, object] | None = None,
    ) -> None:
        self.model = model
        self.reason = reason
        self.body = body  # the error that stands in it
        self.status_code = _OK if body is not None else None
        if failure_class is not None:
            self.failure_class = failure_class
        super().__init__(f"what answers for model {model!r} sends {reason}")


class ReplyEndless(ServiceOdd):
    """A service did not come to the end of a reply."""

    def __init__(self, model: str, size_max: int) -> None:
        self.size_max = size_max
        super().__init__(model, f"more than {size_max:,} bytes, without an end: answer briefly", failure_class="output")


class LocalModelFailed(PerdureError):
    """The model on this machine gave no reply: its process failed, or refused the request."""

    def __init__(
        self, reason: str, *, body: Mapping[str, object] | None = None, returncode: int | None = None, stderr: str = ""
    ) -> None:
        self.body = body  # what llama.cpp says of a request that it refuses
        self.status_code = _BAD_REQUEST if body is not None else None
        self.returncode = returncode
        self.stderr = stderr
        lines = stderr.strip().splitlines()  # the last one says why
        told = f": {lines[-1][:_SHOWN_CHARS_MAX]}" if lines else ""
        super().__init__(f"the local model gave no reply: {reason}{told}")
