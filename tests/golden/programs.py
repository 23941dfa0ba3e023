"""Programs whose journals are kept for ever: between them every kind of entry and every kind of value is written.

Never changed once a release has written a golden database with them: the tasks name them by import path.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from uuid import UUID

import perdure

ODD_VALUES = {
    "none": None,
    "flags": [True, False, 1, 0, 1.0],
    "large": 10**30,
    "floats": [float("inf"), -0.0, 5e-324, 0.1 + 0.2],
    "bytes": bytes(range(256)),
    "text": "nul \x00, line \u2028, emoji \U0001f600, half \ud800",
    "when": [
        dt.datetime(2026, 11, 29, 13, 55, 0, 123456, tzinfo=dt.UTC),
        dt.datetime(2026, 10, 25, 2, 30, fold=1),  # noqa: DTZ001 - a naive one is meant
        dt.date(9999, 12, 31),
        dt.timedelta(days=-1, microseconds=1),
    ],
    "money": Decimal("1.10"),
    "id": UUID(int=7),
    "pair": (1, ("a", b"b")),
    "sets": [{1, 2}, frozenset({"x"}), set()],
    (1, "key"): {1: "a", "1": "b", None: "c"},
    "~": {"~": ["not", "a", "tag"]},
}


@perdure.tool(effect="pure")
async def read(item: str) -> str:
    """Read one item; long items come back as blobs."""
    if item == "missing":
        raise LookupError("no such item")
    return item * (5_000 if item == "long" else 40)


@perdure.tool(effect="idempotent")
async def send(text: str, key: perdure.EffectKey) -> str:
    """Pretend to send."""
    return f"sent {len(text)} under {len(key)} letters"


@perdure.tool(effect="irreversible")
async def pay(amount: int) -> str:
    """Pretend to pay; more than there is goes wrong on the way."""
    if amount > 100:
        raise ConnectionResetError("the bank hung up")
    return f"paid {amount}"


@perdure.program(
    state={"got": [], "odd": ODD_VALUES, "rounds": 0},
    strategies=[perdure.Strategy("direct", prompt="Do it."), perdure.Strategy("careful", prompt="Think, then do it.")],
)
async def everything(task, items):
    """Make every kind of act once, roll back once, and return what was gathered."""
    await task.adopt(["gather", "send"])
    async for item in task.each("items", items):
        try:
            await task.act(read, item, then=lambda state, text: state["got"].append(text))
        except perdure.ActionFailed as failure:
            await task.note(f"left out {item}", why=str(failure))
    await task.checkpoint("gathered")
    await task.check("something was gathered", lambda: len(task.state["got"]) > 1)
    await task.fact("gathering works", source="golden")
    drawn = [task.now(), task.random(), task.new_id()]
    async with task.edit() as state:
        state["rounds"] += 1
        state["drawn"] = drawn
        state["odd"][(2, "more")] = ODD_VALUES["bytes"]
        state["odd"].pop("none")
    if task.attempt == 1:
        await task.rollback("gathered", reason="to show it")
    await task.using(key="mail").act(send, task.state["got"][0])
    await task.act(pay, 5)
    await task.checkpoint("paid")
    return {"rounds": task.state["rounds"], "texts": len(task.state["got"])}


@perdure.program(state={"paid": False})
async def doubtful(task):
    """End with an effect of which nobody knows whether it happened."""
    await task.act(pay, 1_000)
    return "paid"


@perdure.program(state={"tries": 0}, failures_max=2)
async def hopeless(task):
    """Fail until the limit is reached."""
    async with task.edit() as state:
        state["tries"] += 1
    await task.check("the impossible", verdict=False)


@perdure.program(state={"seen": []})
async def interrupted(task, items):
    """Die in the middle of a loop (its maker kills it there)."""
    async for item in task.each("items", items):
        text = await task.act(read, item)
        async with task.edit() as state:
            state["seen"].append(text[:5])
    return len(task.state["seen"])
