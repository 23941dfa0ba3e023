"""Takes files in: compares a workspace with its manifest, and yields what is different, with the bytes to store.

A file is read only where its stamp (inode, size, times, mode) does not vouch for it. A stamp vouches for content only
if it was older than the look that read it: a file that is changed again within one tick of the file system's clock
keeps its stamp. (git calls these entries racy, and does the same.) The time comes from the file system itself, whose
ticks may be of any length: `Folder.now_ns`.

What cannot be taken in is listed and never fatal; what is on record of it stays as it is. Nothing outside of the folder
is looked at, no link is followed. Blocks on the disk: the engine calls it in a thread, one look at a time.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Generator, Iterable, Iterator
from typing import Final

import msgspec

from perdure.core.manifest import Manifest
from perdure.errors import UsageError
from perdure.limits import CAPTURE_BATCH_BYTES, CAPTURE_BATCH_CHANGES, CAPTURE_READS_MAX, WORKSPACE_FILE_BYTES_MAX
from perdure.model.files import FileChange, Node, WhyUncovered, path_to_bytes, path_to_text
from perdure.workspace.folder import Folder, open_below
from perdure.workspace.ignoring import Ignoring

# The process's own shortage says nothing about a path: it must not pass for a file that cannot be read.
_SHORTAGES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_VANISHED: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
_CHANGED: Final = frozenset({errno.ELOOP, errno.ENXIO, errno.EINVAL})  # a link now, a socket now, a link no more
_ODD_KINDS: Final[dict[int, WhyUncovered]] = {stat.S_IFSOCK: "socket", stat.S_IFIFO: "pipe"}
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

Stamp = tuple[int, int, int, int, int, int]
_MTIME, _CTIME = 3, 4  # places in a stamp


class Batch(msgspec.Struct, frozen=True):
    """Changes for one entry: a folder before what is in it, what is gone before the folder that it was in."""

    changes: tuple[FileChange, ...]
    blobs: dict[bytes, bytes]  # by sha256, for the same append


class _Known(msgspec.Struct, frozen=True):
    """What a file or link was when its stamp was taken."""

    stamp: Stamp
    name: str  # as a manifest writes it
    node: Node


class Capturer:
    """Looks at a workspace again and again, and remembers stamps in between; `uncovered` is what looks left out."""

    def __init__(self, folder: Folder, ignoring: Ignoring, *, file_bytes_max: int = WORKSPACE_FILE_BYTES_MAX) -> None:
        self.folder = folder
        self.ignoring = ignoring
        self.file_bytes_max = file_bytes_max
        self.uncovered: dict[str, WhyUncovered] = {}
        self.vouched: dict[str, dict[str, _Known]] = {}  # by folder, and name as the system has it

    def look(self, manifest: Manifest, paths: Iterable[str] | None = None) -> Iterator[Batch]:
        """Yield what is different from `manifest`, which may take the batches in meanwhile.

        `paths`: only these and all that is under them, and the folders above them; None: everything. `uncovered` is
        brought up to date with the last batch. Raises WorkspaceInvalid where another folder stands in the workspace's
        place, UsageError for a path that leads out of it, OSError where the process has no descriptor or memory left.
        """
        self.folder.check()
        look = _Look(self, manifest)
        try:
            for path in [""] if paths is None else _outermost(paths):
                yield from look.go_to(path)
        finally:
            look.let_go()
        self.uncovered = {path: why for path, why in self.uncovered.items() if not look.says_all_of(path)}
        self.uncovered |= look.uncovered
        if look.changes:
            yield look.cut()


class _Taken(msgspec.Struct, frozen=True):
    """What stood at a name when it was looked at."""

    node: Node
    stamp: Stamp
    content: bytes = b""


class _Look:
    """One look, and the batch that it is filling."""

    def __init__(self, capturer: Capturer, manifest: Manifest) -> None:
        self.changes: list[FileChange] = []
        self.uncovered: dict[str, WhyUncovered] = {}
        self._blobs: dict[bytes, bytes] = {}
        self._bytes = 0
        self._passed: set[str] = set()  # folders on the way to what was looked at
        self._seen_whole: set[str] = set()  # paths of which this look says all that is to be said
        self._vouched = capturer.vouched
        self._ignoring = capturer.ignoring
        self._file_bytes_max = capturer.file_bytes_max
        self._manifest = manifest
        self._root = capturer.folder.fd
        self._disk = capturer.folder.identity[0]
        self._held, self._held_fd = "", -1
        self._now_ns = capturer.folder.now_ns()

    def go_to(self, path: str) -> Iterator[Batch]:
        """Look at the folders above `path`, and at all that stands there."""
        if self.says_all_of(path):
            return  # something else than a folder stands above it
        folder = ""
        for name in path.split("/") if path else ():
            here = _joined(folder, name)
            if here not in self._passed and not (yield from self._enter(folder, name)):
                self._seen_whole.add(here)
                return
            self._passed.add(here)
            folder = here
        self._seen_whole.add(path)
        yield from self._walk(path)

    def says_all_of(self, path: str) -> bool:
        """Return whether `path` is uncovered if this look says so, and only then."""
        if path in self._passed or "" in self._seen_whole:
            return True
        while path and path not in self._seen_whole:
            path = path.rpartition("/")[0]
        return bool(path)

    def let_go(self) -> None:
        """Close what is held open."""
        if self._held_fd >= 0:
            os.close(self._held_fd)
        self._held_fd = -1

    def cut(self) -> Batch:
        """Return the batch as it stands, and begin the next."""
        batch = Batch(tuple(self.changes), self._blobs)
        self.changes, self._blobs, self._bytes = [], {}, 0
        return batch

    # --- folders ---
    def _enter(self, folder: str, name: str) -> Generator[Batch, None, bool]:
        """Look at one name, and return whether a folder stands there that can be looked into."""
        raw = os.fsdecode(path_to_bytes(name))
        try:
            fd = self._hold(folder)
            found = os.lstat(raw, dir_fd=fd)
            known = self._vouched.get(folder, {}).get(raw)
            if known is not None and known.stamp == _stamp(found) and self._is_on_record(folder, known):
                return False
            kind = yield from self._entry(fd, folder, raw, found)
        except OSError as error:
            why = self._why(error)
            kind = why or ""
            if why:
                self.uncovered[folder] = why  # it is the folder that cannot be looked into
        if not kind:
            yield from self._remove(folder, name)
        return kind == "folder"

    def _hold(self, folder: str) -> int:
        """Open a folder, and keep it for the next name: declared paths come sorted, so folder by folder."""
        if self._held_fd < 0 or folder != self._held:
            self.let_go()
            self._held_fd, self._held = _open(self._root, folder), folder
        return self._held_fd

    def _walk(self, top: str) -> Iterator[Batch]:
        pending = [top]
        while pending:
            folder = pending.pop()
            try:
                yield from self._list(self._hold(folder), folder, pending)
            except OSError as error:
                why = self._why(error)
                if why:
                    self.uncovered[folder] = why

    def _list(self, fd: int, folder: str, pending: list[str]) -> Iterator[Batch]:
        """Compare what is in one folder with the record; what is to be walked next goes to `pending`."""
        with os.scandir(fd) as listing:
            entries = sorted(listing, key=_name_of)  # the same tree gives the same entries in the journal
        recorded = self._manifest.children(folder)
        vouched = self._vouched.get(folder, {})
        seen: set[str] = set()
        for entry in entries:
            raw = entry.name
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            known = vouched.get(raw)
            if known is not None and known.stamp == _stamp(found) and recorded.get(known.name) == known.node:
                seen.add(known.name)
                continue
            kind = yield from self._entry(fd, folder, raw, found)
            if kind:
                seen.add(_text(raw))
            if kind == "folder":
                pending.append(_joined(folder, _text(raw)))
        for name in sorted(recorded.keys() - seen):
            yield from self._remove(folder, name)

    # --- one name ---
    def _entry(self, fd: int, folder: str, raw: str, found: os.stat_result) -> Generator[Batch, None, str]:
        """Take in what stands at a name; return its kind, why it is left out, or "" if nothing stands there."""
        name = _text(raw)
        path = _joined(folder, name)
        if self._ignoring.fits(folder, name, is_folder=stat.S_ISDIR(found.st_mode)):
            return "ignored"
        if self._bytes + found.st_size > CAPTURE_BATCH_BYTES and self._bytes:
            yield self.cut()
        taken = self._take(fd, raw, found)
        if taken is None:
            return ""
        if isinstance(taken, str):
            self.uncovered[path] = taken
            return taken
        self._vouch(folder, raw, name, taken)
        recorded = self._manifest.get(path)
        if recorded != taken.node:
            if recorded is not None and recorded.kind == "folder" and taken.node.kind != "folder":
                yield from self._remove_below(path)
            yield from self._add(FileChange(path, taken.node), taken.content)
        return taken.node.kind

    def _take(self, fd: int, raw: str, found: os.stat_result) -> _Taken | WhyUncovered | None:
        """Return what stands at a name, why that cannot be taken in, or None if nothing does."""
        for attempt in range(CAPTURE_READS_MAX):
            try:
                now = os.lstat(raw, dir_fd=fd) if attempt else found
                taken = self._take_once(fd, raw, now)
                if taken is not None:
                    return taken
            except OSError as error:
                if error.errno not in _CHANGED:
                    return self._why(error)
        return "changing"

    def _take_once(self, fd: int, raw: str, found: os.stat_result) -> _Taken | WhyUncovered | None:
        """Return what stands at a name, or None if that has changed meanwhile."""
        kind = stat.S_IFMT(found.st_mode)
        if kind == stat.S_IFREG:
            return "too_large" if found.st_size > self._file_bytes_max else self._read(fd, raw)
        if kind == stat.S_IFDIR:
            # Folders only: some file systems give the files of one disk different numbers.
            if found.st_dev != self._disk:
                return "other_disk"
            return _Taken(Node("folder", stat.S_IMODE(found.st_mode)), _stamp(found))
        if kind == stat.S_IFLNK:
            target = os.fsencode(os.readlink(raw, dir_fd=fd))
            return _Taken(Node("link", target=path_to_text(target)), _stamp(found))
        return _ODD_KINDS.get(kind, "device")

    def _read(self, fd: int, raw: str) -> _Taken | WhyUncovered | None:
        """Return a file as it is from one look at its stamp to the next, None if these differ."""
        file = os.open(raw, _READ, dir_fd=fd)
        try:
            before = os.fstat(file)
            if not stat.S_ISREG(before.st_mode) or before.st_size > self._file_bytes_max:
                return None
            content = _read_whole(file, before.st_size)
            after = os.fstat(file)
        finally:
            os.close(file)
        if _stamp(before) != _stamp(after) or len(content) != after.st_size:
            return None
        digest = hashlib.sha256(content).digest()
        return _Taken(Node("file", stat.S_IMODE(after.st_mode), len(content), digest), _stamp(after), content)

    def _vouch(self, folder: str, raw: str, name: str, taken: _Taken) -> None:
        """Let the stamp stand for the content, unless it was made in the tick in which it was looked at.

        Nothing is known of the ticks of another disk, to which a mounted file may belong.
        """
        if taken.node.kind == "folder":
            return
        vouched = self._vouched.setdefault(folder, {})
        disk, mtime_ns, ctime_ns = taken.stamp[0], taken.stamp[_MTIME], taken.stamp[_CTIME]
        if disk == self._disk and max(mtime_ns, ctime_ns) < self._now_ns:
            vouched[raw] = _Known(taken.stamp, name, taken.node)
        else:
            vouched.pop(raw, None)

    def _is_on_record(self, folder: str, known: _Known) -> bool:
        return self._manifest.get(_joined(folder, known.name)) == known.node

    # --- the batch ---
    def _add(self, change: FileChange, content: bytes = b"") -> Iterator[Batch]:
        self.changes.append(change)
        if change.node is not None and change.node.kind == "file":
            self._blobs[change.node.digest] = content
            self._bytes += len(content)
        if len(self.changes) >= CAPTURE_BATCH_CHANGES or self._bytes >= CAPTURE_BATCH_BYTES:
            yield self.cut()

    def _remove(self, folder: str, name: str) -> Iterator[Batch]:
        """Say that what is on record there is gone."""
        path = _joined(folder, name)
        recorded = self._manifest.get(path)
        if recorded is None or self._ignoring.fits(folder, name, is_folder=recorded.kind == "folder"):
            return
        if recorded.kind == "folder":
            yield from self._remove_below(path)
        self._vouched.get(folder, {}).pop(os.fsdecode(path_to_bytes(name)), None)
        yield from self._add(FileChange(path))

    def _remove_below(self, folder: str) -> Iterator[Batch]:
        self._vouched.pop(folder, None)
        for path, node in reversed(list(self._manifest.items(folder))):
            if node.kind == "folder":
                self._vouched.pop(path, None)
            yield from self._add(FileChange(path))

    def _why(self, error: OSError) -> WhyUncovered | None:
        """Return why a path cannot be taken in, None if nothing stands there. Raises the process's own shortages."""
        if error.errno in _SHORTAGES:
            raise error
        return None if error.errno in _VANISHED else "unreadable"


