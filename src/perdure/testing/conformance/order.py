"""Checks of `ports.Journal` under concurrency: order, isolation of refusals, atomicity with what rides along."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from perdure.errors import Conflict, Fenced, NameTaken
from perdure.ports import Message
from perdure.testing.conformance.place import (
    Chain,
    Place,
    begun,
    checks,
    digest_of,
    holder,
    journal_of,
    refused,
    same,
    stored,
    summary,
    task_id,
)


async def the_call_takes_the_place(place: Place) -> None:
    """Appends are written in the order of the calls, whatever the order of the awaits."""
    store = await place.open()
    chain = await begun(store)
    appends = [chain.next(b"%d" % number) for number in range(40)]
    answers = [store.append(chain.task, append) for append in appends]
    for answer in reversed(answers):
        await answer
    found = await journal_of(store, chain.task, after=1)
    same([stored(append) for append in appends], found, "journal")


async def fifty_tasks_at_once(place: Place) -> None:
    """Fifty tasks that append at the same time each end with their own journal, whole and in order."""
    store = await place.open()
    chains = [await begun(store, number) for number in range(1, 51)]

    async def work(chain: Chain) -> None:
        for number in range(12):
            await store.append(chain.task, chain.next(b"%s-%d" % (chain.task.encode(), number)))

    await asyncio.gather(*map(work, chains))
    for chain in chains:
        frames = [append.frames for append in await journal_of(store, chain.task, after=1)]
        same([b"%s-%d" % (chain.task.encode(), number) for number in range(12)], frames, "frames")


async def fifty_coroutines_of_one_task(place: Place) -> None:
    """Fifty coroutines that append to one task lose, double and reorder nothing; sizes from small to large."""
    store = await place.open()
    chain = await begun(store)
    sent: list[bytes] = []

    async def work(number: int) -> None:
        for turn in range(4):
            frames = b"%d-%d|" % (number, turn) * (1 if turn % 2 else 5_000)
            sent.append(frames)
            await store.append(chain.task, chain.next(frames))

    await asyncio.gather(*map(work, range(50)))
    same(sent, [append.frames for append in await journal_of(store, chain.task, after=1)], "frames")


async def a_refusal_touches_no_other_task(place: Place) -> None:
    """Among appends made at once, a refused one fails alone, and so do later ones of its task that build on it."""
    store = await place.open()
    chains = [await begun(store, number) for number in range(1, 11)]
    await store.claim(chains[3].task, holder(2), over=1)
    chains[6].seq = 5  # wrong from here on
    answers = [(chain, store.append(chain.task, chain.next(b"x"))) for _ in range(3) for chain in chains]
    for chain, answer in answers:
        if chain is chains[3]:
            await refused(Fenced, answer)
        elif chain is chains[6]:
            await refused(Conflict, answer)
        else:
            await answer
    heads = [(await store.head(chain.task))[0] for chain in chains]
    same([1 if chain in (chains[3], chains[6]) else 4 for chain in chains], heads, "heads")


async def a_cancelled_wait_takes_nothing_back(place: Place) -> None:
    """Cancelling the await does not take the append back: what was called is written, and what follows on it."""
    store = await place.open()
    chain = await begun(store)
    held = [store.append(chain.task, chain.next(b"before")) for _ in range(10)]

    async def wait(append: bytes) -> None:
        await store.append(chain.task, chain.next(append))

    waits = [asyncio.ensure_future(wait(b"%d" % number)) for number in range(10)]
    await asyncio.sleep(0)
    for waiting in waits:
        waiting.cancel()
    await asyncio.gather(*waits, return_exceptions=True)
    for answer in held:
        await answer
    await store.append(chain.task, chain.next(b"after"))
    same(22, len(await journal_of(store, chain.task)), "appends")


async def all_of_an_append_or_nothing(place: Place) -> None:
    """Entries, blobs, consumed messages and summary of an append are visible together, or none of them is."""
    store = await place.open()
    chain = await begun(store)
    raw = b"blob" * 50
    await store.post(chain.task, Message(id="m1", what="tell", text="hello"))
    whole = replace(
        chain.peek(b"whole"),
        blobs=((digest_of(raw), raw),),
        consumed=("m1",),
        summary=replace(summary(1), reason="changed", status="paused"),
    )
    await refused(Fenced, store.append(chain.task, replace(whole, epoch=7)))
    await refused(Conflict, store.append(chain.task, replace(whole, expected_seq=4, last_seq=5)))
    await refused(KeyError, store.blobs([digest_of(raw)]))
    same(["m1"], [message.id for message in (await store.messages([chain.task]))[chain.task]], "messages")
    same("running", (await store.find(chain.task)).status, "status")
    await store.append(chain.task, whole)
    same({digest_of(raw): raw}, dict(await store.blobs([digest_of(raw)])), "blobs")
    same({}, dict(await store.messages([chain.task])), "messages")
    same(whole.summary, await store.find(chain.task), "summary")


async def a_summary_cannot_take_a_name(place: Place) -> None:
    """A summary that would make two unfinished tasks of one name is refused with its whole append."""
    store = await place.open()
    chain = await begun(store, 1, "report")
    await store.append(chain.task, replace(chain.next(), summary=replace(summary(1, "report"), status="failed")))
    await begun(store, 2, "report")
    again = replace(chain.peek(), summary=summary(1, "report"))
    same(task_id(2), (await refused(NameTaken, store.append(chain.task, again))).task, "who has the name")
    same(chain.head, await store.head(chain.task), "head")


async def an_append_of_plain_and_rich_ones_mixed(place: Place) -> None:
    """Appends with and without blobs, small and of 5 MiB, made at once keep their order and their contents."""
    store = await place.open()
    chain, other = await begun(store, 1), await begun(store, 2)
    big = bytes(range(256)) * 20_480
    sizes = (b"", b"small" * 10, big, b"s", b"", big[:300_000], b"last" * 2_000)
    answers = [store.append(other.task, other.next(b"other")) for _ in range(3)]
    for number, raw in enumerate(sizes):
        append = chain.next(b"%d" % number)
        blobs = ((digest_of(raw), raw),) if raw else ()
        answers.append(store.append(chain.task, replace(append, blobs=blobs)))
        answers.append(store.append(other.task, other.next(b"other")))
    await asyncio.gather(*answers)
    same([b"%d" % n for n in range(7)], [a.frames for a in await journal_of(store, chain.task, after=1)], "frames")
    same(11, len(await journal_of(store, other.task)), "appends of the other task")
    wanted = {digest_of(raw): raw for raw in sizes if raw}
    same(True, wanted == dict(await store.blobs(list(wanted))), "whether all blobs came back equal")


async def two_handles_write_two_tasks(place: Place) -> None:
    """Two handles that write at the same time, each its own task, disturb each other in nothing."""
    stores = [await place.open(), await place.open()]
    chains = [await begun(stores[0], 1), await begun(stores[1], 2)]

    async def work(number: int) -> None:
        for turn in range(60):
            await stores[number].append(chains[number].task, chains[number].next(b"%d" % turn))
            if turn % 7 == 0:
                await asyncio.sleep(0)

    await asyncio.gather(work(0), work(1))
    for number in (0, 1):
        frames = [append.frames for append in await journal_of(stores[1 - number], chains[number].task, after=1)]
        same([b"%d" % turn for turn in range(60)], frames, "frames")


async def of_two_writers_of_one_task_one_wins(place: Place) -> None:
    """Of two handles that append different entries at the same place, under the same epoch, exactly one succeeds."""
    stores = [await place.open(), await place.open()]
    chain = await begun(stores[0])
    for turn in range(10):
        rivals = [chain.peek(b"%d from %d" % (turn, number)) for number in (0, 1)]
        answers = await asyncio.gather(
            *(_outcome(store.append(chain.task, rival)) for store, rival in zip(stores, rivals, strict=True))
        )
        same(["Conflict", "written"], sorted(answers), "outcomes")
        winner = rivals[answers.index("written")]
        chain.seq, chain.digest = winner.last_seq, winner.last_digest
    same(chain.head, await stores[0].head(chain.task), "head")


async def _outcome(answer: object) -> str:
    try:
        await answer  # type: ignore[misc]  # an awaitable, passed on
    except Conflict:
        return "Conflict"
    return "written"


CHECKS = checks(
    the_call_takes_the_place,
    fifty_tasks_at_once,
    fifty_coroutines_of_one_task,
    a_refusal_touches_no_other_task,
    a_cancelled_wait_takes_nothing_back,
    all_of_an_append_or_nothing,
    a_summary_cannot_take_a_name,
    an_append_of_plain_and_rich_ones_mixed,
    two_handles_write_two_tasks,
    of_two_writers_of_one_task_one_wins,
)
