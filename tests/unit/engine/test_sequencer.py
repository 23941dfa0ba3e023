"""The sequencer: order, links, one append per flush, and death at a refusal."""

import asyncio

import pytest

from perdure.codec.entries import GENESIS, unpack_all
from perdure.core.fold import Fold
from perdure.engine.sequencer import Sequencer
from perdure.errors import Conflict
from perdure.model.entry import NoteWritten, TaskPausedEntry
from tests.worlds import CountedIds, StillClock

TASK = "0" * 31 + "1"


class Recorder:
    """A store that keeps what it is given; its answers are given by the test."""

    def __init__(self):
        self.appends, self.answers = [], []

    def append(self, task, append):
        """Take it."""
        self.appends.append(append)
        answer = asyncio.get_running_loop().create_future()
        self.answers.append(answer)
        return answer


def _sequencer(store):
    return Sequencer(Fold(TASK), store, StillClock(), CountedIds(), 1)


def test_entries_are_linked_and_flushed_as_one_append():
    """Two puts and a flush are one append of two entries, the second linked to the first."""

    async def flushed():
        store = Recorder()
        sequencer = _sequencer(store)
        assert [1, 2] == [sequencer.put(NoteWritten(text=text)) for text in "ab"]
        sequencer.flush()
        sequencer.put(NoteWritten(text="c"))
        sequencer.flush()
        return store.appends

    first, second = asyncio.run(flushed())
    entries = list(unpack_all(first.frames, TASK, first_seq=1, prev=GENESIS))
    assert [(1, "a"), (2, "b")] == [(entry.header.seq, entry.payload.text) for entry in entries]
    assert (0, 2, GENESIS, entries[1].digest) == (
        first.expected_seq,
        first.last_seq,
        first.prev_digest,
        first.last_digest,
    )
    assert (2, 3, first.last_digest) == (second.expected_seq, second.last_seq, second.prev_digest)


def test_a_flush_without_entries_waits_for_the_append_that_is_on_its_way():
    """Nobody is told that his entry is durable while it only rides in another's unanswered append."""

    async def waited():
        store = Recorder()
        sequencer = _sequencer(store)
        sequencer.put(NoteWritten(text="a"))
        sequencer.flush()
        second = asyncio.ensure_future(sequencer.flush())
        await asyncio.sleep(0)
        assert not second.done()
        store.answers[0].set_result(None)
        await second
        return len(store.appends)

    assert 1 == asyncio.run(waited())


def test_a_flush_of_nothing_at_all_is_done():
    """Nothing was ever written: nothing is waited for."""

    async def flushed():
        store = Recorder()
        await _sequencer(store).flush()
        return store.appends

    assert [] == asyncio.run(flushed())


def test_the_dead_take_nothing():
    """After a refusal every later put and flush raises the same error."""

    async def dead():
        sequencer = _sequencer(Recorder())
        sequencer.dead = Conflict(TASK, 1, 2)
        with pytest.raises(Conflict):
            sequencer.put(NoteWritten(text="a"))
        with pytest.raises(Conflict):
            sequencer.flush()

    asyncio.run(dead())


def test_the_summary_rides_only_where_it_changes():
    """A note leaves the summary alone, a pause replaces it in its own append."""

    async def flushed():
        store = Recorder()
        sequencer = _sequencer(store)
        for payload in (NoteWritten(text="a"), TaskPausedEntry(by="person")):
            sequencer.put(payload)
            sequencer.flush()
        return [append.summary and append.summary.status for append in store.appends]

    assert [None, "paused"] == asyncio.run(flushed())