def _open(root_fd: int, folder: str) -> int:
    return open_below(root_fd, path_to_bytes(folder).split(b"/") if folder else ())


def _read_whole(file: int, size: int) -> bytes:
    """Return the bytes of a file that should have `size`; what is behind one more is not read."""
    content = os.read(file, size + 1)
    while len(content) < size and (more := os.read(file, size + 1 - len(content))):
        content += more
    return content


def _stamp(found: os.stat_result) -> Stamp:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode)


def _text(raw: str) -> str:
    return raw if raw.isascii() and "\\" not in raw else path_to_text(os.fsencode(raw))


def _name_of(entry: os.DirEntry[str]) -> str:
    return entry.name


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _is_under(path: str, top: str) -> bool:
    return not top or path == top or path.startswith(f"{top}/")


def _outermost(paths: Iterable[str]) -> list[str]:
    """Return the paths that lie under no other of them. Raises UsageError for one that leads out of the workspace."""
    kept: list[str] = []
    for path in sorted(set(paths), key=lambda path: path.split("/")):
        if path and (not {"", ".", ".."}.isdisjoint(path.split("/")) or "\0" in path):
            raise UsageError(f"{path!r} is no path of a workspace: give it from the workspace, without `.` and `..`")
        if not kept or not _is_under(path, kept[-1]):
            kept.append(path)
    return kept
