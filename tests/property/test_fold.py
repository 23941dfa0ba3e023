"""The fold: live, from entry 1, and from a snapshot at any entry are the same, with rollbacks among them."""

import asyncio

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from perdure.core import snapshots
from perdure.core.fold import FOLD_VERSION
from perdure.engine.loading import load_fold
from perdure.ports import SnapshotHead
from tests.property.playing import played, steps
from tests.worlds import Play, World

KEYS = st.sampled_from(["a", "b", 1, (1, "t"), b"x"])
LEAVES = st.one_of(st.integers(), st.text(max_size=5), st.just("l" * 5_000), st.just("r" * 70), st.none())
change = st.one_of(
    st.tuples(st.sampled_from(["put", "then"]), KEYS, LEAVES),
    st.tuples(st.just("append"), LEAVES),
    st.tuples(st.just("remove"), KEYS),
    st.tuples(st.just("nest"), KEYS, KEYS, LEAVES),
    st.tuples(st.just("sort")),
    st.tuples(st.just("raise"), KEYS),
    st.tuples(st.just("mark"), st.sampled_from("xyz")),
    st.tuples(st.just("back"), st.sampled_from("xyz")),
)
changes = st.lists(change, max_size=12)


def whole(fold):
    """Return all of a fold that must not depend on how it was come by."""
    return (
        fold.seq,
        fold.branch,
        fold.epoch,
        fold.digest,
        fold.tree.root,
        repr(fold.tree.root),  # the order of keys and the types, too
        fold.touched.to_value(),
        msgspec.json.encode(fold.document),
        msgspec.json.encode(fold.ledger),
    )


def change_state(state, kind, *parts):
    """Do one change through the views."""
    match kind:
        case "put" | "then":
            state[parts[0]] = parts[1]
        case "append":
            state.setdefault("list", []).append(str(parts[0]))
        case "remove":
            state.pop(parts[0], None)
        case "nest":
            state.setdefault("deep", {}).setdefault(parts[0], {})[parts[1]] = [parts[2]]
        case "sort":
            state.setdefault("list", []).sort()
        case "raise":
            state[parts[0]] = "half"
            raise ZeroDivisionError


async def one_change(task, tool, changed):
    """Make one change of a plan; rollbacks leave it."""
    kind, *parts = changed
    if kind == "mark":
        await task.checkpoint(parts[0])
    elif kind == "back":
        await task.rollback(parts[0])
    elif kind == "then":
        await task.act(tool, parts[1], then=lambda state, got: change_state(state, kind, parts[0], got))
    else:
        async with task.edit(count={kind: 1}) as state:
            change_state(state, *changed)


def changing(plan, compare):
    """Return a program that makes the changes of `plan`, one by one over all its calls, and compares after each."""
    from perdure.errors import CheckpointUnknown
    from tests.worlds import counted

    left = list(plan)
    tool = counted([])

    async def program(task):
        await compare(task._session)
        while left:
            changed = left.pop(0)
            try:
                await one_change(task, tool, changed)
            except (ZeroDivisionError, CheckpointUnknown):
                continue
            await compare(task._session)

    return Play(program)


@given(plan=changes)
def test_the_live_fold_is_the_fold_of_the_journal(plan):
    """After every change, raising ones and rollbacks included."""

    async def compare(session):
        await session.commit()
        loaded = await load_fold(session.world.store, session.task)
        assert whole(loaded) == whole(session.fold)

    World().live(changing(plan, compare))


@given(plan=changes, data=st.data())
def test_a_snapshot_at_any_entry_and_the_rest_are_the_whole(plan, data):
    """Folding on from an encoded and decoded fold comes to what folding from entry 1 comes to."""

    async def nothing(session):
        pass

    world = World()
    world.live(changing(plan, nothing))
    _compare_from_any(world, data)


@given(plan=steps, data=st.data())
def test_that_holds_for_actions_loops_and_failures_too(plan, data):
    """As above, over the journals of random programs, one of whose lives was ended."""
    world, _, _ = played(plan, [("after_append", 7)])
    _compare_from_any(world, data)


def _compare_from_any(world, data):
    (stored,) = world.memory.tasks.values()
    last = stored.appends[-1].last_seq
    stored.snapshots = {}
    seq = data.draw(st.integers(1, last))

    async def folds():
        store, task = world.store(), stored.summary.task
        expected = whole(await load_fold(store, task))
        earlier = await load_fold(store, task, seq)
        raw = snapshots.encode_fold(earlier)
        assert raw == snapshots.encode_fold(earlier)
        head = SnapshotHead(
            seq=seq, branch=earlier.branch, fold_version=FOLD_VERSION, digest=snapshots.digest_of(raw), size=len(raw)
        )
        await store.save_snapshot(task, head, snapshots.parts_of(raw))
        assert whole(earlier) == whole(await load_fold(store, task, seq))
        return expected, whole(await load_fold(store, task, last))

    expected, found = asyncio.run(folds())
    assert expected == found
