"""Checks of `ports.Journal`: what is written, refused, read back."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from perdure.errors import Conflict, Fenced, LimitExceeded, TaskUnknown, UsageError
from perdure.limits import READ_PAGE_ROWS
from perdure.testing.conformance.place import (
    GENESIS,
    Chain,
    Place,
    begun,
    checks,
    holder,
    journal_of,
    refused,
    same,
    stored,
    summary,
    task_id,
)

_LAST_SEQ: Final = (1 << 40) - 1


async def an_empty_journal_has_head_zero(place: Place) -> None:
    """A task without entries has head 0 with 32 zero bytes, and reading it yields nothing."""
    store = await place.open()
    await store.create(summary(1), holder(1))
    same((0, GENESIS), await store.head(task_id(1)), "head")
    same([], await journal_of(store, task_id(1)), "journal")


async def what_is_appended_is_read_back(place: Place) -> None:
    """Appends come back in order, byte for byte, with their bounds and digests."""
    store = await place.open()
    await store.create(summary(1), holder(1))
    chain = Chain(task_id(1))
    appends = [chain.next(frames, entries=n) for frames, n in ((b"\x00\xff" * 9, 1), (b"", 3), (bytes(200_000), 2))]
    for append in appends:
        await store.append(chain.task, append)
    same([stored(append) for append in appends], await journal_of(store, chain.task), "journal")
    same((6, appends[-1].last_digest), await store.head(chain.task), "head")


async def another_handle_sees_what_is_acknowledged(place: Place) -> None:
    """What was acknowledged is there for every other handle, and for one opened when all are closed."""
    store, other = await place.open(), await place.open()
    chain = await begun(store)
    same(chain.head, await other.head(chain.task), "head seen by another handle")
    await store.append(chain.task, chain.next(b"second"))
    same(chain.head, await other.head(chain.task), "head seen by another handle")
    await place.close()
    reopened = await place.open()
    same(2, len(await journal_of(reopened, chain.task)), "appends after reopening")


async def reading_begins_after_a_seq(place: Place) -> None:
    """Read yields the appends that hold entries behind `after`; the first may begin at or before it."""
    store = await place.open()
    chain = await begun(store)
    for entries in (3, 1, 2):
        await store.append(chain.task, chain.next(b"more", entries=entries))
    for after, first in ((0, 1), (1, 2), (2, 2), (3, 2), (4, 5), (5, 6), (6, 6)):
        found = await journal_of(store, chain.task, after)
        same(first, found[0].first_seq, f"first append after {after}")
        same(7, found[-1].last_seq, f"last append after {after}")
    for after in (7, 8, _LAST_SEQ, _LAST_SEQ + 9):
        same([], await journal_of(store, chain.task, after), f"appends after {after}")


async def a_wrong_place_is_a_conflict(place: Place) -> None:
    """An append that does not start at the head, or is not linked to it, raises Conflict and changes nothing."""
    store = await place.open()
    chain = await begun(store)
    due = chain.peek(b"due")
    wrong = (
        replace(due, expected_seq=0, last_seq=1, prev_digest=GENESIS),
        replace(due, expected_seq=0, last_seq=2),
        replace(due, expected_seq=2, last_seq=3),
        replace(due, prev_digest=bytes(31) + b"\x01"),
    )
    for append in wrong:
        error = await refused(Conflict, store.append(chain.task, append))
        same((append.expected_seq, 1), (error.expected_seq, error.head_seq), "what the error names")
    same(chain.head, await store.head(chain.task), "head")
    await store.append(chain.task, chain.next(b"due"))


async def an_old_epoch_is_fenced(place: Place) -> None:
    """After another has claimed the lease, an append under the old epoch raises Fenced; the new epoch writes."""
    store, other = await place.open(), await place.open()
    chain = await begun(store)
    await other.claim(chain.task, holder(2), over=1)
    late = chain.peek(b"late")
    error = await refused(Fenced, store.append(chain.task, late))
    same((1, 2), (error.epoch, error.current), "epochs that the error names")
    early = replace(late, epoch=3)
    await refused(Fenced, store.append(chain.task, early))
    same(chain.head, await store.head(chain.task), "head")
    chain.epoch = 2
    await other.append(chain.task, chain.next(b"taken over"))
    same(chain.head, await store.head(chain.task), "head")


async def fencing_comes_before_conflict(place: Place) -> None:
    """An append that is wrong in both ways raises Fenced."""
    store = await place.open()
    chain = await begun(store)
    await store.claim(chain.task, holder(2), over=1)
    await refused(Fenced, store.append(chain.task, replace(chain.peek(), expected_seq=5, last_seq=6)))


async def an_append_made_twice_is_one(place: Place) -> None:
    """What lies there with the same last digest is that append: it succeeds again, under any epoch, and is one."""
    store = await place.open()
    chain = await begun(store)
    first, second = chain.next(b"a", entries=2), chain.next(b"b")
    for append in (first, first, second, first, second):
        await store.append(chain.task, append)
    await store.claim(chain.task, holder(2), over=1)
    await store.append(chain.task, first)
    await store.append(chain.task, replace(second, epoch=2))
    same([1, 2, 4], [append.first_seq for append in await journal_of(store, chain.task)], "appends")
    same(chain.head, await store.head(chain.task), "head")
    other = replace(second, last_digest=GENESIS)
    await refused(Fenced, store.append(chain.task, other))


async def an_append_that_joins_others_is_known_by_its_end(place: Place) -> None:
    """An append that ends with an entry that lies there succeeds, however the entries were grouped."""
    store = await place.open()
    chain = await begun(store)
    first, second = chain.next(b"a"), chain.next(b"b")
    await store.append(chain.task, first)
    await store.append(chain.task, second)
    joined = replace(first, frames=b"ab", last_seq=second.last_seq, last_digest=second.last_digest)
    await store.append(chain.task, joined)
    same(3, len(await journal_of(store, chain.task)), "appends")


async def unknown_tasks_are_named(place: Place) -> None:
    """Every call on a task that is not there raises TaskUnknown with its id."""
    store = await place.open()
    for task in (task_id(9), "", "no\x00task", "\ud800"):
        calls = (
            store.append(task, Chain(task).next()),
            journal_of(store, task),
            store.head(task),
            store.lease(task),
            store.claim(task, holder(1), over=0),
            store.renew(task, 1),
        )
        for call in calls:
            same(task, (await refused(TaskUnknown, call)).name, "what the error names")


async def nonsense_is_refused(place: Place) -> None:
    """An append that ends before it begins, or whose digests are no digests, raises UsageError and breaks nothing."""
    store = await place.open()
    chain = await begun(store)
    due = chain.peek()
    for wrong in (
        replace(due, last_seq=1),
        replace(due, last_seq=0),
        replace(due, expected_seq=-1),
        replace(due, last_digest=b"short"),
        replace(due, prev_digest=b""),
    ):
        await refused(UsageError, store.append(chain.task, wrong))
    await store.append(chain.task, chain.next())


async def the_last_number_is_stated(place: Place) -> None:
    """Numbers go on unharmed over powers of ten and of two up to 2^40 - 1; the next one is refused, not wrapped."""
    store = await place.open()
    await store.create(summary(1), holder(1))
    chain = Chain(task_id(1))
    firsts: list[int] = []
    for target in (9_998, 99_998, 999_998, 2**31 - 2, 2**32 - 2, _LAST_SEQ - 3):
        firsts.append(chain.seq + 1)
        await store.append(chain.task, chain.next(b"leap", entries=target - chain.seq))
        for _ in range(3):
            firsts.append(chain.seq + 1)
            await store.append(chain.task, chain.next(b"step"))
    same(_LAST_SEQ, chain.seq, "last seq")
    same(chain.head, await store.head(chain.task), "head")
    same(firsts, [append.first_seq for append in await journal_of(store, chain.task)], "first seqs")
    error = await refused(LimitExceeded, store.append(chain.task, chain.peek(b"over")))
    same(_LAST_SEQ, error.maximum, "maximum that the error names")
    same([_LAST_SEQ], [append.first_seq for append in await journal_of(store, chain.task, _LAST_SEQ - 1)], "last")


async def long_journals_are_read_whole(place: Place) -> None:
    """A journal of several pages is read whole and in order, also while it grows."""
    store = await place.open()
    chain = await begun(store)
    pages = 2 * READ_PAGE_ROWS + 17
    answers = [store.append(chain.task, chain.next(b"%d" % number)) for number in range(pages)]
    for answer in answers:
        await answer
    seen: list[int] = []
    async for append in store.read(chain.task):
        seen.append(append.last_seq)
        if len(seen) % 100 == 0:
            await store.append(chain.task, chain.next(b"meanwhile"))
    same(list(range(1, len(seen) + 1)), seen, "seqs read")
    same(True, len(seen) > pages, "whether all that was there at the beginning was read")


async def readers_may_stop_early(place: Place) -> None:
    """A read that is given up leaves nothing behind that would hinder writing or deleting."""
    store = await place.open()
    chain = await begun(store)
    for number in range(5):
        await store.append(chain.task, chain.next(b"%d" % number))
    async for append in store.read(chain.task):
        same(1, append.first_seq, "first seq")
        break
    await store.append(chain.task, chain.next(b"goes on"))
    same(7, len(await journal_of(store, chain.task)), "appends")


async def closing_twice_does_nothing(place: Place) -> None:
    """Close writes what is queued; a second close does nothing."""
    store = await place.open()
    chain = await begun(store)
    answers = [store.append(chain.task, chain.next(b"queued")) for _ in range(20)]
    await store.close()
    await store.close()
    for answer in answers:
        await answer
    same(chain.head, await (await place.open()).head(chain.task), "head after reopening")


CHECKS = checks(
    an_empty_journal_has_head_zero,
    what_is_appended_is_read_back,
    another_handle_sees_what_is_acknowledged,
    reading_begins_after_a_seq,
    a_wrong_place_is_a_conflict,
    an_old_epoch_is_fenced,
    fencing_comes_before_conflict,
    an_append_made_twice_is_one,
    an_append_that_joins_others_is_known_by_its_end,
    unknown_tasks_are_named,
    nonsense_is_refused,
    the_last_number_is_stated,
    long_journals_are_read_whole,
    readers_may_stop_early,
    closing_twice_does_nothing,
)
