"""Backup beside writers, and the size of a store."""

import asyncio
import errno
import os
import sqlite3
import threading

import pytest

import perdure
from perdure.clock import SystemClock
from perdure.errors import StoreFull, StoreUnreadable, TaskBusy, TaskUnknown, Unsupported, UsageError
from perdure.ids_source import SystemIds
from perdure.logs.scroll import LogFiles
from perdure.operations import back_up, delete, store_status
from perdure.stores.memory import MemoryStore, MemoryWorld
from perdure.stores.opening import open_store, open_to_look
from perdure.stores.sqlite import upkeep
from perdure.stores.sqlite.database import SCHEMA_VERSION
from perdure.views.verifying import verify


@perdure.tool(effect="pure", quick=True)
def echo(text: str) -> str:
    """Return it."""
    return text


async def work(task, number, size=200):
    """So many actions, each of which changes the state."""
    for item in range(number):
        await task.act(echo, f"{item:0{size}d}", then=lambda state, got: state.update(last=got))


def run(path, name, number, size=200, **options):
    """One task from start to end."""

    async def once():
        async with perdure.open(str(path), **options) as runtime, runtime.task(name, state={}) as task:
            await work(task, number, size)

    asyncio.run(once())


def test_a_copy_made_beside_a_writer_is_a_state_that_was(tmp_path, monkeypatch):
    """While a task writes on, the copy ends, opens, verifies, and holds all that was acknowledged when it began."""

    async def once():
        async with perdure.open(str(tmp_path / "perdure.db")) as runtime, runtime.task("t", state={}) as task:
            await work(task, 200, size=8_000)
            began, _ = await runtime.store.head(task.id)
            copying = asyncio.create_task(back_up(runtime.store, str(tmp_path / "copy.db"), step))
            while not copying.done():
                await work(task, 1)
                committed.release()
            await copying
            return began, (await runtime.store.head(task.id))[0]

    monkeypatch.setattr(upkeep, "_STEP_PAGES", 1)
    steps = []
    committed = threading.Semaphore(0)

    def step(done, total):
        steps.append((done, total))
        if len(steps) <= 20:
            assert committed.acquire(timeout=20)  # between two steps the writer has committed

    began, ended = asyncio.run(once())
    assert len(steps) > 20
    total = steps[0][1]
    assert [(number + 1, total) for number in range(total)] == steps  # it never began again, though others committed

    async def look():
        copy = await open_to_look(str(tmp_path / "copy.db"), SystemClock())
        (summary,) = await copy.tasks()
        found = (await copy.head(summary.task))[0], await verify(copy, summary.task)
        await copy.close()
        return found

    head, verdict = asyncio.run(look())
    assert began <= head < ended
    assert verdict.is_whole
    assert ["copy.db"] == [name for name in os.listdir(tmp_path) if name.startswith("copy")]


def test_a_copy_is_a_store_to_go_on_with(tmp_path):
    """An unfinished task goes on in the copy, though its holder lives on in the original."""

    async def once():
        async with perdure.open(str(tmp_path / "perdure.db")) as runtime, runtime.task("t", state={}) as task:
            await work(task, 3)
            await back_up(runtime.store, str(tmp_path / "other" / "perdure.db"))

    (tmp_path / "other").mkdir()
    asyncio.run(once())
    run(tmp_path / "other" / "perdure.db", "t", 4)
    with sqlite3.connect(tmp_path / "other" / "perdure.db") as connection:
        assert [("wal",)] == connection.execute("PRAGMA journal_mode").fetchall()
    connection.close()


def test_what_is_there_is_never_written_over(tmp_path):
    """A file, a folder and a broken link are refused, and stay as they are."""
    run(tmp_path / "perdure.db", "t", 1)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("nowhere")

    async def copy(name):
        store = await open_store(str(tmp_path / "perdure.db"), SystemClock())
        try:
            await back_up(store, str(tmp_path / name))
        finally:
            await store.close()

    for name in ("file", "folder", "link", "perdure.db"):
        with pytest.raises(UsageError, match="exists already"):
            asyncio.run(copy(name))
    with pytest.raises(StoreUnreadable):
        asyncio.run(copy("no/where"))
    assert "mine" == (tmp_path / "file").read_text()
    assert [] == [name for name in os.listdir(tmp_path) if name.endswith(".part")]


