"""Damage in the rows of a journal, a blob, a summary is found where it is read, and named."""

import asyncio
import contextlib
import sqlite3

import pytest

from perdure.clock import SystemClock
from perdure.errors import Damaged, StoreBroken
from perdure.stores.sqlite import journal
from perdure.stores.sqlite.store import open_sqlite
from perdure.testing.conformance.place import Chain, begun, digest_of, journal_of, task_id


async def store_with(path, appends, blobs=()):
    """Make a store with one task of `appends` appends, the last naming `blobs`, and close it."""
    store = await open_sqlite(path, SystemClock())
    chain = await begun(store)
    for _ in range(appends - 1):
        await store.append(chain.task, chain.next(b"x" * 100, entries=2))
    for raw in blobs:
        last = chain.next()
        await store.append(chain.task, type(last)(**{**fields(last), "blobs": ((digest_of(raw), raw),)}))
    await store.close()
    return chain


def fields(struct):
    """The fields of a struct, by name."""
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


def damage(path, sql, *parameters):
    """Change rows behind the store's back."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DROP TRIGGER append_is_never_changed")
        connection.execute("DROP TRIGGER append_is_due")
        connection.execute("PRAGMA ignore_check_constraints = 1")
        connection.execute(sql, parameters)


def reading(path, after=0):
    """Return the seqs read before the error, and the error."""

    async def main():
        store = await open_sqlite(path, SystemClock())
        seen = []
        try:
            async for append in store.read(task_id(1), after):
                seen += [append.first_seq]
        except Damaged as error:
            return seen, error
        finally:
            await store.close()
        return seen, None

    return asyncio.run(main())


@pytest.mark.parametrize("appends", [10, 700])
def test_a_missing_row_is_named_and_the_rest_can_be_read(appends, tmp_path):
    """A deleted row raises Damaged at its entry, never a silent end (claude-code issue 50347); the rest can be read."""
    path = tmp_path / "a.db"
    asyncio.run(store_with(path, appends))
    first_seq = 2 * (appends // 2)  # of an append in the middle
    damage(path, "DELETE FROM append WHERE key = ?", 1 << 40 | first_seq)
    seen, error = reading(path)
    assert (task_id(1), first_seq) == (error.task, error.seq)
    assert [1, *range(2, first_seq, 2)] == seen
    seen, error = reading(path, after=first_seq + 1)
    assert error is None
    assert list(range(first_seq + 2, 2 * appends, 2)) == seen


def test_the_first_row_is_missed_too(tmp_path):
    """A journal whose first append is gone raises Damaged at entry 1."""
    path = tmp_path / "a.db"
    asyncio.run(store_with(path, 3))
    damage(path, "DELETE FROM append WHERE key = ?", 1 << 40 | 1)
    assert 1 == reading(path)[1].seq


@pytest.mark.parametrize(
    ("change", "seq"),
    [("last_seq = 1", 2), ("last_seq = 9", 10), ("key = key + 1", 2), ("frames = 'text'", 2), ("frames = 7", 2)],
)
def test_wrong_bounds_are_named(change, seq, tmp_path):
    """A row whose bounds do not fit its neighbours raises Damaged."""
    path = tmp_path / "a.db"
    asyncio.run(store_with(path, 4))
    damage(path, f"UPDATE append SET {change} WHERE key = {1 << 40 | 2}")
    assert seq == reading(path)[1].seq


def test_a_changed_blob_is_not_handed_out(tmp_path):
    """A blob whose bytes no longer match its digest, or that cannot be unpacked, raises StoreBroken naming it."""
    raws = (b"plain" * 10, b"packed" * 10_000)
    path = tmp_path / "a.db"
    asyncio.run(store_with(path, 1, raws))
    damage(path, "UPDATE blob_part SET bytes = CAST(x'00' || substr(bytes, 2) AS BLOB)")

    async def read(raw):
        store = await open_sqlite(path, SystemClock())
        try:
            await store.blobs([digest_of(raw)])
        finally:
            await store.close()

    for raw in raws:
        with pytest.raises(StoreBroken, match=digest_of(raw).hex()):
            asyncio.run(read(raw))


@pytest.mark.parametrize("text", ["null", "[]", "42", '"x"', '{"task": 1}', "{", "", b"\xff"])
def test_a_summary_of_the_wrong_shape_is_refused(text, tmp_path):
    """A summary that is no summary raises StoreBroken (google-gemini/gemini-cli issue 29207); the journal reads."""
    path = tmp_path / "a.db"
    asyncio.run(store_with(path, 3))
    damage(path, "UPDATE task SET summary = ?", text)

    async def main():
        store = await open_sqlite(path, SystemClock())
        with pytest.raises(StoreBroken, match="wrong shape"):
            await store.tasks()
        found = len(await journal_of(store, task_id(1)))
        await store.close()
        return found

    assert 3 == asyncio.run(main())


def test_a_malformed_page_breaks_the_store_for_good(tmp_path):
    """Once SQLite has called the file malformed, every later call on that handle raises StoreBroken."""
    path = tmp_path / "a.db"
    asyncio.run(store_with(path, 700))
    (tmp_path / "a.db-wal").unlink()  # it holds copies of the last pages
    (tmp_path / "a.db-shm").unlink()
    contents = bytearray(path.read_bytes())
    contents[-2 * 8192 : -8192] = b"\xff" * 8192  # a page of the journal
    path.write_bytes(contents)

    async def main():
        store = await open_sqlite(path, SystemClock())
        with pytest.raises(StoreBroken):
            await journal_of(store, task_id(1))
        chain = Chain(task_id(1))
        for call in (store.append(chain.task, chain.next()), store.head(chain.task), store.tasks()):
            with pytest.raises(StoreBroken):
                await call
        await store.close()

    asyncio.run(main())
    assert contents == path.read_bytes()


def test_who_looks_up_one_entry_reads_a_few_rows(tmp_path, monkeypatch):
    """A reader that stops at the first append has read no page of hundreds for it."""
    asyncio.run(store_with(tmp_path / "a.db", 300))
    pages = []
    read_page = journal._read_page

    def counted(*args, **kwargs):
        pages.append(read_page(*args, **kwargs))
        return pages[-1]

    monkeypatch.setattr(journal, "_read_page", counted)

    async def main():
        store = await open_sqlite(tmp_path / "a.db", SystemClock())
        try:
            async for append in store.read(task_id(1), 100):
                return append
        finally:
            await store.close()

    found = asyncio.run(main())
    assert found.first_seq <= 101 <= found.last_seq
    assert sum(map(len, pages)) < 10
