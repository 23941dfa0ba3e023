"""Snapshots: made beside the work, confirmed by the journal, never believed when they are wrong."""

import asyncio

import msgspec
import pytest

import perdure
from perdure.core import snapshots
from perdure.engine.loading import load_fold
from perdure.engine.snapshotting import make_snapshot
from perdure.model.entry import SnapshotTaken
from perdure.stores.memory import MemoryStore
from tests.worlds import Play, Stop, World, counted

TURNS = 60


@pytest.fixture
def small(monkeypatch):
    """A snapshot is due every 4 KiB."""
    monkeypatch.setattr(snapshots, "SNAPSHOT_FROM_BYTES", 4_000)


async def _program(task):
    read = counted([])
    for turn in range(TURNS):
        await task.act(read, turn, then=lambda state, got: state["got"].append(got))
        await asyncio.sleep(0)
    raise Stop


def _grown(program=_program):
    world = World()
    with pytest.raises(Stop):
        world.live(Play(program, state={"got": []}))
    (stored,) = world.memory.tasks.values()
    return world, stored


def _whole(fold):
    """Return all of a fold that must not depend on where folding began."""
    return (
        fold.seq,
        fold.branch,
        fold.digest,
        fold.tree.root,
        fold.touched.to_value(),
        msgspec.json.encode(fold.document),
        msgspec.json.encode(fold.ledger),
    )


def _from_one(world, stored):
    kept, stored.snapshots = stored.snapshots, {}
    try:
        return world.fold()
    finally:
        stored.snapshots = kept


def _fold_at(world, seq):
    async def load():
        return await load_fold(world.store(), next(iter(world.memory.tasks)), seq)

    return asyncio.run(load())


@pytest.mark.usefixtures("small")
def test_snapshots_are_made_confirmed_and_agree_with_the_fold():
    """Loading from any of them comes to what folding from entry 1 comes to; few are kept."""
    world, stored = _grown()
    confirmed = {entry.payload.at_seq for entry in world.journal() if isinstance(entry.payload, SnapshotTaken)}
    assert confirmed  # how many depends on how fast the thread that encodes them is
    assert 1 <= len(stored.snapshots) <= 4
    expected = _whole(_from_one(world, stored))
    for seq in list(stored.snapshots):
        only, stored.snapshots = stored.snapshots, {seq: stored.snapshots[seq]}
        assert expected == _whole(world.fold())
        stored.snapshots = only


@pytest.mark.usefixtures("small")
def test_a_later_life_goes_on_from_a_snapshot():
    """State and answers are the same, and fewer entries are read."""
    world, stored = _grown()

    async def program(task):
        return task.state["got"].plain()

    assert list(range(TURNS)) == world.live(Play(program, state={"got": []}))
    assert stored.snapshots


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("how", ["cut", "spoilt", "another version", "unconfirmed"])
def test_a_wrong_snapshot_never_matters(how, monkeypatch):
    """Whatever is wrong with one, the journal decides."""
    world, stored = _grown()
    expected = _whole(_from_one(world, stored))
    newest = max(stored.snapshots)
    head, raw = stored.snapshots[newest]
    if how == "cut":
        stored.snapshots[newest] = head, raw[:-10]
    elif how == "spoilt":
        stored.snapshots[newest] = head, raw.replace(b'"got"', b'"gut"')
    elif how == "another version":
        monkeypatch.setattr(snapshots, "FOLD_VERSION", 99)
    else:
        lie = raw.replace(b'"seq":', b'"seq": ')
        lying = msgspec.structs.replace(head, digest=snapshots.digest_of(lie))
        stored.snapshots = {newest: (lying, lie)}
    assert expected == _whole(world.fold())


def test_no_snapshot_of_a_short_journal_is_made():
    """Under 1 MiB there is nothing to save."""
    _, stored = _grown()
    assert {} == stored.snapshots


@pytest.mark.usefixtures("small")
def test_success_keeps_the_last_snapshot_only():
    """The others were temporary; journal and result stay."""
    world = World()

    async def program(task):
        read = counted([])
        for turn in range(TURNS):
            await task.act(read, turn, then=lambda state, got: state["got"].append(got))
            await asyncio.sleep(0)
        return "done"

    assert "done" == world.live(Play(program, state={"got": []}))
    (stored,) = world.memory.tasks.values()
    assert len(stored.snapshots) <= 1
    assert "done" == world.live(Play(program, state={"got": []}))


@pytest.mark.usefixtures("small")
def test_an_earlier_entry_is_folded_from_a_snapshot_before_it():
    """`load_fold(at=…)` is the fold as it was then, whether a snapshot helps or not (a snapshot shares nothing)."""
    world, stored = _grown()

    async def at(seq):
        store = world.store()
        return _whole(await load_fold(store, next(iter(world.memory.tasks)), seq))

    newest = max(stored.snapshots)
    for seq in (newest - 1, newest, newest + 3):
        with_snapshots = asyncio.run(at(seq))
        kept, stored.snapshots = stored.snapshots, {}
        assert asyncio.run(at(seq)) == with_snapshots
        stored.snapshots = kept


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("most", [20_000, 0])
def test_from_the_live_fold_or_from_the_store_is_the_same(most, monkeypatch):
    """Every snapshot that was ever saved is the fold from entry 1 to its entry, byte for byte."""
    monkeypatch.setattr(snapshots, "_IMAGE_PARTS_MAX", most)
    saved = {}
    save = MemoryStore.save_snapshot

    async def save_and_keep(self, task, head, parts):
        saved[head.seq] = b"".join(parts)
        await save(self, task, head, parts)

    monkeypatch.setattr(MemoryStore, "save_snapshot", save_and_keep)
    world, stored = _grown()
    stored.snapshots = {}
    assert saved
    for seq, raw in saved.items():
        assert snapshots.encode_fold(_fold_at(world, seq)) == raw


def test_no_image_is_taken_in_the_middle_of_an_edit():
    """What an open edit has written so far is in no entry: the fold is read from the store instead."""
    world = World()
    taken = []

    async def program(task):
        session = task._session
        await task.act(counted([]), 1)
        async with task.edit() as state:
            state["got"].append("half")
            await make_snapshot(session, session.fold.seq)
            taken.append(session.fold.seq)
        raise Stop

    with pytest.raises(Stop):
        world.live(Play(program, state={"got": []}))
    (stored,) = world.memory.tasks.values()
    (seq,) = stored.snapshots
    assert [seq + 1] == taken  # the entry that names it
    assert b"half" not in stored.snapshots[seq][1]


def test_an_image_is_saved_only_when_its_entries_are_durable():
    """A free intent waits for its outcome; a snapshot that shows it brings it to the store first."""
    world = World()
    seen = []

    async def program(task):
        session = task._session

        @perdure.tool(effect="pure")
        async def look():
            assert session.sequencer.pending_since is not None
            await make_snapshot(session, session.fold.seq)
            seen.append(await session.world.store.head(task.id))

        await task.act(look)
        raise Stop

    with pytest.raises(Stop):
        world.live(Play(program, state={}))
    (stored,) = world.memory.tasks.values()
    (seq,) = stored.snapshots
    assert seen[0][0] >= seq
