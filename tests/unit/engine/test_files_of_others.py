"""Files of somebody else: wherever a task goes on, or back, nobody's bytes are lost."""

import asyncio
import contextlib
import os
import shutil
import signal
import time
from pathlib import Path

import pytest

import perdure
from perdure.clock import SystemClock
from perdure.engine import crashpoints
from perdure.engine.loading import entries, load_fold
from perdure.errors import RolledBack, WorkspaceInvalid
from perdure.model import entry as e
from perdure.views.files import read_file
from perdure.views.verifying import verify
from tests.unit.engine.test_files import Ahead, Place, write


@pytest.fixture
def place(tmp_path):
    """A fresh place."""
    return Place(tmp_path)


@perdure.tool(effect="workspace", name="die")
async def die(folder: str) -> str:
    """Write a file, and die of it in the first run."""
    flag = Path(folder).parent / "has died"
    Path(folder, "half").write_text("half")
    if not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "lives"


def killed(place, program):
    """Run `program` in a process of its own, which dies of it."""
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            asyncio.run(place.live(program))
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) in {9, -9}


async def noop(task, runtime):
    """A life in which nothing is done."""


def test_what_looks_lost_is_on_record_before_it_is_written_over(place):
    """The clock was an hour ahead when the task wrote, and was put right: a person's edit looks older than it is.

    A rollback all the same goes back to what stood there before the task came.
    """
    place.put("d/f", "before")

    async def first(task, runtime):
        await task.checkpoint("here")
        await task.using(key="a").act(write, place.folder, "d/f", "the task's")
        os._exit(9)

    place.clock = Ahead(3600)
    killed(place, first)
    place.clock = SystemClock()
    place.put("d/f", "a person's")

    async def second(task, runtime):
        found = [x async for x in entries(runtime.store, task.id) if isinstance(x.payload, e.FilesCaptured)]
        seqs = [str(x.header.seq) for x in found if x.payload.action == "crash"]
        versions = [await read_file(runtime.store, task.id, "d/f", seq) for seq in seqs]
        mended = place.tree()["d/f"]
        with contextlib.suppress(RolledBack):
            await task.rollback("here")
        return mended, versions, (await verify(runtime.store, task.id)).findings

    assert asyncio.run(place.live(second)) == ("the task's", [b"a person's", b"the task's"], ())
    assert place.tree()["d/f"] == "before"


def test_a_file_lost_right_in_the_workspace_comes_back(place):
    """Looks move the time of the workspace's own folder; that must not pass for somebody's removing a file."""

    async def first(task, runtime):
        await task.using(key="a").act(write, place.folder, "top.txt", "text")
        os._exit(9)

    place.clock = Ahead(1)  # so that what follows is older than the look, which is how a power cut leaves it
    killed(place, first)
    Path(place.folder, "top.txt").unlink()
    time.sleep(1.1)
    asyncio.run(place.live(noop))
    assert place.tree() == {"top.txt": "text"}


async def writes_and_dies(task, place):
    """One file that is on record, and a second call that is not."""
    await task.using(key="a").act(write, place.folder, "d/f", "text")
    return await task.using(key="b").act(die, place.folder)


async def settle_die(place):
    """A person says of the call that died: keep it."""
    async with perdure.open(place.store, clock=place.clock) as runtime:
        task = (await runtime.store.find("t")).task
        (open_,) = (await load_fold(runtime.store, task)).ledger.open
        await runtime.settle(task, open_, None)


def test_what_a_crash_has_lost_comes_back_although_a_person_settled_first(place):
    """Whoever has the task between the crash and its going on neither mends in the program's stead nor hides it."""
    place.clock = Ahead(3600)
    killed(place, lambda task, _: writes_and_dies(task, place))
    Path(place.folder, "d/f").write_bytes(b"")
    asyncio.run(settle_die(place))

    async def second(task, runtime):
        return await place.captured(runtime)

    captured = asyncio.run(place.live(second))
    assert place.tree()["d/f"] == "text"
    assert [kinds for whose, kinds in captured if not whose and "d/f" in kinds] == []


def test_a_claim_that_does_not_go_on_leaves_the_mending_to_the_next(place):
    """Here the action that is settled has no files, so nothing is looked at; the crash is not forgotten for that."""
    place.clock = Ahead(3600)

    @perdure.tool(effect="irreversible", name="send")
    async def send() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    async def first(task, runtime):
        await task.using(key="a").act(write, place.folder, "d/f", "text")
        await task.using(key="b").act(send)

    killed(place, first)
    Path(place.folder, "d/f").write_bytes(b"")
    asyncio.run(settle_die(place))
    assert place.tree()["d/f"] == ""
    asyncio.run(place.live(noop))
    assert place.tree()["d/f"] == "text"


