"""Making an independent task of any moment of another: its journal up to there is copied, and goes on by itself.

    TaskForked ─ entries 2 to `at` of the parent ─ files ─ LeaseClaimed on the next branch, under the next epoch

The last of these makes the fork whole (decision 0012). Until then it is listed as half, nobody can resume it, and the
same order makes it anew. The parent is only read, whoever works on it. Called by `runtime.py`; what a fork would be,
without making it, is `plan_fork`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
from collections.abc import Container
from typing import Final

import msgspec

from perdure.codec import leaves
from perdure.codec.entries import GENESIS, pack, rechain, unpack_all
from perdure.core import snapshots
from perdure.core.fold import Fold
from perdure.engine import crashpoints, leases, planting
from perdure.engine.leases import Presence
from perdure.engine.loading import entries, load_fold, read_entry
from perdure.engine.rollback import START, find_checkpoint
from perdure.engine.sequencer import Sequencer
from perdure.engine.session import Session, World
from perdure.engine.snapshotting import make_snapshot
from perdure.errors import ForkRefused, ForkUnfinished, StoreError, TaskBusy, UsageError
from perdure.limits import APPEND_BYTES_AIM
from perdure.logs.lines import raws_of
from perdure.model import entry as e
from perdure.model.document import Document
from perdure.model.entry import Entry
from perdure.model.ids import check_name
from perdure.model.status import FORKING, TaskSummary
from perdure.ports import Append, Store

_BREATHE_EVERY: Final = 32  # entries copied between two chances for other coroutines


class LaterEffect(msgspec.Struct, frozen=True, kw_only=True):
    """An effect that the parent had behind the moment of the fork: the fork does not know of it."""

    action: str
    tool: str
    seq: int  # of its intent
    is_certain: bool  # False: it is under way or in doubt


class ForkPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a fork is made of; `task` is empty where it has not been made."""

    parent: str  # id
    parent_name: str
    at: int  # entry of the parent with which the fork begins: so many are copied
    epoch: int  # of that entry
    digest: bytes  # of that entry
    checkpoint: str  # the name of that moment, where it has one
    name: str
    goal: str
    into: str  # the fork's workspace, an absolute path
    files: int
    file_bytes: int
    later: tuple[LaterEffect, ...] = ()
    task: str = ""


async def plan_fork(store: Store, task: str, at: int | str = "", into: str = "", name: str = "") -> ForkPlan:
    """Return what a fork of `task` at that moment would be; changes nothing.

    `at`: an entry's number, a checkpoint of the present branch, "" for the newest one (the head where there is none).
    Raises ForkRefused, ForkUnfinished, CheckpointUnknown, UsageError, TaskUnknown, TaskAmbiguous.
    """
    parent = await store.find(task)
    head = await load_fold(store, parent.task)
    await refuse_half(store, head)
    seq = _moment(head, str(at))
    fold = head if seq == head.seq else await load_fold(store, parent.task, seq)
    await _refuse_moment(store, head, fold)
    name = check_name(name) if name else await _free_name(store, parent.name)
    half = await _unfinished_of(store, name)
    place = planting.placed(into, parent.workspace, store)
    if half is None or half.workspace != place or not await asyncio.to_thread(planting.holds_just, place, fold.files):
        planting.refuse_full(place)
    await _refuse_shared(store, place)
    files = [node for _, node in fold.files.items() if node.kind == "file"]
    return ForkPlan(
        parent=parent.task,
        parent_name=parent.name,
        at=seq,
        epoch=fold.epoch,
        digest=fold.digest,
        checkpoint=next((mark.name for mark in head.document.checkpoints if mark.seq == seq), ""),
        name=name,
        goal=fold.ledger.goal,
        into=place,
        files=len(files),
        file_bytes=sum(node.size for node in files),
        later=await _effects_after(store, parent.task, seq),
    )


async def _refuse_shared(store: Store, place: str) -> None:
    """Raise UsageError where an unfinished task has its files at `place`, though there may be none yet."""
    there = [one for one in await store.tasks() if one.workspace and not one.is_finished and not one.is_half_fork]
    found = next((one for one in there if planting.is_at(one.workspace, place)), None)
    if found is not None:
        raise UsageError(f"{place!r} is the workspace of task {found.name!r}, which is unfinished; choose another")


