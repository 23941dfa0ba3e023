"""Budgets under real kills: what a call may have cost is spent, however often its process dies in the middle of it.

A provider outside of the process writes down each request and bills it before it answers; the process is killed by
SIGKILL while it waits. What was broken to see these tests fail, and did: a second attempt that takes the reservation of
the first one over.
"""

import asyncio
import os
import signal
from decimal import Decimal
from pathlib import Path

import pytest

import perdure
from perdure.core.spending import state_of
from perdure.engine.loading import load_fold
from perdure.model.money import text_of
from tests.crash import forked

PRICE, RESERVE = Decimal("0.08"), perdure.Cost(1000, 500, "0.1 USD")
KILLS, THOUGHTS = 3, 8


def bill(folder: Path) -> int:
    """Note one request at the provider; return how many came."""
    with (folder / "bills").open("a") as bills:
        bills.write("x")
        bills.flush()
        os.fsync(bills.fileno())
        return bills.tell()


def billed(folder: Path) -> int:
    """How many requests came to the provider."""
    return (folder / "bills").stat().st_size if (folder / "bills").exists() else 0


@perdure.tool(effect="pure", paid=True)
async def think(folder: str, kills: int) -> str:
    """Be billed, and be killed before the answer is there, the first times."""
    if bill(Path(folder)) <= kills:
        os.kill(os.getpid(), signal.SIGKILL)
    perdure.charge(perdure.Cost(900, 100, f"{PRICE} USD"))
    return "an answer"


@perdure.program(state={"answers": []})
async def ponder(task, folder, thoughts, kills):
    """Ask the model so many times."""
    async for _ in task.each("thoughts", range(thoughts)):
        paid = task.using(reserve=RESERVE)
        await paid.act(think, folder, kills, then=lambda state, answer: state["answers"].append(answer))
    return len(task.state["answers"])


def living(kills: int, thoughts: int = 1, budget: str = "5 USD"):
    """One life of the task."""

    async def run(folder: Path) -> None:
        arguments = {"folder": str(folder), "thoughts": thoughts, "kills": kills}
        async with perdure.open(folder / "store.db") as runtime:
            try:
                await runtime.run(ponder, "ponder", args=arguments, budget=budget)
            except perdure.NeedsHuman as stopped:
                (folder / "stopped").write_text(stopped.next_command)

    return run


def standing(folder: Path):
    """How the task stands to its budget, and its status, by its journal."""

    async def look():
        async with perdure.open(folder / "store.db") as runtime:
            fold = await load_fold(runtime.store, (await runtime.store.find("ponder")).task)
            return state_of(fold.ledger, fold.at), fold.ledger.status

    return asyncio.run(look())


def test_three_kills_in_the_middle_of_a_call_leave_three_reservations_spent(tmp_path):
    """Each is counted once; what the call that comes through has charged is counted on top."""
    for number in range(1, KILLS + 1):
        assert signal.SIGKILL == forked.live(living(KILLS), tmp_path, "")
        state, _ = standing(tmp_path)
        used = state.spent.money.get("USD", Decimal()) + state.reserved.money["USD"]
        assert (number, number * Decimal("0.1")) == (billed(tmp_path), used)
    assert 0 == forked.live(living(KILLS), tmp_path, "")
    state, status = standing(tmp_path)
    assert ("succeeded", "0.38 USD", {}) == (status, text_of(state.spent.money), state.reserved.money)
    assert (KILLS * 1000 + 900, KILLS * 500 + 100) == (state.spent.tokens_in, state.spent.tokens_out)
    assert KILLS + 1 == state.spent.actions


def test_a_task_that_is_killed_again_and_again_stops_at_its_limit(tmp_path):
    """The right total stops it, not the number of starts; the provider was never asked for more."""
    for _ in range(KILLS):
        assert signal.SIGKILL == forked.live(living(99, budget="0.35 USD"), tmp_path, "")
    assert 0 == forked.live(living(99, budget="0.35 USD"), tmp_path, "")
    assert "perdure resume ponder --budget '0.7 USD'" == (tmp_path / "stopped").read_text()
    assert (KILLS, "needs_human") == (billed(tmp_path), standing(tmp_path)[1])


@pytest.mark.parametrize("point", ["before_intent", "after_intent", "after_effect", "after_outcome"])
def test_whatever_the_point_no_bill_is_forgotten(tmp_path, point):
    """Killed at each call in turn: what is spent is never less than what the provider has billed."""
    for number in (1, 2, 1, 2):
        assert signal.SIGKILL == forked.live(living(0, THOUGHTS), tmp_path, f"{point}:{number}")
        state, _ = standing(tmp_path)
        used = state.spent.money.get("USD", Decimal()) + state.reserved.money.get("USD", Decimal())
        assert billed(tmp_path) * PRICE <= used
    print(f"budget at {point}: 4 kills")
    assert 0 == forked.live(living(0, THOUGHTS), tmp_path, "")
    state, status = standing(tmp_path)
    assert "succeeded" == status
    lost = billed(tmp_path) - THOUGHTS  # requests whose answers nobody has got
    unsent = state.spent.tokens_in - THOUGHTS * 900 - lost * 1000  # of calls that were killed before they went out
    assert 4000 * (point == "after_intent") == unsent
