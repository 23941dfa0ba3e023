"""Checks of `ports.Blobs`, `ports.Snapshots` and `ports.Inbox`."""

from __future__ import annotations

import hashlib
from typing import Final

from msgspec.structs import replace

from perdure.errors import BlobMissing, LimitExceeded, TaskUnknown
from perdure.limits import MESSAGE_BYTES_MAX, SNAPSHOT_PART_BYTES
from perdure.ports import Append, Message, SnapshotHead
from perdure.testing.conformance.place import (
    Place,
    begun,
    checks,
    digest_of,
    holder,
    refused,
    same,
    task_id,
)

_SIZES: Final = (0, 1, 4_095, 4_096, 100_000, 262_145, 1_048_576, 1_048_577, 5 * 1_048_576)


# --- blobs ----------------------------------------------------------------------------------------------------------
async def blobs_come_back_equal(place: Place) -> None:
    """Blobs of every size, compressible or not, come back byte for byte, also to another handle."""
    store = await place.open()
    chain = await begun(store)
    raws = [make(size) for size in _SIZES for make in (bytes, _noise)]
    for raw in raws:
        await store.append(chain.task, _with_blobs(chain.next(), raw))
    wanted = {digest_of(raw): raw for raw in raws}
    same(True, wanted == dict(await store.blobs(list(wanted))), "whether all blobs are equal")
    other = await place.open()
    same(True, wanted == dict(await other.blobs(list(wanted))), "whether all blobs are equal for another handle")


async def a_missing_blob_is_named(place: Place) -> None:
    """Asking for a blob that is not there raises KeyError with its digest; asking for none answers none."""
    store = await place.open()
    chain = await begun(store)
    await store.append(chain.task, _with_blobs(chain.next(), b"there"))
    missing = digest_of(b"missing")
    error = await refused(KeyError, store.blobs([digest_of(b"there"), missing]))
    same((missing.hex(),), error.args, "what the error names")
    same({}, dict(await store.blobs([])), "answer to no question")


async def a_blob_named_twice_is_stored_once(place: Place) -> None:
    """The same bytes in many appends, and twice in one, do no harm."""
    store = await place.open()
    chain, other = await begun(store, 1), await begun(store, 2)
    raw = _noise(300_000)
    for each in (chain, chain, other):
        await store.append(each.task, _with_blobs(each.next(), raw, raw))
    same({digest_of(raw): raw}, dict(await store.blobs([digest_of(raw), digest_of(raw)])), "blobs")


async def a_refused_append_leaves_no_blob(place: Place) -> None:
    """Blobs of a refused append cannot be read, whatever their size, and are swept once nobody will use them."""
    store = await place.open()
    chain = await begun(store)
    small, large = b"small", _noise(2_000_000)
    wrong = replace(_with_blobs(chain.peek(), small, large), expected_seq=5, last_seq=6)
    await refused(Exception, store.append(chain.task, wrong))
    await refused(KeyError, store.blobs([digest_of(small)]))
    await store.append(chain.task, _with_blobs(chain.next(), large))
    same([digest_of(large)], list(await store.blobs([digest_of(large)])), "blobs")


async def sweeping_keeps_what_is_named(place: Place) -> None:
    """Sweep removes what no task names and keeps the rest, however often it is called."""
    store = await place.open()
    chain, other = await begun(store, 1), await begun(store, 2)
    shared, own = _noise(300_000), b"own" * 2_000
    await store.append(chain.task, _with_blobs(chain.next(), shared, own))
    await store.append(other.task, _with_blobs(other.next(), shared))
    same(0, await store.sweep(), "blobs swept while all are named")
    await store.delete(chain.task)
    same(1, await store.sweep(), "blobs swept")
    same(0, await store.sweep(), "blobs swept a second time")
    await refused(KeyError, store.blobs([digest_of(own)]))
    same([digest_of(shared)], list(await store.blobs([digest_of(shared)])), "blobs kept")
    await store.append(other.task, _with_blobs(other.next(), own))
    same({digest_of(own): own}, dict(await store.blobs([digest_of(own)])), "a swept blob written anew")


async def a_blob_is_kept_for_whoever_names_it(place: Place) -> None:
    """An append that names blobs which are there needs no bytes of them; they stay when the task that put them goes."""
    store = await place.open()
    chain, other = await begun(store, 1), await begun(store, 2)
    raws = [b"small", _noise(3_000_000), b""]
    await store.append(chain.task, _with_blobs(chain.next(), *raws))
    names = tuple(digest_of(raw) for raw in raws)
    await store.append(other.task, replace(other.next(), names=(*names, *names)))
    await store.append(other.task, replace(other.next(), names=names[:1]))
    await store.delete(chain.task)
    same(0, await store.sweep(), "blobs swept while another task names them")
    same(dict(zip(names, raws, strict=True)), dict(await store.blobs(names)), "blobs")
    await store.delete(other.task)
    same(len(raws), await store.sweep(), "blobs swept when nobody names them")


