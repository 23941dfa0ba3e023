"""Puts files of a workspace back, step by step; killed anywhere it can be run again and comes to the same end.

Trusts nothing that stands on the disk: each path is gone down name by name and no link is followed, and only what the
journal says stands there is replaced or removed. Anything else is somebody else's: it is kept, and reported.

A new file, link or folder is made whole beside its place, under a name of our own, and renamed into it. So at each
moment a path holds what stood there or what is to stand there. Only where a folder gives way to a file, or a file to a
folder, nothing stands there for a moment; the finished part beside it then tells a second run to go on. Folders that
are shut (no write for their owner) are opened on the way, and shut at the end; their modes are steps too.

Not here: what goes back to what (`core/way_back.py`), the bytes (blobs), the journal. Blocks; called from a thread.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from perdure.core.manifest import Manifest
from perdure.core.way_back import Step
from perdure.errors import WorkspaceFull, WorkspaceRefused
from perdure.model.files import PART_PREFIX, FileKind, Node, path_to_bytes, path_to_text

_READ_BYTES: Final = 1024 * 1024
_OWNER_MAY_WORK: Final = 0o700
_INTO_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAKE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_KINDS: Final[Mapping[int, FileKind]] = {stat.S_IFREG: "file", stat.S_IFLNK: "link", stat.S_IFDIR: "folder"}

# A path is another thing than it was a moment ago, or something foreign is in the way: kept, never forced.
_IN_THE_WAY: Final = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENOTEMPTY, errno.EEXIST, errno.EISDIR, errno.EBUSY, errno.EXDEV}
)
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """What came of the steps, sorted by path."""

    done: tuple[str, ...]  # stand at their targets now
    kept: tuple[str, ...]  # left as they are: somebody else's, or something of somebody else's is in or above them


def blobs_of(steps: Iterable[Step]) -> frozenset[bytes]:
    """Return the digests of the contents that `apply` asks for."""
    return frozenset(step.target.digest for step in steps if step.target is not None and step.target.kind == "file")


def apply(
    root_fd: int, steps: Sequence[Step], blobs: Mapping[bytes, bytes], reach: Callable[[], None] = lambda: None
) -> Restored:
    """Bring each path from `expected` to `target` under the folder `root_fd`; durable when it returns.

    What stands at its target is left, so that the same steps can be applied again. `blobs` is asked once for each file
    that is written; `reach` is called before and after each step. Raises WorkspaceFull, WorkspaceRefused: what is done
    stays done, and the same call goes on from there.
    """
    return _Restoring(root_fd, steps, blobs, reach).run()


def write_tree(root_fd: int, manifest: Manifest, blobs: Mapping[bytes, bytes]) -> Restored:
    """Put all of `manifest` into the folder `root_fd`, which is empty. Raises as `apply` does."""
    return apply(root_fd, tuple(Step(path, None, node) for path, node in manifest.items()), blobs)


class _Restoring:
    """One call of `apply`."""

    def __init__(
        self, root_fd: int, steps: Sequence[Step], blobs: Mapping[bytes, bytes], reach: Callable[[], None]
    ) -> None:
        self.root_fd = root_fd
        self.steps = sorted(steps, key=lambda step: step.path.split("/"))
        self.blobs = blobs
        self.reach = reach
        self.modes = {step.path: _modes(step) for step in steps}
        self.kept: set[str] = set()
        self.blocked: dict[str, str] = {}  # paths to be removed → what stands above them and is no folder

    def run(self) -> Restored:
        """What goes, deepest first; what comes, its folder before it; at last the modes of folders, deepest first."""
        try:
            for step in reversed(self.steps):
                if _goes(step):
                    self._take(step)
            for step in self.steps:
                if not _goes(step) and step.expected != step.target:
                    self._take(step)
            for folder in {step.path.rpartition("/")[0] for step in self.steps}:
                with self._errors_of(folder), contextlib.suppress(_Elsewhere), self._inside(folder) as folder_fd:
                    os.fsync(folder_fd)
        finally:
            for step in reversed(self.steps):
                with self._errors_of(step.path):
                    self._shut(step)
        paths = sorted(step.path for step in self.steps if step.expected != step.target)
        done = set(paths) - self.kept
        done |= {path for path, above in self.blocked.items() if above in done}  # as it is to be
        return Restored(
            done=tuple(path for path in paths if path in done), kept=tuple(path for path in paths if path not in done)
        )

    def _take(self, step: Step) -> None:
        """Bring one path to its target, unless something else stands there or above it."""
        self.reach()
        folder, _, name = step.path.rpartition("/")
        with self._errors_of(step.path):
            try:
                with self._inside(folder) as folder_fd:
                    is_back = _Place(folder_fd, path_to_bytes(name), step).bring(self.blobs)
            except _Elsewhere as found:
                is_back = found.is_gone and step.target is None
                if step.target is None:
                    self.blocked[step.path] = found.path
            except OSError as error:
                if error.errno not in _IN_THE_WAY:
                    raise
                is_back = False
        if not is_back:
            self.kept.add(step.path)
        self.reach()

    def _shut(self, step: Step) -> None:
        """Give the folder of a step the mode that it is to have, if it is the one that was made or opened."""
        node = step.target if step.target is not None and step.target.kind == "folder" else step.expected
        if node is None or node.kind != "folder":
            return
        with contextlib.ExitStack() as opened:
            try:
                folder_fd = opened.enter_context(self._inside(step.path))
            except (_Elsewhere, PermissionError):
                return  # not one that was opened here
            mode = stat.S_IMODE(os.fstat(folder_fd).st_mode)
            if mode != node.mode and mode in self.modes[step.path]:
                os.fchmod(folder_fd, node.mode)
                os.fsync(folder_fd)

    @contextlib.contextmanager
    def _inside(self, folder: str) -> Generator[int]:
        """Open `folder` without following a link anywhere on the way. Raises _Elsewhere."""
        folder_fd = os.dup(self.root_fd)
        path = ""
        try:
            for name in folder.split("/") if folder else ():
                path = f"{path}/{name}" if path else name
                below_fd = self._down(folder_fd, name, path)
                os.close(folder_fd)
                folder_fd = below_fd
            yield folder_fd
        finally:
            os.close(folder_fd)

    def _down(self, folder_fd: int, name: str, path: str) -> int:
        """Open the folder `name`, and make it one that can be worked in, if the journal knows it as one that cannot."""
        raw = path_to_bytes(name)
        try:
            below_fd = os.open(raw, _INTO_FOLDER, dir_fd=folder_fd)
        except PermissionError:
            _open_up(folder_fd, raw, self.modes.get(path, frozenset()))
            below_fd = os.open(raw, _INTO_FOLDER, dir_fd=folder_fd)
        except OSError as error:
            if error.errno in _IN_THE_WAY:
                raise _Elsewhere(path, is_gone=error.errno == errno.ENOENT) from error
            raise
        mode = stat.S_IMODE(os.fstat(below_fd).st_mode)
        if mode & _OWNER_MAY_WORK != _OWNER_MAY_WORK and mode in self.modes.get(path, ()):
            os.fchmod(below_fd, mode | _OWNER_MAY_WORK)
        return below_fd

    @contextlib.contextmanager
    def _errors_of(self, path: str) -> Generator[None]:
        """Raise what the system refuses at `path` under a name of ours."""
        try:
            yield
        except OSError as error:
            folder = _name_of(self.root_fd)
            if error.errno in _NO_ROOM:
                raise WorkspaceFull(folder, path) from error
            raise WorkspaceRefused(folder, path, error.strerror or str(error)) from error


class _Elsewhere(Exception):
    """A folder on the way is not there, or is no folder."""

    def __init__(self, path: str, *, is_gone: bool) -> None:
        self.path = path
        self.is_gone = is_gone


class _Place:
    """One path: a name in an open folder, and the name beside it under which its new content is made."""

    def __init__(self, folder_fd: int, name: bytes, step: Step) -> None:
        self.folder_fd = folder_fd
        self.name = name
        self.part = PART_PREFIX + hashlib.sha256(path_to_bytes(step.path)).hexdigest()[:32].encode()
        self.expected = step.expected
        self.target = step.target

    def bring(self, blobs: Mapping[bytes, bytes]) -> bool:
        """Make the target stand here. False, and nothing touched, if neither it nor what is expected stands here."""
        seen = self._stat(self.name)
        if self._is(self.name, seen, self.target):
            self._clear_part()
            return True
        if self._only_mode():
            return self._is(self.name, seen, self.expected)
        if seen is None and self._is_between() and self._is(self.part, self._stat(self.part), self.target):
            os.rename(self.part, self.name, src_dir_fd=self.folder_fd, dst_dir_fd=self.folder_fd)
            return True
        self._clear_part()
        if not self._is(self.name, seen, self.expected):
            return False
        if self.target is not None:
            self._make_part(self.target, blobs)
        if not _is_same(seen, self._stat(self.name)):  # somebody was quicker
            self._clear_part()
            return False
        try:
            self._replace()
        except OSError:
            if not (self._is_between() and self._stat(self.name) is None):  # there the part is what a second run needs
                self._clear_part()
            raise
        return True

    def _only_mode(self) -> bool:
        """True for a folder that stays and gets another mode, which is done when all in it is."""
        return {node and node.kind for node in (self.expected, self.target)} == {"folder"}

    def _is_between(self) -> bool:
        """True where old and new cannot be exchanged in one go: exactly one of them is a folder."""
        kinds = [node.kind == "folder" for node in (self.expected, self.target) if node is not None]
        return sum(kinds) == 1 < len(kinds)

    def _replace(self) -> None:
        """Remove what stands here, or put the part over it."""
        if self.expected is not None and (self.target is None or self._is_between()):
            remove = os.rmdir if self.expected.kind == "folder" else os.unlink
            remove(self.name, dir_fd=self.folder_fd)
        if self.target is not None:
            os.rename(self.part, self.name, src_dir_fd=self.folder_fd, dst_dir_fd=self.folder_fd)

    def _make_part(self, node: Node, blobs: Mapping[bytes, bytes]) -> None:
        """Make `node` whole under the name beside, never more open than it is to be."""
        try:
            if node.kind == "link":
                os.symlink(path_to_bytes(node.target), self.part, dir_fd=self.folder_fd)
            elif node.kind == "folder":
                os.mkdir(self.part, _OWNER_MAY_WORK, dir_fd=self.folder_fd)
                self._finish(os.open(self.part, _INTO_FOLDER, dir_fd=self.folder_fd), node.mode | _OWNER_MAY_WORK)
            else:
                part_fd = os.open(self.part, _MAKE, 0o600, dir_fd=self.folder_fd)
                self._finish(part_fd, node.mode, blobs[node.digest])
        except OSError:
            self._clear_part()
            raise

    def _finish(self, part_fd: int, mode: int, content: bytes = b"") -> None:
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(part_fd, rest) :]
            os.fchmod(part_fd, mode)
            os.fsync(part_fd)
        finally:
            os.close(part_fd)

    def _clear_part(self) -> None:
        """Remove what stands under our name beside: left by a kill, or planted."""
        found = self._stat(self.part)
        if found is not None:
            remove = os.rmdir if stat.S_ISDIR(found.st_mode) else os.unlink
            remove(self.part, dir_fd=self.folder_fd)

    def _stat(self, name: bytes) -> os.stat_result | None:
        try:
            return os.stat(name, dir_fd=self.folder_fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _is(self, name: bytes, seen: os.stat_result | None, node: Node | None) -> bool:
        """True if `seen`, what stands under `name`, is `node`; a folder may be open for its owner, as we open it."""
        if seen is None or node is None:
            return seen is None and node is None
        if _KINDS.get(stat.S_IFMT(seen.st_mode)) != node.kind:
            return False
        mode = stat.S_IMODE(seen.st_mode)
        if node.kind == "link":
            return path_to_text(os.readlink(name, dir_fd=self.folder_fd)) == node.target
        if node.kind == "folder":
            return mode in {node.mode, node.mode | _OWNER_MAY_WORK}
        return (mode, seen.st_size) == (node.mode, node.size) and self._digest(name) == node.digest

    def _digest(self, name: bytes) -> bytes:
        hasher = hashlib.sha256()
        file_fd = os.open(name, _READ, dir_fd=self.folder_fd)
        try:
            while piece := os.read(file_fd, _READ_BYTES):
                hasher.update(piece)
        finally:
            os.close(file_fd)
        return hasher.digest()


def _goes(step: Step) -> bool:
    """True where a path becomes empty, or a folder something else: after all that is in it."""
    return step.target is None or (
        step.target.kind != "folder" and step.expected is not None and step.expected.kind == "folder"
    )


def _modes(step: Step) -> frozenset[int]:
    """Return the modes that a folder at this path has while it is as the journal says, or as this module makes it."""
    modes = {node.mode for node in (step.expected, step.target) if node is not None and node.kind == "folder"}
    return frozenset(modes | {mode | _OWNER_MAY_WORK for mode in modes})


def _is_same(one: os.stat_result | None, other: os.stat_result | None) -> bool:
    """True where nobody touched what stands there between two looks."""
    if one is None or other is None:
        return one is other
    return (one.st_dev, one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns) == (
        other.st_dev,
        other.st_ino,
        other.st_size,
        other.st_mtime_ns,
        other.st_ctime_ns,
    )


def _open_up(folder_fd: int, name: bytes, modes: frozenset[int]) -> None:
    """Let the owner into the folder `name`, which not even he may read. Linux only: elsewhere PermissionError."""
    path_only = getattr(os, "O_PATH", None)
    if path_only is None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    name_fd = os.open(name, path_only | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder_fd)
    try:
        mode = stat.S_IMODE(os.fstat(name_fd).st_mode)
        if mode in modes:
            os.chmod(f"/proc/self/fd/{name_fd}", mode | _OWNER_MAY_WORK)  # a descriptor's own name: no link in it
    finally:
        os.close(name_fd)


def _name_of(folder_fd: int) -> str:
    """Return where an open folder lies, for messages."""
    if sys.platform == "darwin":
        import fcntl  # not on every system

        return os.fsdecode(fcntl.fcntl(folder_fd, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
    try:
        return os.readlink(f"/proc/self/fd/{folder_fd}")
    except OSError:
        return "the workspace"
