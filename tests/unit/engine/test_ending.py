"""The line that a task which has stopped waits for, and where a start is refused: edge by edge."""

import asyncio
from types import SimpleNamespace

import pytest

from perdure.core.recovery import Rules
from perdure.engine import ending
from perdure.errors import TaskParked
from perdure.limits import CRASH_LOOP_STARTS_MAX
from perdure.model.document import Document
from perdure.model.ledger import Ledger, Rollback, UndoSent
from perdure.model.status import TaskSummary
from tests.unit.core.test_recovery import opened

BACK = Rollback(to_seq=1, checkpoint="start", moves=(), undos={"a1": UndoSent(of="a0", tool="send", intent=3)})


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"reason": "question: which?", "question_keys": ("k",)}, "perdure answer 'a job' TEXT"),
        ({"reason": "in_doubt: did it?", "question_action": "a1"},
         "perdure settle 'a job' a1 --happened | --did-not-happen"),
        ({"reason": "diverged: another", "question_action": "a1"}, "perdure settle 'a job' a1 --keep"),
        ({"reason": "undo: failed", "question_action": "a1", "rollback": BACK}, "perdure resume 'a job'"),
        ({"reason": "takeover: by ada"}, "perdure hand-back 'a job'"),
        ({"reason": "limit: 3 failures"}, "perdure show 'a job' --handover"),
        ({"status": "failed"}, "perdure show 'a job' --handover"),
        ({"status": "paused"}, "perdure resume 'a job'"),
        ({"status": "paused", "open": opened("irreversible", in_doubt=True)},
         "perdure settle 'a job' a1 --happened | --did-not-happen"),
        ({"status": "succeeded"}, ""),
    ],
)  # fmt: skip
def test_each_need_has_its_line(more, line):
    """What a person types is made of why they are needed."""
    ledger = Ledger(**{"name": "a job", "status": "needs_human", **more})
    assert line == ending.next_line(SimpleNamespace(ledger=ledger, document=Document(asking={"k": "which?"})))


@pytest.mark.parametrize(
    ("left_s", "status", "skips", "is_refused"),
    [
        (60.0, "parked", False, False),
        (60.5, "parked", False, True),
        (60.5, "parked", True, False),
        (60.5, "paused", False, False),
    ],
)
def test_a_task_is_refused_that_is_parked_for_longer_than_is_waited(left_s, status, skips, is_refused):
    """Not one whose waits are skipped, and not one that stands for another reason."""
    summary = TaskSummary(task="t", name="job", goal="", status=status, until=int(left_s * 1_000_000))
    clock = SimpleNamespace(now=lambda: 0)
    refused = False
    try:
        ending.refuse_parked(summary, clock, Rules(wait_inline_s=60.0, skips_waits=skips))
    except TaskParked:
        refused = True
    assert is_refused == refused


@pytest.mark.parametrize("starts", [CRASH_LOOP_STARTS_MAX - 1, CRASH_LOOP_STARTS_MAX])
def test_the_fifth_start_that_ends_in_a_crash_asks_a_person(monkeypatch, starts):
    """And no earlier one."""
    asked = []

    async def ask_person(session, question, reason):
        asked.append(reason)

    monkeypatch.setattr(ending, "ask_person", ask_person)
    ledger = Ledger(name="job", starts_in_row=starts)
    session = SimpleNamespace(task="t", fold=SimpleNamespace(ledger=ledger))
    if starts < CRASH_LOOP_STARTS_MAX:
        asyncio.run(ending.refuse_crash_loop(session))
        assert [] == asked
        return
    with pytest.raises(ending.NeedsHuman, match=f"{starts} starts in a row"):
        asyncio.run(ending.refuse_crash_loop(session))
    assert ["crash_loop"] == asked