async def a_name_of_nothing_is_refused(place: Place) -> None:
    """An append that names a blob which is not there is refused whole; the next one is due as if it had not been."""
    store = await place.open()
    chain = await begun(store)
    there, missing = b"there", digest_of(b"missing")
    named = replace(_with_blobs(chain.peek(), there), names=(digest_of(there), missing))
    same(missing.hex(), (await refused(BlobMissing, store.append(chain.task, named))).digest, "what the error names")
    same(chain.head, await store.head(chain.task), "head")
    await refused(KeyError, store.blobs([digest_of(there)]))
    await store.append(chain.task, replace(_with_blobs(chain.next(), there), names=(digest_of(there),)))
    same(chain.head, await store.head(chain.task), "head of an append that names what it brings")


async def what_is_under_way_is_not_swept(place: Place) -> None:
    """A sweep made while large appends are under way takes nothing from them."""
    store, other = await place.open(), await place.open()
    chain = await begun(store)
    raws = [_noise(700_000 + number) for number in range(4)]
    answers = [store.append(chain.task, _with_blobs(chain.next(), raw)) for raw in raws]
    for answer in answers:
        await other.sweep()
        await answer
    await other.sweep()
    same(4, len(await store.blobs([digest_of(raw) for raw in raws])), "blobs")


# --- snapshots ------------------------------------------------------------------------------------------------------
async def snapshots_come_back_whole(place: Place) -> None:
    """A snapshot of many parts comes back joined, its head as it was, the newest first."""
    store, other = await place.open(), await place.open()
    chain = await begun(store)
    parts = [_noise(SNAPSHOT_PART_BYTES)] * 19 + [b"tail"]
    saved = {3: [b"small"], 7: parts, 5: [b"small"]}
    for seq, its_parts in saved.items():
        await store.save_snapshot(chain.task, _head(seq, its_parts), its_parts)
    same([_head(seq, saved[seq]) for seq in (7, 5, 3)], await other.snapshots(chain.task), "heads")
    same(True, b"".join(parts) == await other.load_snapshot(chain.task, 7), "whether the large one is equal")
    same(b"small", await store.load_snapshot(chain.task, 3), "the small one")
    same(None, await store.load_snapshot(chain.task, 4), "one that never was")


async def a_snapshot_without_parts(place: Place) -> None:
    """A snapshot of no bytes is a snapshot."""
    store = await place.open()
    chain = await begun(store)
    await store.save_snapshot(chain.task, _head(1, []), [])
    same(b"", await store.load_snapshot(chain.task, 1), "snapshot")


async def saving_again_replaces(place: Place) -> None:
    """A snapshot saved again at the same seq is the new one, with nothing left of the old, longer one."""
    store = await place.open()
    chain = await begun(store)
    for parts in ([b"old", b"er", b"longer"], [b"new"]):
        await store.save_snapshot(chain.task, _head(4, parts), parts)
    same(b"new", await store.load_snapshot(chain.task, 4), "snapshot")
    same([_head(4, [b"new"])], await store.snapshots(chain.task), "heads")


async def forgetting_keeps_the_named(place: Place) -> None:
    """Forget removes all snapshots of the task but the named ones and says how many; others' stay."""
    store = await place.open()
    chain, other = await begun(store, 1), await begun(store, 2)
    for seq in (1, 2, 3, 4):
        await store.save_snapshot(chain.task, _head(seq, [b"%d" % seq]), [b"%d" % seq])
    await store.save_snapshot(other.task, _head(1, [b"o"]), [b"o"])
    same(2, await store.forget_snapshots(chain.task, keep=[4, 2, 99]), "snapshots gone")
    same([4, 2], [head.seq for head in await store.snapshots(chain.task)], "seqs kept")
    same(None, await store.load_snapshot(chain.task, 1), "a forgotten one")
    same(b"2", await store.load_snapshot(chain.task, 2), "a kept one")
    same(b"o", await store.load_snapshot(other.task, 1), "another task's")


