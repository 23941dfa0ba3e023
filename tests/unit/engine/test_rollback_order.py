"""In what order a rollback goes: what must be over before it, undos, then files, then the jump; and who may stop it."""

import asyncio
import contextlib
import threading
from pathlib import Path

import pytest

import perdure
from perdure.engine.rollback import roll_back
from perdure.errors import ActionsInFlight, RollbackUnderWay
from tests.worlds import DEAD, Death, Play, World, counted, dying, until


@perdure.tool(effect="workspace", name="write")
async def write(folder: str, text: str) -> None:
    """Write the one file of the task."""
    Path(folder, "file").write_text(text)


class Place:
    """A world with a workspace, a tool that is undone and one whose effect stays."""

    def __init__(self, folder):
        self.world, self.folder = World(), str(folder)
        self.file = Path(folder, "file")
        self.seen, self.sent = [], []

        @perdure.tool(effect="idempotent", name="close")
        async def close(item: int, key: perdure.EffectKey) -> None:
            self.seen.append(self.file.read_text())

        self.open = counted([], effect="compensable", name="open", undo=close)
        self.send = counted(self.sent, effect="irreversible", name="send")

    def live(self, fn, death=None):
        """Run `fn` in one life; return its result, or DEAD."""
        death = death or Death()

        async def life():
            async with self.world.runtime(death) as runtime:
                return await runtime.run(Play(fn), "job", workspace=self.folder)

        with dying(death):
            try:
                return asyncio.run(life())
            except BaseException:
                if death.is_dead:
                    return DEAD
                raise

    def abandon(self):
        """Give the rollback up."""

        async def give_up():
            async with self.world.runtime() as runtime:
                await runtime.abandon_rollback("job")

        asyncio.run(give_up())

    def back(self, *tools, **way):
        """Return a program that writes a file, calls `tools` and goes back once to before that."""

        async def program(task):
            await task.using(key="first").act(write, task.workspace, "first")
            await task.checkpoint("c")
            if not task._session.fold.ledger.rollbacks:
                for tool in tools:
                    await task.using(key=tool.name).act(tool, 1)
                await task.using(key="second").act(write, task.workspace, "second")
                await task.rollback("c", **way)
            return self.file.read_text()

        return program


@pytest.fixture
def place(tmp_path):
    """A world with a workspace."""
    return Place(tmp_path)


def test_effects_are_taken_back_before_the_files_are(place):
    """An undo sees the files as its effect left them; the jump comes when both are back."""
    assert "first" == place.live(place.back(place.open))
    assert ["second"] == place.seen
    kinds = place.world.kinds()
    began = kinds.index("RollbackBegan")
    found = [kind for kind in kinds[began:] if kind in {"ActionSettled", "WorkspaceRestored", "RolledBackEntry"}]
    assert ["ActionSettled", "WorkspaceRestored", "RolledBackEntry"] == found


@pytest.mark.parametrize("number", range(2, 11))
def test_no_file_is_touched_before_the_beginning_is_on_record(place, number):
    """Killed before any append: as long as nobody can know that it is to go back, the file stands as it was left."""
    program = place.back()
    assert DEAD == place.live(program, Death("before_append", number))
    kinds = place.world.kinds()
    is_written = kinds.count("ActionSettled") == 2
    assert not is_written or "RollbackBegan" in kinds or "second" == place.file.read_text()
    assert "first" == place.live(program)


@pytest.mark.parametrize(("tools", "way"), [((), {}), (("send",), {"carry": True})])
def test_without_an_undo_it_is_given_up_only_until_the_files_are_touched(place, tools, way):
    """Nobody can tell how far they are: killed right behind its beginning, it only goes forward."""
    program = place.back(*(getattr(place, name) for name in tools), **way)
    assert DEAD == place.live(program, Death("during_rollback"))
    with pytest.raises(RollbackUnderWay, match="its files may be on their way back"):
        place.abandon()
    assert "first" == place.live(program)


