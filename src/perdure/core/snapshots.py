"""When a snapshot is due, and the bytes of one: a fold, whole. A snapshot is never a promise, always derivable.

One snapshot holds document and ledger together (decision 0005): opening reads one thing, a rollback takes the document
half of an older one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Final, cast

import msgspec

from perdure.codec import leaves
from perdure.core.container import clone
from perdure.core.fold import FOLD_VERSION, Fold
from perdure.core.manifest import Manifest
from perdure.core.touched import Touched
from perdure.core.tracking import StateTree
from perdure.errors import CodecError
from perdure.limits import SNAPSHOT_FROM_BYTES, SNAPSHOT_PART_BYTES
from perdure.model.document import Document
from perdure.model.ledger import Ledger

_IMAGE_PARTS_MAX: Final = 20_000  # elements of the state and records beside it: to copy them takes a few milliseconds
_CONTAINERS: Final = frozenset((dict, list, tuple, set, frozenset))
_encode: Final = msgspec.json.Encoder().encode


class _Stored(msgspec.Struct, kw_only=True):
    version: int
    task: str
    seq: int
    epoch: int
    branch: int
    digest: str  # of the entry at seq: ties the snapshot to its chain
    at: int
    document: msgspec.Raw
    ledger: msgspec.Raw
    touched: msgspec.Raw
    files: msgspec.Raw
    state: msgspec.Raw


def is_due(fold: Fold) -> bool:
    """Whether the journal has grown by more than 1 MiB and the size of the last snapshot since that one.

    So the bytes of all snapshots are O(bytes of the journal), and opening reads at most about twice the state + 1 MiB.
    """
    return fold.bytes_since_snapshot > SNAPSHOT_FROM_BYTES + fold.snapshot_size


class Image:
    """A fold at one moment: `state` is its state, or a copy of it where it goes on changing; the rest is encoded."""

    def __init__(self, fold: Fold, state: object) -> None:
        self.seq = fold.seq
        self.branch = fold.branch
        self._state = state
        self._rest = _Stored(
            version=FOLD_VERSION,
            task=fold.task,
            seq=fold.seq,
            epoch=fold.epoch,
            branch=fold.branch,
            digest=fold.digest.hex(),
            at=fold.at,
            document=msgspec.Raw(_encode(fold.document)),
            ledger=msgspec.Raw(_encode(fold.ledger)),
            touched=msgspec.Raw(leaves.encode_whole(fold.touched.to_value())),
            files=msgspec.Raw(_encode(fold.files.to_value())),
            state=msgspec.Raw(b"{}"),
        )

    def encode(self) -> bytes:
        """Return the bytes of the snapshot; may be called in another thread."""
        state = msgspec.Raw(leaves.encode_whole(self._state))
        return msgspec.json.encode(msgspec.structs.replace(self._rest, state=state))


def take_image(fold: Fold) -> Image | None:
    """Return an image of a fold that goes on changing; None where to copy it would hold up the loop.

    Must not be called while an edit is open: what it has written so far is in no entry.
    """
    if _count_records(fold) + _count_parts(fold.tree.root, _IMAGE_PARTS_MAX) > _IMAGE_PARTS_MAX:
        return None
    return Image(fold, clone(fold.tree.root))


def encode_fold(fold: Fold) -> bytes:
    """Return the bytes of `fold`; big leaves of the state stay names of blobs that the journal has stored."""
    return Image(fold, fold.tree.root).encode()


def decode_fold(raw: bytes, blobs: dict[bytes, bytes]) -> Fold:
    """Return the fold in `raw`. Raises CodecError for anything that `encode_fold` of this version does not write."""
    try:
        stored = msgspec.json.decode(raw, type=_Stored)
        document = msgspec.json.decode(stored.document, type=Document)
        ledger = msgspec.json.decode(stored.ledger, type=Ledger)
    except msgspec.MsgspecError as error:
        raise CodecError(f"not a snapshot: {error}") from error
    if stored.version != FOLD_VERSION:
        raise CodecError(f"snapshot of fold version {stored.version}, this is {FOLD_VERSION}")
    fold = Fold(stored.task)
    fold.seq, fold.epoch, fold.branch, fold.at = stored.seq, stored.epoch, stored.branch, stored.at
    fold.digest = bytes.fromhex(stored.digest)
    fold.document, fold.ledger = document, ledger
    fold.touched = Touched.from_value(leaves.decode(bytes(stored.touched), {}))
    fold.files = Manifest.from_raw(bytes(stored.files))
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


def _count_parts(root: object, most: int) -> int:
    """Return how many elements all containers in `root` have, or a number above `most`."""
    parts, pending = 0, [root]
    while pending and parts <= most:
        node = cast("Any", pending.pop())
        items = cast("Iterable[object]", node.values() if type(node) is dict else node)
        parts += len(cast("list[object]", node))
        pending += [item for item in items if type(item) in _CONTAINERS]
    return parts


def _count_records(fold: Fold) -> int:
    """Return how many records of document and ledger there are, of the kinds that come to be many."""
    document, ledger = fold.document, fold.ledger
    kept = (document.keyed, document.anchored, document.loose, *document.places.values())
    marks = (document.checkpoints, document.milestones, document.checks, document.answers)
    told = (ledger.open, ledger.failed_keys, ledger.messages, ledger.lessons, ledger.facts)
    return sum(map(len, (*kept, *marks, *told))) + len(fold.files)
