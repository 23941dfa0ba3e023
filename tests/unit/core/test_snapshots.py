"""Snapshots as bytes: a fold comes back whole, and anything else is refused."""

import asyncio

import msgspec
import pytest

from perdure.core import snapshots
from perdure.core.fold import Fold
from perdure.errors import CodecError
from perdure.limits import SNAPSHOT_FROM_BYTES, SNAPSHOT_PART_BYTES
from perdure.model.patch import Op
from tests.worlds import Play, Stop, World, counted

STATE = {"text": "é\ud800", (1, "k"): [1.5, None, {2, 3}], "big": "b" * 10_000, "raw": b"\x00"}


def grown():
    """Return the fold of a task with a bit of everything."""
    world = World()
    send = counted([], effect="irreversible", name="send")

    async def program(task):
        async for item in task.each("loop", [1, 2]):
            await task.using(key=f"k{item}").act(send, item)
            await task.act(counted([]), item)
            if item == 2:
                break
        await task.checkpoint("mark")
        await task.check("c", True)
        await task.fact("f")
        raise Stop

    with pytest.raises(Stop):
        world.live(Play(program, state=STATE))
    return world, world.fold()


def decoded(world, raw):
    """Return the fold in `raw`."""
    from perdure.codec import leaves

    blobs = asyncio.run(world.store().blobs(leaves.blob_digests(raw)))
    return snapshots.decode_fold(raw, dict(blobs))


def test_a_fold_comes_back_whole():
    """State, document, ledger, touched paths, place in the chain; big leaves stay names of blobs."""
    world, fold = grown()
    raw = snapshots.encode_fold(fold)
    back = decoded(world, raw)
    assert STATE == back.tree.root
    for name in ("task", "seq", "epoch", "branch", "digest", "at"):
        assert getattr(fold, name) == getattr(back, name)
    assert fold.document == back.document
    assert msgspec.json.encode(fold.ledger) == msgspec.json.encode(back.ledger)
    assert fold.touched.to_value() == back.touched.to_value()
    assert raw == snapshots.encode_fold(back)
    assert len(raw) < 5_000


def test_an_image_is_the_fold_of_its_moment():
    """It is what `encode_fold` gave when it was taken, whatever happens to the fold meanwhile."""
    _, fold = grown()
    raw = snapshots.encode_fold(fold)
    image = snapshots.take_image(fold)
    assert raw == snapshots.encode_fold(fold)
    fold.tree.root["text"] = "later"
    fold.tree.root[1, "k"][2].add(4)
    fold.tree.root[1, "k"].append("later")
    fold.document.keyed.clear()
    fold.document.checks["later"] = 1
    fold.ledger.facts.append("later")
    fold.touched.mark([Op(kind="put", path=("later",), value=1)], fold.seq + 1)
    fold.seq += 1
    assert raw == image.encode()
    assert raw != snapshots.encode_fold(fold)


@pytest.mark.parametrize(("most", "is_taken"), [(100, True), (15, True), (14, False), (0, False)])
def test_no_image_is_taken_of_what_takes_long_to_copy(most, is_taken, monkeypatch):
    """Elements of all containers of the state count, and records beside it: nine and six."""
    monkeypatch.setattr(snapshots, "_IMAGE_PARTS_MAX", most)
    _, fold = grown()
    assert is_taken == (snapshots.take_image(fold) is not None)


def test_an_inline_task_comes_back_too():
    """Its driver has no arguments."""
    world = World()

    async def inline():
        async with world.runtime() as runtime, runtime.task("job", goal="g"):
            pass

    asyncio.run(inline())
    fold = world.fold()
    back = decoded(world, snapshots.encode_fold(fold))
    assert (fold.ledger.driver, b"") == (back.ledger.driver, bytes(back.ledger.driver.arguments))


def test_what_comes_back_shares_nothing_with_what_was_saved():
    """Two decoded copies go their own ways (microsoft/agent-framework 7683)."""
    world, fold = grown()
    raw = snapshots.encode_fold(fold)
    one, two = decoded(world, raw), decoded(world, raw)
    one.tree.root["text"] = "changed"
    one.document.checkpoints.clear()
    assert ("é\ud800", 1) == (two.tree.root["text"], len(two.document.checkpoints))
    assert raw == snapshots.encode_fold(fold)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda raw: raw[:-1],
        lambda raw: b"null",
        lambda raw: b"[]",
        lambda raw: raw.replace(b'"version":', b'"version":9'),
        lambda raw: raw.replace(b'"seq":', b'"seq":"x","was":', 1),
    ],
)
def test_anything_else_is_a_codec_error(spoil):
    """Cut, of another shape, or of another version of the fold."""
    world, fold = grown()
    with pytest.raises(CodecError):
        decoded(world, spoil(snapshots.encode_fold(fold)))


def test_one_is_due_after_a_mebibyte_and_the_size_of_the_last():
    """So the bytes of all snapshots stay within the journal's."""
    fold = Fold("task")
    fold.snapshot_size = 5
    for size, due in ((SNAPSHOT_FROM_BYTES + 5, False), (SNAPSHOT_FROM_BYTES + 6, True)):
        fold.bytes_since_snapshot = size
        assert due == snapshots.is_due(fold)


@pytest.mark.parametrize("size", [1, SNAPSHOT_PART_BYTES, SNAPSHOT_PART_BYTES + 1])
def test_parts_join_to_the_whole(size):
    """None is larger than a part may be, and the digest is of all of them."""
    raw = b"x" * size
    parts = snapshots.parts_of(raw)
    assert raw == b"".join(parts)
    assert max(map(len, parts)) <= SNAPSHOT_PART_BYTES
    assert snapshots.digest_of(raw) == snapshots.digest_of(b"".join(parts))
