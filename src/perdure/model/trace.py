"""The trace: what the stuck detector remembers of a branch, as a value. Read and written by `core/stuck.py` only.

It is part of the document: it survives a restart in snapshots, and goes back with a rollback. Its size is bounded,
however long the run is: some KB.
"""

from __future__ import annotations

import msgspec


class Trace(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The last settled actions, and marks (32 bits each) of what was seen not long ago."""

    steps: list[tuple[int, int, int]] = []  # seq, mark of the first one that it is like, its own mark
    recent: dict[int, int] = {}  # marks of calls, answers and changes (the keys: in their order, as no set has)
    older: dict[int, int] = {}  # the generation before; what is met again moves to `recent`
    owed: list[int] = []  # marks of calls that are made again because the program was called anew
    warned: list[int] = []  # marks of the circle of which the program was told, one round of it
    idle: int = 0  # how many actions in a row have brought nothing new
    unlike: int = 0  # how often in a row the same long answer came to calls that were not nearly the same
    polls: int = 0  # how many in a row were polls that brought nothing new
    polled_from: int = 0  # when the first of these was settled: UTC, microseconds
    arguments: bytes = b""  # of the last step, cut
    answer: int = 0  # mark of its tool and observation
    item: str = ""  # where it was in declared batch work


class Firing(msgspec.Struct, frozen=True, kw_only=True):
    """That the task goes in circles, with what shows it."""

    rule: str
    entries: tuple[int, ...]  # seqs of the outcomes
    period: int  # how many actions make one round; 0 = no order in it
    text: str  # for people
