"""When a commit is made, who waits for whom, and what is answered when it cannot be made."""

import asyncio
import contextlib
import sqlite3
import threading

import pytest
from msgspec.structs import replace

from perdure.clock import SystemClock
from perdure.errors import Conflict, Fenced, StoreBroken, StoreBusy, StoreFull
from perdure.limits import WRITER_QUEUE_MAX
from perdure.ports import Message
from perdure.stores.answers import Promised
from perdure.stores.sqlite import writer
from perdure.stores.sqlite.filelock import FileLock
from perdure.stores.sqlite.store import open_sqlite
from perdure.testing.conformance.place import begun, digest_of, holder, journal_of, stored, task_id

LONELY = 8  # appends after which the next ones are committed inline


def on_store(work, path):
    """Open a store, do `work` with it and a task begun on it, close it."""

    async def main():
        store = await open_sqlite(path, SystemClock())
        try:
            return await work(store, await begun(store))
        finally:
            await store.close()

    return asyncio.run(main())


async def alone(store, chain):
    """Append until the store commits inline, on a disk that is taken to be fast."""
    for _ in range(LONELY):
        await store.append(chain.task, chain.next())
    store._all_writes._median_s = 0.0


async def taken(store):
    """Wait until the writer's thread has taken all that is queued."""
    while store._all_writes._queue:  # noqa: ASYNC110 - a thread empties it, no event tells
        await asyncio.sleep(0)


def is_inline(answer):
    """Whether the append was committed by the call itself."""
    return not isinstance(answer, Promised)


def test_a_lonely_append_is_committed_by_its_call(tmp_path):
    """After some appends that met no other, an append is written when the call returns, before any await."""

    async def work(store, chain):
        await alone(store, chain)
        answer = store.append(chain.task, chain.next())
        assert is_inline(answer)
        with contextlib.closing(sqlite3.connect(tmp_path / "a.db")) as other:
            assert (chain.seq,) == other.execute("SELECT max(last_seq) FROM append").fetchone()
        await answer

    on_store(work, tmp_path / "a.db")


def test_a_lonely_append_with_all_that_rides_along(tmp_path):
    """Inline or not, blobs, messages and summary are written with it, and refusals come from the await."""

    async def work(store, chain):
        await store.post(chain.task, Message(id="m", what="tell"))
        await alone(store, chain)
        raw = b"page" * 2_000
        rich = replace(chain.next(), blobs=((digest_of(raw), raw),), consumed=("m",))
        answers = [store.append(chain.task, rich), store.append(chain.task, replace(chain.peek(), epoch=9))]
        assert [True, True] == list(map(is_inline, answers))
        await answers[0]
        with pytest.raises(Fenced):
            await answers[1]
        assert {digest_of(raw): raw} == await store.blobs([digest_of(raw)])
        assert {} == await store.messages([chain.task])

    on_store(work, tmp_path / "a.db")


def test_a_crowd_is_never_committed_one_by_one(tmp_path):
    """Appends that meet others in flight go through the queue together, and inline again once alone."""

    async def work(store, chain):
        await alone(store, chain)
        commits = []
        write = store._all_writes._commits.write_batch
        store._all_writes._commits.write_batch = lambda batch: commits.append(len(batch)) or write(batch)
        chains = [await begun(store, number) for number in range(2, 52)]
        commits.clear()

        async def appends(one):
            for _ in range(10):
                await store.append(one.task, one.next())

        await asyncio.gather(*map(appends, chains))
        assert 500 == sum(commits)
        assert 100 > len(commits)
        await alone(store, chain)
        assert is_inline(store.append(chain.task, chain.next()))

    on_store(work, tmp_path / "a.db")