def test_a_rollback_that_a_power_cut_has_stopped_takes_what_was_lost_for_the_tasks(place):
    """Its file stands there empty: it goes back to the checkpoint, and is not kept as somebody's."""
    place.clock = Ahead(3600)

    async def first(task, runtime):
        await task.using(key="a").act(write, place.folder, "d/f", "1")
        await task.checkpoint("here")
        await task.using(key="b").act(write, place.folder, "d/f", "2")
        crashpoints.arm("during_rollback:1")
        await task.rollback("here")

    killed(place, first)
    Path(place.folder, "d/f").write_bytes(b"")
    asyncio.run(place.live(noop))
    assert place.tree()["d/f"] == "1"


def test_a_folder_that_is_gone_is_not_made_again_by_the_way(place):
    """Settling looks at the files: an empty folder there would be one from which the action had removed all."""
    killed(place, lambda task, _: writes_and_dies(task, place))
    shutil.rmtree(place.folder)
    with pytest.raises(WorkspaceInvalid, match=r"it is not there; put it back, or .* --accept workspace"):
        asyncio.run(settle_die(place))
    assert not Path(place.folder).exists()


async def a_while_later(place):
    """The lease of the one who died is over, and others have worked in the folder since."""
    await asyncio.sleep(0.6)
    place.put("theirs.txt", "second")
    place.put("notes.txt", "a person's own")


def test_a_second_try_leaves_alone_what_others_did_while_the_task_was_dead(place):
    """Only what its first try can have written goes back; the folder was the person's meanwhile."""
    place.put("theirs.txt", "first")
    place.lease_ttl_s = 0.3

    async def program(task, runtime):
        return await task.using(key="b").act(die, place.folder), await place.captured(runtime)

    killed(place, program)
    asyncio.run(a_while_later(place))
    result, captured = asyncio.run(place.live(program))
    assert (result, captured) == (
        "lives",
        [
            (False, {"theirs.txt": "file"}),
            (False, {"notes.txt": "file", "theirs.txt": "file"}),
            (True, {"half": "file"}),
            (True, {"half": None}),
            (True, {"half": "file"}),
        ],
    )
    assert place.tree() == {"half": "half", "notes.txt": "a person's own", "theirs.txt": "second"}


def test_a_second_try_after_an_orderly_end_leaves_the_others_files_alone_too(place):
    """The first try was in doubt when its process ended; then it was the person's turn."""
    place.lease_ttl_s = 0.3
    tries = []

    @perdure.tool(effect="workspace", name="slow", timeout_s=0.05)
    async def slow(folder: str) -> int:
        Path(folder, "half").write_text("half")
        tries.append(1)
        await asyncio.sleep(5 if len(tries) == 1 else 0)
        return len(tries)

    async def program(task, runtime):
        return await task.using(key="b").act(slow, place.folder)

    with pytest.raises(perdure.OutcomeUnknown):
        asyncio.run(place.live(program))
    asyncio.run(a_while_later(place))
    assert asyncio.run(place.live(program)) == 2
    assert place.tree() == {"half": "half", "notes.txt": "a person's own", "theirs.txt": "second"}


def test_settling_what_died_does_not_lay_the_others_files_at_its_door(place):
    """So a rollback that follows takes back the half file, and no other."""
    place.lease_ttl_s = 0.3

    async def first(task, runtime):
        await task.checkpoint("here")
        await task.using(key="b").act(die, place.folder)

    killed(place, first)
    asyncio.run(a_while_later(place))
    asyncio.run(settle_die(place))

    async def back(task, runtime):
        with contextlib.suppress(RolledBack):
            await task.rollback("here")

    asyncio.run(place.live(back))
    assert place.tree() == {"notes.txt": "a person's own", "theirs.txt": "second"}


async def goes_back(task, _runtime):
    """A life in which a person has the task go back to "here"."""
    with contextlib.suppress(RolledBack):
        await task.rollback("here")


@perdure.tool(effect="workspace", paths=("half",))
async def tear(folder: str) -> None:
    """Write half a file over another, and die of it."""
    Path(folder, "half").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_rollback_takes_back_what_a_killed_call_has_written_where_no_other_has(place):
    """Nobody has looked at it before: it is no entry of the journal that names the file, but the open call."""
    place.put("half", "whole")

    async def first(task, runtime):
        await task.using(key="a").act(write, place.folder, "a", "1")
        await task.checkpoint("here")
        await task.using(key="b").act(tear, place.folder)

    killed(place, first)
    assert place.tree()["half"] == "half"
    asyncio.run(place.live(goes_back))
    assert place.tree() == {"a": "1", "half": "whole"}


def test_a_rollback_lays_at_the_door_of_a_killed_call_only_what_lies_where_it_could_write(place):
    """The file beside it was the task's, and has been somebody's since."""

    async def first(task, runtime):
        await task.using(key="a").act(write, place.folder, "half", "1")
        await task.checkpoint("here")
        await task.using(key="b").act(write, place.folder, "half", "2")
        await task.using(key="c").act(write, place.folder, "beside", "the task's")
        await task.using(key="d").act(tear, place.folder)

    killed(place, first)
    place.put("beside", "a person's")
    asyncio.run(place.live(goes_back))
    assert place.tree() == {"beside": "a person's", "half": "1"}
