"""What is done to a store and its log files: delete a task, back up, look, write the log again."""

from __future__ import annotations

from typing import cast

from perdure.engine.leases import Presence, claim
from perdure.errors import TaskBusy, Unsupported
from perdure.logs.copying import Copier
from perdure.logs.scroll import LogFiles, folder_of, remove_set
from perdure.ports import Clock, Copied, Ids, Store, StoreStatus, Upkeep


async def delete(store: Store, files: LogFiles | None, clock: Clock, ids: Ids, name: str) -> int:
    """Remove a task with its journal, snapshots, messages, log files and what blobs nothing else names; for good.

    Its lease is claimed first. Returns how many blobs went. Raises TaskBusy while a living process holds it.
    """
    summary = await store.find(name)
    presence = Presence(store, ids)
    try:
        lease, _ = await claim(store, summary.task, presence, clock)
        try:
            await store.delete(summary.task)
        except BaseException:
            await store.release(summary.task, lease.epoch)
            raise
    finally:
        presence.end()
    if files is not None:
        remove_set(files.path, summary.task)
    return await store.sweep()


async def back_up(store: Store, file: str, copied: Copied | None = None) -> None:
    """Copy the store into the new file `file`, beside those who write.

    Raises Unsupported, UsageError where the file exists, StoreFull, StoreUnreadable.
    """
    await _upkeep_of(store, "be copied into a file").backup(file, copied)


async def store_status(store: Store) -> StoreStatus:
    """Return how big the store is. Raises Unsupported."""
    return await _upkeep_of(store, "say how big it is").status()


async def rebuild_log(store: Store, files: LogFiles, clock: Clock, name: str) -> str:
    """Make the log files of a task anew from its journal; return their folder.

    Raises TaskBusy while another process writes them, OSError, Damaged.
    """
    summary = await store.find(name)
    copier = Copier(store, files, clock)
    try:
        if not await copier.renew(summary.task, summary.name):
            raise TaskBusy(summary.name, "a process that writes its log files; they are up to date without this")
    finally:
        await copier.close()
    return folder_of(files.path, summary.task)


def _upkeep_of(store: Store, what: str) -> Upkeep:
    if "upkeep" not in store.capabilities:
        raise Unsupported(store.place, what)
    return cast("Upkeep", store)
