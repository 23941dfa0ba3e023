"""Files of the workspace: taken in with the outcome, owned by who changed them, put back for a second try."""

import asyncio
import contextlib
import hashlib
import os
import shutil
import sqlite3
import time
from pathlib import Path

import pytest

import perdure
from perdure.clock import SystemClock
from perdure.core.manifest import Manifest
from perdure.engine.files import Files
from perdure.engine.loading import entries, load_fold
from perdure.engine.programs import load_program
from perdure.errors import ConfigInvalid, PathOutside, WorkspaceBusy
from perdure.model import entry as e
from perdure.model.files import Uncovered
from perdure.operations import recall_journal, replay
from perdure.views.showing import show
from perdure.views.verifying import verify
from perdure.workspace import processes
from tests.worlds import Play, until


@perdure.tool(effect="workspace", paths=("{name}",))
async def write(folder: str, name: str, text: str) -> str:
    """Write one file, declared."""
    path = Path(folder, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return name


@perdure.tool(effect="workspace")
def run(folder: str, command: str) -> int:
    """Do whatever a shell does; where is not declared."""
    return os.system(f"cd '{folder}' && {command}")


class Place:
    """A store and a workspace, and what stands in both."""

    def __init__(self, tmp_path):
        self.store = str(tmp_path / "s" / "p.db")
        self.folder = str(tmp_path / "work")
        self.clock = SystemClock()
        self.lease_ttl_s = 30.0
        Path(self.folder).mkdir()

    def tree(self):
        """What stands in the folder: text by path, None for folders."""
        root = Path(self.folder)
        return {str(p.relative_to(root)): None if p.is_dir() else p.read_text() for p in sorted(root.rglob("*"))}

    def put(self, name, text):
        """Somebody else writes a file."""
        path = Path(self.folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    async def captured(self, runtime, name="t"):
        """The captures of the journal: (whose, {path: what stands there})."""
        task = (await runtime.store.find(name)).task
        payloads = [entry.payload async for entry in entries(runtime.store, task)]
        captures = [one for one in payloads if isinstance(one, e.FilesCaptured)]
        return [(bool(one.action), {c.path: c.node and c.node.kind for c in one.changes}) for one in captures]

    async def live(self, program, *, name="t"):
        """Run `program(task)` in an inline task; return what it returns."""
        async with perdure.open(self.store, clock=self.clock, lease_ttl_s=self.lease_ttl_s) as runtime:
            try:
                async with runtime.task(name, state={"n": 0}, workspace=self.folder) as task:
                    return await program(task, runtime)
            except perdure.RolledBack:
                return "rolled back"


@pytest.fixture
def place(tmp_path):
    """A fresh place."""
    return Place(tmp_path)


def test_what_a_call_writes_comes_with_its_outcome(place):
    """In the same append, and the store gives the bytes back."""

    async def program(task, runtime):
        await task.using(key="a").act(write, place.folder, "d/a.txt", "text\n")
        appends = [(append.first_seq, append.last_seq) async for append in runtime.store.read(task.id, 0)]
        seqs = {}
        async for entry in entries(runtime.store, task.id):
            seqs[type(entry.payload).__name__] = entry.header.seq
        digest = hashlib.sha256(b"text\n").digest()
        blob = (await runtime.store.blobs([digest]))[digest]
        fold = await load_fold(runtime.store, task.id)
        return appends, seqs, blob, fold.files.get("d/a.txt"), fold.files.digest(), await place.captured(runtime)

    appends, seqs, blob, node, digest, captured = asyncio.run(place.live(program))
    together = [(first, last) for first, last in appends if first <= seqs["FilesCaptured"] <= last]
    assert together == [(seqs["FilesCaptured"], seqs["ActionSettled"])]
    assert (blob, node.kind, node.size, len(digest)) == (b"text\n", "file", 5, 32)
    assert captured == [(True, {"d": "folder", "d/a.txt": "file"})]


def test_what_changes_between_actions_is_somebody_elses(place):
    """Found by the look before the next action, and not laid at the task's door."""
    place.put("theirs.txt", "1")

    async def program(task, runtime):
        await task.using(key="a").act(run, place.folder, "echo mine > mine.txt")
        place.put("theirs.txt", "2")
        await task.using(key="b").act(run, place.folder, "rm mine.txt; mkdir empty")
        return await place.captured(runtime)

    assert asyncio.run(place.live(program)) == [
        (False, {"theirs.txt": "file"}),
        (True, {"mine.txt": "file"}),
        (False, {"theirs.txt": "file"}),
        (True, {"empty": "folder", "mine.txt": None}),
    ]


def test_a_change_costs_one_digest_of_its_folder(place, monkeypatch):
    """Looks know the digests of all that did not change since the last one."""
    place.put("other/theirs.txt", "x")
    worked_out = []

    async def program(task, runtime):
        await task.using(key="first").act(run, place.folder, "echo > f")
        plain = Manifest._digest_over
        monkeypatch.setattr(Manifest, "_digest_over", lambda self, top: worked_out.append(top) or plain(self, top))
        for n in range(5):
            await task.using(key=str(n)).act(write, place.folder, "f", str(n))
        monkeypatch.undo()
        return (await load_fold(runtime.store, task.id)).files.digest() == task._session.fold.files.digest()

    assert asyncio.run(place.live(program))
    assert worked_out == [""] * 5


def test_settings_say_what_is_left_aside(place, monkeypatch):
    """Patterns of the user's own beside the usual ones, and how large a file may be; a wrong one stops the call."""
    monkeypatch.setenv("PERDURE_WORKSPACE_IGNORE", "*.tmp, out/")
    monkeypatch.setenv("PERDURE_WORKSPACE_FILE_MAX", "1 KB")

    async def program(task, runtime):
        writing = "mkdir out .venv; echo x | tee a.tmp out/b .venv/c small > /dev/null; head -c 1001 /dev/zero > large"
        await task.using(key="a").act(run, place.folder, writing)
        uncovered = {one.path: one.why for one in (await load_fold(runtime.store, task.id)).document.uncovered}
        return uncovered, await place.captured(runtime)

    found = ({"large": "too_large"}, [(False, {}), (True, {"small": "file"})])
    assert found == asyncio.run(place.live(program))
    monkeypatch.setenv("PERDURE_WORKSPACE_IGNORE", "!kept")
    with pytest.raises(ConfigInvalid, match="'!kept' is no pattern"):
        asyncio.run(place.live(program, name="other"))


def test_a_rollback_takes_the_files_with_it(place):
    """The task's own files are as at the checkpoint; what somebody else made or changed since stays."""

    async def program(task, runtime):
        await task.using(key="a").act(
            run, place.folder, "echo 1 > kept; echo 1 > changed; echo 1 > both; mkdir d; echo 1 > d/gone"
        )
        await task.checkpoint("here")
        place.put("theirs", "x")
        await task.using(key="b").act(
            run, place.folder, "echo 2 > changed; echo 2 > both; rm -r d; mkdir new; echo 2 > new/f"
        )
        place.put("both", "theirs")
        place.put("new/theirs", "y")
        await task.rollback("here")

    assert asyncio.run(place.live(program)) == "rolled back"
    assert place.tree() == {
        "kept": "1\n", "changed": "1\n", "both": "theirs", "d": None, "d/gone": "1\n",
        "theirs": "x", "new": None, "new/theirs": "y",
    }  # fmt: skip

    async def look(task, runtime):
        restored = [entry.payload async for entry in entries(runtime.store, task.id)]
        return [(one.restored, one.kept) for one in restored if isinstance(one, e.WorkspaceRestored)]

    (restored, kept), *more = asyncio.run(place.live(look))
    assert (more, set(kept)) == ([], {"both", "new"})
    assert restored >= 4


def test_a_second_try_begins_with_the_files_of_the_first(place):
    """What the first try left half done is put back before the second runs."""
    tries = []

    @perdure.tool(effect="workspace", name="count", timeout_s=0.2)
    async def count(folder: str) -> str:
        path = Path(folder, "count")
        path.write_text(path.read_text() + "+")
        Path(folder, "half").write_text("half")
        tries.append(1)
        if len(tries) == 1:
            await asyncio.sleep(5)
        return path.read_text()

    async def program(task, runtime):
        await task.using(key="a").act(write, place.folder, "count", "0")
        try:
            await task.using(key="b").act(count, place.folder)
        except perdure.OutcomeUnknown:
            half = place.tree()
            return half, await task.using(key="b").act(count, place.folder), place.tree()
        return None

    half, result, after = asyncio.run(place.live(program))
    assert half == {"count": "0+", "half": "half"}
    assert (result, after) == ("0+", {"count": "0+", "half": "half"})
    assert len(tries) == 2


def test_two_calls_at_once_share_what_they_change(place, monkeypatch):
    """While a call may write, what changes where it may write is the task's, also when the other's look is slow."""
    look = Files._look
    looks = []

    async def look_slowly(self, paths, owner, **more):
        looks.append(owner)
        if len(looks) == 2:
            await asyncio.sleep(0.05)
        await look(self, paths, owner, **more)

    monkeypatch.setattr(Files, "_look", look_slowly)

    @perdure.tool(effect="workspace", name="slow")
    async def slow(folder: str, name: str) -> None:
        Path(folder, name).write_text("1")
        await asyncio.sleep(0.1)
        Path(folder, name + "2").write_text("2")

    async def program(task, runtime):
        both = [task.using(key=name).act(slow, place.folder, name) for name in ("a", "b")]
        await asyncio.gather(*both)
        captured = await place.captured(runtime)
        return [whose for whose, changes in captured if changes], {p for _, c in captured for p in c}

    whose, paths = asyncio.run(place.live(program))
    assert all(whose)
    assert paths == {"a", "a2", "b", "b2"}


def test_a_cancelled_call_leaves_its_files_on_record(place):
    """The outcome is written with what the call had done until then."""

    @perdure.tool(effect="workspace", name="hang")
    async def hang(folder: str) -> None:
        Path(folder, "part").write_text("part")
        await asyncio.sleep(60)

    async def program(task, runtime):
        call = asyncio.ensure_future(task.using(key="a").act(hang, place.folder))
        await until(Path(place.folder, "part").exists)
        call.cancel()
        await asyncio.wait([call])
        captured = await place.captured(runtime)
        (doubtful,) = (await load_fold(runtime.store, task.id)).ledger.open
        await task.settle(doubtful, None)
        return call.cancelled(), captured

    assert asyncio.run(place.live(program)) == (True, [(False, {}), (True, {"part": "file"})])


def test_a_path_outside_is_refused_before_anything_is_done(place):
    """Neither an intent nor a file."""

    async def program(task, runtime):
        with pytest.raises(PathOutside) as refused:
            await task.using(key="a").act(write, place.folder, "../x", "no")
        kinds = [type(entry.payload).__name__ async for entry in entries(runtime.store, task.id)]
        await task.using(key="a").act(write, place.folder, f"{place.folder}/x", "yes")
        return str(refused.value), kinds

    said, kinds = asyncio.run(place.live(program))
    assert "'write' would write '../x'" in said
    assert "ActionIntended" not in kinds
    assert place.tree() == {"x": "yes"}


def test_one_task_a_folder(place):
    """A second task is refused where the first one's files are, before it does anything."""

    async def program(task, runtime):
        await task.using(key="a").act(write, place.folder, "x", "1")
        with pytest.raises(WorkspaceBusy):
            async with runtime.task("other", workspace=place.folder) as other:
                await other.using(key="a").act(write, place.folder, "x", "2")
        return place.tree()

    assert asyncio.run(place.live(program)) == {"x": "1"}


class Ahead:
    """A clock that goes an hour ahead of the file system's, or beside it."""

    def __init__(self, by_s):
        self._clock, self._by_us = SystemClock(), by_s * 1_000_000

    def now(self):
        """Its time, in microseconds."""
        return self._clock.now() + self._by_us

    def __getattr__(self, name):
        return getattr(self._clock, name)


@pytest.mark.parametrize("is_lost", [True, False])
def test_what_a_crash_has_lost_is_put_back_and_what_others_did_is_not(place, is_lost):
    """A file that is older than our look at it was lost, one that was changed since is somebody's.

    (The look is made to be later than what follows, which is how a power cut leaves it.)
    """
    place.clock = Ahead(3600 if is_lost else 0)

    async def first(task, runtime):
        for name in ("empty", "gone", "same"):
            await task.using(key=name).act(write, place.folder, f"{name}/f", "text")
        os._exit(9)

    pid = os.fork()
    if pid == 0:
        asyncio.run(place.live(first))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    Path(place.folder, "empty/f").write_bytes(b"")
    Path(place.folder, "gone/f").unlink()
    if not is_lost:
        time.sleep(0.02)

    async def second(task, runtime):
        await task.fact("looked")
        return [
            e_.payload.text async for e_ in entries(runtime.store, task.id) if isinstance(e_.payload, e.NoteWritten)
        ]

    notes = asyncio.run(place.live(second))
    tree = {name: text for name, text in place.tree().items() if text is not None}
    if is_lost:
        assert tree == {"empty/f": "text", "gone/f": "text", "same/f": "text"}
        assert notes == ["2 path(s) of the workspace were lost and are back from the store: empty/f, gone/f"]
    else:
        assert (tree, notes) == ({"empty/f": "", "same/f": "text"}, [])


def test_a_folder_that_is_gone_stops_the_resume_and_can_be_made_anew(place):
    """The row says so, names the remedy, and with it all that the task had written is there again."""

    async def program(task):
        await task.using(key="a").act(write, task.workspace, "d/a.txt", "text")
        if not task.state["told"]:
            async with task.edit() as state:
                state["told"] = True
            raise perdure.UsageError("stop here")
        return "done"

    async def live(**accept):
        async with perdure.open(place.store) as runtime:
            if not accept:
                return await runtime.run(Play(program, state={"told": False}), "t", workspace=place.folder)
            found = await runtime.store.find("t")
            return await runtime.resume(found.task, Play(program, state={"told": False}), **accept)

    with pytest.raises(perdure.UsageError):
        asyncio.run(live())
    shutil.rmtree(place.folder)
    with pytest.raises(perdure.NeedsHuman) as stopped:
        asyncio.run(live(accept=()))
    assert "--accept workspace" in str(stopped.value)
    assert "done" == asyncio.run(live(accept=["workspace"]))
    assert place.tree() == {"d": None, "d/a.txt": "text"}


needs_proc = pytest.mark.skipif(not processes.is_supported(), reason="processes are NOT tested here: no /proc")


@needs_proc
def test_what_a_background_process_writes_is_the_tasks_and_a_rollback_ends_it_first(place):
    """Between actions too; a look holds it still, so that no file is taken in half."""
    children = []

    @perdure.tool(effect="workspace", name="start")
    def start(folder: str) -> int:
        writing = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); echo $i > t; mv t counter; done"
        children.append(perdure.spawn(["sh", "-c", writing], cwd=folder))
        return children[0].pid

    async def program(task, runtime):
        await task.checkpoint("before")
        await task.using(key="a").act(start, place.folder)
        await until(Path(place.folder, "counter").exists)
        await task.checkpoint("meanwhile")
        living = processes.find(task.id)
        captured = await place.captured(runtime)
        state = Path(f"/proc/{living[0].pid}/stat").read_text().rpartition(")")[2].split()[0]
        with contextlib.suppress(perdure.RolledBack):
            await task.rollback("before")
        return captured, len(living), state, processes.find(task.id)

    try:
        captured, count, state, left = asyncio.run(place.live(program))
        assert children[0].wait(30) < 0
    finally:
        children[0].kill()
    assert all(whose for whose, changes in captured if "counter" in changes)
    assert "counter" in {path for _, changes in captured for path in changes}
    assert (count > 0, state in "RSDT", left, place.tree()) == (True, True, (), {})


def test_verify_sees_missing_bytes_of_files_and_a_manifest_that_went_wrong(place, monkeypatch):
    """Every blob of a capture is looked for; the folded manifest is held against the recorded digest."""

    async def program(task, runtime):
        await task.using(key="a").act(write, place.folder, "a.txt", "text")
        whole = await verify(runtime.store, "t")
        monkeypatch.setattr(Manifest, "digest", lambda self, folder="": bytes(32))
        wrong = await verify(runtime.store, "t")
        monkeypatch.undo()
        return whole, wrong

    whole, wrong = asyncio.run(place.live(program))
    assert (whole.findings, whole.blobs) == ((), 1)
    assert [one.what for one in wrong.findings] == ["files"]
    with contextlib.closing(sqlite3.connect(place.store)) as connection, connection:
        connection.execute("DELETE FROM blob_part")

    async def again():
        async with perdure.open(place.store) as runtime:
            return await verify(runtime.store, "t")

    assert "blob" in {one.what for one in asyncio.run(again()).findings}


def test_a_replay_touches_no_file(place):
    """It goes by the record, and finds it equal."""

    async def live():
        async with perdure.open(place.store) as runtime:
            program = load_program("tests.unit.engine.test_files:rewriting", os.getcwd())
            await runtime.run(program, "t", workspace=place.folder)
            return await recall_journal(runtime.store, "t")

    record = asyncio.run(live())
    shutil.rmtree(place.folder)
    replayed = replay(record)
    assert (replayed.is_equal, replayed.divergence, Path(place.folder).exists()) == (True, None, False)


@perdure.program
async def rewriting(task):
    """Write, mark, write again."""
    await task.using(key="a").act(write, task.workspace, "a.txt", "1")
    await task.checkpoint("one")
    await task.using(key="b").act(write, task.workspace, "a.txt", "2")
    return "done"


def test_what_cannot_be_taken_in_is_listed(place):
    """With its reason, once; the rest is taken in, and a rollback leaves it alone."""

    async def program(task, runtime):
        await task.checkpoint("before")
        await task.using(key="a").act(run, place.folder, "mkfifo pipe; echo 1 > file")
        await task.using(key="b").act(run, place.folder, "echo 2 > file")
        shown = await show(runtime.store, "t")
        entries_with = [entry.payload async for entry in entries(runtime.store, task.id)]
        said = [one.uncovered for one in entries_with if isinstance(one, e.FilesCaptured) and one.uncovered is not None]
        with contextlib.suppress(perdure.RolledBack):
            await task.rollback("before")
        return shown.uncovered, said

    uncovered, said = asyncio.run(place.live(program))
    assert uncovered == ("pipe (pipe)",)
    assert said == [(Uncovered("pipe", "pipe"),)]
    assert [path.name for path in Path(place.folder).iterdir()] == ["pipe"]


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_while_a_model_thinks_what_others_change_is_taken_in(place, is_cancelled):
    """The look runs beside the call, and is over when that is; the next call that writes finds nothing left."""

    @perdure.tool(effect="pure", paid=True, name="think")
    async def think(n: int) -> int:
        await asyncio.sleep(5 if is_cancelled else 0.3)
        return n

    async def program(task, runtime):
        await task.using(key="a").act(run, place.folder, "echo 1 > mine")
        place.put("theirs", "x")
        thinking = asyncio.ensure_future(task.using(key="b").act(think, 1))
        await asyncio.sleep(0.2)
        if is_cancelled:
            thinking.cancel()
        await asyncio.wait([thinking])
        during = await place.captured(runtime)
        await task.using(key="c").act(run, place.folder, "true")
        return during, await place.captured(runtime)

    during, after = asyncio.run(place.live(program))
    assert during[-1] == (False, {"theirs": "file"})
    assert after == during
