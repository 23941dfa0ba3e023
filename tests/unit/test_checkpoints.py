"""What going back would cost: exactly what has happened since, on the branch that is left."""

import asyncio

import pytest

from perdure.errors import TaskUnknown
from perdure.model import entry as e
from perdure.model.effect import Standing
from perdure.model.files import FileChange, Node
from perdure.views.checkpoints import Price, list_checkpoints
from tests.unit.test_views import intent, settled, written


def listed(*payloads, **how):
    """The checkpoints of a task with these entries behind its start, by name."""

    async def read():
        return await list_checkpoints(await written(*payloads, **how), "t")

    return {one.name: one for one in asyncio.run(read())}


def wrote(*paths, action="w"):
    """A capture of these files."""
    return e.FilesCaptured(changes=tuple(FileChange(path, Node(kind="file")) for path in paths), action=action)


def test_the_price_is_what_happened_behind_the_checkpoint():
    """Each earlier checkpoint costs more; what came before it costs nothing."""
    found = listed(
        intent("a"),
        settled("a", 2, tokens_in=1, tokens_out=2, money="0.10 USD"),
        e.CheckpointMarked(name="one"),
        intent("b"),
        settled("b", 5, tokens_in=10, tokens_out=20, money="0.20 USD"),
        wrote("x", "y"),
        e.CheckpointMarked(name="two"),
        intent("c"),
        settled("c", 9, tokens_in=100, tokens_out=200, money="3 EUR"),
        wrote("y", "z"),
        wrote("mine", action=""),
    )
    assert (
        Price(actions=2, tokens_in=110, tokens_out=220, money=("3 EUR", "0.2 USD"), seconds=8.0, files=3)
        == found["one"].price
    )
    assert Price(actions=1, tokens_in=100, tokens_out=200, money=("3 EUR",), seconds=4.0, files=2) == found["two"].price
    assert "1970-01-01T00:00:08.000000Z" == found["two"].at


def test_effects_are_counted_by_how_they_are_undone():
    """Undone, staying, in doubt (it counts as having happened); one that failed is not in the world."""
    found = listed(
        e.CheckpointMarked(name="one"),
        intent("a", "irreversible"),
        settled("a", 3),
        e.CheckpointMarked(name="two", verdict="passed", verifier="check x"),
        *(intent(name, preset) for name, preset in (("b", "compensable"), ("c", "workspace"), ("d", "pure"))),
        settled("b", 6),
        intent("f", "irreversible"),
        settled("f", 10, outcome="failed", result=e.NOTHING),
        e.CheckpointMarked(name="three", verdict="failed"),
        intent("g", "compensable"),
        settled("g", 13, outcome="in_doubt", result=e.NOTHING),
    )
    prices = {name: (one.price.to_undo, one.price.staying, one.admissible) for name, one in found.items()}
    assert {"one": (2, 1, False), "effect": (2, 0, True), "two": (2, 0, True), "three": (1, 0, False)} == prices
    assert ["one", "effect", "two", "three"] == list(found)  # the one that nobody marks is where its effect was settled


@pytest.mark.parametrize(("to_seq", "expected"), [(4, 0), (2, 0), (3, 0)])
def test_what_a_rollback_has_left_behind_is_lost_already(to_seq, expected):
    """Whether it went to the checkpoint, to an earlier one, or to where an effect was settled in between."""
    back = e.RolledBackEntry(to_seq=to_seq, checkpoint="x")
    began = e.RollbackBegan(to_seq=to_seq, checkpoint="x")
    history = [
        e.CheckpointMarked(name="one"),
        e.NoteWritten(text=""),
        e.CheckpointMarked(name="two"),
        intent("a"),
        settled("a", 5),
        began,
    ]
    found = listed(*history, back, branch_of=lambda seq: int(seq > len(history) + 1))
    assert {expected} == {one.price.actions for one in found.values()}
    assert (["one", "two"] if to_seq == 4 else ["one"]) == list(found)


def test_a_rollback_to_behind_an_effect_keeps_what_came_before_it():
    """The outcome of an effect that cannot be undone is a place to go back to without a name of its own."""
    history = [
        e.CheckpointMarked(name="one"),
        intent("a"),
        settled("a", 3),
        intent("b", "irreversible"),
        settled("b", 5),
        intent("c"),
        settled("c", 7),
        e.RollbackBegan(to_seq=6, checkpoint="effect"),
    ]
    back = e.RolledBackEntry(to_seq=6, checkpoint="effect")
    found = listed(*history, back, branch_of=lambda seq: int(seq > 9))
    assert (2, 1) == (found["one"].price.actions, found["one"].price.staying)


def test_an_effect_that_a_call_of_this_branch_was_answered_with_is_one_of_it():
    """It was sent on a branch that was left; going back behind its reuse leaves it in the world as before."""
    standing = Standing(action="a", tool="tool", digest=b"d", settled=4, undo="impossible")
    history = [
        e.CheckpointMarked(name="one"),
        intent("a", "irreversible"),
        settled("a", 3),
        e.RollbackBegan(to_seq=2, checkpoint="one", standing=(standing,)),
        e.RolledBackEntry(to_seq=2, checkpoint="one"),
        e.CheckpointMarked(name="two"),
        e.ActionReused(action="a", tool="tool", settled=4, digest=b"d"),
    ]
    found = listed(*history, branch_of=lambda seq: int(seq > 5))
    assert {"one": (1, False), "two": (1, False), "effect": (0, True)} == {
        name: (one.price.staying, one.admissible) for name, one in found.items()
    }


def test_without_checkpoints_nothing_is_read():
    """An empty list, and an unknown task is named."""
    assert {} == listed(intent("a"))
    with pytest.raises(TaskUnknown):
        asyncio.run(_unknown())


async def _unknown():
    await list_checkpoints(await written(), "nobody")
