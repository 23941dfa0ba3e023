"""The files of a fork: written beside the folder that they are for, which then appears with all of them at once.

Whoever is killed leaves a folder of another name, `.NAME.ID.fork`, that the next attempt takes away. Called by
`forking.py`.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import stat
from pathlib import Path

from perdure.core.manifest import Manifest
from perdure.engine import crashpoints
from perdure.errors import Damaged, StoreFull, UsageError, WorkspaceFull, WorkspaceRefused
from perdure.model.files import Node, path_to_bytes, path_to_text
from perdure.ports import Store
from perdure.workspace.restoring import write_tree


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


def is_at(workspace: str, place: str) -> bool:
    """Whether a workspace is the folder `place`, which is given as `placed` returns it."""
    return os.path.realpath(workspace) == place


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
        await _write(store, manifest, stage)
        crashpoints.reach("during_fork")
        await asyncio.to_thread(_show, stage, place)
    except WorkspaceFull as full:
        raise StoreFull(place) from full
    except KeyError as error:
        raise Damaged(fork, 0, "the blob of one of its files is not there") from error
    except (WorkspaceRefused, OSError) as error:
        raise UsageError(f"the files of the fork cannot be written to {place!r}: {error}") from error
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


class _Blobs(dict[bytes, bytes]):
    """The store's blobs for a thread that writes files: each is fetched, in the event loop, when it is asked for."""

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.is_over = False
        self._store = store
        self._loop = loop

    def __missing__(self, digest: bytes) -> bytes:
        if self.is_over:
            raise KeyError(digest)
        return asyncio.run_coroutine_threadsafe(self._store.blobs([digest]), self._loop).result()[digest]


async def _write(store: Store, manifest: Manifest, stage: str) -> None:
    """Write all files into the new folder `stage`; where that is cancelled, what is left of it is waited for."""
    blobs = _Blobs(store, asyncio.get_running_loop())
    writing = asyncio.ensure_future(asyncio.to_thread(_write_all, manifest, stage, blobs))
    try:
        await asyncio.shield(writing)
    except asyncio.CancelledError:
        blobs.is_over = True
        await asyncio.gather(writing, return_exceptions=True)
        raise


def _write_all(manifest: Manifest, stage: str, blobs: _Blobs) -> None:
    os.makedirs(stage)
    root_fd = os.open(stage, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        kept = write_tree(root_fd, manifest, blobs).kept
        os.fsync(root_fd)
    finally:
        os.close(root_fd)
    if kept:
        raise UsageError(f"{stage!r} was written to by somebody else while the fork's files came: {kept[0]!r}")


def _show(stage: str, place: str) -> None:
    """Give the finished folder its name, over an empty folder if there is one."""
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
