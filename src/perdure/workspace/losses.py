"""Tells apart what a crash has left and what somebody has changed since, by the times that the file system keeps.

A power cut can leave a file empty, old or missing although the journal has its bytes. Whoever changes a file afterwards
cannot but move the time of its last change (`ctime`, which no program can set), and whoever removes it that of its
folder. So what differs from the manifest and is not younger than the look that took it in was lost. A clock that was
put right meanwhile can prove this wrong: the engine records what stands there before it writes over it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from typing import Final

from perdure.core.manifest import Manifest
from perdure.core.way_back import Step
from perdure.model.files import FileChange, Node, path_to_bytes

_US: Final = 1_000  # nanoseconds


def find_losses(root_fd: int, changes: Iterable[FileChange], manifest: Manifest) -> tuple[Step, ...]:
    """Return the steps that bring back what was lost.

    `changes` are what a look has found different from `manifest` at paths that the task has written.
    """
    found: list[Step] = []
    for change in changes:
        written_at = manifest.written.get(change.path)
        if written_at is not None and _changed_at(root_fd, change.path) // _US <= written_at:
            found.append(Step(change.path, change.node, manifest.get(change.path)))
    return tuple(found)


def changed_since(root_fd: int, changes: Iterable[FileChange], then_us: int) -> tuple[FileChange, ...]:
    """Return those of `changes` that were made after `then_us`, by the file system's clock.

    Of what is gone nothing tells when it went.
    """
    standing = (change for change in changes if change.node is not None)
    return tuple(change for change in standing if _changed_at(root_fd, change.path) // _US > then_us)


def not_as_left(workspace: str, manifest: Manifest, paths: Iterable[str]) -> tuple[str, ...]:
    """Return those of `paths` at which something else stands than on record, told by kind, size and mode alone."""
    root = os.fsencode(workspace)
    differing = (path for path in paths if not _is_like(root, path, manifest.get(path)))
    return tuple(sorted(differing))


def _is_like(root: bytes, path: str, node: Node | None) -> bool:
    try:
        found = os.lstat(os.path.join(root, path_to_bytes(path)))
    except OSError:
        return node is None
    if node is None or stat.S_IFMT(found.st_mode) != _KINDS[node.kind]:
        return False
    is_same_mode = node.kind == "link" or stat.S_IMODE(found.st_mode) == node.mode
    return is_same_mode and (node.kind != "file" or found.st_size == node.size)


_KINDS: Final = {"file": stat.S_IFREG, "link": stat.S_IFLNK, "folder": stat.S_IFDIR}


def _changed_at(root_fd: int, path: str) -> int:
    """Return when `path` last changed, in nanoseconds; where nothing stands, the nearest folder above that is there.

    Of the workspace's own folder it is the time of its content: the other one moves with each look (`Folder.now_ns`).
    """
    while path:
        try:
            return os.stat(path_to_bytes(path), dir_fd=root_fd, follow_symlinks=False).st_ctime_ns
        except OSError:
            path = path.rpartition("/")[0]
    return os.fstat(root_fd).st_mtime_ns
