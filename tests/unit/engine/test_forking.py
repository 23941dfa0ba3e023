"""Forks: an independent task from any moment of another, whoever works on that one and whatever becomes of it."""

import asyncio
import hashlib
import os
from pathlib import Path

import pytest

import perdure
from perdure.core.manifest import Manifest
from perdure.engine.loading import load_fold
from perdure.engine.replay.record import load_record
from perdure.engine.replay.rejudging import rejudge
from perdure.errors import ForkRefused, ForkUnfinished, NothingAsked, RollbackRefused, StoreFull, TaskUnknown
from perdure.model import entry as e
from perdure.model.effect import PRESETS
from perdure.model.files import FileChange, Node
from perdure.model.status import FORKING
from perdure.ports import Message
from perdure.testing import Death
from perdure.views.checkpoints import list_checkpoints
from perdure.views.listing import look_at
from perdure.views.verifying import verify
from tests.worlds import DEAD, Play, Stop, World, counted


def fork(world, into, at="", name="", task="job"):
    """Fork `task` and return the plan that was carried out."""
    return world.do(lambda runtime: runtime.fork(task, at, into=str(into), name=name))


def findings(world, name):
    """What a full look finds wrong with a task."""
    return world.do(lambda runtime: verify(runtime.store, name)).findings


async def add(task, number):
    """Put `number` into the state."""
    async with task.edit() as state:
        state["got"].append(number)


@pytest.fixture
def stages():
    """A world with a task of three checkpoints that has succeeded, its program, and the calls of its effect."""
    world, calls = World(), []
    book = counted(calls, "irreversible", name="book")

    async def program(task):
        for number in (1, 2, 3):
            await task.using(key=f"n{number}").act(book, number, then=lambda state, item: state["got"].append(item))
            await task.checkpoint(f"c{number}")
        return task.state["got"].plain()

    play = Play(program, state={"got": []})
    assert [1, 2, 3] == world.live(play)
    return world, play, calls


def test_a_fork_goes_on_from_its_moment_and_its_parent_stays_as_it_is(stages, tmp_path):
    """What lies before is not made again, what lay behind is; no byte of the parent changes, and both are whole."""
    world, play, calls = stages
    before = [entry.digest for entry in world.journal()]
    plan = fork(world, tmp_path / "w", "c1")
    assert ("c1", "job-fork", 2) == (plan.checkpoint, plan.name, len(plan.later))
    assert {"got": [1]} == world.state("job-fork")
    assert [1, 2, 3] == world.live(play, "job-fork")
    assert [1, 2, 3, 2, 3] == calls
    assert before == [entry.digest for entry in world.journal()]
    for name in ("job", "job-fork"):
        assert () == findings(world, name)


def test_a_fork_has_the_ledger_of_that_moment_and_a_name_and_place_of_its_own(tmp_path):
    """Counters, lessons and messages come along; goal and driver too; status running, on the next branch."""
    world = World()

    async def program(task):
        await task.using(key="k").act(counted([]), 1)
        await task.fact("water is wet")
        await task.checkpoint("c")
        raise Stop

    with pytest.raises(Stop):
        world.live(Play(program), goal="know")
    plan = fork(world, tmp_path / "w", name="other")
    parent, child = world.fold(), world.fold("other")
    assert ("other", str(tmp_path / "w"), "know") == (child.ledger.name, child.ledger.workspace, child.ledger.goal)
    for field in ("actions", "facts", "attempt", "driver", "failures", "started_at"):
        assert getattr(parent.ledger, field) == getattr(child.ledger, field), field
    assert (parent.branch + 1, parent.epoch + 1) == (child.branch, child.epoch)
    assert (parent.task, plan.at, "running") == (child.ledger.parent, child.ledger.forked_at, child.ledger.status)
    assert (tmp_path / "w").is_dir()


