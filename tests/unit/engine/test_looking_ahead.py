"""What lies behind a checkpoint, by a journal alone: also where an effect's entries stand on both sides of it."""

import asyncio

from perdure.engine.loading import load_fold
from perdure.engine.rollback import look_ahead
from perdure.model import entry as e
from perdure.model.effect import Standing
from tests.unit.test_views import TASK, intent, settled, written

MARK = e.CheckpointMarked(name="c")


def behind(*payloads, **how):
    """Return {action: (settled, claimable)} of what lies behind the checkpoint `c`, and what is to stand, by id."""

    async def look():
        store = await written(*payloads, **how)
        ahead = await look_ahead(store, await load_fold(store, TASK), "c")
        return {one.action: (one.settled, one.is_claimable) for one in ahead.behind}, [
            one.action for one in ahead.standing
        ]

    return asyncio.run(look())


def test_an_effect_is_behind_where_its_outcome_is():
    """Sent before the checkpoint and settled behind it: the outcome is what is given up."""
    assert ({"a": (4, True)}, ["a"]) == behind(intent("a", "irreversible"), MARK, settled("a", 2))
    assert ({}, []) == behind(intent("a", "irreversible"), settled("a", 2), MARK)
    doubt = settled("a", 2, outcome="in_doubt", result=e.NOTHING)
    assert ({}, []) == behind(intent("a", "irreversible"), MARK, doubt)  # it was open there, and stays so


def test_one_in_doubt_is_behind_and_one_that_failed_is_not():
    """Nobody knows whether the first has happened, so it has."""
    doubt = settled("a", 3, outcome="in_doubt", result=e.NOTHING)
    failed = settled("a", 3, outcome="failed", result=e.NOTHING)
    assert ({"a": (0, True)}, ["a"]) == behind(MARK, intent("a", "irreversible"), doubt)
    assert ({}, []) == behind(MARK, intent("a", "irreversible"), failed)


def test_what_a_person_has_released_is_behind_and_answers_no_call():
    """It is in the world all the same."""
    released = e.ActionReleased(action="a", by="person")
    assert ({"a": (4, False)}, ["a"]) == behind(MARK, intent("a", "irreversible"), settled("a", 3), released)


def test_files_and_what_leaves_nothing_are_behind_and_do_not_stand():
    """Files go with the files; free calls are not even looked at."""
    effects = [intent("w", "workspace"), settled("w", 3), intent("p", "pure"), settled("p", 5)]
    assert ({"w": (4, True)}, []) == behind(MARK, *effects)


def test_what_was_left_by_an_earlier_rollback_is_behind_nothing():
    """It stands for equal calls already; only a reuse makes it one of this branch."""
    standing = Standing(action="a", tool="tool", digest=b"d", settled=4, undo="impossible")
    began = e.RollbackBegan(to_seq=2, checkpoint="c", standing=(standing,))
    history = [MARK, intent("a", "irreversible"), settled("a", 3), began, e.RolledBackEntry(to_seq=2, checkpoint="c")]
    assert ({}, []) == behind(*history, branch_of=lambda seq: int(seq > 5))
    reused = e.ActionReused(action="a", tool="tool", settled=4, digest=b"d")
    assert ({"a": (4, True)}, ["a"]) == behind(*history, reused, branch_of=lambda seq: int(seq > 5))
