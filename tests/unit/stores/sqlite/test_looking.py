"""A store that is opened for looking: all that reads works, all that writes is refused, and no file is left behind."""

import asyncio
import os
import sqlite3

import pytest

import perdure
from perdure.clock import SystemClock
from perdure.errors import StoreTooNew, StoreUnreadable
from perdure.ports import Message
from perdure.stores.opening import open_to_look


@perdure.program
async def note(task):
    """Write one line."""
    await task.note("here")


@pytest.fixture
def place(tmp_path):
    """The file of a store with one task, which nobody has open: no log lies beside it."""
    path = tmp_path / "store" / "perdure.db"

    async def make():
        async with perdure.open(path) as runtime:
            await runtime.run(note, "job")

    asyncio.run(make())
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    for name in os.listdir(path.parent):
        if name != "perdure.db" and not (path.parent / name).is_dir():
            (path.parent / name).unlink()
    return path


def looking(place, question):
    """Ask a store that is opened for looking."""

    async def ask():
        store = await open_to_look(place, SystemClock())
        try:
            return await question(store)
        finally:
            await store.close()
            await store.close()

    return asyncio.run(ask())


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}"])
def test_it_reads_and_leaves_no_file(place, form):
    """Tasks, journal and head are there; lock, log and shared memory are not made."""

    async def read(store):
        (summary,) = await store.tasks()
        appends = [append async for append in store.read(summary.task)]
        return summary.name, appends[-1].last_seq, (await store.head(summary.task))[0]

    before = sorted(os.listdir(place.parent)), place.read_bytes()
    assert ("job", 4, 4) == looking(form.format(place), read)
    assert before == (sorted(os.listdir(place.parent)), place.read_bytes())


def test_it_reads_beside_a_writer(place):
    """Where somebody has the store open, what he has committed is seen."""

    async def read():
        async with perdure.open(place) as runtime:
            await runtime.run(note, "another")
            store = await open_to_look(place, SystemClock())
            names = sorted(summary.name for summary in await store.tasks())
            await store.close()
            return names

    assert ["another", "job"] == asyncio.run(read())


def test_what_writes_is_refused(place):
    """StoreUnreadable says that it was opened for looking, and the file stays as it was."""

    async def post(store):
        (summary,) = await store.tasks()
        await store.post(summary.task, Message(id="m", what="pause"))

    before = place.read_bytes()
    with pytest.raises(StoreUnreadable, match="looking only"):
        looking(place, post)
    assert before == place.read_bytes()


def test_a_file_that_is_not_there_is_not_made(tmp_path):
    """StoreUnreadable, and the folder stays empty."""
    with pytest.raises(StoreUnreadable, match="no such file"):
        asyncio.run(open_to_look(tmp_path / "perdure.db", SystemClock()))
    assert [] == os.listdir(tmp_path)


@pytest.mark.parametrize(("step", "error"), [(1, StoreTooNew), (-1, StoreUnreadable)])
def test_another_schema_is_refused(place, step, error):
    """A later one is not understood, an earlier one would have to be written."""
    connection = sqlite3.connect(place)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.execute(f"PRAGMA user_version = {version + step}")
    connection.close()
    with pytest.raises(error):
        asyncio.run(open_to_look(place, SystemClock()))
