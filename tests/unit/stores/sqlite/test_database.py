"""Opening tells missing, empty, foreign, damaged, newer and forbidden files apart, and harms none of them."""

import asyncio
import contextlib
import os
import sqlite3
import subprocess
import sys

import pytest

from perdure.clock import SystemClock
from perdure.errors import StoreBroken, StoreError, StoreTooNew, StoreUnreadable
from perdure.stores.sqlite import database
from perdure.stores.sqlite.database import connect_writer, prepare
from perdure.stores.sqlite.store import open_sqlite
from perdure.testing.conformance.place import begun, journal_of

OTHER_USER = 65_534  # nobody


def made(path):
    """Make a store with one task at `path` and return its bytes."""

    async def main():
        store = await open_sqlite(path, SystemClock())
        await begun(store)
        await store.close()

    asyncio.run(main())
    return path.read_bytes()


def foreign(path):
    """Another program's database."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    return path.read_bytes()


@pytest.mark.parametrize(
    ("contents", "reason"),
    [
        (b"", "is empty"),
        (b" ", "not an SQLite database"),
        (b" \n" * 9_000, "not an SQLite database"),
        (b"null", "not an SQLite database"),
        (b"42", "not an SQLite database"),
        (b"[]", "not an SQLite database"),
        (b'{"half": "a docum', "not an SQLite database"),
        (bytes(16_384), "not an SQLite database"),
    ],
)
def test_what_is_no_database_is_refused_untouched(contents, reason, tmp_path):
    """A file that is no database is never taken for a missing one (Kilo-Org/kilocode PR 9672): refused, left alone."""
    path = tmp_path / "a.db"
    path.write_bytes(contents)
    with pytest.raises(StoreUnreadable, match=reason):
        asyncio.run(open_sqlite(path, SystemClock()))
    assert contents == path.read_bytes()
    assert ["a.db"] == os.listdir(tmp_path)


def test_another_programs_database_is_refused_untouched(tmp_path):
    """A database without our mark is not ours, whatever is in it."""
    contents = foreign(tmp_path / "a.db")
    with pytest.raises(StoreUnreadable, match="another program"):
        asyncio.run(open_sqlite(tmp_path / "a.db", SystemClock()))
    assert contents == (tmp_path / "a.db").read_bytes()


def test_a_directory_and_a_device_are_refused(tmp_path):
    """What is no regular file is named as such."""
    for path, reason in ((tmp_path, "is a directory"), ("/dev/null", "not a regular file")):
        with pytest.raises(StoreUnreadable, match=reason):
            asyncio.run(open_sqlite(path, SystemClock()))


def test_a_log_without_its_database_is_refused(tmp_path):
    """A -wal file whose database is missing is not replayed into a new one."""
    (tmp_path / "a.db-wal").write_bytes(b"remains")
    with pytest.raises(StoreUnreadable, match="-wal"):
        asyncio.run(open_sqlite(tmp_path / "a.db", SystemClock()))
    assert ["a.db-wal"] == os.listdir(tmp_path)


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.9])
def test_a_cut_database_is_broken_not_new(keep, tmp_path):
    """A database cut short raises StoreBroken when opened or read, and keeps its bytes."""
    path = tmp_path / "a.db"
    whole = made(path)
    for extra in ("-wal", "-shm"):
        (tmp_path / f"a.db{extra}").unlink(missing_ok=True)
    cut = whole[: int(len(whole) * keep)]
    path.write_bytes(cut)

    async def main():
        store = await open_sqlite(path, SystemClock())
        try:
            await store.tasks()
            await journal_of(store, f"{1:032x}")
        finally:
            await store.close()

    with pytest.raises(StoreBroken):
        asyncio.run(main())
    assert cut == path.read_bytes()


def test_a_later_schema_is_left_untouched(tmp_path):
    """A store of a later version raises StoreTooNew with both numbers; not a byte of it changes."""
    path = tmp_path / "a.db"
    made(path)
    with contextlib.closing(connect_writer(str(path))) as connection:
        connection.execute("PRAGMA user_version = 99")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = path.read_bytes()
    with pytest.raises(StoreTooNew) as caught:
        asyncio.run(open_sqlite(path, SystemClock()))
    assert (99, database.SCHEMA_VERSION) == (caught.value.found, caught.value.known)
    assert before == path.read_bytes()


def test_settings_that_make_it_durable_are_really_on(tmp_path):
    """The writing connection is in WAL mode, syncs in full, and has pages of 8 KiB."""
    made(tmp_path / "a.db")
    with contextlib.closing(connect_writer(str(tmp_path / "a.db"))) as connection:
        answers = [
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "page_size", "wal_autocheckpoint", "fullfsync")
        ]
    assert ["wal", 2, 8192, 512, 1] == answers


def test_a_file_that_cannot_be_in_wal_mode_is_refused(tmp_path):
    """The switch to WAL fails without an error, so the answer is read: another mode raises StoreUnreadable."""
    with pytest.raises(StoreUnreadable, match="'memory' mode, not WAL"):
        database._set_durable(sqlite3.connect(":memory:"), "somewhere")


def test_remains_of_a_killed_creation_are_cleared(tmp_path):
    """A start after a kill in the middle of the first start makes the store anew."""
    for remains in ("a.db.new", "a.db.new-wal", "a.db.new-shm"):
        (tmp_path / remains).write_bytes(b"half")
    made(tmp_path / "a.db")
    assert [] == [name for name in os.listdir(tmp_path) if ".new" in name]


def test_a_failed_migration_leaves_the_old_schema(tmp_path, monkeypatch):
    """A migration is one transaction with its number: one that fails leaves nothing, the next start tries again."""
    path = str(tmp_path / "a.db")
    made(tmp_path / "a.db")
    good = "CREATE TABLE later (x);"
    monkeypatch.setattr(database, "_MIGRATIONS", [*database._MIGRATIONS, f"{good} CREATE TABLE task (x);"])
    today = database.SCHEMA_VERSION
    monkeypatch.setattr(database, "SCHEMA_VERSION", today + 1)
    with pytest.raises(StoreBroken, match="already exists"):
        prepare(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert (today,) == connection.execute("PRAGMA user_version").fetchone()
        assert [] == connection.execute("SELECT * FROM sqlite_master WHERE name = 'later'").fetchall()
    monkeypatch.setattr(database, "_MIGRATIONS", [*database._MIGRATIONS[:-1], good])
    prepare(path).close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert (today + 1,) == connection.execute("PRAGMA user_version").fetchone()


def test_opening_writes_nothing_into_a_store_of_today(tmp_path):
    """A plain start and a read leave the database's bytes as they were."""
    path = tmp_path / "a.db"
    before = made(path)

    async def look():
        store = await open_sqlite(path, SystemClock())
        found = await store.tasks()
        await store.close()
        return len(found)

    assert 1 == asyncio.run(look())
    assert before == path.read_bytes()


