"""`perdure.spawn`: how a tool starts a program of the system, so that a rollback finds it whatever happened since.

The marks that it puts into the new process's environment are the record (`workspace/processes.py` says why); nothing
is written into the journal, so nothing has to be written before a kill.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from perdure.engine.session import Session, current_tool
from perdure.errors import UsageError
from perdure.workspace import processes


def spawn(argv: Sequence[str | os.PathLike[str]], **popen_options: Any) -> subprocess.Popen[Any]:  # noqa: ANN401 - Popen's own
    """Start a program for the running tool, in a session of its own; return it as `subprocess.Popen` does.

    It works in the task's workspace where no `cwd` is given, and belongs to the task: it is held still while files are
    captured, and ended before they go back. `popen_options` are those of `subprocess.Popen`; an `env` is used with the
    task's marks added. Raises UsageError outside of a tool, OSError as `Popen` does.
    """
    job = current_tool.get()
    if job is None:
        raise UsageError(
            "spawn is for tools: call it in a function under @perdure.tool; elsewhere use subprocess.Popen"
        )
    session = job.session
    environment: Mapping[str, str] = os.environ if popen_options.get("env") is None else popen_options["env"]
    options: dict[str, Any] = {
        **popen_options,
        "env": {**environment, **processes.marks(session.task, job.action)},
        "cwd": popen_options.get("cwd") or _workspace(session),
        "start_new_session": True,
    }
    started = subprocess.Popen(argv, **options)  # noqa: S603 - what is started is the tool's own business
    processes.wait_for_marks(started.pid)
    session.spawned += 1  # after it is there: whoever looks for it between has not seen this number
    return started


def _workspace(session: Session) -> str | None:
    """Return the folder of the task's files, made if nothing has been written there so far; None where it has none."""
    folder = session.fold.ledger.workspace
    if folder:
        os.makedirs(folder, exist_ok=True)
    return folder or None
