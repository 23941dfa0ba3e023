"""Files that a person changes while they have a task: on record, told, and never removed or overwritten."""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import pytest

import perdure
from perdure.errors import RolledBack
from perdure.model import entry as e
from perdure.model.failure import ErrorRecord
from perdure.views.verifying import verify
from tests.unit.engine.test_files import Place, write

SPAWNED = []


class Left(perdure.UsageError):
    """Leaves a block in order, with its task unfinished."""


@perdure.tool(effect="workspace", name="half_and_die")
async def half_and_die(folder: str) -> dict:
    """Write half a file and die of it in the first run; in the second say what was found."""
    found = {path.name: path.read_text() for path in Path(folder).iterdir()}
    flag = Path(folder).parent / "has died"
    Path(folder, "half").write_text("half")
    if not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return found


@perdure.tool(effect="workspace", name="leave_a_writer")
async def leave_a_writer(folder: str) -> int:
    """Leave a process behind."""
    Path(folder, "a.txt").write_text("the task's")
    SPAWNED.append(perdure.spawn([sys.executable, "-c", "import time; time.sleep(60)"]))
    return SPAWNED[-1].pid


@pytest.fixture
def place(tmp_path):
    """A fresh place."""
    return Place(tmp_path)


def do(place, work):
    """Do `work(runtime)` as a process of its own would."""

    async def life():
        async with perdure.open(place.store) as runtime:
            return await work(runtime)

    return asyncio.run(life())


def start(place, program):
    """Let `program(task)` work and leave its task unfinished."""

    async def work(task, runtime):
        await program(task)
        raise Left("enough")

    with contextlib.suppress(Left):
        asyncio.run(place.live(work))


def killed(place, program):
    """Run `program` in a process of its own, which dies of it."""
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            start(place, program)
        os._exit(1)
    assert -signal.SIGKILL == os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def sound(place):
    """Whether the journal is whole."""
    return () == do(place, _findings)


async def _findings(runtime):
    return (await verify(runtime.store, (await runtime.store.find("t")).task, full=True)).findings


async def two_files(task):
    """One before a checkpoint, one behind it."""
    await task.using(key="a").act(write, task.workspace, "a.txt", "first a")
    await task.checkpoint("old")
    await task.using(key="a2").act(write, task.workspace, "a.txt", "second a")
    await task.using(key="b").act(write, task.workspace, "b.txt", "b")


@pytest.mark.parametrize("checkpoint", ["old", "start"])
@pytest.mark.parametrize("moment", ["after", "meanwhile"])
def test_what_the_person_has_changed_survives_any_rollback(place, checkpoint, moment):
    """One that is asked for after the hand-back, or while they have the task: their files stand, the task's go back."""
    start(place, two_files)
    do(place, lambda runtime: runtime.take_over("t"))
    place.put("a.txt", "a person's")
    place.put("mine.txt", "mine")
    if moment == "after":
        changes = do(place, lambda runtime: runtime.hand_back("t"))
        assert ("files: a.txt, mine.txt (new)",) == changes
    do(place, lambda runtime: runtime.rollback("t", checkpoint, force=True))
    assert {"a.txt": "a person's", "mine.txt": "mine"} == place.tree()
    assert sound(place)


def test_what_was_removed_and_what_was_put_back_is_told_as_it_is(place):
    """Only what is otherwise than at the takeover counts as a change; nothing of it is the task's doing."""
    start(place, two_files)
    do(place, lambda runtime: runtime.take_over("t"))
    Path(place.folder, "b.txt").unlink()
    place.put("a.txt", "for a moment")
    do(place, lambda runtime: runtime.checkpoint("t", "looks at the files"))
    place.put("a.txt", "second a")
    os.chmod(Path(place.folder, "a.txt"), 0o644)
    assert ("files: b.txt (removed)",) == do(place, lambda runtime: runtime.hand_back("t"))
    captured = do(place, place.captured)
    assert [False, False] == [whose for whose, _ in captured[-2:]]


def test_files_that_no_call_has_written_are_known_at_the_takeover(place):
    """The first look is the baseline: what stood there before is no change of the person's."""

    async def reads_only(task):
        await task.note("nothing is written")

    place.put("input.txt", "old")
    place.put("other.txt", "as ever")
    start(place, reads_only)
    do(place, lambda runtime: runtime.take_over("t"))
    place.put("input.txt", "corrected")
    assert ("files: input.txt",) == do(place, lambda runtime: runtime.hand_back("t"))


