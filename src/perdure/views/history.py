"""A task's journal as lines of JSON, from the store: all of it, a part, or whatever comes.

What a line holds is `logs.lines`; here is which lines. Reads in bounded memory. Called by `perdure log`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from perdure.logs.lines import Joiner, Line
from perdure.logs.walking import walk
from perdure.ports import Store


async def log_lines(store: Store, task: str, after: int = 0) -> AsyncIterator[Line]:
    """Yield the lines of `task` whose seq is over `after`, then one for each action that is still open.

    Raises Damaged at the first damage (what is before it has been yielded), TaskUnknown.
    """
    joiner = Joiner(store, task)
    async for step in walk(store, task):
        line = await joiner.take(step)
        if line is not None and step.seq > after:
            yield line
    for line in await joiner.still_open(after):
        yield line
