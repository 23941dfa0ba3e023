"""Blobs in rows: packing, cutting into parts, staging ahead of an append, reading back verified.

Functions on an open connection, inside the caller's transaction. Called by `commits.py` and `blobs.py`.
"""

from __future__ import annotations

import hashlib
import sqlite3
from typing import NamedTuple

import zstandard

from perdure.codec.entries import compress, decompress
from perdure.errors import StoreBroken
from perdure.limits import COMPRESS_FROM_BYTES, MIB
from perdure.stores.sqlite.queries import SQL


class Pack(NamedTuple):
    """A blob as it is stored."""

    digest: bytes
    size: int
    is_packed: bool
    stored: bytes


def pack_blob(digest: bytes, raw: bytes) -> Pack:
    """Return `raw` as stored: compressed where that makes it smaller."""
    packed = compress(raw) if len(raw) >= COMPRESS_FROM_BYTES else raw
    is_packed = len(packed) < len(raw)
    return Pack(digest, len(raw), is_packed, packed if is_packed else raw)


def put_blob(connection: sqlite3.Connection, task_no: int, epoch: int, digest: bytes, raw: bytes) -> None:
    """Note that the task names this blob, and write it unless it is there."""
    execute = connection.execute
    execute(SQL["use_blob"], (task_no, digest))
    execute(SQL["unstage_blob"], (task_no, digest))
    if execute(SQL["whole_blob"], (digest,)).fetchone() is None:
        pack = pack_blob(digest, raw)
        blob_no = _insert(connection, pack, (task_no, epoch), is_whole=True)
        for start in range(0, max(len(pack.stored), 1), MIB):
            execute(SQL["insert_blob_part"], (blob_no, start // MIB, pack.stored[start : start + MIB]))


def name_blob(connection: sqlite3.Connection, task_no: int, digest: bytes) -> bool:
    """Note that the task names this blob, which must be there; return whether it is."""
    if connection.execute(SQL["whole_blob"], (digest,)).fetchone() is None:
        return False
    connection.execute(SQL["use_blob"], (task_no, digest))
    return True


def stage_blob(connection: sqlite3.Connection, by: tuple[int, int], pack: Pack, start: int) -> None:
    """Write the part of a blob that begins at `start`, ahead of the append that will name it.

    `by` is (task number, epoch). Does nothing but stage it where the blob is whole already. A part that finds the
    one before it missing (its writer was fenced and swept) is left out; the append then writes the blob itself.
    """
    task_no, epoch = by
    execute = connection.execute
    execute(SQL["stage_blob"], (task_no, pack.digest, epoch))
    if execute(SQL["whole_blob"], (pack.digest,)).fetchone() is not None:
        return
    if start == 0:
        blob_no = _insert(connection, pack, by, is_whole=False)
    else:
        found = execute(SQL["blob_in_making"], (task_no, epoch, pack.digest, start // MIB)).fetchone()
        if found is None:
            return
        (blob_no,) = found
    execute(SQL["insert_blob_part"], (blob_no, start // MIB, pack.stored[start : start + MIB]))
    if start + MIB >= len(pack.stored):
        execute(SQL["finish_blob"], (blob_no,))


def read_blob(connection: sqlite3.Connection, digest: bytes, place: str) -> bytes:
    """Return the bytes of `digest`, verified; raise KeyError where they are missing, StoreBroken where not intact."""
    found = connection.execute(SQL["used_blob"], (digest,)).fetchone()
    if found is None:
        raise KeyError(digest.hex())
    blob_no, size, is_packed = found
    try:
        stored = b"".join(part for (part,) in connection.execute(SQL["blob_parts"], (blob_no,)))
        raw = decompress(stored) if is_packed else stored
    except (zstandard.ZstdError, TypeError) as error:  # TypeError: a part that is no longer bytes
        raise StoreBroken(place, f"blob {digest.hex()} cannot be unpacked: {error}") from error
    if len(raw) != size or hashlib.sha256(raw).digest() != digest:
        raise StoreBroken(place, f"blob {digest.hex()} does not match its digest")
    return raw


def _insert(connection: sqlite3.Connection, pack: Pack, by: tuple[int, int], *, is_whole: bool) -> int:
    columns = (pack.digest, pack.size, int(pack.is_packed), int(is_whole), *by)
    return int(connection.execute(SQL["insert_blob"], columns).lastrowid or 0)