async def dies_half_way(task):
    """A call that is killed with half a file written."""
    await task.using(key="a").act(write, task.workspace, "a.txt", "a")
    await task.checkpoint("old")
    return await task.using(key="die").act(half_and_die, task.workspace)


async def _second_run(place):
    return await place.live(lambda task, _: dies_half_way(task))


@pytest.mark.parametrize("moment", ["meanwhile", "afterwards"])
def test_a_second_try_finds_the_persons_file_and_not_its_own_half(place, moment):
    """What the killed call had written goes back before it is made again; what a person wrote since then does not."""
    killed(place, dies_half_way)
    do(place, lambda runtime: runtime.take_over("t"))
    if moment == "meanwhile":
        place.put("theirs.txt", "theirs")
    do(place, lambda runtime: runtime.hand_back("t"))
    if moment == "afterwards":
        place.put("theirs.txt", "theirs")
    assert {"a.txt": "a", "theirs.txt": "theirs"} == asyncio.run(_second_run(place))
    assert sound(place)


def test_a_half_file_that_the_person_has_finished_stays(place):
    """They have taken it up: it is theirs from there on."""
    killed(place, dies_half_way)
    do(place, lambda runtime: runtime.take_over("t"))
    place.put("half", "finished by hand")
    assert ("files: half",) == do(place, lambda runtime: runtime.hand_back("t"))
    assert {"a.txt": "a", "half": "finished by hand"} == asyncio.run(_second_run(place))


def test_settling_a_call_does_not_make_the_persons_files_its_doing(place):
    """A person who says that it did not happen keeps their own files in a rollback."""
    killed(place, dies_half_way)

    async def settle(runtime):
        fold = await perdure_fold(runtime)
        (action,) = fold.ledger.open
        failed = perdure.Failed(ErrorRecord(type="DidNotHappen", message="looked"))
        await runtime.settle("t", action, failed)

    do(place, lambda runtime: runtime.take_over("t"))
    place.put("theirs.txt", "theirs")
    do(place, settle)
    do(place, lambda runtime: runtime.hand_back("t"))
    do(place, lambda runtime: runtime.rollback("t", "old", force=True))
    assert {"a.txt": "a", "theirs.txt": "theirs"} == place.tree()


async def perdure_fold(runtime):
    """The fold of the task."""
    from perdure.engine.loading import load_fold

    return await load_fold(runtime.store, (await runtime.store.find("t")).task)


def test_beside_a_living_process_that_has_the_folder_and_runs_a_tool(place):
    """Its lock on the folder keeps nobody from taking over, nor from handing back; the next to work waits for it."""

    async def main():
        entered, go = asyncio.Event(), asyncio.Event()

        async def hold(folder: str) -> str:
            Path(folder, "held.txt").write_text("the call's")
            entered.set()
            await go.wait()
            return "held"

        tool = perdure.tool(effect="workspace", name="hold_the_folder", timeout_s=50.0)(hold)

        async def work(task, runtime):
            await task.using(key="a").act(write, task.workspace, "a.txt", "a")
            await task.checkpoint("old")
            await task.using(key="hold").act(tool, task.workspace)

        run = asyncio.create_task(place.live(work))
        await entered.wait()
        async with perdure.open(place.store) as runtime:
            await runtime.take_over("t")
            place.put("a.txt", "a person's")
            changes = await runtime.hand_back("t")
            with pytest.raises(perdure.TaskBusy, match="hold_the_folder"):
                await runtime.rollback("t", "old", force=True)
            go.set()
            (came,) = await asyncio.gather(run, return_exceptions=True)
            await runtime.rollback("t", "old", force=True)
            return changes, type(came), place.tree()

    changes, came, tree = asyncio.run(main())
    assert (("files: a.txt",), perdure.TaskBusy) == (changes, came)
    assert {"a.txt": "a person's"} == tree
    assert sound(place)


