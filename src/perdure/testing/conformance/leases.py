"""Checks of `ports.Leases`."""

from __future__ import annotations

import asyncio

import msgspec

from perdure.errors import Conflict, Fenced, TaskBusy
from perdure.ports import Lease, Store
from perdure.testing.conformance.place import Chain, Place, begun, checks, holder, refused, same, summary, task_id


async def a_new_task_has_epoch_one(place: Place) -> None:
    """Create grants epoch 1 to its holder, and every handle sees it with all its parts."""
    store, other = await place.open(), await place.open()
    granted = await store.create(summary(1), holder(1))
    same((1, holder(1), 0), (granted.epoch, granted.holder, granted.beats), "lease")
    same(granted, await other.lease(task_id(1)), "lease seen by another handle")


async def a_task_can_begin_under_a_later_epoch(place: Place) -> None:
    """Create grants the epoch that it is asked for: earlier ones are past, and a claim grants the next."""
    store, other = await place.open(), await place.open()
    granted = await store.create(summary(1), holder(1), epoch=7)
    same((7, holder(1), 0), (granted.epoch, granted.holder, granted.beats), "lease")
    same(granted, await other.lease(task_id(1)), "lease seen by another handle")
    early, due = Chain(task_id(1), 1), Chain(task_id(1), 7)
    same((1, 7), _epochs(await refused(Fenced, store.append(early.task, early.next()))), "epochs that the error names")
    await store.append(due.task, due.next())
    await store.renew(due.task, 7)
    same(8, (await store.claim(due.task, holder(2), over=7)).epoch, "epoch of the next claim")


def _epochs(fenced: Fenced) -> tuple[int, int]:
    return fenced.epoch, fenced.current


async def a_claim_raises_the_epoch_by_one(place: Place) -> None:
    """A claim over the present epoch grants the next one to the claimant, with no beats yet."""
    store = await place.open()
    chain = await begun(store)
    await store.renew(chain.task, 1)
    for epoch in (2, 3, 4):
        granted = await store.claim(chain.task, holder(epoch), over=epoch - 1)
        same((epoch, holder(epoch), 0), (granted.epoch, granted.holder, granted.beats), "lease")
        same(granted, await store.lease(chain.task), "lease")


async def a_late_claim_names_the_holder(place: Place) -> None:
    """A claim over an epoch that is past, or not yet, raises TaskBusy naming the present holder; nothing changes."""
    store = await place.open()
    chain = await begun(store)
    granted = await store.claim(chain.task, holder(2), over=1)
    for over in (0, 1, 3):
        error = await refused(TaskBusy, store.claim(chain.task, holder(3), over=over))
        same(str(holder(2)), error.holder, "holder that the error names")
    same(granted, await store.lease(chain.task), "lease")


async def of_many_claims_one_wins(place: Place) -> None:
    """Of claims made at the same time by several handles over one epoch, exactly one is granted."""
    stores = [await place.open() for _ in range(4)]
    chain = await begun(stores[0])
    for epoch in range(1, 11):
        claims = [_claim(store, chain.task, number, epoch) for number, store in enumerate(stores)]
        granted = [lease for lease in await asyncio.gather(*claims) if lease]
        same([epoch + 1], [lease.epoch for lease in granted], "granted epochs")
        same(granted[0], await stores[0].lease(chain.task), "lease")


async def renewing_beats(place: Place) -> None:
    """Renew raises the beats of the lease of that epoch and moves its end; epoch and holder stay."""
    store = await place.open()
    chain = await begun(store)
    before = await store.lease(chain.task)
    for beats in (1, 2, 3):
        await store.renew(chain.task, 1)
        lease = await store.lease(chain.task)
        same((1, holder(1), beats), (lease.epoch, lease.holder, lease.beats), "lease")
        same(True, lease.until >= before.until, "whether its end did not move back")


async def a_claim_over_beats_wants_them_unmoved(place: Place) -> None:
    """A claim that names beats is refused where the lease was renewed since then, and granted where it was not."""
    store = await place.open()
    chain = await begun(store)
    await store.renew(chain.task, 1)
    await refused(TaskBusy, store.claim(chain.task, holder(2), over=1, beats=0))
    same((1, 1), (await _epoch_and_beats(store, chain.task)), "epoch and beats")
    same(2, (await store.claim(chain.task, holder(2), over=1, beats=1)).epoch, "granted epoch")