async def make_fork(world: World, presence: Presence, plan: ForkPlan, fork: str, at_work: Container[str]) -> None:
    """Make the fork of that plan, under the id `fork`. `at_work`: tasks that this runtime is just making.

    Where it does not come to its end, nothing is left, or a half fork that the same order removes. Raises TaskBusy
    where another process is making one of that name, NameTaken, what the store raises.
    """
    await _remove_half(world, presence, plan, at_work)
    summary = TaskSummary(
        task=fork, name=plan.name, goal=plan.goal, status="paused", reason=FORKING, workspace=plan.into,
        started_at=world.clock.now(), changed_at=world.clock.now(),
    )  # fmt: skip
    epoch = plan.epoch + 1
    lease = await leases.create(world.store, summary, presence, at_work, world.lease_ttl_s, epoch)
    is_planted = False
    try:
        crashpoints.reach("during_fork")
        await _copy(world, presence, plan, fork, epoch)
        fold = await load_fold(world.store, fork)
        is_planted = await planting.plant(world.store, fold.files, plan.into, fork)
        session = Session(world, Sequencer(fold, world.store, world.clock, world.ids, lease.epoch))
        session.sequencer.begin_fork(e.LeaseClaimed(holder=presence.holder, by_hand=True))
        await session.commit()
    except BaseException:
        with contextlib.suppress(StoreError):  # then it is left half, and is said to be
            await world.store.delete(fork)
            await asyncio.to_thread(planting.uproot if is_planted else planting.remove_stage, plan.into, fork)
        raise
    crashpoints.reach("during_fork")
    try:
        if snapshots.is_due(fold):
            await make_snapshot(session, fold.seq)
            await session.commit()
    finally:
        await world.store.release(fork, epoch)
    session.tell("task_forked", parent=plan.parent_name, at=plan.at)


async def refuse_half(store: Store, fold: Fold) -> None:
    """Raise ForkUnfinished where the task is a fork whose making has not come to its end."""
    if fold.is_half_fork:
        name, place = fold.ledger.name, fold.ledger.workspace
        parent = next((one.name for one in await store.tasks() if one.task == fold.ledger.parent), fold.ledger.parent)
        words = ("perdure", "fork", parent, "--at", str(fold.ledger.forked_at), "--into", place, "--name", name)
        raise ForkUnfinished(fold.task, name, shlex.join(words))


# --- the moment -----------------------------------------------------------------------------------------------------
def _moment(head: Fold, at: str) -> int:
    marks = head.document.checkpoints
    if not at:
        return marks[-1].seq if marks else head.seq
    seq = int(at) if at.isascii() and at.isdigit() else find_checkpoint(head.document, head.task, at)
    if not 1 <= seq <= head.seq:
        raise UsageError(f"task {head.ledger.name!r} has entries 1 to {head.seq}, none is {seq}")
    return seq


async def _refuse_moment(store: Store, head: Fold, fold: Fold) -> None:
    """Raise ForkRefused where what `fold` shows could not go on twice, or was never a moment of rest."""
    ledger = fold.ledger
    why = ""
    under_way = [f"{one.tool} (action {one.action})" for one in ledger.open.values() if not one.effect.is_free]
    if under_way:
        why = f"{', '.join(under_way)} is not over there, and its effect would belong to both"
    elif ledger.rollback is not None:
        why = f"a rollback to {ledger.rollback.checkpoint!r} is under way there"
    elif ledger.status == "succeeded":
        why = "it had succeeded there"
    elif fold.document.files_changed == fold.seq:
        captured = (await read_entry(store, fold.task, fold.seq)).payload
        if isinstance(captured, e.FilesCaptured) and not captured.digest:
            why = "its files are only partly on record there"
    if why:
        raise ForkRefused(ledger.name, fold.seq, why, _nearest(head.document, fold.seq))


def _nearest(document: Document, seq: int) -> tuple[str, ...]:
    before = [mark for mark in document.checkpoints if mark.seq <= seq]
    after = [mark for mark in document.checkpoints if mark.seq > seq]
    marks = [*before[-1:], *after[:1]]
    earliest = () if before else (f"{START!r} (entry 1)",)
    return (*earliest, *(f"{mark.name!r} (entry {mark.seq})" for mark in marks))


async def _effects_after(store: Store, task: str, seq: int) -> tuple[LaterEffect, ...]:
    """Return the effects that the journal shows behind entry `seq`, on whatever branch."""
    found: dict[str, LaterEffect] = {}
    async for entry in entries(store, task, seq):
        match entry.payload:
            case e.ActionIntended(action=action, tool=tool, effect=effect) if not effect.is_free:
                found[action] = LaterEffect(action=action, tool=tool, seq=entry.header.seq, is_certain=False)
            case e.ActionSettled(action=action, outcome="succeeded") if action in found:
                found[action] = msgspec.structs.replace(found[action], is_certain=True)
            case e.ActionSettled(action=action, outcome="failed"):
                found.pop(action, None)
            case _:
                pass
    return tuple(found.values())


# --- the name -------------------------------------------------------------------------------------------------------
async def _free_name(store: Store, parent: str) -> str:
    """Return "PARENT-fork", or that with the first number that is free; a half fork whose maker is dead makes room."""
    taken = {one.name for one in await store.tasks() if not await _is_left(store, one)}
    number, name = 1, f"{parent}-fork"
    while name in taken:
        number += 1
        name = f"{parent}-fork-{number}"
    return check_name(name)


async def _is_left(store: Store, summary: TaskSummary) -> bool:
    if not summary.is_half_fork:
        return False
    holder = (await store.lease(summary.task)).holder
    return holder is None or leases.is_alive(holder, store) is False


