"""Entries as bytes: payload -> JSON -> zstd -> seal, behind a packed clear header; and back, every digest checked.

A frame is `length u32 | header | salt 16 | body`. Two digests: the payload digest covers the salt and the JSON as first
encoded, the entry digest covers the header, which holds the payload digest and `prev`. So the chain can be linked
without any key, nothing is encoded again to verify it, and a body can be erased without breaking it.
Called by the engine (to write), by loading, verify and log (to read). Knows nothing of stores.
"""

from __future__ import annotations

import hashlib
import struct
import threading
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import zstandard

from perdure.codec.seal import PLAIN_KEY_ID, seal, unseal
from perdure.codec.upcast import upcast
from perdure.errors import Damaged, UnknownKind
from perdure.limits import COMPRESS_FROM_BYTES
from perdure.model.entry import Entry, Header, Payload
from perdure.model.kinds import KINDS, version_of

FORMAT: Final = 1
GENESIS: Final = bytes(32)  # `prev` of the first entry
_COMPRESSED: Final = 1
_LENGTH: Final = struct.Struct(">I")
_HEADER: Final = struct.Struct(">BHBBI16sQQqI32s32s")
_PREV_OFFSET: Final = struct.calcsize(">BHBBI16sQQqI")
_TASK_FIELD: Final = 5
_PREV_FIELD: Final = 10
_SALT_BYTES: Final = 16
_HASH_PIECE: Final = 2047  # hashlib gives up the interpreter lock above this, which costs more than the hashing

_encode_json: Final = msgspec.json.Encoder().encode
_numbers: Final[dict[type, int]] = {payload: number for number, _, payload in KINDS}
_names: Final[dict[int, str]] = {number: name for number, name, _ in KINDS}
_decoders: Final[dict[int, msgspec.json.Decoder[Any]]] = {n: msgspec.json.Decoder(payload) for n, _, payload in KINDS}
_local = threading.local()  # zstandard's objects are not thread-safe


def pack(payload: Payload, place: Header, salt: bytes) -> tuple[bytes, bytes]:
    """Return (frame, entry digest) of `payload`.

    `place` gives task, seq, epoch, at, branch and prev; its other fields are made here. `salt` is 16 random bytes.
    """
    body = _encode_json(payload)
    begun = _HASH_PIECE - _SALT_BYTES  # one call does for most entries
    hasher = hashlib.sha256(salt + body[:begun])
    for start in range(begun, len(body), _HASH_PIECE):
        hasher.update(body[start : start + _HASH_PIECE])
    flags = 0
    if len(body) >= COMPRESS_FROM_BYTES:
        body, flags = compress(body), _COMPRESSED
    stored = seal(body)
    kind = _numbers[type(payload)]
    header = _HEADER.pack(
        FORMAT,
        kind,
        version_of(kind),
        flags,
        PLAIN_KEY_ID,
        bytes.fromhex(place.task),
        place.seq,
        place.epoch,
        place.at,
        place.branch,
        place.prev,
        hasher.digest(),
    )
    size = len(header) + _SALT_BYTES + len(stored)
    return b"".join((_LENGTH.pack(size), header, salt, stored)), hashlib.sha256(header).digest()


def rechain(frame: bytes, task: str, prev: bytes) -> tuple[bytes, bytes]:
    """Return (frame, entry digest) of the entry in `frame` as it stands in the journal of `task`, behind `prev`.

    Salt, body and payload digest stay as they are, and with them all that the body names; so do seq, epoch, at and
    branch. Nothing is encoded again. `frame` begins with its length.
    """
    start = _LENGTH.size
    fields = list(_HEADER.unpack_from(frame, start))
    fields[_TASK_FIELD], fields[_PREV_FIELD] = bytes.fromhex(task), prev
    header = _HEADER.pack(*fields)
    return frame[:start] + header + frame[start + len(header) :], hashlib.sha256(header).digest()


def unpack_all(frames: bytes, task: str, *, first_seq: int, prev: bytes) -> Iterator[Entry]:
    """Yield the entries of consecutive `frames`, each linked to the one before.

    Raises Damaged (naming task and seq) where bytes contradict a digest, the order or the link, and UnknownKind for
    entries of a later version.
    """
    offset, seq = 0, first_seq
    while offset < len(frames):
        frame = _cut(frames, offset, task, seq)
        entry = unpack(frame, task, seq)
        if entry.header.prev != prev:
            raise Damaged(task, seq, "it is not linked to the entry before it")
        yield entry
        offset += _LENGTH.size + len(frame)
        prev, seq = entry.digest, seq + 1


