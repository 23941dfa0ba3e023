"""Two programs that are killed at every point: `harvest` holds every kind of act, `drafts` rolls back twice.

What `drafts` has pinned is taken off by the rollback, what it has rejected stays so.

Programs as any user would write them; all they know of crash tests is that their tools note each call in the outside
world (`ledger.py`). Run by `sweep.py` in forked children.
"""

import asyncio
from typing import Any

import perdure
from tests.crash import ledger


# --- tools that change nothing ------------------------------------------------------------------------------------
@perdure.tool(effect="pure")
def read(name: str) -> str:
    """Read a document: a plain function, called in a thread."""
    ledger.called("read", name)
    return ledger.document(name).decode("utf-8")


@perdure.tool(effect="pure", quick=True)
def weigh(name: str, text: str) -> int:
    """Count letters: called on the loop."""
    ledger.called("weigh", name)
    return len(text)


@perdure.tool(effect="pure", valid=bool)
async def excerpt(number: int, texts: dict[str, str]) -> str:
    """Take a piece of all texts: a coroutine that is given a view of the state."""
    ledger.called("excerpt", number)
    await asyncio.sleep(0)
    return "".join(text[number : number + 9] for _, text in sorted(texts.items()))


@perdure.tool(effect="pure", paid=True)
async def rate(number: int) -> int:
    """Rate something for money: its intent is durable before the call."""
    ledger.called("rate", number)
    await asyncio.sleep(0.002)
    return number * number


@perdure.tool(effect="pure")
async def count_rejected() -> int:
    """Ask the world how many drafts were rejected."""
    ledger.called("count_rejected", "")
    return ledger.rejected()


# --- tools that do ------------------------------------------------------------------------------------------------
@perdure.tool(effect="idempotent")
async def send(text: str, key: perdure.EffectKey) -> str:
    """Send a letter; the service drops a second one under the same key."""
    ledger.called("send", text)
    return ledger.send(text, key)


@perdure.tool(effect="idempotent")
def reject(draft: str, key: perdure.EffectKey) -> None:
    """Put a draft on the list of the rejected, from a thread."""
    ledger.called("reject", draft)
    ledger.reject(draft, key)


@perdure.tool(effect="idempotent")
async def unpin(draft: str, key: perdure.EffectKey) -> None:
    """Take a draft off the board."""
    ledger.called("unpin", draft)
    ledger.pin(draft, key, "unpinned")


@perdure.tool(effect="compensable", retry="keyed", undo=unpin)
def pin(draft: str, key: perdure.EffectKey) -> None:
    """Put a draft on the board; a rollback takes it off."""
    ledger.called("pin", draft)
    ledger.pin(draft, key, "pinned")


def is_booked(room: str) -> str | bool:
    """Ask the world whether `book` happened: its result, or no."""
    return f"booked {room}" if ledger.booked(room) else False


@perdure.tool(effect="verifiable", probe=is_booked, timeout_s=0.1)
async def book(room: str) -> str:
    """Book a room; whether it happened can be asked."""
    ledger.called("book", room)
    return ledger.book(room)


@perdure.tool(effect="irreversible")
def ring(hour: str) -> str:
    """Ring a bell; it can neither be asked nor told to ring once."""
    ledger.called("ring", hour)
    return ledger.ring(hour)


# --- every kind of act --------------------------------------------------------------------------------------------
@perdure.program(state={"texts": {}, "weights": {}, "parts": [], "rates": {}, "sent": []})
async def harvest(task: Any, names: list[str]) -> dict[str, Any]:
    """Read twelve documents, work on them, send what came of it; at most 45 actions."""
    await _read_all(task, names)
    await task.checkpoint("collected")
    try:
        await task.check("every document is long", all(len(text) > 200 for text in task.state["texts"].values()))
    except perdure.CheckFailed as failure:
        await task.note(f"going on all the same: {failure}")
    await _shape(task)
    await _rate_all(task)
    await task.check("rated", len(task.state["rates"]) == 7)
    await _tell_the_world(task)
    await task.act(send, "last words")
    await task.checkpoint("sent")
    weight = await task.using(key="weight").act(weigh, "all of it", "".join(task.state["sent"]))
    return {"sent": list(task.state["sent"]), "weight": weight + sum(task.state["weights"].values())}


