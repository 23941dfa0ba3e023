"""The files of a fork: written beside the folder that they are for, which then appears with all of them at once.

Whoever is killed leaves a folder of another name, `.NAME.ID.fork`, that the next attempt takes away. Called by
`forking.py`.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import shutil
import stat
from pathlib import Path

from perdure.core.manifest import Manifest
from perdure.engine import crashpoints
from perdure.errors import StoreFull, UsageError
from perdure.model.files import Node, path_to_bytes, path_to_text
from perdure.ports import Store


def placed(into: str, workspace: str, store: Store) -> str:
    """Return `into` as an absolute path. Raises UsageError where no fork's files may go there."""
    if not into:
        raise UsageError("say where the fork's files go: --into DIR, a folder that is empty or not there yet")
    place = os.path.realpath(os.path.expanduser(into))
    if workspace and _holds(os.path.realpath(workspace), place):
        raise UsageError(f"{place!r} lies inside the workspace {workspace!r} of the task; choose a folder beside it")
    for kept in (store.place, store.folder or "://"):
        if "://" not in kept and _holds(place, os.path.realpath(kept)):
            raise UsageError(f"{place!r} holds the store, {kept!r}; choose a folder beside it")
    return place


def refuse_full(place: str) -> None:
    """Raise UsageError where something stands at `place` that is no empty folder."""
    try:
        is_free = not os.path.lexists(place) or not os.listdir(place)
    except OSError as error:
        raise UsageError(f"{place!r} cannot be the fork's folder: {error.strerror}; choose another") from error
    if not is_free:
        raise UsageError(f"{place!r} is not empty; a fork's files go into a folder that is empty or not there yet")


def holds_just(place: str, manifest: Manifest) -> bool:
    """Whether the folder `place` has the files of `manifest` and no others: a fork cut short had got so far."""
    wanted = dict(manifest.items())
    root = os.fsencode(place)
    if not wanted or not os.path.isdir(root):
        return False
    found = 0
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            found += 1
            if not _is_same(path, wanted.get(path_to_text(os.path.relpath(path, root)))):
                return False
    return found == len(wanted)


async def plant(store: Store, manifest: Manifest, place: str, fork: str) -> bool:
    """Let `place` be a folder with the files of `manifest`, all of them or none, and durable.

    Returns False, nothing being done, where they stand there already. Raises StoreFull, UsageError where it cannot be
    written.
    """
    if await asyncio.to_thread(holds_just, place, manifest):
        return False
    stage = _stage(place, fork)
    try:
        await asyncio.to_thread(os.makedirs, stage)
        await _write(store, manifest, stage)
        crashpoints.reach("during_fork")
        await asyncio.to_thread(_show, stage, place)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise StoreFull(place) from error
        raise UsageError(f"the files of the fork cannot be written to {place!r}: {error.strerror}") from error
    crashpoints.reach("during_fork")
    return True


def uproot(place: str, fork: str) -> None:
    """Take back what `plant` has put there a moment ago."""
    os.rename(place, _stage(place, fork))
    remove_stage(place, fork)


def remove_stage(place: str, fork: str) -> None:
    """Remove what the making of `fork` has left beside `place`."""
    stage = _stage(place, fork)
    for folder, _, _ in os.walk(stage):
        Path(folder).chmod(0o700)
    shutil.rmtree(stage, ignore_errors=True)


async def _write(store: Store, manifest: Manifest, root: str) -> None:
    for path, node in manifest.items():
        raw = (await store.blobs([node.digest]))[node.digest] if node.kind == "file" else b""
        await asyncio.to_thread(_make, os.path.join(os.fsencode(root), path_to_bytes(path)), node, raw)
    for path, node in reversed(list(manifest.items())):
        if node.kind == "folder":
            os.chmod(os.path.join(os.fsencode(root), path_to_bytes(path)), node.mode)


def _make(path: bytes, node: Node, raw: bytes) -> None:
    if node.kind == "folder":
        os.mkdir(path, 0o700)
    elif node.kind == "link":
        os.symlink(path_to_bytes(node.target), path)
    else:
        with open(path, "xb") as file:
            file.write(raw)
            os.fchmod(file.fileno(), node.mode)
            os.fsync(file.fileno())


def _show(stage: str, place: str) -> None:
    """Give the finished folder its name, over an empty folder if there is one."""
    _sync(stage)
    os.rename(stage, place)
    _sync(os.path.dirname(place))


def _sync(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_same(path: bytes, node: Node | None) -> bool:
    """Whether what stands at `path` is what `node` says."""
    if node is None:
        return False
    found = os.lstat(path)
    if node.kind == "link":
        return stat.S_ISLNK(found.st_mode) and os.readlink(path) == path_to_bytes(node.target)
    if stat.S_IMODE(found.st_mode) != node.mode:
        return False
    if node.kind == "folder":
        return stat.S_ISDIR(found.st_mode)
    return stat.S_ISREG(found.st_mode) and found.st_size == node.size and _digest(path) == node.digest


def _digest(path: bytes) -> bytes:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _holds(outer: str, inner: str) -> bool:
    return os.path.commonpath([outer, inner]) == outer


def _stage(place: str, fork: str) -> str:
    folder, name = os.path.split(place)
    return os.path.join(folder, f".{name[:100]}.{fork[:8]}.fork")