def test_with_an_undo_it_is_given_up_until_that_is_sent(place):
    """The files come after it."""
    assert DEAD == place.live(place.back(place.open), Death("during_rollback"))
    place.abandon()
    assert (None, "second", []) == (place.world.fold().ledger.rollback, place.file.read_text(), place.seen)


def test_a_call_that_begins_while_a_rollback_looks_around_keeps_it_from_beginning(place):
    """It was refused to nobody yet: the rollback is, and can be asked for again."""

    async def program(task):
        leave = asyncio.Event()

        @perdure.tool(effect="pure")
        async def slow() -> None:
            await leave.wait()

        await task.checkpoint("c")
        await task.using(key="write").act(write, task.workspace, "text")
        rolling = asyncio.create_task(task.rollback("c"))
        await asyncio.sleep(0)
        acting = asyncio.create_task(task.using(key="slow").act(slow))
        with pytest.raises(ActionsInFlight, match="rollback"):
            await rolling
        leave.set()
        await acting

    place.live(program)
    assert "RollbackBegan" not in place.world.kinds()


def test_of_two_rollbacks_at_once_one_begins(place):
    """The other is refused, and the program is called anew by the first."""

    async def program(task):
        await task.checkpoint("c")
        if not task._session.fold.ledger.rollbacks:
            await task.using(key="write").act(write, task.workspace, "text")
            both = [asyncio.create_task(roll_back(task._session, "c")) for _ in range(2)]
            ended = await asyncio.gather(*both, return_exceptions=True)
            assert {"RolledBack", "RollbackUnderWay"} == {type(one).__name__ for one in ended}
            raise next(one for one in ended if isinstance(one, perdure.RolledBack))

    place.live(program)
    kinds = place.world.kinds()
    assert (1, 1) == (kinds.count("RollbackBegan"), kinds.count("RolledBackEntry"))


def test_an_open_edit_is_in_the_way_of_a_rollback():
    """It would write on the branch that is left."""
    world = World()

    async def program(task):
        await task.checkpoint("c")
        if task._session.fold.ledger.rollbacks:
            return
        is_open, close = asyncio.Event(), asyncio.Event()

        async def edit():
            async with task.edit() as state:
                is_open.set()
                await close.wait()
                state["x"] = 1

        editing = asyncio.create_task(edit())
        await is_open.wait()
        try:
            with pytest.raises(ActionsInFlight, match="an open edit"):
                await task.rollback("c")
        finally:
            close.set()
            await editing

    world.live(Play(program))
    assert {"x": 1} == world.state()


def test_a_thread_that_outlived_its_call_is_in_the_way_of_a_rollback():
    """What it comes to would settle an effect of which the rollback has decided already."""
    world, started, leave = World(), threading.Event(), threading.Event()

    def wait(item: int) -> None:
        started.set()
        assert leave.wait(10)

    tool = perdure.tool(effect="irreversible", name="wait", timeout_s=1.0)(wait)

    async def program(task):
        await task.checkpoint("c")
        if task._session.fold.ledger.rollbacks:
            return
        acting = asyncio.create_task(task.using(key="k").act_outcome(tool, 1))
        await until(started.is_set)
        world.clock.advance(2.0)
        await acting
        with pytest.raises(ActionsInFlight):
            await task.rollback("c", force=True)
        leave.set()
        await until(lambda: not task._session.late)

    world.live(Play(program))
    assert "RollbackBegan" not in world.kinds()


def test_a_thread_whose_free_call_is_over_keeps_no_rollback_from_beginning():
    """Nothing it comes to is looked at; an effect's thread, which may still settle it, is waited for."""
    world, release = World(), threading.Event()

    @perdure.tool(effect="pure", timeout_s=0.05, name="dawdle")
    def dawdle() -> None:
        release.wait(10)

    async def program(task):
        await task.checkpoint("home")
        if task._session.fold.ledger.rollbacks:
            return "home again"
        with contextlib.suppress(perdure.ActionTimedOut):
            await task.act(dawdle)
        return await task.rollback("home")

    try:
        assert "home again" == world.live(Play(program))
    finally:
        release.set()
