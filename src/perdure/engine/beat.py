"""What a runtime does for all its sessions at each beat of its ticker. Called by `holding.py` only."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from perdure.engine.session import Session
from perdure.errors import Fenced, StoreError
from perdure.limits import TICK_S
from perdure.ports import Clock


async def flush_lazy(sessions: Mapping[str, Session], clock: Clock) -> None:
    """Commit intents that have waited for their outcome for over a beat.

    Nobody waits for it: a refusal kills the session, and its owner is told at his next call.
    """
    now = clock.monotonic()
    for session in list(sessions.values()):
        since = session.sequencer.pending_since
        if since is not None and now - since >= TICK_S and session.sequencer.dead is None:
            with contextlib.suppress(Fenced):  # taken over: there is nothing wrong with the store
                await session.commit()


async def renew(sessions: Mapping[str, Session]) -> None:
    """Renew all leases, so that a loss is known by the next beat; while this loop hangs, the store keeps them."""
    for session in list(sessions.values()):
        if session.sequencer.dead is None:
            with contextlib.suppress(StoreError):  # its owner is told at his next call
                await session.renew()
