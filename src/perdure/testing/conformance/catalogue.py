"""Checks of `ports.Catalogue`: names, listing, finding, deleting."""

from __future__ import annotations

import asyncio
import unicodedata
from typing import Final

from msgspec.structs import replace

from perdure.errors import LimitExceeded, NameTaken, TaskAmbiguous, TaskUnknown, UsageError
from perdure.model.status import TaskSummary
from perdure.ports import Message, SnapshotHead, Store
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
    summary,
    task_id,
)

# What people call tasks (https://github.com/NousResearch/hermes-agent/issues/5958, HKUDS/nanobot issue 4057).
_ODD_NAMES: Final = (
    "../../x",
    "/abs",
    "a/b",
    "a\\b",
    "a:b",
    "a_b",
    "A",
    "a",
    "CON",
    "..",
    "dot.",
    "%2e%2e%2f",
    "100%",
    "_",
    "*?[x]",
    "it's",
    'a "b" --',
    "🦀 crab",
    unicodedata.normalize("NFC", "é"),
    unicodedata.normalize("NFD", "é"),
    "العربية",
    "x" * 200,
)


async def a_living_name_is_taken(place: Place) -> None:
    """A second unfinished task of one name is refused, naming the first; a finished one frees its name."""
    store, other = await place.open(), await place.open()
    chain = await begun(store, 1, "report")
    same(task_id(1), (await refused(NameTaken, other.create(summary(2, "report"), holder(2)))).task, "owner")
    for status in ("paused", "parked", "needs_human"):
        await store.append(chain.task, replace(chain.next(), summary=replace(summary(1, "report"), status=status)))
        await refused(NameTaken, other.create(summary(2, "report"), holder(2)))
    await store.append(chain.task, replace(chain.next(), summary=replace(summary(1, "report"), status="succeeded")))
    await begun(other, 2, "report")


async def of_many_creations_one_wins(place: Place) -> None:
    """Of tasks of one name made at the same time by several handles, exactly one is made."""
    stores = [await place.open() for _ in range(4)]
    results = await asyncio.gather(*(_create(store, number) for number, store in enumerate(stores, 1)))
    same(1, results.count("made"), "tasks made")


async def odd_names_never_share(place: Place) -> None:
    """Names are kept as they are given: no two different ones share anything, none is a path, each is found."""
    store = await place.open()
    for number, name in enumerate(_ODD_NAMES, 1):
        chain = await begun(store, number, name)
        await store.append(chain.task, chain.next(name.encode()))
    for number, name in enumerate(_ODD_NAMES, 1):
        found = await store.find(name)
        same((task_id(number), name), (found.task, found.name), "found")
        same(name.encode(), (await journal_of(store, found.task))[-1].frames, "its last frames")


async def bad_names_are_refused(place: Place) -> None:
    """Names that are empty, too long, or hold a control character or half of a surrogate pair make no task."""
    store = await place.open()
    for name in ("", " ", "a ", "a\x00b", "a\nb", "\ud83e"):
        await refused(UsageError, store.create(replace(summary(1), name=name), holder(1)))
    await refused(LimitExceeded, store.create(summary(1, "x" * 201), holder(1)))
    await refused(LimitExceeded, store.create(summary(1, "é" * 101), holder(1)))
    await refused(UsageError, store.create(replace(summary(1), goal="half: \ud83e"), holder(1)))
    await store.create(summary(1), holder(1))


async def an_id_is_used_once(place: Place) -> None:
    """A second task of the same id is refused, and the first is not touched."""
    store = await place.open()
    chain = await begun(store, 1, "one")
    await refused(NameTaken, store.create(summary(1, "two"), holder(2)))
    same("one", (await store.find(chain.task)).name, "name")
    same(holder(1), (await store.lease(chain.task)).holder, "holder")


async def tasks_are_listed_newest_first(place: Place) -> None:
    """All tasks with an entry are listed, the last made first, whatever their times say."""
    store = await place.open()
    made: list[TaskSummary] = []
    for number, started_at in ((5, 500), (3, 900), (9, -1), (1, 253_402_300_799_999_999)):
        one = replace(summary(number), started_at=started_at, changed_at=started_at)
        await store.create(one, holder(1))
        chain = Chain(one.task)
        await store.append(one.task, chain.next())
        made.append(one)
    await store.create(summary(7), holder(1))
    same(made[::-1], await store.tasks(), "tasks")
    same(made[::-1], await (await place.open()).tasks(), "tasks seen by another handle")


async def all_of_a_summary_comes_back(place: Place) -> None:
    """Each field of a summary comes back equal: odd texts as they were, times to the microsecond."""
    store = await place.open()
    text = "✓ \U0001f980 \ufeff\r\n\r lone \x00 nul 'quote' \u0301 العربية"
    full = TaskSummary(
        task=task_id(1),
        name="full",
        goal=text,
        status="parked",
        reason=text,
        attempt=2**40,
        branch=3,
        driver="program pkg.mod:fn",
        workspace="/tmp/ödd path",  # noqa: S108 - only a text here
        started_at=1_700_000_000_123_456,
        changed_at=-1,
        until=253_402_300_799_999_999,
        taken_at=1,
        tokens_in=2**53,
        tokens_out=2,
        money="3 EUR + 0.00000000000000000001 USD",
    )
    await store.create(summary(1, "full"), holder(1))
    chain = Chain(task_id(1))
    await store.append(chain.task, replace(chain.next(), summary=full))
    same(full, await store.find("full"), "summary")
    same([full], await store.tasks(), "tasks")


