"""What a killed or refused large append leaves behind is swept, and nothing else is."""

import asyncio
import contextlib
import hashlib
import sqlite3

from msgspec.structs import replace

from perdure.clock import SystemClock
from perdure.errors import Conflict, Fenced
from perdure.limits import MIB
from perdure.stores.sqlite.contents import pack_blob, stage_blob
from perdure.stores.sqlite.database import connect_writer
from perdure.stores.sqlite.store import open_sqlite
from perdure.testing.conformance.place import begun, digest_of, holder

NOISE = hashlib.shake_128(b"noise").digest(3 * MIB)


def count(path, table):
    """How many rows a table has."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


def with_noise(append):
    """The append with a blob of 3 MiB."""
    return replace(append, blobs=((digest_of(NOISE), NOISE),))


def stage(path, parts):
    """Write the first parts of the blob as a process would that is killed then."""
    with contextlib.closing(connect_writer(str(path))) as connection:
        for start in range(0, parts * MIB, MIB):
            stage_blob(connection, (1, 1), pack_blob(digest_of(NOISE), NOISE), start)


def test_parts_of_the_killed_are_swept_once_the_lease_is_gone(tmp_path):
    """Staged parts stay while their lease is held; when it is released or claimed by another, a sweep removes them."""
    path = tmp_path / "a.db"

    async def main():
        store = await open_sqlite(path, SystemClock())
        chain = await begun(store)
        stage(path, 2)
        assert 0 == await store.sweep()
        await store.claim(chain.task, holder(2), over=1)
        assert 1 == await store.sweep()
        await store.close()

    asyncio.run(main())
    assert [0, 0, 0] == [count(path, table) for table in ("blob", "blob_part", "blob_staged")]


def test_the_next_append_of_the_same_bytes_is_whole(tmp_path):
    """After a kill in the middle of staging, the same append made again stores the blob whole and once."""
    path = tmp_path / "a.db"

    async def main():
        store = await open_sqlite(path, SystemClock())
        chain = await begun(store)
        stage(path, 2)
        await store.append(chain.task, with_noise(chain.next()))
        assert {digest_of(NOISE): NOISE} == await store.blobs([digest_of(NOISE)])
        await store.release(chain.task, 1)
        assert 1 == await store.sweep()
        assert {digest_of(NOISE): NOISE} == await store.blobs([digest_of(NOISE)])
        await store.close()

    asyncio.run(main())
    assert [1, 3, 0, 1] == [count(path, name) for name in ("blob", "blob_part", "blob_staged", "blob_use")]


def test_a_blob_swept_between_staging_and_append_is_written_with_it(tmp_path):
    """If what was staged is gone when the append comes, the append brings the bytes itself."""
    path = tmp_path / "a.db"

    async def main():
        store = await open_sqlite(path, SystemClock())
        chain = await begun(store)
        store._all_writes._commits.pieces = lambda pending: iter(())
        await store.append(chain.task, with_noise(chain.next()))
        assert {digest_of(NOISE): NOISE} == await store.blobs([digest_of(NOISE)])
        await store.close()

    asyncio.run(main())
    assert 3 == count(path, "blob_part")


def test_a_refused_large_append_can_be_swept(tmp_path):
    """A fenced large append stages nothing; what a conflict leaves, a sweep takes once the lease is gone."""
    path = tmp_path / "a.db"

    async def refuse(answer, error):
        try:
            await answer
        except error:
            return True
        return False

    async def main():
        store = await open_sqlite(path, SystemClock())
        chain = await begun(store)
        assert await refuse(store.append(chain.task, replace(with_noise(chain.peek()), epoch=5)), Fenced)
        assert 0 == count(path, "blob")
        wrong = replace(with_noise(chain.peek()), expected_seq=3, last_seq=4)
        assert await refuse(store.append(chain.task, wrong), Conflict)
        assert 0 == await store.sweep()
        await store.release(chain.task, 1)
        assert 1 == await store.sweep()
        await store.close()

    asyncio.run(main())
    assert 0 == count(path, "blob_part")


def test_small_blobs_are_not_packed_and_large_ones_are(tmp_path):
    """Bytes under 4 KiB and bytes that do not shrink are stored as they are, others as zstd."""
    packs = [pack_blob(b"", raw) for raw in (b"", b"a" * 4_095, b"a" * 4_096, NOISE[:5_000])]
    assert [False, False, True, False] == [pack.is_packed for pack in packs]
    assert [0, 4_095, 4_096, 5_000] == [pack.size for pack in packs]


def test_many_small_blobs_go_ahead_a_megabyte_at_a_time(tmp_path):
    """A thousand files are some transactions, not a thousand; all of them are there."""
    path = tmp_path / "a.db"
    noise = hashlib.shake_128(b"many").digest(3_000_000)
    files = [noise[start : start + 3_000] for start in range(0, len(noise), 3_000)]
    made = []

    async def main():
        store = await open_sqlite(path, SystemClock())
        chain = await begun(store)
        commits = store._all_writes._commits
        pieces = commits.pieces
        commits.pieces = lambda pending: made.extend(pieces(pending)) or iter(made)
        await store.append(chain.task, replace(chain.next(), blobs=tuple((digest_of(raw), raw) for raw in files)))
        found = await store.blobs([digest_of(raw) for raw in files])
        await store.close()
        return found

    assert {digest_of(raw): raw for raw in files} == asyncio.run(main())
    assert 3 == len(made)