def unpack(frame: bytes, task: str, seq: int) -> Entry:
    """Return the entry in `frame` (without its length), checking task, seq and payload digest."""
    header, digest = read_header(frame, task, seq)
    salt = frame[_HEADER.size : _HEADER.size + _SALT_BYTES]
    body = frame[_HEADER.size + _SALT_BYTES :]
    try:
        body = unseal(body, header.key_id)
        body = decompress(body) if header.flags & _COMPRESSED else body
    except (ValueError, zstandard.ZstdError) as error:
        raise Damaged(task, seq, f"its body cannot be opened: {error}") from error
    if hashlib.sha256(salt + body).digest() != header.payload_digest:
        raise Damaged(task, seq, "its payload does not match its digest")
    return Entry(header, _decode_payload(header, body), digest, len(frame) + _LENGTH.size)


def read_header(frame: bytes, task: str, seq: int) -> tuple[Header, bytes]:
    """Return (header, entry digest) of `frame`, checking format, task and seq but not the payload."""
    if len(frame) < _HEADER.size + _SALT_BYTES:
        raise Damaged(task, seq, f"its frame is cut at {len(frame)} bytes")
    packed = frame[: _HEADER.size]
    form, kind, version, flags, key_id, owner, number, *rest = _HEADER.unpack(packed)
    if form != FORMAT:
        raise Damaged(task, seq, f"its frame has format {form}, expected {FORMAT}")
    if owner.hex() != task or number != seq:
        raise Damaged(task, seq, f"it says that it is entry {number} of task {owner.hex()!r}")
    epoch, at, branch, prev, payload_digest = rest
    header = Header(task, number, epoch, at, branch, kind, version, flags, key_id, prev, payload_digest)
    return header, hashlib.sha256(packed).digest()


def first_prev(frames: bytes) -> bytes:
    """Return the `prev` of the first of `frames`: for a reader that begins in mid-journal and checks it by its own."""
    return frames[_LENGTH.size + _PREV_OFFSET : _LENGTH.size + _PREV_OFFSET + len(GENESIS)]


def kind_name(kind: int) -> str:
    """Return the name of kind number `kind`, or "unknown_N"."""
    return _names.get(kind, f"unknown_{kind}")


def compress(raw: bytes) -> bytes:
    """Return `raw` as one zstd frame that knows its size."""
    compressor = getattr(_local, "compressor", None)
    if compressor is None:
        compressor = _local.compressor = zstandard.ZstdCompressor(level=3)
    return bytes(compressor.compress(raw))


def decompress(packed: bytes) -> bytes:
    """Return what `compress` was given; raises zstandard.ZstdError for anything else."""
    decompressor = getattr(_local, "decompressor", None)
    if decompressor is None:
        decompressor = _local.decompressor = zstandard.ZstdDecompressor()
    return bytes(decompressor.decompress(packed))


def _cut(frames: bytes, offset: int, task: str, seq: int) -> bytes:
    if offset + _LENGTH.size > len(frames):
        raise Damaged(task, seq, "its length is cut")
    (size,) = _LENGTH.unpack_from(frames, offset)
    start = offset + _LENGTH.size
    if start + size > len(frames):
        raise Damaged(task, seq, f"its frame should be {size} bytes, {len(frames) - start} are there")
    return frames[start : start + size]


def _decode_payload(header: Header, body: bytes) -> Payload:
    decoder, today = _decoders.get(header.kind), version_of(header.kind)
    if decoder is None or header.version > today:
        raise UnknownKind(header.kind, header.version, header.seq)
    try:
        if header.version < today:
            fields = upcast(header.kind, header.version, today, msgspec.json.decode(body))
            body = msgspec.json.encode(fields)
        payload: Payload = decoder.decode(body)
    except LookupError as error:
        raise Damaged(header.task, header.seq, f"no entry was ever written in version {header.version}") from error
    except msgspec.MsgspecError as error:
        raise Damaged(header.task, header.seq, f"its payload has the wrong shape: {error}") from error
    return payload
