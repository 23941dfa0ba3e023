"""`settle`: how a person says what became of an action of which nobody could know."""

import asyncio

import pytest

import perdure
from perdure.errors import ActionUnknown
from perdure.model.failure import ErrorRecord
from perdure.model.outcome import Failed, Succeeded
from tests.worlds import DEAD, Death, Play, Stop, World, counted


def _send(sent):
    return counted(sent, effect="irreversible", name="send")


def _settle(world, outcome):
    """Settle the action that the task asks about."""

    async def settle():
        async with world.runtime() as runtime:
            ledger = world_fold.ledger
            action = ledger.question_action or next(iter(ledger.open), "") or world_fold.document.loose[0].action
            await runtime.settle("job", action, outcome)

    world_fold = world.fold()
    asyncio.run(settle())


def _in_doubt(program):
    """Return a world in which `program` was killed inside its effect, and has asked for a person."""
    world = World()
    assert DEAD == world.live(Play(program), death=Death("after_effect"))
    with pytest.raises(perdure.NeedsHuman, match="settle"):
        world.live(Play(program))
    return world


@pytest.mark.parametrize("key", ["", "k"])
def test_happened_answers_the_call(key):
    """Settled as succeeded, the resumed call gets the given result and is not made again."""
    sent = []

    async def program(task):
        return await task.using(key=key).act(_send(sent), 1)

    world = _in_doubt(program)
    _settle(world, Succeeded("by hand"))
    assert "running" == world.fold().ledger.status
    assert "by hand" == world.live(Play(program))
    assert [1] == sent


def test_happened_runs_the_reducer_that_is_still_to_be_run():
    """The patch of a settled action is made by the next matching act, once."""
    sent = []

    async def program(task):
        if "got" not in task.state:
            await task.act(_send(sent), 1, then=lambda state, got: state.update(got=got))
        return task.state.plain()

    world = _in_doubt(program)
    _settle(world, Succeeded("by hand"))
    assert {"got": "by hand"} == world.live(Play(program)) == world.state()
    assert [1] == sent


def test_did_not_happen_makes_the_call_again():
    """Settled as failed, the resumed call is dispatched."""
    sent = []

    async def program(task):
        return await task.act(_send(sent), 1)

    world = _in_doubt(program)
    _settle(world, Failed(ErrorRecord(type="person", message="it did not happen")))
    assert 1 == world.live(Play(program))
    assert [1, 1] == sent


def test_keep_lets_a_changed_program_pass():
    """An effect that no call asks for any more is kept as a fact, and stands in the way no longer."""
    world, sent = World(), []

    async def first(task):
        await task.act(_send(sent), 1)
        raise Stop

    async def changed(task):
        async with task.edit() as state:
            state["x"] = 1
        return "done"

    with pytest.raises(Stop):
        world.live(Play(first))
    with pytest.raises(perdure.ResumeDiverged, match="keep"):
        world.live(Play(changed))
    _settle(world, None)
    assert "done" == world.live(Play(changed))
    assert any("kept" in fact for fact in world.fold().ledger.facts)


def test_an_action_that_is_not_open_cannot_be_settled():
    """An unknown id, or one with an outcome, is refused by name."""
    world = World()

    async def program(task):
        await task.act(counted([]), 1)
        with pytest.raises(ActionUnknown):
            await task.settle("nothing", Succeeded(1))
        raise Stop

    with pytest.raises(Stop):
        world.live(Play(program))


def test_the_programs_end_may_not_pass_an_effect_that_was_not_asked_for_again():
    """A changed program that returns over a loose effect is stopped, and does not succeed."""
    world, sent = World(), []

    async def first(task):
        await task.act(_send(sent), 1)
        raise Stop

    async def changed(task):
        return "done"

    with pytest.raises(Stop):
        world.live(Play(first))
    with pytest.raises(perdure.ResumeDiverged):
        world.live(Play(changed))
    assert "TaskSucceeded" not in world.kinds()


def test_the_program_itself_may_settle_what_is_in_doubt():
    """`task.settle` inside the program is a way out, too."""

    @perdure.tool(effect="irreversible")
    async def send() -> None:
        raise ConnectionError("reset")

    async def program(task):
        with pytest.raises(perdure.OutcomeUnknown) as caught:
            await task.act(send)
        await task.settle(caught.value.action, Succeeded("looked it up"))
        return "done"

    world = World()
    assert "done" == world.live(Play(program))
