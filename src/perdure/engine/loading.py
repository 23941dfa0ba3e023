"""From a store to a fold: reads journals (every digest checked) and snapshots. Writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, cast

from perdure.codec import leaves
from perdure.codec.entries import GENESIS, first_prev, unpack_all
from perdure.core import snapshots
from perdure.core.fold import Fold
from perdure.core.tracking import StateTree
from perdure.engine import arguments
from perdure.errors import CodecError, Damaged
from perdure.model import entry as e
from perdure.model.entry import Entry
from perdure.model.patch import Op, ops_from_value
from perdure.ports import Store

_BREATHE_EVERY: Final = 32  # entries folded between two chances for other coroutines


async def load_fold(store: Store, task: str, at: int | None = None) -> Fold:
    """Return the fold of `task` up to entry `at` (the whole journal if None).

    Starts from the newest snapshot at or before `at` that fits its chain, else from entry 1: what is wrong with a
    snapshot never matters. Raises Damaged, UnknownKind, TaskUnknown.
    """
    return await _load(store, task, at, {})


async def _load(store: Store, task: str, at: int | None, earlier: dict[int, bytes]) -> Fold:
    """As `load_fold`. `earlier` keeps the folds that rollbacks went back to: without it k of them would cost 2^k."""
    for head in await store.snapshots(task):
        if at is not None and head.seq > at:
            continue
        fold = await _from_snapshot(store, task, head.seq, head.digest)
        if fold is None:
            continue
        try:
            await _fold_on(store, fold, at, earlier)
        except Damaged:
            continue  # if it is the journal that is damaged, folding from entry 1 says so
        if at is not None or (head.seq, head.digest) in fold.confirmed:
            return fold
    fold = Fold(task)
    await _fold_on(store, fold, at, earlier)
    return fold


async def entries(store: Store, task: str, after: int = 0) -> AsyncIterator[Entry]:
    """Yield the entries with seq > `after`, each verified and linked to the one before. Raises Damaged, UnknownKind."""
    previous: bytes | None = GENESIS if after == 0 else None
    async for append in store.read(task, after):
        expected = previous
        if expected is None:
            expected = first_prev(append.frames)
        for entry in unpack_all(append.frames, task, first_seq=append.first_seq, prev=expected):
            if entry.header.seq > after:
                yield entry
            expected = entry.digest
        if expected != append.last_digest:
            raise Damaged(task, append.last_seq, "the digest beside it is another one")
        previous = expected


async def read_entry(store: Store, task: str, seq: int) -> Entry:
    """Return the entry with that seq. Raises Damaged when it is not there."""
    async for entry in entries(store, task, seq - 1):
        return entry
    raise Damaged(task, seq, "it is not there")


async def blobs_of(store: Store, task: str, seq: int, *raws: e.Raw) -> Mapping[bytes, bytes]:
    """Return the blobs that the encoded values of entry `seq` name. Raises Damaged where one is missing."""
    try:
        return await leaves.gather_blobs([bytes(raw) for raw in raws], store.blobs)
    except KeyError as error:
        raise Damaged(task, seq, "a blob that it names is not there") from error


async def result_of(store: Store, task: str, seq: int, settled: e.ActionSettled) -> object:
    """Return the recorded result of a settled action, decoded afresh."""
    raw = bytes(settled.result)
    return leaves.decode(raw, await blobs_of(store, task, seq, settled.result)) if raw else None


async def recorded_result(store: Store, task: str) -> object:
    """Return the recorded result of a succeeded task; None where there is none."""
    seq = (await load_fold(store, task)).ledger.result_seq
    if not seq:
        return None
    payload = (await read_entry(store, task, seq)).payload
    raw = payload.result if isinstance(payload, e.TaskSucceeded) else e.NOTHING
    return leaves.decode(bytes(raw), await blobs_of(store, task, seq, raw))


async def arguments_of(store: Store, task: str, seq: int, intent: e.ActionIntended) -> dict[str, Any]:
    """Return the arguments of a call by parameter name, as its tool got them: a view of the state as what it showed."""
    raw = bytes(intent.arguments)
    blobs = await blobs_of(store, task, seq, intent.arguments)
    named = leaves.states_named(raw, blobs)
    state = (await load_fold(store, task, max(named))).tree.root if named else None
    return cast("dict[str, Any]", leaves.decode(raw, blobs, state=state))


async def digest_of_content(store: Store, task: str, seq: int, intent: e.ActionIntended, base: str) -> bytes:
    """Return the digest of a call's arguments by content: the recorded one, unless views of the state are there."""
    raw = bytes(intent.arguments)
    if not leaves.states_named(raw, await blobs_of(store, task, seq, intent.arguments)):
        return intent.digest
    return arguments.digest(await arguments_of(store, task, seq, intent), base)


