"""Work that is waited for to its end, whatever comes: a thread cannot be stopped. Called by `files`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """Return what `work` does in a thread; a cancellation waits for its end, since nothing can stop a thread."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    cancelled = await wait_for(running)
    if cancelled is not None:
        raise cancelled
    return running.result()


async def wait_for(running: asyncio.Future[Any]) -> asyncio.CancelledError | None:
    """Wait until `running` has ended, whatever comes; return a cancellation that came meanwhile."""
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled
