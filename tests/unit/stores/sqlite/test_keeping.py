"""Leases that the store renews by itself, whatever the loop does, until they are given back or lost."""

import asyncio
import time

import msgspec
import pytest

from perdure.clock import SystemClock
from perdure.stores.sqlite.keeping import Keeping
from perdure.stores.sqlite.store import open_sqlite
from perdure.testing.conformance.place import begun, holder

TTL_S = 0.3  # a beat each tenth of a second


def _hold_up_loop(seconds):
    """Keep the event loop's thread from doing anything else, without sleeping in one piece."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))


def in_store(path, body):
    """Run `body(store)` on a store in the file at `path`."""

    async def main():
        store = await open_sqlite(path, SystemClock())
        try:
            return await body(store)
        finally:
            await store.close()

    return asyncio.run(main())


def test_a_lease_is_renewed_while_the_loop_is_held_up(tmp_path):
    """The loop's thread computes for three times to live: the beats go on, and the lease never ends."""

    async def held_up(store):
        chain = await begun(store)
        await store.claim(chain.task, holder(2), over=1, ttl_s=TTL_S)
        _hold_up_loop(3 * TTL_S)
        lease = await store.lease(chain.task)
        return lease.beats, lease.until > SystemClock().now()

    beats, stands = in_store(tmp_path / "a.db", held_up)
    assert beats >= 4
    assert stands


def test_a_long_term_is_not_cut_short_by_a_renewal(tmp_path):
    """The store's own renewals leave the end where an append has put it; an append with a short term takes it back."""

    async def extended(store):
        chain = await begun(store)
        chain.epoch = (await store.claim(chain.task, holder(2), over=1, ttl_s=TTL_S)).epoch
        ends = []
        for lease_s in (100.0, TTL_S):
            append = chain.next()
            await store.append(chain.task, msgspec.structs.replace(append, lease_s=lease_s))
            before = (await store.lease(chain.task)).beats
            _hold_up_loop(TTL_S)
            lease = await store.lease(chain.task)
            assert lease.beats > before
            ends.append(lease.until / 1_000_000 - time.time())
        return ends

    long, short = in_store(tmp_path / "a.db", extended)
    assert 98 < long < 100
    assert short < 2 * TTL_S


@pytest.mark.parametrize("how", ["released", "claimed by another handle", "deleted"])
def test_a_lease_that_is_over_is_not_renewed(how, tmp_path):
    """Given back, lost or gone with its task: no beat of ours reaches it again."""

    async def over(store):
        chain = await begun(store)
        await store.claim(chain.task, holder(2), over=1, ttl_s=TTL_S)
        other = await open_sqlite(tmp_path / "a.db", SystemClock())
        if how == "released":
            await store.release(chain.task, 2)
        elif how == "deleted":
            await store.delete(chain.task)
        else:
            await other.claim(chain.task, holder(3), over=2)
        before = None if how == "deleted" else await store.lease(chain.task)
        _hold_up_loop(2 * TTL_S)
        kept = store._keeping._kept
        after = None if how == "deleted" else await store.lease(chain.task)
        await other.close()
        return kept, before, after

    kept, before, after = in_store(tmp_path / "a.db", over)
    assert {} == kept
    assert before == after


def test_only_the_lease_of_that_epoch_is_dropped_or_extended():
    """A late word about an old lease leaves the new one as it is."""
    keeping = Keeping(SystemClock())
    keeping.keep("task", 2, 30.0)
    keeping.drop("task", 1)
    keeping.extend("task", 1, 1000.0)
    assert 0.0 == keeping._kept["task"].stands_until
    assert 9 < keeping.wait_s() <= 10
    keeping.drop("task", 2)
    assert None is keeping.wait_s()