async def _read_all(task: Any, names: list[str]) -> None:
    """In `each`: with `then`, without, and an edit apart from the act."""
    async for name in task.each("documents", names):
        try:
            text = await task.act(read, name, then=lambda state, text, name=name: state["texts"].update({name: text}))
        except perdure.ActionFailed as failure:
            await task.note(f"left out {name}: {failure}")
            continue
        if name < "06":
            weight = await task.act(weigh, name, text)
            async with task.edit() as state:
                state["weights"][name] = weight


async def _shape(task: Any) -> None:
    """Loose acts, each followed by an edit; the program asks its state where it is."""
    while (done := len(task.state["parts"])) < 3:
        part = await task.act(excerpt, done, task.state["texts"])
        async with task.edit() as state:
            state["parts"].append(part)
    if "sum" not in task.state:
        first = await task.act(weigh, "first part", task.state["parts"][0])
        second = await task.act(weigh, "second part", task.state["parts"][1])
        async with task.edit() as state:
            state["sum"] = first + second


async def _rate_all(task: Any) -> None:
    """A parallel group under keys, and a map."""
    async with asyncio.TaskGroup() as group:
        for number in range(4):
            keyed = task.using(key=f"rate {number}")
            group.create_task(keyed.act(rate, number, then=_keep_rate(number)))
    more = await task.map("more", rate, [4, 5, 6], concurrency=2)
    async with task.edit() as state:
        state["rates"].update({str(number): rated for number, rated in zip([4, 5, 6], more, strict=True)})


def _keep_rate(number: int) -> Any:
    return lambda state, rated: state["rates"].update({str(number): rated})


async def _tell_the_world(task: Any) -> None:
    """Effects: keyed by place, by the user's key, held by an edit; asked for; and one that nobody can ask about."""

    def note(state: Any, receipt: str) -> None:
        state["sent"].append(receipt)

    async for number in task.each("letters", [1, 2]):
        await task.act(send, f"letter {number}", then=note)
    await task.using(key="front page").act(send, "front page", then=note)
    if "receipt for loose leaf" not in task.state["sent"]:
        receipt = await task.act(send, "loose leaf")
        async with task.edit() as state:
            state["sent"].append(receipt)
    await task.using(key="room").act(book, "room 7", then=note)
    await task.using(key="bell").act(ring, "noon", then=note)
    async for hour in task.each("hours", ["one", "two"]):
        await task.act(ring if hour == "one" else book, hour, then=note)


# --- going back ---------------------------------------------------------------------------------------------------
@perdure.program(state={"texts": [], "sent": ""})
async def drafts(task: Any) -> str:
    """Write drafts until one is good: the first goes back to a checkpoint, the second to the start."""
    for name in ledger.FILES[len(task.state["texts"]) : 3]:
        await task.act(read, name, then=lambda state, text: state["texts"].append(text))
    await task.checkpoint("read")
    number = await task.using(key="rejected").act(count_rejected)
    draft = f"draft {number}"
    if number < 2:
        for place in range(number + 1):
            await task.using(key=f"pin {place}").act(pin, f"{draft} page {place}")
        await task.using(key="reject").act(reject, draft)
        await task.rollback(
            "read" if number == 0 else "start", reason=f"{draft} is bad", carry=number == 0, force=number == 1
        )
    await task.using(key="send").act(send, draft, then=lambda state, receipt: state.update(sent=receipt))
    return f"{draft} of {sum(map(len, task.state['texts']))} letters"