def test_who_is_cancelled_takes_an_answer_from_nobody_else(tmp_path):
    """Several wait for one append and one of them gives up: the others are told, and who asks later as well."""

    async def work(store, chain):
        with store._all_writes._gate:  # nothing is written until all of them wait
            answer = store.append(chain.task, chain.next())
            waiting = [asyncio.ensure_future(answer) for _ in range(3)]
            await asyncio.sleep(0)
            waiting[1].cancel()
            await asyncio.sleep(0)
        async with asyncio.timeout(10):
            outcomes = await asyncio.gather(*waiting, return_exceptions=True)
            await answer
        assert [type(None), asyncio.CancelledError, type(None)] == list(map(type, outcomes))
        assert chain.head == await store.head(chain.task)

    on_store(work, tmp_path / "a.db")


def test_slow_commits_leave_the_loops_thread(tmp_path):
    """Where a commit takes longer than the limit, none is made on the loop's thread."""

    async def work(store, chain):
        await alone(store, chain)
        store._all_writes._median_s = 0.002
        answer = store.append(chain.task, chain.next())
        assert not is_inline(answer)
        await answer

    on_store(work, tmp_path / "a.db")


def test_a_lock_held_elsewhere_is_not_waited_for_inline(tmp_path):
    """While another holds the file's lock, the call returns at once and the append is written afterwards."""

    async def work(store, chain):
        await alone(store, chain)
        rival = FileLock(str(tmp_path / "a.db.lock"), "place")
        rival.take(0)
        answer = store.append(chain.task, chain.next())
        assert not is_inline(answer)
        rival.close()
        await answer

    on_store(work, tmp_path / "a.db")


def test_a_lock_that_is_never_given_back_ends_the_wait(tmp_path, monkeypatch):
    """When the lock is kept too long, all that waits raises StoreBusy naming the holder; afterwards the store works."""
    monkeypatch.setattr(writer, "STORE_BUSY_S", 0.2)

    async def work(store, chain):
        rival = FileLock(str(tmp_path / "a.db.lock"), "place")
        rival.take(0)
        appends = [chain.next(b"%d" % number) for number in range(300)]
        answers = [store.append(chain.task, append) for append in appends]
        outcomes = await asyncio.gather(*answers, store.renew(chain.task, 1), return_exceptions=True)
        assert [StoreBusy] * 301 == list(map(type, outcomes))
        assert rival.holder() == outcomes[0].pid
        rival.close()
        for append in appends:
            await store.append(chain.task, append)

    on_store(work, tmp_path / "a.db")


def test_another_programs_lock_is_waited_for(tmp_path):
    """While a program that knows nothing of our lock keeps SQLite's, appends wait and then succeed (mem0 7196)."""

    async def work(store, chain):
        await alone(store, chain)
        with contextlib.closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            answer = asyncio.ensure_future(store.append(chain.task, chain.next()))
            job = asyncio.ensure_future(store.renew(chain.task, 1))
            done, _ = await asyncio.wait([job, answer], timeout=0.1)
            assert set() == done
            other.execute("COMMIT")
        await asyncio.gather(answer, job)
        assert chain.head == await store.head(chain.task)

    on_store(work, tmp_path / "a.db")


def test_no_room_refuses_and_passes(tmp_path):
    """Without room, an append and those that follow on it raise StoreFull and leave nothing; later all succeed."""

    async def work(store, chain):
        commits = store._all_writes._commits
        pages = commits._connection.execute("PRAGMA page_count").fetchone()[0]
        commits._connection.execute(f"PRAGMA max_page_count = {pages}")
        other = await begun(store, 2)
        appends = [chain.next(bytes(9_000)) for _ in range(40)]
        with store._all_writes._gate:  # the first is on its way alone, the rest is queued behind it
            answers = [store.append(chain.task, appends[0])]
            await taken(store)
            answers += [store.append(chain.task, append) for append in appends[1:]]
        outcomes = await asyncio.gather(*answers, return_exceptions=True)
        assert [StoreFull] * 40 == list(map(type, outcomes))
        assert 1 == len(await journal_of(store, chain.task))
        await store.append(other.task, other.next())
        for append in appends:  # a new connection was opened: the limit is gone, as if room had been made
            await store.append(chain.task, append)
        assert list(map(stored, appends)) == await journal_of(store, chain.task, 1)

    on_store(work, tmp_path / "a.db")