async def operations_of(store: Store, task: str, entry: Entry) -> tuple[Op, ...]:
    """Return the operations of the entry's patch, () where it has none; references are resolved."""
    payload = entry.payload
    if not isinstance(payload, e.ActionSettled | e.ActionReused | e.StateEdited) or not bytes(payload.patch):
        return ()
    result = payload.result if isinstance(payload, e.ActionSettled) else e.NOTHING
    patch = bytes(payload.patch)
    blobs = await blobs_of(store, task, entry.header.seq, payload.patch, result)
    root = leaves.decode(bytes(result), blobs) if bytes(result) and b'["ref"' in patch else None
    return ops_from_value(leaves.decode(patch, blobs, root))


async def take_in(store: Store, fold: Fold, entry: Entry, earlier: dict[int, bytes]) -> None:
    """Feed `fold` the entry behind it. `earlier` keeps the folds that rollbacks went back to."""
    payload = entry.payload
    whole = payload if isinstance(payload, e.StateMigrated) else e.start_of(payload)
    if whole is not None:
        fold.tree = StateTree(await _state_in(store, fold, entry, whole.state))
        fold.advance(entry)
    elif isinstance(payload, e.RolledBackEntry):
        fold.jump(entry, await _load_earlier(store, fold.task, payload.to_seq, earlier))
    else:
        fold.advance(entry, await operations_of(store, fold.task, entry))


async def _fold_on(store: Store, fold: Fold, at: int | None, earlier: dict[int, bytes]) -> None:
    """Feed `fold` the entries behind it, up to `at`."""
    async for entry in entries(store, fold.task, fold.seq):
        if at is not None and entry.header.seq > at:
            return
        if entry.header.prev != fold.digest:
            raise Damaged(fold.task, entry.header.seq, "it is not linked to what was read before it")
        await take_in(store, fold, entry, earlier)
        if entry.header.seq % _BREATHE_EVERY == 0:
            await asyncio.sleep(0)


async def _state_in(store: Store, fold: Fold, entry: Entry, raw: e.Raw) -> dict[Any, Any]:
    """Return the whole state that an entry holds. Raises Damaged."""
    seq = entry.header.seq
    state = leaves.decode(bytes(raw), await blobs_of(store, fold.task, seq, raw))
    if not isinstance(state, dict):
        raise Damaged(fold.task, seq, f"its state is a {type(state).__name__}, not a dict")
    return state  # pyright: ignore[reportUnknownVariableType] - keys and values are of the codec's domain


async def _load_earlier(store: Store, task: str, seq: int, earlier: dict[int, bytes]) -> Fold:
    raw = earlier.get(seq)
    if raw is not None:
        return snapshots.decode_fold(raw, dict(await store.blobs(leaves.blob_digests(raw))))
    fold = await _load(store, task, seq, earlier)
    earlier[seq] = snapshots.encode_fold(fold)
    return fold


async def _from_snapshot(store: Store, task: str, seq: int, digest: bytes) -> Fold | None:
    raw = await store.load_snapshot(task, seq)
    if raw is None or snapshots.digest_of(raw) != digest:
        return None
    try:
        fold = snapshots.decode_fold(raw, dict(await store.blobs(leaves.blob_digests(raw))))
    except (CodecError, KeyError):
        return None
    return fold if fold.task == task and fold.seq == seq else None
