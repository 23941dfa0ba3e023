"""Live log files of a runtime: a beat behind the journal, whole at its end, and never in the way."""

import asyncio
import contextlib
import logging
import os

import pytest

import perdure
from perdure.errors import ConfigInvalid
from perdure.limits import LOG_BEAT_S
from perdure.logs.lines import line_bytes
from perdure.logs.reading import Record, find_set, read_set
from perdure.logs.scroll import LogFiles, open_scroll
from perdure.views.history import log_lines
from tests.worlds import Play, World, counted, until


async def of_store(store, name="job"):
    """The lines that the store gives."""
    task = (await store.find(name)).task
    return [line_bytes(line) async for line in log_lines(store, task)]


def of_files(path, name="job"):
    """The lines that the files give; none where there is no set yet."""
    with contextlib.suppress(perdure.StoreError):
        return [found.raw for found in read_set(find_set(str(path), name)) if isinstance(found, Record)]
    return []


def reading(number, then=None):
    """A program that reads so many times."""

    async def fn(task):
        for item in range(number):
            await task.act(counted([]), item, then=lambda state, got: state.update(at=got))
        if then is not None:
            await then(task)

    return Play(fn)


def test_lines_come_while_the_task_runs(tmp_path):
    """A beat after an outcome its line is in the file, though the task goes on; at the end all lines are."""
    world = World()

    async def wait(task):
        def is_there():
            world.clock.advance(LOG_BEAT_S)
            return any(b'"action":"read"' in line for line in of_files(tmp_path))

        await until(is_there)
        assert 3 == sum(b'"action":"read"' in line for line in of_files(tmp_path))
        await task.act(counted([]), 9, then=lambda state, got: state.update(at=got))

    world.live(reading(3, wait), log_dir=tmp_path)
    lines = asyncio.run(of_store(world.store()))
    assert lines == of_files(tmp_path)
    assert b'"kind":"task_succeeded"' in lines[-1]


def test_each_life_goes_on_where_the_last_one_ended(tmp_path):
    """A run that is left unfinished, then resumed, has one log; a life without a log is caught up with."""
    world, files = World(), LogFiles(path=str(tmp_path), file_bytes=2_000, files_max=100)

    async def leave(_task):
        raise perdure.UsageError("left")

    for log_dir in (files, "", files):
        with pytest.raises(perdure.UsageError, match="left"):
            world.live(reading(5, leave), log_dir=log_dir)
    assert asyncio.run(of_store(world.store())) == of_files(tmp_path)
    world.live(reading(5), log_dir=files)
    assert asyncio.run(of_store(world.store())) == of_files(tmp_path)


def test_a_log_that_cannot_be_written_stops_no_task(tmp_path, caplog):
    """A folder that is none, and a set that another process keeps: the task succeeds, the first is said once."""
    (tmp_path / "file").write_text("in the way")
    world = World()
    with caplog.at_level(logging.WARNING, "perdure"):
        world.live(reading(3), log_dir=tmp_path / "file" / "below")
    assert "succeeded" == world.fold().ledger.status
    assert 1 == sum("log_not_written" in record.message for record in caplog.records)

    async def take_the_set(task):
        scrolls.append(open_scroll(str(tmp_path / f"job.{task.id}"), LogFiles(path=str(tmp_path))))

    scrolls = []
    world = World()
    world.live(reading(3, take_the_set), log_dir=tmp_path)
    assert "succeeded" == world.fold().ledger.status
    scrolls[0].close()


def test_where_the_log_goes_can_be_configured(tmp_path, monkeypatch):
    """`PERDURE_LOG_DIR` and `log_keep` hold for stores that are opened by place, "" switches the log off."""
    monkeypatch.setenv("PERDURE_LOG_DIR", str(tmp_path / "logs"))
    monkeypatch.setenv("PERDURE_LOG_KEEP", "1 KB x 3")

    async def run(name, **options):
        async with (
            perdure.open(str(tmp_path / "perdure.db"), **options) as runtime,
            runtime.task(name, state={}) as task,
        ):
            await task.note("x" * 3_000)

    asyncio.run(run("on"))
    assert any(name.endswith(".zst") for name in os.listdir(find_set(str(tmp_path / "logs"), "on")))
    asyncio.run(run("off", log_dir=""))
    assert [] == of_files(tmp_path / "logs", "off")
    monkeypatch.setenv("PERDURE_LOG_KEEP", "a lot")
    with pytest.raises(ConfigInvalid, match="log_keep"):
        asyncio.run(run("bad"))
