"""A task played again on its record, and its failures judged again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from perdure.operations.finding import program_for
from perdure.ports import Store

if TYPE_CHECKING:
    from perdure.engine.replay.playing import Replayed
    from perdure.engine.replay.record import Record
    from perdure.engine.replay.rejudging import Rejudgement


async def recall_journal(store: Store, name: str, until: int | None = None) -> Record:
    """Read a task's journal into memory, for `replay` and `rejudge`. Raises TaskUnknown, Damaged."""
    from perdure.engine.replay.record import load_record

    return await load_record(store, (await store.find(name)).task, until)


def replay(record: Record, mode: Literal["strict", "tolerant"] = "strict", app: str = "") -> Replayed:
    """Run the recorded program (or `app`) again on its record; nothing is written, no tool is called.

    To be called outside of any event loop. Raises ProgramNotImportable, UsageError for a task that a script drives.
    """
    from perdure.engine.replay.playing import play

    return play(record, program_for(record.start, app), mode)


def rejudge(record: Record) -> Rejudgement:
    """Return what today's recovery would decide otherwise about the failures on record."""
    from perdure.engine.replay.rejudging import rejudge as ask_again

    return ask_again(record)
