"""A task's journal as lines: all of it, a part, or whatever comes; from the store or from its log files.

What a line holds is `logs.lines`; here is which lines. Reads in bounded memory. Called by `perdure log`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

import msgspec

from perdure.errors import UsageError
from perdure.logs.lines import Joiner, Line
from perdure.logs.plain import moment
from perdure.logs.reading import Follower, Record, Torn, read_set
from perdure.logs.walking import walk
from perdure.model.kinds import KINDS
from perdure.ports import Store

Pause = Callable[[], Awaitable[None]]

_AGO: Final = re.compile(r"(\d+)([smhd])\Z")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_KNOWN_KINDS: Final = frozenset(name for _, name, _ in KINDS)
_ENDS: Final = frozenset({"task_succeeded", "task_failed", "task_cancelled"})


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which lines are wanted."""

    after: int = 0  # only entries behind this one
    since: str = ""  # only lines of this moment or later, in the form of `at`
    kinds: frozenset[str] = frozenset()  # only these; empty: all

    def takes(self, seq: int, at: str, kind: str) -> bool:
        """Whether a line is wanted."""
        return seq > self.after and at >= self.since and (not self.kinds or kind in self.kinds)


EVERYTHING: Final = Selection()


def select(*, after: int = 0, since: str = "", kinds: Iterable[str] = (), now: int) -> Selection:
    """Return the selection that a person means.

    `since` is the number of an entry, a moment in ISO 8601 (UTC where it names no zone), or how long ago: 90s, 10m, 2h,
    3d. Raises UsageError for anything else and for a kind that does not exist.
    """
    for kind in kinds:
        if kind not in _KNOWN_KINDS and not kind.startswith("unknown_"):
            near = difflib.get_close_matches(kind, sorted(_KNOWN_KINDS), n=1, cutoff=0.5)
            raise UsageError(f"no kind of entry is called {kind!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    wanted = frozenset(kinds)
    if not since:
        return Selection(after=after, kinds=wanted)
    if since.isascii() and since.isdigit():
        return Selection(after=max(after, int(since) - 1), kinds=wanted)
    return Selection(after=after, since=_moment_of(since, now), kinds=wanted)


async def log_lines(store: Store, task: str, selection: Selection = EVERYTHING) -> AsyncIterator[Line]:
    """Yield the lines of `task` that are wanted, then one for each action that is still open.

    Raises Damaged at the first damage (what is before it has been yielded), TaskUnknown.
    """
    joiner = Joiner(store, task)
    async for step in walk(store, task):
        line = await joiner.take(step)
        if line is not None and _takes(selection, line):
            yield line
    for line in await joiner.still_open():
        if _takes(selection, line):
            yield line


async def follow_lines(store: Store, task: str, selection: Selection, pause: Pause) -> AsyncIterator[Line]:
    """Yield the lines of `task` that are wanted, those that come included, until the task has ended.

    Awaits `pause()` where nothing is new. Raises as `log_lines`.
    """
    joiner, seq = Joiner(store, task), 0
    while True:
        has_ended = (await store.find(task)).is_finished  # asked before reading: its last lines are not missed
        async for step in walk(store, task, seq):
            line = await joiner.take(step)
            seq = step.seq
            if line is not None and _takes(selection, line):
                yield line
        if has_ended:
            return
        await pause()


def file_lines(folder: str, selection: Selection = EVERYTHING) -> Iterator[Record | Torn]:
    """Yield the wanted lines of a set of log files, then Torn where the last one is cut. Raises LogDamaged."""
    for found in read_set(folder):
        if isinstance(found, Torn) or selection.takes(found.stub.seq, found.stub.at, found.stub.kind):
            yield found


async def follow_files(folder: str, selection: Selection, pause: Pause) -> AsyncIterator[Record]:
    """As `file_lines`, those that come included, until the task has ended. Never misses a file that is rotated away."""
    follower = Follower(folder)
    has_ended = False
    try:
        while True:
            found = follower.next()
            if found is None and has_ended:
                return
            if found is None:
                await pause()
                continue
            has_ended = found.stub.kind in _ENDS or (has_ended and found.stub.kind == "snapshot_taken")
            if selection.takes(found.stub.seq, found.stub.at, found.stub.kind):
                yield found
    finally:
        follower.close()


def _takes(selection: Selection, line: Line) -> bool:
    return selection.takes(line["seq"], line["at"], line["kind"])


def _moment_of(since: str, now: int) -> str:
    ago = _AGO.match(since)
    if ago:
        return moment(now - int(ago[1]) * _SECONDS[ago[2]] * 1_000_000)
    try:
        at = datetime.fromisoformat(since)
    except ValueError:
        text = f"--since {since!r} is neither an entry's number, nor a moment (2024-02-29T12:00), nor how long ago (2h)"
        raise UsageError(text) from None
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