def test_of_what_a_living_process_wrote_on_a_person_is_asked(place):
    """Nobody can tell its call's files from theirs, so that is not made again by itself."""

    async def main():
        entered, go = asyncio.Event(), asyncio.Event()

        async def append(folder: str) -> str:
            entered.set()
            await go.wait()
            log = Path(folder, "log.txt")
            log.write_text((log.read_text() if log.exists() else "") + "once\n")
            return "appended"

        tool = perdure.tool(effect="workspace", name="append_slowly", timeout_s=50.0)(append)

        async def work(task, runtime):
            return await task.using(key="append").act(tool, task.workspace)

        run = asyncio.create_task(place.live(work))
        await entered.wait()
        async with perdure.open(place.store) as runtime:
            await runtime.take_over("t")
            await runtime.hand_back("t")
            go.set()
            (came,) = await asyncio.gather(run, return_exceptions=True)
            (action,) = (await perdure_fold(runtime)).ledger.open
            with pytest.raises(perdure.OutcomeUnknown, match=action):
                await place.live(work)
            told = place.tree()["log.txt"]
            await runtime.settle("t", action, perdure.Succeeded("appended"))
            return type(came), told, await place.live(work), place.tree()["log.txt"]

    assert (perdure.TaskBusy, "once\n", "appended", "once\n") == asyncio.run(main())
    assert sound(place)


def test_beside_a_process_that_a_tool_has_left_running(place):
    """What changes while it lives would be its doing; while a person has the task it is theirs."""

    async def program(task):
        await task.checkpoint("old")
        await task.using(key="w").act(leave_a_writer, task.workspace)

    start(place, program)
    do(place, lambda runtime: runtime.take_over("t"))
    place.put("a.txt", "a person's")
    assert ("files: a.txt",) == do(place, lambda runtime: runtime.hand_back("t"))
    do(place, lambda runtime: runtime.rollback("t", "old", force=True))
    assert {"a.txt": "a person's"} == place.tree()
    assert 0 != SPAWNED.pop().wait(10)  # the rollback has ended it


def test_a_workspace_that_cannot_be_looked_at_keeps_nobody_from_the_task(place):
    """It is said, and the task is taken over and handed back all the same."""
    start(place, two_files)
    Path(place.folder).rename(Path(place.folder).with_name("elsewhere"))
    do(place, lambda runtime: runtime.take_over("t"))
    (line,) = do(place, lambda runtime: runtime.hand_back("t"))
    assert line.startswith("files: not looked at: ")
    assert not Path(place.folder).exists()


def test_in_the_middle_of_a_rollback_the_files_are_left_alone(place):
    """Half of them are on their way: a look would take them for the person's. The next opener finishes it."""

    async def program(task):
        await two_files(task)
        await task.rollback("old")

    pid = os.fork()
    if pid == 0:
        from perdure.engine import crashpoints

        crashpoints.arm("during_rollback:2")
        with contextlib.suppress(BaseException):
            start(place, program)
        os._exit(1)
    assert -signal.SIGKILL == os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    do(place, lambda runtime: runtime.take_over("t"))
    place.put("mine.txt", "mine")
    (line,) = do(place, lambda runtime: runtime.hand_back("t"))
    assert "a rollback is under way" in line

    async def rest(task, runtime):
        raise Left("enough")

    with contextlib.suppress(Left, RolledBack):
        asyncio.run(place.live(rest))
    assert {"a.txt": "first a", "mine.txt": "mine"} == place.tree()
    kinds = do(place, _kinds)
    assert kinds.index("RollbackBegan") < kinds.index("TaskTakenOver") < kinds.index("RolledBackEntry")
    assert sound(place)


async def _kinds(runtime):
    from perdure.engine.loading import entries

    task = (await runtime.store.find("t")).task
    return [type(entry.payload).__name__ async for entry in entries(runtime.store, task)]


def test_what_stands_there_is_on_record(place):
    """Every version that a person has left can be fetched from the journal."""
    from perdure.views.files import read_file

    start(place, two_files)
    do(place, lambda runtime: runtime.take_over("t"))
    place.put("mine.txt", "mine")
    do(place, lambda runtime: runtime.hand_back("t"))

    async def fetch(runtime):
        task = (await runtime.store.find("t")).task
        return await read_file(runtime.store, task, "mine.txt", "")

    assert b"mine" == do(place, fetch)
    assert e.TaskHandedBack.__name__ in do(place, _kinds)
