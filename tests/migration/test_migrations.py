"""Migrations: an old state is brought up after every jump of the fold, once, on record, or not at all."""

import asyncio
import dataclasses
from typing import Any

import pytest

import perdure
from perdure.errors import StateInvalid, StateVersion
from perdure.model.entry import StateMigrated
from tests.worlds import DEAD, Death, Stop, World

ran: list[int] = []
BIG = "x" * 10_000


@perdure.tool(effect="irreversible", quick=True)
def send(what: str) -> str:
    """An effect."""
    return what


@dataclasses.dataclass
class Done:
    """Version 3 of the state."""

    finished: list[str] = dataclasses.field(default_factory=list)
    total: int = 0
    text: str = ""


@perdure.program(name="first", state={"done": "", "text": BIG})
async def first(task):
    """Version 1: what is done is one text."""
    await task.using(key="a").act(send, "a", then=lambda state, got: state.update(done=got))
    await task.checkpoint("old")
    raise Stop("the machine is needed for something else")


@perdure.migration(from_version=1, program="second")
def split(state: dict[str, Any]) -> dict[str, Any]:
    """From one text to a list."""
    ran.append(1)
    return {"done": state["done"].split(), "text": state["text"]}


@perdure.migration(from_version=2, program="second")
def rename(state: dict[str, Any]) -> dict[str, Any]:
    """To other names."""
    ran.append(2)
    state["finished"] = state.pop("done")
    return state


asked = []


@perdure.program(name="second", state_type=Done, state_version=3)
async def second(task):
    """Version 3: go on, once back to where the state was of version 1."""
    await task.using(key="a").act(send, "a")
    if asked:
        raise Stop(asked.pop())
    if task._session.fold.branch == 0:
        await task.checkpoint("new")
        await task.rollback("old")
    if "b" not in task.state.finished:
        async with task.edit() as state:
            state.finished.append("b")
    return task.state.plain()


@perdure.program(name="gap", state_version=3)
async def gap(task):
    """No migration leads here."""
    return task.id


@perdure.migration(from_version=1, program="broken")
def fail(state: dict[str, Any]) -> dict[str, Any]:
    """Raise."""
    return {"done": state["nothing"]}


@perdure.program(name="broken", state_version=2)
async def broken(task):
    """Its migration fails."""
    return task.id


@perdure.migration(from_version=1, program="nothing")
def nothing(state: dict[str, Any]) -> dict[str, Any]:
    """Forget to return."""
    state["done"] = []


@perdure.program(name="nothing", state_version=2)
async def forgetful(task):
    """Its migration returns nothing."""
    return task.id


@dataclasses.dataclass
class Other:
    """A shape that the recorded state has not."""

    done: int


@perdure.program(name="misfit", state={"done": 1}, state_type=Other)
async def misfit(task):
    """The same version, and another shape."""
    return task.id


@dataclasses.dataclass
class More:
    """Version 1 and a field with a default."""

    done: str = ""
    text: str = BIG
    added: int = 7


@perdure.program(name="more", state_type=More)
async def more(task):
    """Read the field that was added."""
    return task.state.added


@pytest.fixture
def world():
    """A world with an unfinished task of version 1."""
    ran.clear()
    asked.clear()
    world = World()
    with pytest.raises(Stop):
        world.live(first)
    return world


def migrated_in(world):
    """The recorded results of migrations, oldest first."""
    return [entry.payload for entry in world.journal() if isinstance(entry.payload, StateMigrated)]


def test_an_old_state_is_brought_up_when_its_task_is_opened(world):
    """Each migration runs once, in order; the program sees its own version, and the journal has the result."""
    asked.append("after the migration")
    with pytest.raises(Stop):
        world.live(second)
    assert [1, 2] == ran
    (migrated,) = migrated_in(world)
    assert (1, 3) == (migrated.from_version, migrated.to_version)
    assert {"finished": ["a"], "total": 0, "text": BIG} == world.state()
    assert 3 == world.fold().document.state_version
    kinds = world.kinds()
    assert kinds.index("TaskResumed") == kinds.index("StateMigrated") + 1


def test_what_is_recorded_is_not_migrated_again(world):
    """The next opening finds version 3 and runs nothing."""
    for _ in range(2):
        asked.append("stop")
        with pytest.raises(Stop):
            world.live(second)
    assert [1, 2] == ran
    assert 1 == len(migrated_in(world))


def test_a_rollback_to_an_old_state_migrates_it_again(world):
    """In the append that ends the jump; the program goes on with its own version."""
    assert {"finished": ["a", "b"], "total": 0, "text": BIG} == world.live(second)
    assert [1, 2, 1, 2] == ran
    kinds = world.kinds()
    back = kinds.index("RolledBackEntry")
    assert "StateMigrated" == kinds[back + 1]
    entry = world.journal()[back + 1]
    assert 1 == entry.header.branch