def test_entries_keep_their_payloads_and_are_chained_anew(stages, tmp_path):
    """Payload digest, seq, time, epoch and branch of each entry are the parent's; task, prev and digest are not."""
    world, _, _ = stages
    plan = fork(world, tmp_path / "w", "c2")
    parent, child = world.journal()[: plan.at], world.journal("job-fork")
    assert len(child) == plan.at + 1
    for ours, theirs in zip(parent[1:], child[1:], strict=False):
        same = ("payload_digest", "seq", "at", "epoch", "branch", "kind", "version")
        assert [getattr(ours.header, one) for one in same] == [getattr(theirs.header, one) for one in same]
        assert ours.payload == theirs.payload
        assert ours.digest != theirs.digest
    first = child[0].payload
    assert isinstance(first, e.TaskForked)
    assert (plan.parent, plan.at, parent[-1].digest) == (first.parent, first.at, first.parent_digest)


@pytest.mark.parametrize("at", ["start", "1", 1])
def test_a_fork_from_the_start_begins_anew(stages, tmp_path, at):
    """Nothing but the start is copied."""
    world, play, calls = stages
    assert 1 == fork(world, tmp_path / "w", at).at
    assert [1, 2, 3] == world.live(play, "job-fork")
    assert [1, 2, 3, 1, 2, 3] == calls


def test_every_moment_of_rest_gives_a_fork_that_comes_to_the_same_end(stages, tmp_path):
    """From each entry: refused where an effect is under way or all is over, else whole and led to the same end."""
    world, play, _ = stages
    journal = world.journal()
    refused = 0
    for entry in journal:
        at, name = entry.header.seq, f"f{entry.header.seq}"
        if isinstance(entry.payload, e.ActionIntended | e.TaskSucceeded):
            refused += 1
            with pytest.raises(ForkRefused, match=r"had succeeded there|book \(action"):
                fork(world, tmp_path / name, at, name)
            continue
        fork(world, tmp_path / name, at, name)
        assert world.state(name) == _state_at(world, at)
        assert [1, 2, 3] == world.live(play, name)
        assert () == findings(world, name)
    assert 4 == refused


def _state_at(world, seq):
    async def load(runtime):
        return await load_fold(runtime.store, (await runtime.store.find("job")).task, seq)

    return world.do(load).tree.root


def test_an_abandoned_branch_can_be_forked(tmp_path):
    """The fork has the state that the parent has left, and neither sees what the other does later."""
    world = World()

    async def program(task):
        if task.attempt == 1:
            await task.checkpoint("c")
            await add(task, "left")
            await task.rollback("c")
        await add(task, task.name)
        return task.state["got"].plain()

    play = Play(program, state={"got": []})
    assert ["job"] == world.live(play)
    at = next(entry.header.seq for entry in world.journal() if isinstance(entry.payload, e.StateEdited))
    fork(world, tmp_path / "w", at)
    assert {"got": ["left"]} == world.state("job-fork")
    assert ["left", "job-fork"] == world.live(play, "job-fork")
    assert {"got": ["job"]} == world.state()
    assert () == findings(world, "job-fork")


def test_a_fork_of_a_fork_and_a_rollback_in_it(stages, tmp_path):
    """A fork goes back to checkpoints that it has from its parent, and is forked like any other task."""
    world, play, _ = stages
    fork(world, tmp_path / "a", "c2", "a")
    world.do(lambda runtime: runtime.rollback("a", "c1", force=True))
    assert {"got": [1]} == world.state("a")
    head = world.fold("a").seq
    for at in (head, "c1", "start"):
        fork(world, tmp_path / f"b{at}", at, f"b{at}", task="a")
        assert () == findings(world, f"b{at}")
        assert [1, 2, 3] == world.live(play, f"b{at}")
    assert [1, 2, 3] == world.live(play, "a")
    assert () == findings(world, "a")


def test_going_back_to_before_a_question_asks_again_and_leaves_the_old_branch(tmp_path):
    """The old answer is not in the fork, though the parent keeps it (langgraph 7038)."""
    world = World()

    async def program(task):
        await task.checkpoint("before")
        return await task.ask("red or blue?")

    play = Play(program)
    with pytest.raises(perdure.NeedsHuman):
        world.live(play)
    asked = world.fold().seq
    world.do(lambda runtime: runtime.say("job", Message(id="m", what="answer", text="red")))
    assert "red" == world.live(play)
    for at, name in (("before", "f"), (asked, "g")):
        fork(world, tmp_path / name, at, name)
        with pytest.raises(NothingAsked):
            world.do(lambda runtime, it=name: runtime.say(it, Message(id="m", what="answer", text="early")))
        with pytest.raises(perdure.NeedsHuman):
            world.live(play, name)
        world.do(lambda runtime, it=name: runtime.say(it, Message(id="n", what="answer", text="blue")))
        assert "blue" == world.live(play, name)
    assert "red" == world.live(play)


