"""Copies journals into log files, from the store and beside the path of actions; goes on where the files end.

What is copied is what the store acknowledged, read back from it: a crash loses nothing that cannot be copied later, and
files that cannot be written never stop a task. Called by the engine, a few times a second, and by `operations`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from perdure.errors import CodecError, Damaged, StoreError
from perdure.limits import LOG_RETRY_S
from perdure.logs.lines import Joiner, line_bytes
from perdure.logs.scroll import LogFiles, Scroll, Written, folder_of, open_scroll
from perdure.logs.walking import walk
from perdure.ports import Clock, Store

T = TypeVar("T")
log: Final = logging.getLogger("perdure")

_BATCH_BYTES: Final = 256 * 1024
_BREATHE_EVERY: Final = 8  # entries between two chances for other coroutines: a quarter of a millisecond


class Copier:
    """Keeps the files of any number of tasks of one store."""

    def __init__(self, store: Store, files: LogFiles, clock: Clock) -> None:
        self._store = store
        self._files = files
        self._clock = clock
        self._copies: dict[str, _Copy] = {}
        self._resting: dict[str, float] = {}  # tasks whose files could not be written -> when to try again
        self._disk = ThreadPoolExecutor(1, "perdure-log")  # one thread: what is done to files is done in order

    async def copy(self, task: str, name: str) -> bool:
        """Bring the files of `task` up to its journal; return whether they are.

        False: another process writes them, or they cannot be written (logged once, tried again later).
        """
        if self._resting.get(task, 0.0) > self._clock.monotonic():
            return False
        copy = self._copies.setdefault(task, _Copy(self._store, task))
        async with copy.lock:
            try:
                return await self._bring_up(copy, name)
            except OSError as error:
                self._rest(task, error.strerror or str(error), str(error.filename or self._files.path))
            except (StoreError, CodecError) as error:
                self._rest(task, str(error), self._store.place)
            except asyncio.CancelledError:
                self._forget(task)  # whether the last lines came into the file is not known: look there next time
                raise
            self._forget(task)
            return False

    async def renew(self, task: str, name: str) -> bool:
        """Make the files of `task` anew; return False where another process writes them. Raises OSError, Damaged."""
        self._forget(task)
        copy = self._copies.setdefault(task, _Copy(self._store, task))
        if not await self._open(copy, name) or copy.scroll is None:
            return False
        await self._run(copy.scroll.clear)
        copy.begin_at(0, "")
        return await self._bring_up(copy, name)

    def end(self, task: str) -> None:
        """Let go of the files of a task that is no longer written here."""
        self._forget(task)
        self._resting.pop(task, None)

    async def close(self) -> None:
        """Let go of everything."""
        for task in list(self._copies):
            self._forget(task)
        await asyncio.to_thread(self._disk.shutdown)

    async def _bring_up(self, copy: _Copy, name: str) -> bool:
        head, _ = await self._store.head(copy.task)
        if copy.scroll is not None and head == copy.seq:
            return True
        if copy.scroll is None and not await self._open(copy, name):
            return False
        batch: list[Written] = []
        size = 0
        async for step in walk(self._store, copy.task, copy.seq):
            try:
                line = await copy.joiner.take(step)
            except Damaged:
                await self._write(copy, batch)  # what lies before the damage
                raise
            copy.seq = step.seq
            if line is not None and step.header is not None:
                batch.append(Written(step.seq, step.header.at, line_bytes(line)))
                size += len(batch[-1].raw)
            if size >= _BATCH_BYTES:
                await self._write(copy, batch)
                batch, size = [], 0
            if step.seq % _BREATHE_EVERY == 0:
                await asyncio.sleep(0)
        await self._write(copy, batch)
        self._resting.pop(copy.task, None)
        return True

    async def _write(self, copy: _Copy, batch: list[Written]) -> None:
        if batch and copy.scroll is not None:
            await self._run(partial(copy.scroll.write, batch))

    async def _open(self, copy: _Copy, name: str) -> bool:
        """Open the files and find out where to go on; return False where another process writes them."""
        folder = folder_of(self._files.path, copy.task, name)
        opening = self._disk.submit(open_scroll, folder, self._files)
        try:
            scroll = await asyncio.wrap_future(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_opened)
            raise
        if scroll is None:
            return False
        copy.scroll = scroll
        if scroll.torn_bytes:
            log.warning("log_mended task=%s folder=%s bytes=%d", copy.task, folder, scroll.torn_bytes)
        if scroll.seq and await self._digest_at(copy.task, scroll.seq) != scroll.digest:
            aside = await self._run(scroll.set_aside)
            log.warning("log_set_aside task=%s folder=%s: it tells of another history", copy.task, aside)
        copy.begin_at(scroll.seq, scroll.checkpoint or "")
        return True

    async def _digest_at(self, task: str, seq: int) -> str:
        """Return the digest that the line of entry `seq` should have, "" where there is no such entry."""
        if (await self._store.head(task))[0] < seq:
            return ""
        async for step in walk(self._store, task, seq - 1):
            line = await Joiner(self._store, task).take(step)
            return str(line["digest"]) if line is not None and step.seq == seq else ""
        return ""

    def _rest(self, task: str, reason: str, place: str) -> None:
        if task not in self._resting:
            log.warning("log_not_written task=%s place=%s reason=%s; the task goes on", task, place, reason)
        self._resting[task] = self._clock.monotonic() + LOG_RETRY_S

    def _forget(self, task: str) -> None:
        copy = self._copies.pop(task, None)
        if copy is not None and copy.scroll is not None:
            self._disk.submit(copy.scroll.close)

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._disk, work)


class _Copy:
    """How far one task is copied."""

    def __init__(self, store: Store, task: str) -> None:
        self.task = task
        self.lock = asyncio.Lock()
        self.scroll: Scroll | None = None
        self.seq = 0  # of the last entry that was read
        self.joiner = Joiner(store, task)
        self._store = store

    def begin_at(self, seq: int, checkpoint: str) -> None:
        """Go on behind entry `seq`, the newest checkpoint being that one."""
        self.seq = seq
        self.joiner = Joiner(self._store, self.task, checkpoint)


def _close_opened(opening: Future[Scroll | None]) -> None:
    """Nobody waits for it any more."""
    if not opening.cancelled() and opening.exception() is None:
        scroll = opening.result()
        if scroll is not None:
            scroll.close()
