"""A fork finds the calls of its parent again although its folder, and so the paths it hands to tools, is another."""

import asyncio
import os
from pathlib import Path

import pytest

import perdure
from perdure.engine import arguments
from perdure.engine.replay.playing import play
from perdure.engine.replay.record import load_record
from perdure.errors import KeyReused
from perdure.model import entry as e
from tests.worlds import Play, Stop, World


class Folder:
    """A world with a task that has written files and was then left, and the calls of its tools."""

    def __init__(self, tmp_path, program):
        self.world, self.calls = World(), []
        self.parent, self.own = str(tmp_path / "parent"), str(tmp_path / "elsewhere" / "own")

        async def put(path: str, text: str = "x") -> str:
            self.calls.append((path, text))
            Path(path).write_text(text)
            return text

        self.put = perdure.tool(effect="workspace", name="put")(put)
        self.play = Play(lambda task: program(task, self.put), state={"done": []})

    def do(self, work):
        """Let `work(runtime)` be done in a life of its own."""

        async def life():
            async with self.world.runtime() as runtime:
                return await work(runtime)

        return asyncio.run(life())

    def run(self, name):
        """Run or resume a task; return what the tools were called with meanwhile."""
        before = len(self.calls)
        workspace = self.parent if name == "job" else ""
        self.do(lambda runtime: runtime.run(self.play, name, workspace=workspace))
        return self.calls[before:]

    def leave(self):
        """Run the task to where its first attempt is left."""
        with pytest.raises(Stop):
            self.run("job")

    def fork(self, task="job", into="", name="fork"):
        """Fork a task from its last checkpoint."""
        self.do(lambda runtime: runtime.fork(task, "", into=into or self.own, name=name))

    def replayed(self, name):
        """Replay a task strictly; return whether it is as recorded."""

        async def load():
            store = self.world.store()
            return await load_record(store, (await store.find(name)).task)

        return play(asyncio.run(load()), self.play, "strict").divergence


def _leave(task):
    if task.attempt == 1:
        raise Stop("left")


async def _by_key(task, put):
    await task.using(key="one").act(put, f"{task.workspace}/one")
    await task.checkpoint("here")
    _leave(task)
    await task.using(key="two").act(put, f"{task.workspace}/two")


async def _without_key(task, put):
    await task.act(put, f"{task.workspace}/one")
    await task.checkpoint("here")
    _leave(task)
    await task.act(put, f"{task.workspace}/two")


async def _by_place(task, put):
    async for name in task.each("files", ["one", "two"]):
        await task.act(put, f"{task.workspace}/{name}")
        await task.checkpoint(f"in {name}")
        _leave(task)


async def _by_item(task, put):
    async for path in task.each("files", [f"{task.workspace}/one", f"{task.workspace}/two"]):
        await task.act(put, path)
        await task.checkpoint(f"in {os.path.basename(path)}")
        _leave(task)


async def _by_map(task, put):
    paths = [f"{task.workspace}/one"] if task.attempt == 1 else [f"{task.workspace}/{name}" for name in ("one", "two")]
    await task.map("files", put, paths, concurrency=1)
    await task.checkpoint("here")
    _leave(task)


PROGRAMS = [_by_key, _without_key, _by_place, _by_item, _by_map]


@pytest.fixture(params=PROGRAMS, ids=[program.__name__.strip("_") for program in PROGRAMS])
def folder(request, tmp_path):
    """One that was left behind its first file."""
    made = Folder(tmp_path, request.param)
    made.leave()
    return made


def test_a_fork_makes_no_finished_call_again(folder):
    """By key, anchored, by place, by item and mapped: only what was still to do is done, in the fork's own folder."""
    folder.fork()
    assert [(f"{folder.own}/two", "x")] == folder.run("fork")
    assert [(f"{folder.parent}/two", "x")] == folder.run("job")
    assert (["one", "two"], ["one", "two"]) == (sorted(os.listdir(folder.own)), sorted(os.listdir(folder.parent)))


def test_a_fork_of_a_fork_is_the_same_again(folder, tmp_path):
    """Its digests are made as its parent's were."""
    folder.fork()
    third = str(tmp_path / "third")
    folder.fork("fork", third, "third")
    assert [(f"{third}/two", "x")] == folder.run("third")


def test_a_replay_of_a_fork_is_equal(folder):
    """Its entries up to the fork were made where the parent is, and the program is played where the fork is."""
    folder.fork()
    folder.run("fork")
    assert folder.replayed("fork") is None
    folder.run("job")
    assert folder.replayed("job") is None


def test_what_is_recorded_and_handed_over_is_the_whole_path(tmp_path):
    """Only digests leave it away."""
    folder = Folder(tmp_path, _by_key)
    folder.leave()
    intents = [entry.payload for entry in folder.world.journal() if isinstance(entry.payload, e.ActionIntended)]
    assert [(f"{folder.parent}/one", "x")] == folder.calls
    assert f'"{folder.parent}/one"' in bytes(intents[0].arguments).decode()


