"""When a snapshot is due, and the bytes of one: a fold, whole. A snapshot is never a promise, always derivable.

One snapshot holds document and ledger together (decision 0005): opening reads one thing, a rollback takes the document
half of an older one.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from perdure.codec import leaves
from perdure.core.fold import FOLD_VERSION, Fold
from perdure.core.touched import Touched
from perdure.core.tracking import StateTree
from perdure.errors import CodecError
from perdure.limits import SNAPSHOT_FROM_BYTES, SNAPSHOT_PART_BYTES
from perdure.model.document import Document
from perdure.model.ledger import Ledger


class _Stored(msgspec.Struct, kw_only=True):
    version: int
    task: str
    seq: int
    epoch: int
    branch: int
    digest: str  # of the entry at seq: ties the snapshot to its chain
    at: int
    document: Document
    ledger: Ledger
    touched: msgspec.Raw
    state: msgspec.Raw


def is_due(fold: Fold) -> bool:
    """Whether the journal has grown by more than 1 MiB and the size of the last snapshot since that one.

    So the bytes of all snapshots are O(bytes of the journal), and opening reads at most about twice the state + 1 MiB.
    """
    return fold.bytes_since_snapshot > SNAPSHOT_FROM_BYTES + fold.snapshot_size


def encode_fold(fold: Fold) -> bytes:
    """Return the bytes of `fold`; big leaves of the state stay names of blobs that the journal has stored."""
    stored = _Stored(
        version=FOLD_VERSION,
        task=fold.task,
        seq=fold.seq,
        epoch=fold.epoch,
        branch=fold.branch,
        digest=fold.digest.hex(),
        at=fold.at,
        document=fold.document,
        ledger=fold.ledger,
        touched=msgspec.Raw(leaves.encode_whole(fold.touched.to_value())),
        state=msgspec.Raw(leaves.encode_whole(fold.tree.root)),
    )
    return msgspec.json.encode(stored)


def decode_fold(raw: bytes, blobs: dict[bytes, bytes]) -> Fold:
    """Return the fold in `raw`. Raises CodecError for anything that `encode_fold` of this version does not write."""
    try:
        stored = msgspec.json.decode(raw, type=_Stored)
    except msgspec.MsgspecError as error:
        raise CodecError(f"not a snapshot: {error}") from error
    if stored.version != FOLD_VERSION:
        raise CodecError(f"snapshot of fold version {stored.version}, this is {FOLD_VERSION}")
    fold = Fold(stored.task)
    fold.seq, fold.epoch, fold.branch, fold.at = stored.seq, stored.epoch, stored.branch, stored.at
    fold.digest = bytes.fromhex(stored.digest)
    fold.document, fold.ledger = stored.document, stored.ledger
    fold.touched = Touched.from_value(leaves.decode(bytes(stored.touched), {}))
    state: Any = leaves.decode(bytes(stored.state), blobs)
    fold.tree = StateTree(state)
    fold.snapshot_size = len(raw)
    return fold


def digest_of(raw: bytes) -> bytes:
    """Return the digest by which the journal names a snapshot."""
    return hashlib.sha256(raw).digest()


def parts_of(raw: bytes) -> list[bytes]:
    """Return `raw` in the pieces in which it is stored."""
    return [raw[start : start + SNAPSHOT_PART_BYTES] for start in range(0, len(raw), SNAPSHOT_PART_BYTES)]