def test_forking_a_running_task_reads_only_what_is_there(tmp_path):
    """The parent goes on unharmed, in the same runtime."""
    world = World()

    async def work(runtime):
        async def program(task):
            await add(task, 1)
            await task.checkpoint("c")
            await runtime.fork("job", into=str(tmp_path / "w"))
            await add(task, 2)
            return task.state["got"].plain()

        return await runtime.run(Play(program, state={"got": []}), "job")

    assert [1, 2] == world.do(work)
    assert {"got": [1]} == world.state("job-fork")


@pytest.mark.parametrize("deleted", ["job", "job-fork"])
def test_either_can_be_deleted_and_the_other_lives_on(tmp_path, deleted):
    """Blobs that both name are kept by the sweep as long as one is there."""
    world, text = World(), "x" * 5_000

    async def program(task):
        await task.using(key="k").act(counted([], result=text), then=lambda state, page: state["got"].append(page))
        await task.using(key="deep").act(
            counted([], result=[*(f"{n:0120}" for n in range(9_000)), text + "y"], name="more")
        )
        await task.checkpoint("c")
        return len(task.state["got"][0])

    play = Play(program, state={"got": []})
    assert 5_000 == world.live(play)
    fork(world, tmp_path / "w")
    other = {"job": "job-fork", "job-fork": "job"}[deleted]

    async def delete(runtime):
        await runtime.store.delete((await runtime.store.find(deleted)).task)
        return await runtime.store.sweep()

    assert 0 == world.do(delete)
    assert () == findings(world, other)
    assert 5_000 == world.live(play, other)


def test_a_long_prefix_leaves_a_snapshot(tmp_path):
    """The fork opens from it, and a full look finds it equal to the entries."""
    world = World()

    async def program(task):
        for number in range(60):
            async with task.edit() as state:
                state["text"] = [hashlib.shake_128(f"{number} {n}".encode()).hexdigest(100) for n in range(200)]
        await task.checkpoint("c")
        return len(task.state["text"])

    play = Play(program, state={})
    assert 200 == world.live(play)
    plan = fork(world, tmp_path / "w")
    heads = world.do(lambda runtime: runtime.store.snapshots(plan.task))
    assert [plan.at + 1] == [head.seq for head in heads]
    assert () == findings(world, "job-fork")
    assert 200 == world.live(play, "job-fork")


@pytest.fixture
def with_files(tmp_path):
    """A task whose journal holds files of every kind, and the folder that a fork is to get."""
    world, raws = World(), {"a.txt": b"a" * 9_000, "in/b": b"", "in/deep/c": bytes(range(256))}

    async def program(task):
        nodes = [
            FileChange(path, Node("file", 0o640, len(raw), hashlib.sha256(raw).digest())) for path, raw in raws.items()
        ]
        nodes += [FileChange("in", Node("folder", 0o750)), FileChange("in/deep", Node("folder", 0o500))]
        nodes += [FileChange("link", Node("link", target="in/b"))]
        manifest = Manifest()
        manifest.apply(nodes)
        blobs = {hashlib.sha256(raw).digest(): raw for raw in raws.values()}
        task._session.put(e.FilesCaptured(changes=tuple(nodes[:2])), blobs=blobs)
        task._session.put(e.FilesCaptured(changes=tuple(nodes[2:]), digest=manifest.digest()))
        await task.checkpoint("c")
        return "done"

    world.live(Play(program))
    return world, tmp_path / "w", raws


