"""The manifest: what stands in a task's workspace, as far as the journal knows. Part of the fold, follows the branch.

Changes come in as entries (`FilesCaptured`), so its cost is that of what changed. A digest is kept for each folder,
over its names and what stands there, the digests of its folders among them: two trees are equal if their roots'
digests are. Knows nothing of disks; `workspace/` does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import msgspec

from perdure.errors import CodecError
from perdure.model.files import FileChange, Node

_Stored = tuple[dict[str, dict[str, Node]], dict[str, int]]


class Manifest:
    """Paths and their nodes, kept folder by folder.

    `written` has the paths at which stands what the task itself has put there, with the time of that look (UTC,
    microseconds): what is older on disk than that was lost, and not changed by somebody else.
    """

    __slots__ = ("_digests", "_folders", "_size", "written")

    def __init__(self) -> None:
        self.written: dict[str, int] = {}
        self._folders: dict[str, dict[str, Node]] = {}
        self._digests: dict[str, bytes] = {}  # of folders that did not change since it was taken
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def get(self, path: str) -> Node | None:
        """Return what stands at `path`."""
        folder, _, name = path.rpartition("/")
        return self._folders.get(folder, {}).get(name)

    def children(self, folder: str) -> dict[str, Node]:
        """Return the nodes of one folder by name; not to be written to."""
        return self._folders.get(folder, {})

    def items(self, under: str = "") -> Iterator[tuple[str, Node]]:
        """Yield (path, node) of all that stands under the folder `under`, each folder before what is in it."""
        pending = [under]
        while pending:
            folder = pending.pop()
            prefix = f"{folder}/" if folder else ""
            for name, node in sorted(self._folders.get(folder, {}).items()):
                yield prefix + name, node
                if node.kind == "folder":
                    pending.append(prefix + name)

    def apply(self, changes: Iterable[FileChange], written_at: int = 0) -> None:
        """Take changes in, in any order; with `written_at` they are the task's own, of that time."""
        folders, written = self._folders, self.written
        touched: set[str] = set()
        for change in changes:
            path, node = change.path, change.node
            if written_at and node is not None:
                written[path] = written_at
            elif written:
                written.pop(path, None)
            folder, _, name = path.rpartition("/")
            touched.add(folder)
            children = folders.setdefault(folder, {})
            self._size += (node is not None) - (name in children)
            if node is None:
                children.pop(name, None)
            else:
                children[name] = node
            if not children:
                del folders[folder]
        for folder in touched:
            self._forget_digests(folder)

    def digest(self, folder: str = "") -> bytes:
        """Return 32 bytes over all that stands under `folder`."""
        digests, pending = self._digests, [folder]
        while folder not in digests:  # no recursion: trees may be deeper than calls may
            top = pending[-1]
            unknown = [path for path in self._folders_in(top) if path not in digests]
            pending += unknown
            if not unknown:
                digests[pending.pop()] = self._digest_over(top)
        return digests[folder]

    def take_digests(self, equal: Manifest) -> None:
        """Take over what `equal`, which holds the same, has worked out."""
        self._digests = dict(equal._digests)

    def copy(self) -> Manifest:
        """Return one that changes apart from this one."""
        other = Manifest()
        other._folders = {folder: dict(children) for folder, children in self._folders.items()}
        other._digests = dict(self._digests)
        other._size = self._size
        other.written = dict(self.written)
        return other

    def changes_to(self, other: Manifest) -> tuple[FileChange, ...]:
        """Return the changes that make this manifest equal to `other`."""
        folders = self._folders.keys() | other._folders.keys()
        found: list[FileChange] = []
        for folder in sorted(folders):
            mine, theirs = self._folders.get(folder, {}), other._folders.get(folder, {})
            if mine == theirs:
                continue
            prefix = f"{folder}/" if folder else ""
            names = sorted(name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name))
            found += [FileChange(prefix + name, theirs.get(name)) for name in names]
        return tuple(found)

    def to_value(self) -> _Stored:
        """Return all of it, for the snapshot."""
        return (self._folders, self.written)

    @classmethod
    def from_raw(cls, raw: bytes) -> Manifest:
        """Return what `to_value` gave, encoded as JSON. Raises CodecError."""
        made = cls()
        try:
            made._folders, made.written = msgspec.json.decode(raw, type=_Stored)
        except msgspec.MsgspecError as error:
            raise CodecError(f"not a manifest: {error}") from error
        made._size = sum(map(len, made._folders.values()))
        return made

    def _folders_in(self, folder: str) -> list[str]:
        prefix = f"{folder}/" if folder else ""
        return [prefix + name for name, node in self._folders.get(folder, {}).items() if node.kind == "folder"]

    def _digest_over(self, folder: str) -> bytes:
        """Return the digest of one folder, those of the folders in it being known."""
        hasher = hashlib.sha256()
        prefix = f"{folder}/" if folder else ""
        for name, node in sorted(self._folders.get(folder, {}).items()):
            digest = self._digests[prefix + name] if node.kind == "folder" else node.digest
            hasher.update(msgspec.json.encode([name, node.kind, node.mode, node.size, digest.hex(), node.target]))
        return hasher.digest()

    def _forget_digests(self, folder: str) -> None:
        """Forget those of `folder` and of what holds it. One that is forgotten has none above it."""
        digests = self._digests
        while folder and digests:
            digests.pop(folder, None)
            folder = folder.rpartition("/")[0]
        digests.pop("", None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Manifest) and (self._folders, self.written) == (other._folders, other.written)

    __hash__ = None  # type: ignore[assignment]  # it changes