async def large_parts_are_refused(place: Place) -> None:
    """A part over the maximum raises LimitExceeded and nothing of the snapshot is visible; unknown tasks have none."""
    store = await place.open()
    chain = await begun(store)
    parts = [b"fine", bytes(SNAPSHOT_PART_BYTES + 1)]
    await refused(LimitExceeded, store.save_snapshot(chain.task, _head(1, parts), parts))
    same([], await store.snapshots(chain.task), "heads")
    await refused(TaskUnknown, store.save_snapshot(task_id(9), _head(1, [b"x"]), [b"x"]))


# --- inbox ----------------------------------------------------------------------------------------------------------
async def messages_wait_in_order(place: Place) -> None:
    """Messages posted by anyone wait, oldest first, until an append consumes them; only asked-for tasks are told."""
    store, other = await place.open(), await place.open()
    chain, second = await begun(store, 1), await begun(store, 2)
    told, paused = Message(id="m0", what="tell", text="text 0"), Message(id="m1", what="pause")
    posted = [told, paused, Message(id="m2", what="answer", text="text 2", key="which ✓ one?")]
    for message in posted:
        await other.post(chain.task, message)
    await other.post(second.task, posted[0])
    same({chain.task: posted}, dict(await store.messages([chain.task, "nobody", "\ud800"])), "messages")
    await store.append(chain.task, replace(chain.next(), consumed=("m1", "unknown")))
    left = {chain.task: [posted[0], posted[2]], second.task: [posted[0]]}
    same(left, dict(await other.messages([chain.task, second.task])), "messages left")
    same({}, dict(await store.messages([])), "messages of no task")


async def a_message_posted_twice_is_one(place: Place) -> None:
    """The same id is one message, also after it was consumed: a sender who is unsure may send again."""
    store = await place.open()
    chain = await begun(store)
    first = Message(id="m", what="tell", text="first")
    for message in (first, first, Message(id="m", what="tell", text="second")):
        await store.post(chain.task, message)
    same([first], (await store.messages([chain.task]))[chain.task], "messages")
    await store.append(chain.task, replace(chain.next(), consumed=("m",)))
    await store.post(chain.task, first)
    same({}, dict(await store.messages([chain.task])), "messages after it was consumed")


async def messages_survive_odd_texts(place: Place) -> None:
    """Any text can be posted; half of a surrogate pair comes back as its escape. Too long a text is refused."""
    store = await place.open()
    chain = await begun(store)
    odd = "✓ 🦀 \x00 nul\r\n\r'\" \ufeff"
    await store.post(chain.task, Message(id="a", what="tell", text=odd))
    await store.post(chain.task, Message(id="b", what="tell", text="half \ud83e"))
    texts = [message.text for message in (await store.messages([chain.task]))[chain.task]]
    same([odd, "half \\ud83e"], texts, "texts")
    long = Message(id="c", what="tell", text="é" * MESSAGE_BYTES_MAX)
    await refused(LimitExceeded, store.post(chain.task, long))
    await refused(TaskUnknown, store.post(task_id(9), Message(id="d", what="pause")))


async def a_fenced_append_consumes_nothing(place: Place) -> None:
    """A message that a fenced append would have consumed still waits for the new holder."""
    store = await place.open()
    chain = await begun(store)
    await store.post(chain.task, Message(id="m", what="cancel"))
    await store.claim(chain.task, holder(2), over=1)
    await refused(Exception, store.append(chain.task, replace(chain.peek(), consumed=("m",))))
    same(["m"], [message.id for message in (await store.messages([chain.task]))[chain.task]], "messages")


def _with_blobs(append: Append, *raws: bytes) -> Append:
    return replace(append, blobs=tuple((digest_of(raw), raw) for raw in raws))


def _noise(size: int) -> bytes:
    """Bytes that cannot be compressed, the same at each call."""
    return hashlib.shake_128(b"noise %d" % size).digest(size)


def _head(seq: int, parts: list[bytes]) -> SnapshotHead:
    joined = b"".join(parts)
    return SnapshotHead(seq=seq, branch=2, fold_version=1, digest=digest_of(joined), size=len(joined))


CHECKS = (
    *checks(
        blobs_come_back_equal,
        a_missing_blob_is_named,
        a_blob_named_twice_is_stored_once,
        a_refused_append_leaves_no_blob,
        a_name_of_nothing_is_refused,
        snapshots_come_back_whole,
        a_snapshot_without_parts,
        saving_again_replaces,
        forgetting_keeps_the_named,
        large_parts_are_refused,
        messages_wait_in_order,
        a_message_posted_twice_is_one,
        messages_survive_odd_texts,
        a_fenced_append_consumes_nothing,
    ),
    *checks(sweeping_keeps_what_is_named, a_blob_is_kept_for_whoever_names_it, power="delete"),
    *checks(what_is_under_way_is_not_swept, power="sweep"),
)