def test_no_room_while_staging_refuses_that_append_only(tmp_path):
    """A large append that finds no room for its blobs raises StoreFull; another task's goes on; then it succeeds."""

    async def work(store, chain):
        other = await begun(store, 2)
        connection = store._all_writes._commits._connection
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 20}")
        raw = digest_of(b"seed") * 100_000
        large = replace(chain.peek(), blobs=((digest_of(raw), digest_of(b"") + raw),))
        noise = bytes(digest_of(b"%d" % n)[0] for n in range(900_000))
        large = replace(large, blobs=((digest_of(noise), noise),))
        answers = [store.append(chain.task, large), store.append(other.task, other.next())]
        outcomes = await asyncio.gather(*answers, return_exceptions=True)
        assert [StoreFull, type(None)] == list(map(type, outcomes))
        await store.append(chain.task, large)
        assert {digest_of(noise): noise} == await store.blobs([digest_of(noise)])

    on_store(work, tmp_path / "a.db")


def test_after_an_error_of_commit_what_lies_there_is_success(tmp_path):
    """An append whose commit failed although it was written is acknowledged: the head is read on a new connection."""

    async def work(store, chain):
        commits = store._all_writes._commits
        write = commits.write_batch

        def written_but_failed(batch):
            write(batch)
            commits.write_batch = write
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_FULL, "SQLITE_FULL"
            raise error

        commits.write_batch = written_but_failed
        before = commits._connection
        await store.append(chain.task, chain.next(b"there"))
        assert before is not commits._connection
        assert 2 == len(await journal_of(store, chain.task))

    on_store(work, tmp_path / "a.db")


def test_what_is_not_understood_breaks_the_store(tmp_path):
    """An error nobody foresaw reaches every waiter and every later call as StoreBroken; nothing hangs."""

    async def work(store, chain):
        store._all_writes._commits.write_batch = lambda _: 1 / 0
        answers = [store.append(chain.task, chain.next()) for _ in range(300)]
        outcomes = await asyncio.gather(*answers, return_exceptions=True)
        assert [StoreBroken] * 300 == list(map(type, outcomes))
        for call in (store.append(chain.task, chain.peek()), store.renew(chain.task, 1), store.head(chain.task)):
            with pytest.raises(StoreBroken, match="ZeroDivisionError"):
                await call

    on_store(work, tmp_path / "a.db")


def test_the_queue_is_bounded(tmp_path, monkeypatch):
    """A caller that never awaits is held back at the limit, and the order of its appends is kept."""
    monkeypatch.setattr(writer, "WRITER_QUEUE_MAX", 50)

    async def work(store, chain):
        longest = 0
        answers = []
        for number in range(1_000):
            answers.append(store.append(chain.task, chain.next(b"%d" % number)))
            longest = max(longest, len(store._all_writes._queue))
        await asyncio.gather(*answers)
        assert 0 < longest <= 50
        assert [b"%d" % n for n in range(1_000)] == [a.frames for a in await journal_of(store, chain.task, 1)]

    on_store(work, tmp_path / "a.db")
    assert WRITER_QUEUE_MAX > 50