def test_a_path_of_the_first_tasks_folder_is_another_argument_in_the_fork(tmp_path):
    """It is not the fork's own file, and is not taken for it."""

    async def program(task, put):
        path = f"{task.workspace}/one" if task.name == "job" else f"{tmp_path}/parent/one"
        await task.using(key="one").act(put, path)
        await task.checkpoint("here")
        _leave(task)

    folder = Folder(tmp_path, program)
    folder.leave()
    folder.fork()
    with pytest.raises(KeyReused):
        folder.run("fork")


def test_a_failed_call_keeps_its_effect_key_in_the_fork(tmp_path):
    """What may have arrived is sent again under the key under which it was sent."""
    keys = []

    async def upload(path: str, key: perdure.EffectKey) -> str:
        keys.append(str(key))
        if len(keys) == 1:
            raise ValueError("broken")
        return path

    send = perdure.tool(effect="idempotent", name="upload")(upload)

    async def program(task, put):
        await task.checkpoint("here")
        await task.using(key="up").act(send, f"{task.workspace}/one")

    folder = Folder(tmp_path, program)
    folder.play.failures_max = 1
    with pytest.raises(perdure.NeedsHuman):
        folder.run("job")
    head = folder.world.journal()[-1].header.seq
    folder.do(lambda runtime: runtime.fork("job", str(head), into=folder.own, name="fork"))
    folder.run("fork")
    assert [keys[0]] == keys[1:]


def test_a_task_of_an_earlier_version_keeps_its_digests(tmp_path, monkeypatch):
    """It says nothing of how they are made, so they are made as they were: its calls are found again."""
    started = e.TaskStarted
    monkeypatch.setattr(e, "TaskStarted", lambda **fields: started(**{**fields, "relative_digests": False}))
    folder = Folder(tmp_path, _by_key)
    folder.leave()
    monkeypatch.undo()
    intent = next(entry.payload for entry in folder.world.journal() if isinstance(entry.payload, e.ActionIntended))
    assert arguments.digest({"path": f"{folder.parent}/one"}, "") == intent.digest
    assert [(f"{folder.parent}/two", "x")] == folder.run("job")
    folder.fork()
    with pytest.raises(KeyReused):
        folder.run("fork")


@pytest.mark.parametrize("is_view", [False, True], ids=["plain", "beside a view"])
def test_an_effect_that_stays_answers_the_equal_call_of_the_fork(tmp_path, is_view):
    """The parent has rolled back past it and has not asked for it again: the fork does, and it is not made twice."""
    sent = []

    async def publish(path: str, about: list[int]) -> str:
        sent.append(path)
        return "published"

    send = perdure.tool(effect="irreversible", name="publish")(publish)

    async def program(task, put):
        about = task.state["done"] if is_view else []
        await task.checkpoint("here")
        if not task._session.fold.ledger.rollbacks:
            await task.using(key="first").act(send, f"{task.workspace}/one", about)
            await task.rollback("here", force=True)
        if task.name == "job":
            raise Stop("left")
        await task.using(key="again").act(send, f"{task.workspace}/one", about)
        return await task.using(key="other").act(send, f"{task.workspace}/two", about)

    folder = Folder(tmp_path, program)
    folder.leave()
    head = folder.world.journal()[-1].header.seq
    folder.do(lambda runtime: runtime.fork("job", str(head), into=folder.own, name="fork"))
    folder.run("fork")
    assert [f"{folder.parent}/one", f"{folder.own}/two"] == sent
    assert 1 == folder.world.kinds("fork").count("ActionReused")
    assert folder.replayed("fork") is None


def test_a_fork_of_a_fork_goes_back_past_an_effect_of_the_first(tmp_path):
    """The effect was made in a third folder, beside a view: it answers the equal call all the same."""
    sent = []

    async def publish(path: str, about: list[int]) -> str:
        sent.append(path)
        return "published"

    send = perdure.tool(effect="irreversible", name="publish")(publish)

    async def program(task, put):
        ledger = task._session.fold.ledger
        await task.checkpoint("here")
        await task.using(key="first").act(send, f"{task.workspace}/one", task.state["done"])
        await task.checkpoint("there")
        if task.name == "third" and not ledger.rollbacks:
            await task.rollback("here", force=True)
        _leave(task)

    folder = Folder(tmp_path, program)
    folder.leave()
    folder.fork()
    folder.fork("fork", str(tmp_path / "third"), "third")
    folder.run("third")
    assert [f"{folder.parent}/one"] == sent
    assert 1 == folder.world.kinds("third").count("ActionReused")
    assert folder.replayed("third") is None


def test_a_fork_of_a_task_in_a_with_block_finds_its_calls_too(tmp_path):
    """The script is run again with the fork's name and folder."""
    folder = Folder(tmp_path, _by_key)

    async def script(runtime, name, workspace):
        async with runtime.task(name, workspace=workspace) as task:
            await task.using(key="one").act(folder.put, f"{task.workspace}/one")
            await task.checkpoint("here")
            _leave(task)

    with pytest.raises(Stop):
        folder.do(lambda runtime: script(runtime, "job", folder.parent))
    folder.fork()
    folder.do(lambda runtime: script(runtime, "fork", folder.own))
    assert [(f"{folder.parent}/one", "x")] == folder.calls
