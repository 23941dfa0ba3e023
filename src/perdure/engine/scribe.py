"""Keeps the log files of a runtime's tasks: a beat behind their journals, beside the path of their actions.

`logs.copying` does the work; here is when, and where the files go. Called by the runtime.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping

from perdure.config import load_config
from perdure.engine.session import Session
from perdure.limits import LOG_LAST_WAIT_S
from perdure.logs.copying import Copier
from perdure.logs.scroll import LogFiles, parse_keep
from perdure.ports import Clock, Store


class Scribe:
    """Copies the journals of open tasks; does nothing where there is no place for files."""

    def __init__(self, store: Store, clock: Clock, files: LogFiles | None) -> None:
        self._copier = None if files is None else Copier(store, files, clock)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be kept."""
        return self._copier is None

    async def look(self, sessions: Mapping[str, Session]) -> None:
        """Bring the files of each of `sessions` up to its journal."""
        if self._copier is not None:
            for session in list(sessions.values()):
                await self._copier.copy(session.task, session.fold.ledger.name)

    async def finish(self, session: Session) -> None:
        """Write the last lines of a session that is over; what takes too long is written at the next opening."""
        if self._copier is None:
            return
        try:
            async with asyncio.timeout(LOG_LAST_WAIT_S):
                await self._copier.copy(session.task, session.fold.ledger.name)
        except TimeoutError:
            pass
        finally:
            self._copier.end(session.task)

    async def close(self) -> None:
        """Let go of all files."""
        if self._copier is not None:
            await self._copier.close()


def find_log_files(log_dir: str | os.PathLike[str] | LogFiles | None = None) -> LogFiles | None:
    """Return where logs are kept: as given, None = as configured, "" = nowhere. Raises ConfigInvalid."""
    if isinstance(log_dir, LogFiles):
        return log_dir
    config = load_config({} if log_dir is None else {"log_dir": os.fspath(log_dir)})
    path = config.text("log_dir")
    return parse_keep(os.path.abspath(path), config.text("log_keep")) if path else None
