"""What was reused is an outcome of its branch like any other: durable, anchored, in its place in a loop."""

import asyncio

import pytest

import perdure
from perdure.engine.loading import entries
from perdure.model import entry as e
from tests.worlds import Play, World, counted


class Past:
    """A world whose task has sent something on a branch that was left, and goes on with `body(task, send)`."""

    def __init__(self, result=None):
        self.world, self.sent = World(), []
        self.send = counted(self.sent, effect="irreversible", name="send", result=result)

    def live(self, body):
        """Send, go back by force, go on; return what `body` returns."""

        async def program(task):
            await task.checkpoint("c")
            if not task._session.fold.ledger.rollbacks:
                await task.using(key="first").act_outcome(self.send, 1)
                await task.rollback("c", force=True)
            return await body(task, self.send)

        return self.world.live(Play(program, state={"got": []}))

    def reused(self):
        """How many calls were answered so."""
        return self.world.kinds().count("ActionReused")


def append(state, result):
    """Note a result in the state."""
    state["got"].append(result)


def call_anew(task):
    """Let the program be called once more, unless it was."""
    if task.attempt < 3:
        raise ValueError("called anew")


def test_when_the_call_returns_it_is_on_record():
    """A kill in the next moment takes nothing of it away."""
    past = Past()

    async def body(task, send):
        await task.using(key="k").act(send, 1)
        written = [x.payload async for x in entries(past.world.store(), task.id)]
        return isinstance(written[-1], e.ActionReused)

    assert past.live(body)


def test_two_calls_at_once_do_not_share_one_effect():
    """One is answered by it, for the other a person is asked."""
    past = Past()

    async def body(task, send):
        await asyncio.gather(*(task.using(key=key).act(send, 1) for key in "ab"))

    with pytest.raises(perdure.NeedsHuman, match="made with the same arguments"):
        past.live(body)
    assert ([1], 1) == (past.sent, past.reused())


def test_with_a_patch_and_without_a_key_the_state_holds_it():
    """The program asks its state, and nothing is left that it would have to claim."""
    past = Past()

    async def body(task, send):
        if not task.state["got"]:
            await task.act(send, 1, then=append)
        call_anew(task)
        await task.checkpoint("on")
        async with task.edit() as state:
            state["end"] = True
        return task.state["got"].plain()

    assert [1] == past.live(body)
    assert ([1], 1) == (past.sent, past.reused())


def test_in_a_loop_it_is_found_again_by_its_place():
    """The body that is run again does not ask for another."""
    past = Past()

    async def body(task, send):
        async for item in task.each("items", [1]):
            await task.act(send, item, then=append)
            call_anew(task)
        return task.state["got"].plain()

    assert [1] == past.live(body)
    assert ([1], 1) == (past.sent, past.reused())


def test_anchored_it_counts_from_its_reuse_on():
    """An edit of the new branch came before that, and does not make another call of it."""
    past = Past()

    async def body(task, send):
        if "edited" not in task.state:
            async with task.edit() as state:
                state["edited"] = True
        got = await task.act(send, 1)
        await task.checkpoint("anchored")
        call_anew(task)
        return got

    assert 1 == past.live(body)
    assert ([1], 1) == (past.sent, past.reused())


def test_the_moment_behind_a_reuse_is_a_checkpoint():
    """To go back to it, nothing has to be said about the effect."""
    past = Past()

    async def body(task, send):
        await task.using(key="k").act(send, 1, then=append)
        if task._session.fold.ledger.rollbacks == 1:
            async with task.edit() as state:
                state["bad"] = True
            await task.rollback("effect")
        return task.state.plain()

    assert {"got": [1]} == past.live(body)
    assert ([1], 1) == (past.sent, past.reused())


def test_what_could_not_be_stored_fails_again_and_is_not_sent_again():
    """The effect is in the world; its result was lost on the first branch already."""
    past = Past(result=object())

    async def body(task, send):
        outcome = await task.using(key="k").act_outcome(send, 1, then=append)
        return outcome.error.type.rpartition(".")[2], task.state["got"].plain()

    assert ("Unstorable", []) == past.live(body)
    assert ([1], 1) == (past.sent, past.reused())


def test_what_the_reducer_does_to_the_result_is_not_what_the_call_returns():
    """It gets a copy of what is on record, as the program does."""
    past = Past(result=[1])

    async def body(task, send):
        return await task.using(key="k").act(send, 1, then=lambda _state, result: result.append(2))

    assert [1] == past.live(body)