async def a_name_means_the_newest(place: Place) -> None:
    """An id is exact; a name is that of the newest task that has it; the beginning of one name will do."""
    store = await place.open()
    for number in (1, 2, 3):
        chain = await begun(store, number, "report-7")
        ended = replace(summary(number, "report-7"), status="failed")
        await store.append(chain.task, replace(chain.next(), summary=ended))
    await begun(store, 4, "Report")
    for asked in ("report-7", "report-", "r", task_id(3)):
        same(task_id(3), (await store.find(asked)).task, f"task found by {asked!r}")
    same(task_id(1), (await store.find(task_id(1))).task, "task found by its id")
    same(task_id(4), (await store.find("R")).task, "task found by 'R'")


async def an_exact_name_wins_over_longer_ones(place: Place) -> None:
    """A whole name is found though others begin with it; a whole id is found though a task is called so."""
    store = await place.open()
    await begun(store, 1, "job")
    await begun(store, 2, "job-2")
    await begun(store, 3, task_id(1))
    same(task_id(1), (await store.find("job")).task, "task found by 'job'")
    same(task_id(1), (await store.find(task_id(1))).task, "task found by the id")


async def an_ambiguous_prefix_is_refused(place: Place) -> None:
    """A beginning that fits several names or ids raises TaskAmbiguous naming them; more of the name helps."""
    store = await place.open()
    await begun(store, 1, "beta-1")
    await begun(store, 2, "beta-2")
    await begun(store, 3, "0alpha")
    same(("beta-1", "beta-2"), (await refused(TaskAmbiguous, store.find("beta"))).names, "names")
    both = (await refused(TaskAmbiguous, store.find("0"))).names
    same(True, "0alpha" in both and task_id(1) in both, "whether name and id are named")
    same(task_id(1), (await store.find("beta-1")).task, "task found by more of the name")
    same(task_id(3), (await store.find("0a")).task, "task found by more of the name")


async def patterns_are_texts(place: Place) -> None:
    """What is asked for is a text, never a pattern; what fits nothing raises TaskUnknown."""
    store = await place.open()
    await begun(store, 1, "plain")
    for asked in ("", "%", "_lain", "p%", "pla*", "PLAIN", "plain\x00", "plain\ud800", "plainer", "' OR 1=1 --"):
        same(asked, (await refused(TaskUnknown, store.find(asked))).name, "what the error names")


async def an_empty_task_is_not_shown(place: Place) -> None:
    """A task without an entry is neither listed nor found, but its name is taken until it is forgotten."""
    store = await place.open()
    await store.create(summary(1, "early"), holder(1))
    same([], await store.tasks(), "tasks")
    for asked in ("early", "ear", task_id(1)):
        await refused(TaskUnknown, store.find(asked))
    await refused(NameTaken, store.create(summary(2, "early"), holder(2)))
    same(False, await store.forget_empty(task_id(1), over=2), "forgotten over another epoch")
    same(True, await store.forget_empty(task_id(1), over=1), "forgotten")
    same(False, await store.forget_empty(task_id(1), over=1), "forgotten twice")
    chain = await begun(store, 2, "early")
    same(False, await store.forget_empty(chain.task, over=1), "forgotten although it has an entry")
    same(chain.head, await store.head(chain.task), "head")


async def a_deleted_task_is_gone(place: Place) -> None:
    """Delete removes journal, snapshots, messages and lease; its id and name are free, and other tasks stay."""
    store = await place.open()
    chain, other = await begun(store, 1, "gone"), await begun(store, 2, "stays")
    raw = b"blob"
    await store.append(chain.task, replace(chain.next(), blobs=((digest_of(raw), raw),)))
    await store.post(chain.task, Message(id="m", what="tell", text="hello"))
    await store.post(other.task, Message(id="m", what="tell", text="stays"))
    head = SnapshotHead(seq=2, branch=0, fold_version=1, digest=digest_of(raw), size=4)
    await store.save_snapshot(chain.task, head, [raw])
    await store.delete(chain.task)
    await refused(TaskUnknown, store.head(chain.task))
    await refused(TaskUnknown, store.lease(chain.task))
    await refused(TaskUnknown, store.append(chain.task, chain.peek()))
    await refused(TaskUnknown, store.delete(chain.task))
    same([other.task], [task.task for task in await store.tasks()], "tasks")
    again = await begun(store, 1, "gone")
    same(again.head, await store.head(chain.task), "head of a new task of that id")
    same([], await store.snapshots(chain.task), "snapshots of a new task of that id")
    same([other.task], list(await store.messages([chain.task, other.task])), "tasks with messages")
    same(other.head, await store.head(other.task), "head of the other task")


async def _create(store: Store, number: int) -> str:
    try:
        await store.create(summary(number, "race"), holder(number))
    except NameTaken:
        return "refused"
    return "made"


CHECKS = (
    *checks(
        a_living_name_is_taken,
        of_many_creations_one_wins,
        odd_names_never_share,
        bad_names_are_refused,
        an_id_is_used_once,
        tasks_are_listed_newest_first,
        all_of_a_summary_comes_back,
        a_name_means_the_newest,
        an_exact_name_wins_over_longer_ones,
        an_ambiguous_prefix_is_refused,
        patterns_are_texts,
        an_empty_task_is_not_shown,
    ),
    *checks(a_deleted_task_is_gone, power="delete"),
)