def test_a_full_device_leaves_no_half_copy_and_the_store_usable(tmp_path, monkeypatch):
    """The copy is undone and named as what is full; the store goes on."""
    run(tmp_path / "perdure.db", "t", 1)

    def full(_descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    async def copy():
        store = await open_store(str(tmp_path / "perdure.db"), SystemClock())
        try:
            with monkeypatch.context() as patch:
                patch.setattr(os, "fsync", full)
                with pytest.raises(StoreFull):
                    await back_up(store, str(tmp_path / "copy.db"))
            assert [] == [name for name in os.listdir(tmp_path) if name.startswith("copy")]
            await back_up(store, str(tmp_path / "copy.db"))
        finally:
            await store.close()

    asyncio.run(copy())
    assert (tmp_path / "copy.db").exists()


def test_a_copy_nobody_waits_for_is_given_up(tmp_path):
    """Cancelling it stops the copying and leaves nothing behind."""
    run(tmp_path / "perdure.db", "t", 100, size=8_000)

    async def copy():
        store = await open_store(str(tmp_path / "perdure.db"), SystemClock())
        loop, is_under_way = asyncio.get_running_loop(), asyncio.Event()
        copying = asyncio.create_task(
            back_up(store, str(tmp_path / "copy.db"), lambda *_: loop.call_soon_threadsafe(is_under_way.set))
        )
        await is_under_way.wait()
        copying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await copying
        await store.close()

    asyncio.run(copy())
    assert [] == [name for name in os.listdir(tmp_path) if name.endswith(".part")]


def test_the_size_of_a_store_is_said(tmp_path):
    """Blobs and their bytes are counted; what a deleted task leaves is free."""
    run(tmp_path / "perdure.db", "t", 20, size=8_000)

    async def sizes():
        store = await open_store(str(tmp_path / "perdure.db"), SystemClock())
        before = await store_status(store)
        blobs = await delete(store, None, SystemClock(), SystemIds(), "t")
        after = await store_status(store)
        tasks = await store.tasks()
        await store.close()
        return before, blobs, after, tasks

    before, blobs, after, tasks = asyncio.run(sizes())
    assert (20, 160_000, SCHEMA_VERSION) == (before.blobs, before.blob_bytes, before.schema)
    assert (20, 0, 0, []) == (blobs, after.blobs, after.blob_bytes, tasks)
    assert after.free_bytes > before.free_bytes
    assert before.size_bytes >= before.free_bytes >= 0


def test_a_store_without_upkeep_says_so():
    """The store in memory has no file to be copied into."""
    store = MemoryStore(MemoryWorld(), SystemClock())
    for asked in (store_status(store), back_up(store, "file")):
        with pytest.raises(Unsupported):
            asyncio.run(asked)


def test_delete_refuses_a_task_that_is_worked_on_and_removes_its_log(tmp_path):
    """A living holder keeps it; afterwards journal, files and what was set aside go, and other tasks stay."""
    files = LogFiles(path=str(tmp_path / "logs"))
    run(tmp_path / "perdure.db", "other", 1, log_dir=files)

    async def hold():
        async with perdure.open(str(tmp_path / "perdure.db"), log_dir=files) as runtime:
            async with runtime.task("t", state={}) as task:
                await work(task, 1)
                other = await open_store(str(tmp_path / "perdure.db"), SystemClock())
                with pytest.raises(TaskBusy):
                    await delete(other, files, SystemClock(), SystemIds(), "t")
                await other.close()
                await work(task, 1)
            (tmp_path / "logs" / f"t.{task.id}.aside-1").mkdir()
            await delete(runtime.store, files, SystemClock(), SystemIds(), "t")
            with pytest.raises(TaskUnknown):
                await runtime.store.find("t")
            return [summary.name for summary in await runtime.store.tasks()]

    assert ["other"] == asyncio.run(hold())
    assert ["other"] == [name.partition(".")[0] for name in os.listdir(tmp_path / "logs")]


def test_a_deletion_that_the_store_refuses_leaves_the_task_free(tmp_path):
    """Whoever wants to go on with it need not wait for a lease to end."""

    class Refusing(MemoryStore):
        async def delete(self, task):
            raise StoreFull(self.place)

    world = MemoryWorld()

    async def once():
        store = Refusing(world, SystemClock())
        async with perdure.open(store) as runtime, runtime.task("t", state={}) as task:
            await work(task, 1)
        with pytest.raises(StoreFull):
            await delete(store, None, SystemClock(), SystemIds(), "t")
        return (await store.lease(task.id)).holder

    assert None is asyncio.run(once())
