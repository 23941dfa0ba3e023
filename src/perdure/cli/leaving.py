"""The end of the process: what still runs when the command is done, and how to go all the same.

A thread cannot be stopped, and Python does not leave while one of a tool's runs on behind its time-out. That must not
look like a hang. Called by `main` and by the Ctrl-C of `session`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from typing import Any, Final, NoReturn

from perdure.cli.exits import PAUSED
from perdure.cli.masking import Masked
from perdure.cli.terminal import complain

_NAME = "perdure-tool"
hurried: Final = threading.Event()  # set: nobody waits any more (after SIGTERM the supervisor's patience runs out)
_GRACE_S = 0.2  # an idle thread has heard by then that it is not needed any more


def wait_for_threads() -> None:
    """Wait for the tools' threads, and say so; a Ctrl-C meanwhile leaves at once. The record is as it is."""
    if threading.current_thread() is not threading.main_thread():
        return
    before = leave_at_ctrl_c()
    try:
        left = [thread for thread in threading.enumerate() if thread.name.startswith(_NAME)]
        for thread in left:
            thread.join(_GRACE_S / len(left))
        left = [thread for thread in left if thread.is_alive()]
        if not left:
            return
        if hurried.is_set():
            leave_now()
        what = "a thread" if len(left) == 1 else f"{len(left)} threads"
        complain(f"waiting for {what} that cannot be stopped, of tools whose time was up; Ctrl-C again leaves at once")
        for thread in left:
            thread.join()
    finally:
        if before is not None:  # None: not set by Python, which cannot set it again
            signal.signal(signal.SIGINT, before)


def leave_at_ctrl_c() -> Any:  # noqa: ANN401 - as `signal` has it
    """From here on a Ctrl-C ends the process at once, and quietly; return what it did before. In the main thread."""
    return signal.signal(signal.SIGINT, lambda _number, _frame: leave_now())


def leave_now() -> NoReturn:
    """End the process here, whatever runs: as safe as a kill, since what counts is on record."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, RuntimeError):  # gone, closed, or in the middle of a write
            if isinstance(stream, Masked):
                stream.finish()
            stream.flush()
    os._exit(PAUSED)