def test_a_fork_has_the_files_of_its_moment(with_files):
    """Bytes, modes, links and folders; they are kept for it when the parent is deleted."""
    world, into, raws = with_files
    plan = fork(world, into)
    assert (3, sum(map(len, raws.values()))) == (plan.files, plan.file_bytes)
    assert raws == {path: (into / path).read_bytes() for path in raws}
    modes = [os.stat(into / path).st_mode & 0o777 for path in ("a.txt", "in", "in/deep")]
    assert [0o640, 0o750, 0o500] == modes
    assert "in/b" == os.readlink(into / "link")
    assert 6 == sum(1 for _ in into.rglob("*"))

    async def delete(runtime):
        await runtime.store.delete(plan.parent)
        return await runtime.store.sweep()

    assert 0 == world.do(delete)
    fork(world, into.parent / "again", task="job-fork")
    assert raws == {path: (into.parent / "again" / path).read_bytes() for path in raws}


def test_a_fork_works_in_its_own_folder_from_then_on(tmp_path):
    """It writes, rolls back and is forked there; the parent's files stay as they are, and the other way round."""
    world = World()

    async def program(task):
        async def note(name: str) -> str:
            (Path(task.workspace) / name).write_text(task.name)
            return name

        write = perdure.tool(effect="workspace", paths=("{name}",), name="note")(note)
        for name in ("one", "two"):
            await task.using(key=name).act(write, name)
            await task.checkpoint(name)
        return "done"

    play, parent, own = Play(program), tmp_path / "parent", tmp_path / "own"
    world.do(lambda runtime: runtime.run(play, "job", workspace=str(parent)))
    fork(world, own, "one")
    assert {"one": "job"} == _texts(own)
    assert "done" == world.live(play, "job-fork")
    assert ({"one": "job", "two": "job"}, {"one": "job", "two": "job-fork"}) == (_texts(parent), _texts(own))
    fork(world, tmp_path / "third", "two", "third", task="job-fork")
    world.do(lambda runtime: runtime.rollback("third", "one"))
    assert ({"one": "job"}, {"one": "job", "two": "job-fork"}) == (_texts(tmp_path / "third"), _texts(own))
    for name in ("job", "job-fork", "third"):
        assert () == findings(world, name)


