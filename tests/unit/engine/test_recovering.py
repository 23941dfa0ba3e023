"""What recovery sees of an exception that has left a program, and what whoever ran it gets."""

import pytest

import perdure
from perdure.engine.undoing import Effects
from perdure.errors import ToolNotFound
from perdure.model import entry as e
from tests.worlds import Play, World


@perdure.tool(effect="pure", name="seen_failing")
async def failing() -> str:
    """Fail each time."""
    raise LookupError("nothing there")


async def as_it_is(error):
    """Let it leave the program."""
    raise error


async def beside_it(error):
    """Raise another one while it is handled."""
    try:
        raise error
    except perdure.ActionFailed:
        raise ValueError("cannot go on")  # noqa: B904 - the case that is tested


async def in_a_group(error):
    """As a task group does."""
    raise ExceptionGroup("several", [KeyError("one"), error]) from None


@pytest.mark.parametrize("leaves", [as_it_is, beside_it, in_a_group])
def test_the_call_behind_an_exception_is_found(leaves):
    """Also where the program has wrapped it without saying so: equal failures are told by their call."""
    world = World()

    async def program(task):
        try:
            await task.act(failing)
        except perdure.ActionFailed as error:
            found = error
        await leaves(found)

    with pytest.raises(perdure.NeedsHuman) as stopped:
        world.live(Play(program, failures_max=1))
    (observed,) = [one.payload for one in world.journal() if isinstance(one.payload, e.FailureObserved)]
    assert ("seen_failing", True) == (observed.failure.tool, bool(observed.failure.action))
    assert isinstance(stopped.value.__cause__, perdure.ActionFailed | ValueError | ExceptionGroup)


@pytest.mark.parametrize(("said", "ends"), [(None, False), ("", False), (0, False), (True, True), ("all", True)])
def test_a_goal_is_reached_where_reached_says_something_true(said, ends):
    """`True` alone says nothing of a result."""
    world = World()

    async def program(task):
        raise ValueError("wrong")

    play = Play(program, failures_max=1, reached=lambda state: said)
    if ends:
        assert (None if said is True else said) == world.live(play)
    else:
        with pytest.raises(perdure.NeedsHuman):
            world.live(play)


def test_where_nothing_can_take_an_effect_back_the_strategy_is_changed_in_place(monkeypatch):
    """The tool of the undo is gone: what was done stays, the lesson and the next strategy come all the same."""
    world, sent = World(), []

    @perdure.tool(effect="pure", name="recovering_take_back")
    async def take_back(item: int) -> None:
        sent.remove(item)

    @perdure.tool(effect="compensable", name="recovering_reserve", undo=take_back)
    async def reserve(item: int) -> int:
        sent.append(item)
        return item

    async def program(task):
        await task.using(key="it").act(reserve, 7)
        if task.strategy.name == "first":
            raise ValueError("a dead end")
        return task.strategy.name

    async def refuse(self, one):
        raise ToolNotFound("recovering_take_back", "recovering_take_back")

    monkeypatch.setattr(Effects, "check", refuse)
    strategies = (perdure.Strategy("first", prompt="a"), perdure.Strategy("second", prompt="b"))
    assert "second" == world.live(Play(program, strategies=strategies, failures_max=1))
    assert [7] == sent
    ledger = world.fold().ledger
    assert (0, 1) == (ledger.rollbacks, len(ledger.lessons))
