"""Exit codes, from one table, and the one line that an error becomes."""

from __future__ import annotations

import os
import sys
import traceback
from types import TracebackType
from typing import Final

from perdure import errors
from perdure.cli.terminal import complain

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
NEEDS_A_PERSON: Final = 3
PARKED: Final = 4
BUSY: Final = 5
DAMAGED: Final = 6
PAUSED: Final = 130

WORDS: Final = {
    DONE: "succeeded",
    USAGE: "could not begin",
    NEEDS_A_PERSON: "need a person",
    PARKED: "parked",
    BUSY: "busy",
    DAMAGED: "damaged",
    PAUSED: "paused",
}  # of many tasks, how so many ended; the rest have failed

# The first row that fits decides.
TABLE: Final[tuple[tuple[type[Exception], int], ...]] = (
    (errors.TaskPaused, PAUSED),
    (errors.TaskParked, PARKED),
    (errors.NeedsHuman, NEEDS_A_PERSON),
    (errors.TaskBusy, BUSY),
    (errors.TaskStopped, FAILED),
    (errors.StoreBusy, BUSY),
    (errors.Fenced, BUSY),
    (errors.NameTaken, USAGE),
    (errors.TaskUnknown, USAGE),
    (errors.TaskAmbiguous, USAGE),
    (errors.Unsupported, USAGE),
    (errors.StoreError, DAMAGED),
    (errors.CodecError, DAMAGED),
    (errors.UsageError, USAGE),
    (errors.WorkspaceBusy, BUSY),
    (errors.WorkspaceInvalid, USAGE),
    (errors.WorkspaceError, DAMAGED),
    (errors.PerdureError, FAILED),
)
EXPECTED: Final = (errors.PerdureError,)


def code_of(error: BaseException) -> int:
    """Return the exit code of `error`."""
    if isinstance(error, errors.TaskPaused) and isinstance(error.__cause__, errors.StoreFull):
        return DAMAGED  # nobody has paused it: the store has no room
    return next((code for kind, code in TABLE if isinstance(error, kind)), FAILED)


def report(error: BaseException) -> int:
    """Say in one line what happened, and return the exit code. With PERDURE_DEBUG=1 also where."""
    return report_of("", error)


def report_of(name: str, error: BaseException) -> int:
    """As `report`, of one task among many: with its name, unless the error tells it."""
    if os.environ.get("PERDURE_DEBUG") == "1":
        traceback.print_exception(error)
    text = str(error) if isinstance(error, EXPECTED) else f"unexpected {type(error).__name__}: {error}"
    complain(f"perdure: {text}" if not name or repr(name) in text else f"perdure: task {name!r}: {text}")
    return code_of(error)


def report_bug(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """`sys.excepthook` of the command: what nobody expected. Python then exits with 1."""
    if os.environ.get("PERDURE_DEBUG") == "1":
        sys.__excepthook__(kind, error, trace)
        return
    complain(f"perdure: unexpected {kind.__name__}: {error}; run it again with PERDURE_DEBUG=1 to see where")


def code_of_exit(ended: SystemExit) -> int:
    """Return the code with which typer wants to end."""
    if ended.code is None:
        return DONE
    return ended.code if isinstance(ended.code, int) else FAILED
