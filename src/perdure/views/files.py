"""Files of a task's workspace as its journal has them, at any entry; no disk is looked at. Called by `file`."""

from __future__ import annotations

import os

import msgspec

from perdure.core.fold import Fold
from perdure.engine.loading import entries
from perdure.errors import Damaged, FileUnknown
from perdure.model import entry as e
from perdure.model.files import Node, path_to_text
from perdure.ports import Store
from perdure.views.showing import fold_at


class Standing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What stands at one path; with --json exactly these fields, empty ones left out."""

    path: str
    kind: str
    mode: str = ""  # as chmod takes it; none of links
    size: int = 0  # bytes of a file
    digest: str = ""  # sha256 of a file's bytes
    target: str = ""  # where a link points


async def list_files(store: Store, task: str, at: str = "", under: str = "") -> tuple[Standing, ...]:
    """Return what stands in the workspace, or in its folder `under`, by path; at the head or at `at`.

    Raises CheckpointUnknown, UsageError for an entry that does not exist, FileUnknown for a path without a folder.
    """
    fold = await fold_at(store, task, at)
    folder = _inside(fold, under)
    if folder:
        node = await _find(store, fold, folder)
        if node.kind != "folder":
            raise FileUnknown(task, folder, fold.seq, f"it is a {node.kind}, nothing is in it: leave `--list` out")
    return tuple(sorted((_standing(*found) for found in fold.files.items(folder)), key=lambda one: one.path))


async def look_at_file(store: Store, task: str, path: str, at: str = "") -> Standing:
    """Return what stands at `path`, at the head or at `at`.

    Raises CheckpointUnknown, UsageError for an entry that does not exist; FileUnknown where nothing stands there, or
    what stands there was not taken in.
    """
    fold = await fold_at(store, task, at)
    return _standing(_inside(fold, path), await _find(store, fold, _inside(fold, path)))


async def read_file(store: Store, task: str, path: str, at: str = "") -> bytes:
    """Return the bytes of a file. Raises as `look_at_file`; FileUnknown for what is no file; Damaged."""
    fold = await fold_at(store, task, at)
    inside = _inside(fold, path)
    node = await _find(store, fold, inside)
    if node.kind == "folder":
        raise FileUnknown(task, inside, fold.seq, "it is a folder: `--list` says what is in it")
    if node.kind == "link":
        raise FileUnknown(task, inside, fold.seq, f"it is a link, to {node.target!r}")
    try:
        return (await store.blobs([node.digest]))[node.digest]
    except KeyError as error:
        raise Damaged(task, fold.seq, f"the bytes of {inside!r} are not in the store") from error


async def _find(store: Store, fold: Fold, path: str) -> Node:
    """Return the node at `path`. Raises FileUnknown saying why there is none, and where there is one."""
    why = next((one.why for one in fold.document.uncovered if _holds(one.path, path)), "")
    node = fold.files.get(path)
    if why:
        reason = f"no capture holds it ({why})"
    elif node is not None:
        return node
    else:
        reason = "nothing stands there"
    raise FileUnknown(fold.task, path, fold.seq, reason + await _remedy(store, fold, path))


async def _remedy(store: Store, fold: Fold, path: str) -> str:
    """Return which entry to ask instead: the last one before that took the path in, else the first one after."""
    found: list[int] = []
    async for entry in entries(store, fold.task):
        if isinstance(entry.payload, e.FilesCaptured):
            found += [entry.header.seq for one in entry.payload.changes if one.path == path and one.node is not None]
    if not found:
        return "; no entry of this task has taken it in: `--list` says what there is"
    before = [seq for seq in found if seq <= fold.seq]
    return f"; it is known from entry {before[-1] if before else found[0]}: ask for that by `--at`"


def _standing(path: str, node: Node) -> Standing:
    return Standing(
        path=path,
        kind=node.kind,
        mode="" if node.kind == "link" else f"{node.mode:04o}",
        size=node.size,
        digest=node.digest.hex(),
        target=node.target,
    )


def _inside(fold: Fold, given: str) -> str:
    """Return the path as the manifest writes it: as it is if it stands there so, else as the shell has it."""
    if not given or fold.files.get(given) is not None:
        return given
    raw = os.path.normpath(os.fsencode(given))
    root = os.fsencode(fold.ledger.workspace)
    if root and os.path.isabs(raw):
        raw = os.path.relpath(raw, root)
    return "" if raw == b"." else path_to_text(raw)


def _holds(folder: str, path: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")
