"""Tells a store that it runs in a forked child, where its threads are gone and its connections are its parent's.

Costs one comparison of integers per call, no system call. Asked by the stores.
"""

from __future__ import annotations

import os

from perdure.errors import ForkedRuntime

_count = 0  # how many forks lie between the first process and this one


class Origin:
    """The process in which it was made."""

    __slots__ = ("_count", "_pid")

    def __init__(self) -> None:
        self._count = _count
        self._pid = os.getpid()

    def check(self) -> None:
        """Raise ForkedRuntime in a child of the process that made this."""
        if self._count != _count:
            raise ForkedRuntime(self._pid, os.getpid())


def _note_fork() -> None:
    global _count  # noqa: PLW0603 - a fork concerns the whole process
    _count += 1


os.register_at_fork(after_in_child=_note_fork)
