"""Where a replay stands in the record: what comes next, what was met, and the fold up to there. Decides nothing.

Entries are met in their order; a tolerant replay also meets some early and leaves some out. Called by `following` (the
program's own entries) and `playing` (those between two calls of the program).
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import Any, Final, TypeVar, cast

import msgspec

from perdure.core.fold import Fold
from perdure.engine.loading import take_in
from perdure.engine.replay.comparing import Difference, Divergence, describe
from perdure.engine.replay.record import Record, RecordStore
from perdure.model import entry as e
from perdure.model.entry import Entry, Header
from perdure.model.patch import Op
from perdure.ports import Store

T = TypeVar("T")
REMARKS_MAX: Final = 100
# What a tolerant replay asks for; the rest is how the program gets there.
HARD: Final = (
    e.ActionIntended, e.ActionSettled, e.ActionReleased, e.TaskSucceeded, e.TaskFailedEntry, e.TaskCancelledEntry,
    e.TaskPausedEntry, e.QuestionAsked, e.RollbackBegan, e.RolledBackEntry,
)  # fmt: skip


class Walk:
    """The place in the record, shared by all leases of a replay."""

    def __init__(self, record: Record, fold: Fold, store: RecordStore) -> None:
        self.record = record
        self.fold = fold
        self.place = fold.seq  # how many entries are behind; the next one has this index
        self.limit = self.place  # where this lease ends
        self.entries = 0  # of the program's own, met
        self.actions = 0  # outcomes among them
        self.remarks: list[str] = []
        self.divergence: Divergence | None = None
        outcomes = (entry.payload for entry in record.entries if isinstance(entry.payload, e.ActionSettled))
        self.late = frozenset(one.action for one in outcomes if one.by == "late")  # their threads outlived their calls
        self._store = store
        self._earlier: dict[int, bytes] = {}
        self._met: set[int] = set()  # indices over `place` that were met early

    @property
    def next(self) -> Entry | None:
        """The next entry of this lease that was not met, None at its end."""
        while self.place in self._met:
            self._met.discard(self.place)
            self.place += 1
        return self.record.entries[self.place] if self.place < self.limit else None

    def ahead(self) -> Iterator[Entry]:
        """Yield the entries of this lease that were not met, in order."""
        for index in range(self.place, self.limit):
            if index not in self._met:
                yield self.record.entries[index]

    def enter_lease(self) -> None:
        """From here on the entries up to the next lease count."""
        entries = self.record.entries
        index = self.place
        while index < len(entries) and not (index > self.place and isinstance(entries[index].payload, e.LeaseClaimed)):
            index += 1
        self.limit = index

    def leave_lease(self) -> None:
        """Go on behind this lease, whatever was met of it."""
        self.place = self.limit
        self._met.clear()
        self.show()

    def show(self) -> None:
        """Let the store show the record up to here."""
        self._store.seq = max(self._store.seq, self.fold.seq)

    # --- meeting entries --------------------------------------------------------------------------------------------
    def meet(self, entry: Entry, operations: tuple[Op, ...], payload: e.Payload | None = None) -> None:
        """Take in `entry`, which the program has just made again (as `payload`, where it may differ)."""
        self.entries += 1
        self.actions += isinstance(entry.payload, e.ActionSettled)
        seq = self.fold.seq
        self.fold.note(entry.header, payload or entry.payload, operations, digest=entry.digest, size=entry.size)
        self._pass(entry, seq)

    def meet_jump(self, entry: Entry, earlier: Fold) -> None:
        """Take in the end of a rollback that the program has made again."""
        self.entries += 1
        self.fold.jump(entry, earlier)
        self._pass(entry, 0)

    def take_in(self, entry: Entry) -> None:
        """Take in the next entry as it is recorded: it is nobody's doing in the replay."""
        wait_for_none(self.take_in_later(entry))

    async def take_in_later(self, entry: Entry) -> None:
        """As `take_in`, for callers who may await."""
        await take_in(cast("Store", self._store), self.fold, entry, self._earlier)
        self._pass(entry, 0)

    def meet_extra(self, payload: e.Payload, operations: tuple[Op, ...]) -> int:
        """Take in what is not on record: it gets the place of the entry before it. Return that."""
        fold = self.fold
        header = Header(fold.task, fold.seq, fold.epoch, fold.at, fold.branch, 0, 0, 0, 0, fold.digest, b"")
        fold.note(header, payload, operations, digest=fold.digest, size=0)
        return fold.seq

    def leave_out(self, entry: Entry) -> None:
        """Go past an entry that the program does not make any more."""
        self._pass(entry, self.fold.seq)

    # --- saying -----------------------------------------------------------------------------------------------------
    def remark(self, text: str) -> None:
        """Note what a tolerant replay lets pass."""
        if len(self.remarks) < REMARKS_MAX and text not in self.remarks:
            self.remarks.append(text)

    def diverge(self, expected: Entry | None, came: str, how: tuple[Difference, ...] = ()) -> None:
        """Note the first place at which the program left the record; later ones follow from it."""
        if self.divergence is None:
            seq = expected.header.seq if expected else self.record.entries[self.limit - 1].header.seq
            text = describe(expected.payload, self.record.blobs) if expected else "nothing more"
            self.divergence = Divergence(seq=seq, expected=text, came=came, differences=how)

    def _pass(self, entry: Entry, seq_before: int) -> None:
        index = entry.header.seq - 1
        if index == self.place:
            self.place += 1
        else:
            self._met.add(index)
        self.fold.seq = max(self.fold.seq, seq_before)
        self.show()


def drawn_in(payload: e.ValuesDrawn, record: Record) -> list[Any]:
    """Return what one entry says was drawn."""
    return cast("list[Any]", record.value(payload.values))


def wait_for_none(work: Coroutine[Any, Any, T]) -> T:
    """Return what `work` returns; it waits for nobody (but lets others go on), since the record is in memory."""
    try:
        while work.send(None) is None:
            pass
    except StopIteration as done:
        return cast("T", done.value)
    work.close()
    raise RuntimeError("the record is in memory, and something waited for it")


def is_cancelled(payload: object) -> bool:
    """Whether an outcome says that its call was cancelled."""
    return (
        isinstance(payload, e.ActionSettled)
        and payload.error is not None
        and payload.error.failure_class == "cancelled"
    )


def merged(recorded: e.ActionSettled, came: e.ActionSettled) -> e.ActionSettled:
    """Return the recorded outcome with what the program has made of it now."""
    return msgspec.structs.replace(recorded, patch=came.patch, unapplied=came.unapplied)