async def a_holder_who_lives_can_be_robbed(place: Place) -> None:
    """A claim that names no beats is granted over a lease that stands and was just renewed; its holder is fenced off.

    What he had handed in before stays, what he hands in afterwards is refused, also where it was ready before.
    """
    store, other = await place.open(), await place.open()
    chain = await begun(store)
    await store.append(chain.task, msgspec.structs.replace(chain.next(), lease_s=1000.0))
    before, late = await store.head(chain.task), chain.peek()
    await store.renew(chain.task, 1)
    granted = await other.claim(chain.task, holder(2), over=1)
    same((2, holder(2)), (granted.epoch, granted.holder), "lease")
    error = await refused(Fenced, store.append(chain.task, late))
    same((1, 2), (error.epoch, error.current), "epochs that the error names")
    await refused(Fenced, store.renew(chain.task, 1))
    same(before, await other.head(chain.task), "head")


async def an_append_can_renew(place: Place) -> None:
    """An append that says so renews the lease for the term it names, longer or shorter; any other leaves it alone."""
    store = await place.open()
    chain = await begun(store)
    before = await store.lease(chain.task)
    await store.append(chain.task, chain.next())
    same(before, await store.lease(chain.task), "lease after a plain append")
    for beats, lease_s in ((1, 1000.0), (2, 10.0)):
        await store.append(chain.task, msgspec.structs.replace(chain.next(), lease_s=lease_s))
        after = await store.lease(chain.task)
        same((1, beats, holder(1)), (after.epoch, after.beats, after.holder), "lease")
        same(beats == 1, after.until > before.until + 900_000_000, "whether it stands for long")


async def a_refused_append_renews_nothing(place: Place) -> None:
    """A renewal is part of its append: refused together, and an append that lies there already is not a second beat."""
    store = await place.open()
    chain = await begun(store)
    append = msgspec.structs.replace(chain.peek(), lease_s=1000.0)
    await refused(Conflict, store.append(chain.task, msgspec.structs.replace(append, expected_seq=0, last_seq=9)))
    same((1, 0), await _epoch_and_beats(store, chain.task), "epoch and beats")
    await store.append(chain.task, append)
    await store.append(chain.task, append)
    same((1, 1), await _epoch_and_beats(store, chain.task), "epoch and beats")
    chain.next()
    await store.claim(chain.task, holder(2), over=1)
    await refused(Fenced, store.append(chain.task, msgspec.structs.replace(chain.peek(), lease_s=1000.0)))
    same((2, 0), await _epoch_and_beats(store, chain.task), "epoch and beats")


async def the_robbed_cannot_renew_or_release(place: Place) -> None:
    """Under an old epoch renew raises Fenced and release does nothing, even by a holder of the same name."""
    store = await place.open()
    chain = await begun(store)
    granted = await store.claim(chain.task, holder(1), over=1)
    error = await refused(Fenced, store.renew(chain.task, 1))
    same((1, 2), (error.epoch, error.current), "epochs that the error names")
    await store.release(chain.task, 1)
    same(granted, await store.lease(chain.task), "lease")


async def a_released_lease_keeps_its_epoch(place: Place) -> None:
    """Release frees the lease, its epoch stays, and the next claim raises it; releasing twice does nothing."""
    store = await place.open()
    chain = await begun(store)
    await store.release(chain.task, 1)
    await store.release(chain.task, 1)
    lease = await store.lease(chain.task)
    same((1, None), (lease.epoch, lease.holder), "lease")
    same(2, (await store.claim(chain.task, holder(2), over=1)).epoch, "next epoch")
    await store.release("nowhere", 1)


async def leases_end_by_the_stores_clock(place: Place) -> None:
    """The end of a lease is a time of the store's clock: of two leases the later one does not end before the other."""
    store = await place.open()
    first = await store.create(summary(1), holder(1))
    second = await store.create(summary(2), holder(1))
    same(True, first.until <= second.until, "whether time goes on")


async def _epoch_and_beats(store: Store, task: str) -> tuple[int, int]:
    lease = await store.lease(task)
    return lease.epoch, lease.beats


async def _claim(store: Store, task: str, number: int, over: int) -> Lease | None:
    try:
        return await store.claim(task, holder(number), over=over)
    except TaskBusy:
        return None


CHECKS = checks(
    a_new_task_has_epoch_one,
    a_task_can_begin_under_a_later_epoch,
    a_claim_raises_the_epoch_by_one,
    a_late_claim_names_the_holder,
    of_many_claims_one_wins,
    renewing_beats,
    a_claim_over_beats_wants_them_unmoved,
    a_holder_who_lives_can_be_robbed,
    an_append_can_renew,
    a_refused_append_renews_nothing,
    the_robbed_cannot_renew_or_release,
    a_released_lease_keeps_its_epoch,
    leases_end_by_the_stores_clock,
)