@pytest.mark.parametrize("number", range(1, 24))
def test_a_kill_anywhere_leaves_one_whole_version(world, number):
    """Before or after any append the state is one version as a whole, and the next run comes to the same end."""
    died = world.live(second, death=Death("before_append" if number % 2 else "after_append", number // 2 + 1))
    fold = world.fold()
    keys = {1: {"done", "text"}, 3: {"finished", "total", "text"}}[fold.document.state_version]
    assert keys == fold.tree.root.keys()
    if died == DEAD:
        assert {"finished": ["a", "b"], "total": 0, "text": BIG} == world.live(second)
    assert {"finished": ["a", "b"], "total": 0, "text": BIG} == world.state()


WAYS = pytest.mark.parametrize(
    ("program", "found", "why"),
    [
        (gap, 1, r"write `@perdure.migration\(from_version=1\)`"),
        (broken, 1, "the migration from 1 raised KeyError"),
        (forgetful, 1, "returned a NoneType"),
    ],
)


@WAYS
def test_the_report_says_what_becomes_of_the_state(world, program, found, why):
    """Before anything is opened: a way that is not there is a stop."""

    async def look(asked):
        async with world.runtime() as runtime:
            return [row for row in await runtime.report("job", asked) if row.name == "state"]

    (row,) = asyncio.run(look(second))
    assert ("ok", "version 1, is migrated to 3") == (row.verdict, row.text)
    rows = asyncio.run(look(program))
    assert [("stop" if program is gap else "ok")] == [row.verdict for row in rows]


@WAYS
def test_without_a_whole_way_nothing_runs(world, program, found, why):
    """A gap, a migration that raises, one that returns no state: a typed error, and state and program are untouched."""
    before = world.state()
    with pytest.raises(StateVersion, match=why) as caught:
        world.live(program)
    assert found == caught.value.found
    assert before == world.state()
    assert "TaskResumed" not in world.kinds()
    assert [] == migrated_in(world)
    with pytest.raises(Stop):  # the old program still goes on with it
        world.live(first)


def test_a_state_of_a_later_version_is_refused(world):
    """An old program does not touch what a new one has written."""
    asked.append("stop")
    with pytest.raises(Stop):
        world.live(second)
    with pytest.raises(StateVersion, match="written by a later version"):
        world.live(first)
    assert {"finished": ["a"], "total": 0, "text": BIG} == world.state()


def test_a_state_that_does_not_fit_its_type_stops_before_the_program(world):
    """The same version with another shape: the field is named, nothing is dropped or turned into None."""
    with pytest.raises(perdure.TaskMismatch):
        world.live(misfit)

    async def resume():
        async with world.runtime() as runtime:
            await runtime.resume("job", misfit)

    with pytest.raises(StateInvalid, match="is no Other"):
        asyncio.run(resume())
    assert {"done": "a", "text": BIG} == world.state()


def test_a_new_field_with_a_default_needs_no_migration(world):
    """It is put there when the task is opened, on record."""

    async def resume():
        async with world.runtime() as runtime:
            return await runtime.resume("job", more)

    assert 7 == asyncio.run(resume())
    assert {"done": "a", "text": BIG, "added": 7} == world.state()
    (migrated,) = migrated_in(world)
    assert (1, 1) == (migrated.from_version, migrated.to_version)


@perdure.migration(from_version=1, program="same")
def leave(state: dict[str, Any]) -> dict[str, Any]:
    """The shape has not changed, what it means has."""
    return state


@perdure.program(name="same", state_version=2)
async def same(task):
    """Return the version that the journal has now."""
    return task._session.fold.document.state_version


def test_a_migration_that_changes_nothing_is_on_record(world):
    """Or else it would run at each opening, and an older program would go on with the state."""

    async def resume():
        async with world.runtime() as runtime:
            return await runtime.resume("job", same)

    assert 2 == asyncio.run(resume())
    assert 1 == len(migrated_in(world))


def test_two_migrations_from_one_version_are_refused():
    """Nobody could say which is meant."""
    with pytest.raises(perdure.UsageError, match="whole number"):
        perdure.migration(from_version=0)
    doubled = perdure.migration(from_version=1, program="gap")
    one, two = doubled(split), doubled(rename)
    globals().update(one=one, two=two)
    try:
        world = World()
        with pytest.raises(Stop):
            world.live(first)
        with pytest.raises(perdure.UsageError, match="two migrations from version 1"):
            world.live(gap)
    finally:
        del globals()["one"], globals()["two"]