@pytest.mark.parametrize(
    ("file_mode", "folder_mode", "reason"),
    [(0o000, 0o777, "permission to read"), (0o444, 0o777, "permission to write it"), (0o666, 0o555, "its folder")],
)
def test_missing_permission_is_not_called_damage(file_mode, folder_mode, reason, tmp_path):
    """A file that may not be read or written raises StoreUnreadable saying which permission is missing."""
    folder = tmp_path / "folder"
    path = folder / "a.db"
    made(path)
    for entry in tmp_path.parents:
        if entry.stat().st_mode & 0o001 == 0 and entry.owner() == "root":
            entry.chmod(entry.stat().st_mode | 0o011)
    tmp_path.chmod(0o755)
    path.chmod(file_mode)
    folder.chmod(folder_mode)
    program = (
        "import asyncio, sys\nfrom perdure.clock import SystemClock\nfrom perdure.errors import StoreError\n"
        "from perdure.stores.sqlite.store import open_sqlite\n"
        + ("import os; os.setgroups([]); os.setgid(65534); os.setuid(65534)\n" if os.getuid() == 0 else "")
        + "try:\n    asyncio.run(open_sqlite(sys.argv[1], SystemClock()))\n"
        "except StoreError as error:\n    print(type(error).__name__, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        env={"PYTHONPATH": "src"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "StoreUnreadable" in done.stdout, done.stderr
    assert reason in done.stdout


def test_errors_are_ours_with_sqlites_as_cause(tmp_path):
    """What SQLite raises arrives as one of our errors, with SQLite's own as its cause."""
    path = tmp_path / "a.db"
    made(path)
    with pytest.raises(StoreError) as caught, database.translated(str(path)):
        connect_writer(str(path)).execute("SELECT * FROM nowhere")
    assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
