"""Why a program that an agent wanted to run was not run, or was ended. The tree stands in the package."""

from __future__ import annotations

from typing import Final

from perdure.errors.base import PerdureError


class CommandError(PerdureError):
    """A program that an agent wanted to run was not run, or was ended."""

    # What it did is known: everything is ended when this is raised. So it is a failed call and not one in doubt.
    failure_class: Final = "tool"


class CommandOutOfTime(CommandError):
    """A program ran too long; it and all that it had started are ended. `said` is the end of its output."""

    def __init__(self, timeout_s: float, said: str) -> None:
        self.timeout_s = timeout_s
        self.said = said
        shown = f"; the last that it said:\n{said}" if said else "; it said nothing"
        super().__init__(
            f"the program was ended after {timeout_s:g} s, with all that it had started: give it more time, or less "
            f"to do{shown}"
        )


class SandboxUnavailable(CommandError):
    """The settings ask that programs are isolated, and here they cannot be (or not be run at all); nothing was run."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"no program was run: {reason}")


class GitFailed(CommandError):
    """git did not do what it was asked for; `said` is what it has to say."""

    def __init__(self, verb: str, said: str) -> None:
        self.verb = verb
        self.said = said
        super().__init__(f"git {verb}: {said}")