def _texts(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_in_the_midst_of_a_capture_there_is_no_moment(with_files):
    """Some of its files are not on record yet."""
    world, into, _ = with_files
    at = next(entry.header.seq for entry in world.journal() if isinstance(entry.payload, e.FilesCaptured))
    with pytest.raises(ForkRefused, match="only partly on record"):
        fork(world, into, at)


@pytest.mark.parametrize("number", range(1, 7))
def test_files_appear_all_at_once(with_files, number):
    """Killed at each piece: no folder of that name, or all of it; the same order ends with just the files."""
    world, into, raws = with_files
    death = Death("during_fork", number)
    world.do(lambda runtime: runtime.fork("job", into=str(into), name="f"), death)
    if into.exists():
        assert 6 == sum(1 for _ in into.rglob("*"))
    if _unmade(world) or _half(world):
        fork(world, into, name="f")
    assert ["w"] == [path.name for path in into.parent.iterdir()]
    assert raws == {path: (into / path).read_bytes() for path in raws}
    assert death.is_dead == (number < 6)


def test_what_a_person_puts_into_the_folder_of_a_half_fork_is_not_touched(with_files):
    """One file more, or another content: the order is refused, and says why."""
    world, into, _ = with_files
    world.do(lambda runtime: runtime.fork("job", into=str(into), name="f"), Death("during_fork", 4))
    assert into.exists()
    (into / "mine").write_text("x")
    with pytest.raises(perdure.UsageError, match="is not empty"):
        fork(world, into, name="f")
    (into / "mine").unlink()
    (into / "in" / "b").rename(into.parent / "b")
    with pytest.raises(perdure.UsageError, match="is not empty"):
        fork(world, into, name="f")
    (into.parent / "b").rename(into / "in" / "b")
    (into / "a.txt").write_bytes(b"b" * 9_000)
    with pytest.raises(perdure.UsageError, match="is not empty"):
        fork(world, into, name="f")
    assert b"b" * 9_000 == (into / "a.txt").read_bytes()


# --- refused --------------------------------------------------------------------------------------------------------
def test_a_moment_with_an_effect_under_way_is_refused_with_the_nearest_checkpoints(stages, tmp_path):
    """The error names the action and where it can be done; nothing is made."""
    world, _, _ = stages
    intents = [entry for entry in world.journal() if isinstance(entry.payload, e.ActionIntended)]
    with pytest.raises(ForkRefused, match=r"book \(action .*'c1' \(entry \d+\), 'c2' \(entry \d+\)") as caught:
        fork(world, tmp_path / "w", intents[1].header.seq)
    assert intents[1].payload.action in caught.value.why
    assert not (tmp_path / "w").exists()
    with pytest.raises(TaskUnknown):
        world.fold("job-fork")


def test_a_rollback_under_way_is_refused(tmp_path):
    """Between the entries with which it begins and ends."""
    world = World()

    async def program(task):
        await task.checkpoint("c")
        if task.attempt == 1:
            await task.rollback("c")

    world.live(Play(program))
    at = next(entry.header.seq for entry in world.journal() if isinstance(entry.payload, e.RollbackBegan))
    with pytest.raises(ForkRefused, match="a rollback to 'c' is under way there"):
        fork(world, tmp_path / "w", at)


def test_without_a_checkpoint_the_head_is_taken_where_nothing_is_open(tmp_path):
    """And refused where it has succeeded, naming the start."""
    world = World()

    async def program(task):
        await add(task, 1)
        if task.attempt == 1:
            raise Stop

    play = Play(program, state={"got": []})
    with pytest.raises(Stop):
        world.live(play)
    assert world.fold().seq == fork(world, tmp_path / "w").at
    world.live(play)
    with pytest.raises(ForkRefused, match=r"had succeeded there.*'start' \(entry 1\)"):
        fork(world, tmp_path / "v")


@pytest.mark.parametrize("at", ["nowhere", "0", "999", "-1"])
def test_a_moment_that_is_not_there_is_refused(stages, tmp_path, at):
    """Names and numbers."""
    with pytest.raises(perdure.UsageError, match=r"has no checkpoint|has entries 1 to"):
        fork(stages[0], tmp_path / "w", at)


def test_the_folder_must_be_free_and_outside(tmp_path):
    """Not empty, a file, inside the parent's workspace, none: refused before anything is made."""
    world = World()

    async def start(runtime):
        async with runtime.task("job", workspace=str(tmp_path / "parent")) as task:
            await task.checkpoint("c")

    world.do(start)
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("x")
    for into, why in (("full", "is not empty"), ("file", "cannot be the fork's folder"), ("parent/in", "lies inside")):
        with pytest.raises(perdure.UsageError, match=why):
            fork(world, tmp_path / into)
    with pytest.raises(perdure.UsageError, match="--into DIR"):
        fork(world, "")
    (tmp_path / "empty").mkdir()
    fork(world, tmp_path / "empty")


def test_a_name_that_is_taken_is_refused_and_a_derived_one_counts_on(stages, tmp_path):
    """An unfinished task keeps its name."""
    world, _, _ = stages
    assert ["job-fork", "job-fork-2"] == [fork(world, tmp_path / n, "c1").name for n in ("a", "b")]
    with pytest.raises(perdure.UsageError, match="'job-fork' is unfinished; give the fork another name"):
        fork(world, tmp_path / "c", "c1", "job-fork")


# --- cut short ------------------------------------------------------------------------------------------------------
PLACES = [(where, number) for where in ("during_fork", "before_append", "after_append") for number in (1, 2, 3, 4, 5)]


@pytest.mark.parametrize(("where", "number"), PLACES)
def test_one_that_is_cut_short_is_never_run_and_the_same_order_makes_it_anew(stages, tmp_path, where, number):
    """At each piece: a whole fork, or a half one that says so, is due for nothing, and makes room."""
    world, play, _ = stages
    into = tmp_path / "w"
    death = Death(where, number)
    answer = world.do(lambda runtime: runtime.fork("job", "c2", into=str(into), name="f"), death)
    if not death.is_dead:
        assert number > 2
        return
    assert DEAD == answer
    half = _half(world)
    if half is not None:
        row = world.do(lambda runtime: look_at(runtime.store, half))
        assert ("half fork", False) == (row.standing, row.is_due(0))
        with pytest.raises(ForkUnfinished, match=r"perdure fork job --at \d+ --into .*/w --name f"):
            world.live(play, "f")
        with pytest.raises(ForkUnfinished):
            world.do(lambda runtime: runtime.report("f"))
        with pytest.raises(ForkUnfinished):
            fork(world, tmp_path / "v", 1, task="f")
    if half is not None or _unmade(world):
        fork(world, into, "c2", "f")
    assert ["f", "job"] == sorted(one.name for one in world.do(lambda runtime: runtime.store.tasks()))
    assert ["w"] == [path.name for path in tmp_path.iterdir()]
    assert () == findings(world, "f")
    assert [1, 2, 3] == world.live(play, "f")


def _half(world):
    tasks = world.do(lambda runtime: runtime.store.tasks())
    return next((one for one in tasks if one.name == "f" and one.reason == FORKING), None)


def _unmade(world):
    return "f" not in {one.name for one in world.do(lambda runtime: runtime.store.tasks())}


def test_a_half_fork_can_be_deleted_and_another_under_way_is_not_touched(stages, tmp_path):
    """Its maker lives: TaskBusy, naming him; dead: deleted like any task."""
    world, _, _ = stages

    async def both(runtime):
        async with asyncio.TaskGroup() as group:
            first = group.create_task(runtime.fork("job", "c2", into=str(tmp_path / "a"), name="f"))
            while not await _is_listed(runtime, "f"):  # noqa: ASYNC110 - for an entry of another task
                await asyncio.sleep(0)
            assert "forking" == (await look_at(runtime.store, await runtime.store.find("f"))).standing
            with pytest.raises(perdure.TaskBusy):
                await runtime.fork("job", "c2", into=str(tmp_path / "b"), name="f")
        return first.result().name

    assert "f" == world.do(both)


def test_a_derived_name_is_free_again_when_its_maker_is_dead(stages, tmp_path):
    """One that is being made keeps it, and the next fork is the second."""
    world, _, _ = stages

    async def both(runtime):
        async with asyncio.TaskGroup() as group:
            first = group.create_task(runtime.fork("job", "c2", into=str(tmp_path / "a")))
            while not await _is_listed(runtime, "job-fork"):  # noqa: ASYNC110 - as above
                await asyncio.sleep(0)
            return (await runtime.fork("job", "c2", into=str(tmp_path / "b"))).name, await first

    assert "job-fork-2" == world.do(both)[0]
    world.do(lambda runtime: runtime.fork("job", "c2", into=str(tmp_path / "c")), Death("during_fork", 2))
    assert "job-fork-3" == fork(world, tmp_path / "c", "c2").name


def test_a_failed_effect_is_no_effect_and_one_under_way_is_marked(tmp_path):
    """What the parent did behind the moment is told as far as it is known."""
    world = World()

    async def fail(n: int) -> None:
        raise ValueError(n)

    async def program(task):
        await task.checkpoint("c")
        await task.using(key="good").act(counted([], "irreversible", name="good"))
        with pytest.raises(perdure.ActionFailed):
            await task.using(key="bad").act(perdure.tool(effect="irreversible", name="bad")(fail), 1)
        await task.using(key="open").act(counted([], "irreversible", name="open"))

    assert DEAD == world.live(Play(program), death=Death("after_intent", 3))
    later = fork(world, tmp_path / "w").later
    assert [("good", True), ("open", False)] == [(one.tool, one.is_certain) for one in later]


def test_the_lease_is_given_back_and_what_was_open_and_free_is_forgotten(stages, tmp_path):
    """Nobody holds a fork that has been made; a free call under way at its moment is none of its own."""
    world, _, _ = stages

    async def begin(runtime):
        async with runtime.task("free-by-hand") as task:
            task._session.put(
                e.ActionIntended(
                    action="a", tool="t", effect=PRESETS["pure"], arguments=e.Raw(b"{}"), digest=b"d", timeout_s=1.0
                )
            )
            raise Stop

    with pytest.raises(Stop):
        world.do(begin)
    assert ["a"] == list(world.fold("free-by-hand").ledger.open)
    plan = fork(world, tmp_path / "w", task="free-by-hand")
    assert {} == world.fold("free-by-hand-fork").ledger.open
    assert world.do(lambda runtime: runtime.store.lease(plan.task)).holder is None


async def _is_listed(runtime, name):
    return name in {one.name for one in await runtime.store.tasks()}


def test_what_fails_on_the_way_leaves_nothing_or_a_whole_fork(stages, tmp_path):
    """A store without room at each of its calls: the error comes out, and no half task and no folder stay."""
    world, _, _ = stages

    async def refuse(runtime, number):
        store = runtime.store
        store.calls, store._fail_at, store._error = [], number, "full"
        try:
            await runtime.fork("job", "c2", into=str(tmp_path / "w"), name="f")
        except StoreFull:
            return "full"
        finally:
            store._fail_at = 0
        return "made"

    for number in range(1, 100):
        answer = world.do(lambda runtime, it=number: refuse(runtime, it))
        if not _unmade(world):
            break
        assert "full" == answer
        assert [] == list(tmp_path.iterdir())
    assert number > 10
    assert () == findings(world, "f")


def test_a_fork_takes_nothing_back_that_its_parent_has_done(tmp_path):
    """Behind its beginning effects with an undo are the parent's: going back is refused, and by force they stand."""
    world, booked, cancelled = World(), [], []

    @perdure.tool(retry="free", undo="nothing", name="fork_unbook")
    async def unbook(item: int) -> None:
        cancelled.append(item)

    book = counted(booked, "compensable", name="fork_book", undo=unbook)

    async def program(task):
        await task.checkpoint("before")
        await task.using(key="theirs").act(book, 1)
        await task.checkpoint("between")
        if task.name == "job":
            return "parent"
        await task.using(key="mine").act(book, 2)
        await task.checkpoint("behind")
        return "child"

    play = Play(program)
    world.live(play)
    fork(world, tmp_path / "w", "between")
    listed = world.do(lambda runtime: list_checkpoints(runtime.store, "job-fork"))
    assert [("before", 0, 1), ("between", 0, 0)] == [
        (one.name, one.price.to_undo, one.price.staying) for one in listed if one.name != "effect"
    ]

    async def go_back(runtime):
        found = await runtime.store.find("job-fork")
        with pytest.raises(Stop):
            await runtime.resume(found.task, Play(_stopping(program)))
        listed = await list_checkpoints(runtime.store, found.task)
        assert {"before": False, "between": True, "behind": True} == {
            one.name: one.admissible for one in listed if one.name != "effect"
        }
        await runtime.rollback(found.task, "between")
        taken_back = list(cancelled)
        with pytest.raises(RollbackRefused) as refused:
            await runtime.rollback(found.task, "before")
        await runtime.rollback(found.task, "before", force=True)
        return taken_back, str(refused.value)

    taken_back, said = world.do(go_back)
    assert (booked, taken_back, cancelled) == ([1, 2], [2], [2])
    assert "fork_book" in said


def _stopping(program):
    """The program, stopped at its end."""

    async def stop(task):
        await program(task)
        raise Stop("here")

    return stop


def test_what_recovery_took_back_in_the_parent_is_no_damage_of_the_fork(tmp_path):
    """The undo was the parent's own then. What the parent keeps is not the fork's to take back from there on."""
    world, calls = World(), []
    unpin = counted(calls, "pure", name="forking_unpin")
    pin = counted(calls, "compensable", name="forking_pin", undo=unpin)

    async def program(task):
        await task.checkpoint("begun")
        await task.act(pin, 7)
        await task.check("is careful", task.strategy.name == "careful")
        await task.checkpoint("checked")
        await task.ask("go on?")

    play = Play(program, strategies=(perdure.Strategy("plain"), perdure.Strategy("careful")), failures_max=1)
    with pytest.raises(perdure.NeedsHuman):
        world.live(play)
    assert "RollbackBegan" in world.kinds()
    assert findings(world, "job") == ()
    made = fork(world, tmp_path / "other")
    assert findings(world, "job-fork") == ()

    async def load(runtime):
        return [rejudge(await load_record(runtime.store, task)) for task in (made.parent, made.task)]

    parents, forks = world.do(load)
    assert (1, ()) == (parents.decisions, parents.changed)
    assert (0, ()) == (forks.decisions, forks.changed)