async def _unfinished_of(store: Store, name: str) -> TaskSummary | None:
    """Return the half fork of that name. Raises UsageError where an unfinished task has it that is none."""
    for one in await store.tasks():
        if one.name == name and not one.is_finished and not one.is_half_fork:
            raise UsageError(f"task {name!r} is unfinished; give the fork another name: --name NAME")
    return next((one for one in await store.tasks() if one.name == name and one.is_half_fork), None)


async def _remove_half(world: World, presence: Presence, plan: ForkPlan, at_work: Container[str]) -> None:
    """Remove the half fork that has the plan's name, unless somebody is making it. Raises TaskBusy."""
    store, half = world.store, await _unfinished_of(world.store, plan.name)
    if half is None:
        return
    if half.task in at_work:
        raise TaskBusy(half.task, f"this process ({os.getpid()})", half.name)
    await leases.claim(store, half.task, presence, world.clock, world.lease_ttl_s)
    await asyncio.to_thread(planting.remove_stage, half.workspace, half.task)
    await store.delete(half.task)


# --- the journal ----------------------------------------------------------------------------------------------------
class _Copier:
    """Appends frames to the journal of the fork, in appends of a few megabytes, with the names of their blobs."""

    def __init__(self, store: Store, fork: str, epoch: int) -> None:
        self.digest = GENESIS
        self._store = store
        self._fork = fork
        self._epoch = epoch
        self._seq = 0
        self._before = (0, GENESIS)
        self._frames: list[bytes] = []
        self._size = 0
        self._named: set[bytes] = set()  # in an append of this fork
        self._names: list[bytes] = []  # to be named in the next

    async def add(self, frame: bytes, digest: bytes, names: list[bytes]) -> None:
        """Put one entry; `digest` is its own, `names` those of its blobs."""
        if self._frames and self._size + len(frame) > APPEND_BYTES_AIM:
            await self.flush()
        self._frames.append(frame)
        self._size += len(frame)
        self._seq, self.digest = self._seq + 1, digest
        fresh = [name for name in dict.fromkeys(names) if name not in self._named]
        self._names += fresh
        self._named.update(fresh)

    async def flush(self) -> None:
        """Append what was put."""
        expected_seq, prev_digest = self._before
        append = Append(
            expected_seq=expected_seq,
            epoch=self._epoch,
            frames=b"".join(self._frames),
            last_seq=self._seq,
            last_digest=self.digest,
            prev_digest=prev_digest,
            names=tuple(self._names),
        )
        self._before = (self._seq, self.digest)
        self._frames, self._size, self._names = [], 0, []
        await self._store.append(self._fork, append)
        crashpoints.reach("during_fork")


async def _copy(world: World, presence: Presence, plan: ForkPlan, fork: str, epoch: int) -> None:
    """Write entries 1 to `at` of the fork."""
    store = world.store
    copier = _Copier(store, fork, epoch)
    prev = GENESIS
    async for append in store.read(plan.parent):
        offset = 0
        for entry in unpack_all(append.frames, plan.parent, first_seq=append.first_seq, prev=prev):
            frame = append.frames[offset : offset + entry.size]
            offset, prev = offset + entry.size, entry.digest
            names = await _names_of(store, entry)
            start = e.start_of(entry.payload)
            if start is None:
                await copier.add(*rechain(frame, fork, copier.digest), names)
            else:
                await copier.add(*_first(world, presence, plan, fork, entry, start), names)
            if entry.header.seq % _BREATHE_EVERY == 0:
                await asyncio.sleep(0)
            if entry.header.seq == plan.at:
                return await copier.flush()
    raise UsageError(f"task {plan.parent_name!r} was deleted while it was forked; nothing was made")


def _first(
    world: World, presence: Presence, plan: ForkPlan, fork: str, entry: Entry, start: e.TaskStarted
) -> tuple[bytes, bytes]:
    """Return frame and digest of entry 1 of the fork; `entry` is that of its parent."""
    bases = entry.payload.bases if isinstance(entry.payload, e.TaskForked) else ()
    if start.relative_digests:
        bases = (*bases, (plan.at, start.workspace))
    own = msgspec.structs.replace(start, name=plan.name, workspace=plan.into, holder=presence.holder)
    forked = e.TaskForked(started=own, parent=plan.parent, at=plan.at, parent_digest=plan.digest, bases=bases)
    place = msgspec.structs.replace(entry.header, task=fork, prev=GENESIS)
    return pack(forked, place, world.ids.salt())


async def _names_of(store: Store, entry: Entry) -> list[bytes]:
    """Return the digests of the blobs that an entry names: of its values, and of files."""
    payload = entry.payload
    names = await leaves.name_blobs(raws_of(payload), store.blobs)
    if isinstance(payload, e.FilesCaptured):
        nodes = [change.node for change in payload.changes if change.node is not None]
        names += [node.digest for node in nodes if node.digest]
    return names