def test_others_go_on_while_a_large_append_is_under_way(tmp_path):
    """Between two pieces of a large append, appends of other tasks are written; those of its own task wait for it."""

    async def work(store, chain):
        other = await begun(store, 2)
        done = []
        noise = [digest_of(b"%d" % n) for n in range(31_250 * 8)]
        raw = b"".join(noise)

        async def note(name, answer):
            await answer
            done.append(name)

        first = store.append(chain.task, chain.next(b"before"))
        large = store.append(chain.task, replace(chain.next(b"large"), blobs=((digest_of(raw), raw),)))
        behind = store.append(chain.task, chain.next(b"behind"))
        between = store.append(other.task, other.next())
        await asyncio.gather(
            note("first", first), note("large", large), note("behind", behind), note("between", between)
        )
        assert ["first", "between", "large", "behind"] == done
        answers = [
            store.append(one.task, append)
            for one in (chain, other)
            for append in (replace(one.next(), blobs=((digest_of(raw[1:]), raw[1:]),)), one.next())
        ]
        await asyncio.gather(*answers)  # the small one behind a large one that waits does not overtake it

    on_store(work, tmp_path / "a.db")


def test_a_renewal_goes_ahead_of_the_queue(tmp_path):
    """A renewal is written before the appends that are queued already."""

    async def work(store, chain):
        gate = store._all_writes._gate
        gate.acquire()
        done = []
        first = store.append(chain.task, chain.next())  # taken by the thread, which now waits for the gate
        await taken(store)
        appends = [asyncio.ensure_future(store.append(chain.task, chain.next())) for _ in range(3)]
        renewal = asyncio.ensure_future(store.renew(chain.task, 1))
        await asyncio.sleep(0)
        for name, answer in (("append", appends[0]), ("renewal", renewal)):
            answer.add_done_callback(lambda _, name=name: done.append(name))
        gate.release()
        await asyncio.gather(first, *appends, renewal)
        assert ["renewal", "append"] == done

    on_store(work, tmp_path / "a.db")


def test_the_trigger_refuses_any_other_writer(tmp_path):
    """Whoever writes to the file: the schema itself refuses an old epoch, a gap, a wrong link, and any change."""

    async def work(store, chain):
        await store.claim(chain.task, holder(2), over=1)
        await store.close()
        row = "INSERT INTO append VALUES (?, ?, ?, ?, ?, x'')"
        key, digest = 1 << 40, chain.digest
        with contextlib.closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as other:
            for values, reason in (
                ((key | 2, 2, 1, digest, bytes(32)), "fenced"),
                ((key | 3, 3, 2, digest, bytes(32)), "conflict"),
                ((key | 2, 2, 2, bytes(32), bytes(32)), "conflict"),
                ((key | 2, 1, 2, digest, bytes(32)), "CHECK"),
                ((9 << 40 | 1, 1, 1, bytes(32), bytes(32)), "fenced"),
            ):
                with pytest.raises(sqlite3.IntegrityError, match=reason):
                    other.execute(row, values)
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                other.execute("UPDATE append SET epoch = 2")
            other.execute(row, (key | 2, 2, 2, digest, bytes(32)))

    on_store(work, tmp_path / "a.db")


def test_a_stale_copy_cannot_shorten_the_history(tmp_path):
    """A handle that read the task long ago is refused; what others wrote since is still there (arcee-ai/nac 146)."""

    async def work(store, chain):
        stale = chain.peek(b"from an old copy")
        other = await open_sqlite(tmp_path / "a.db", SystemClock())
        for _ in range(4):
            await other.append(chain.task, chain.next(b"newer"))
        with pytest.raises(Conflict):
            await store.append(chain.task, stale)
        assert chain.head == await store.head(chain.task)
        await other.close()

    on_store(work, tmp_path / "a.db")


def test_a_closed_store_refuses(tmp_path):
    """After close every call raises StoreBroken saying that the handle was closed, and no thread is left."""
    before = threading.active_count()

    async def work(store, chain):
        await asyncio.gather(*(store.append(chain.task, chain.next()) for _ in range(10)))
        await store.close()
        for call in (store.append(chain.task, chain.peek()), store.tasks(), store.head(task_id(1)), store.sweep()):
            with pytest.raises(StoreBroken, match="closed"):
                await call

    on_store(work, tmp_path / "a.db")
    assert before == threading.active_count()
