"""How values lie in columns: keys, task numbers, summaries, holders. Called by the rungs and `commits.py`."""

from __future__ import annotations

import sqlite3
from typing import Final

import msgspec

from perdure.errors import StoreBroken, TaskUnknown
from perdure.model.ids import Holder
from perdure.model.status import TaskSummary
from perdure.stores.sqlite.queries import SQL

SEQ_BITS: Final = 40  # of a key; checks.SEQ_MAX is what fits
TASKS_MAX: Final = (1 << 23) - 1

_json: Final = msgspec.json.Encoder()
_summaries: Final = msgspec.json.Decoder(TaskSummary)
_holders: Final = msgspec.json.Decoder(Holder)


def task_number(connection: sqlite3.Connection, task: str) -> int | None:
    """Return the number of `task`, None where there is no such task."""
    try:
        found = connection.execute(SQL["task_number"], (task,)).fetchone()
    except UnicodeEncodeError:  # half of a surrogate pair: no id that was ever stored
        return None
    return int(found[0]) if found else None


def known_number(connection: sqlite3.Connection, task: str) -> int:
    """Return the number of `task`; raise TaskUnknown."""
    number = task_number(connection, task)
    if number is None:
        raise TaskUnknown(task)
    return number


def summary_columns(summary: TaskSummary) -> tuple[str, int, str]:
    """Return name, is_finished, summary."""
    return summary.name, int(summary.is_finished), _json.encode(summary).decode()


def read_summary(text: str, place: str) -> TaskSummary:
    """Return the summary in a row; raise StoreBroken where it is none."""
    try:
        return _summaries.decode(text)
    except (msgspec.MsgspecError, UnicodeError, TypeError) as error:
        raise StoreBroken(place, f"the summary of a task has the wrong shape: {error}") from error


def holder_column(holder: Holder) -> str:
    """Return a holder as text."""
    return _json.encode(holder).decode()


def read_holder(text: str | None, place: str) -> Holder | None:
    """Return the holder in a row, None where the lease is free; raise StoreBroken where it is none."""
    try:
        return None if text is None else _holders.decode(text)
    except (msgspec.MsgspecError, UnicodeError, TypeError) as error:
        raise StoreBroken(place, f"the holder of a lease has the wrong shape: {error}") from error
