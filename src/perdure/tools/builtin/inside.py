"""The way into a workspace for an agent's tools: what is opened here lies inside, whatever is swapped meanwhile.

A path is gone down name by name from the open folder, by `openat` and its kin, and never through a link that the kernel
follows. Readers follow links by hand: their targets are walked in the same way, so one that leads out is refused.
Writers go through no link at all: what a call may write is known from its arguments (`tools/paths.py`), and a link
would make that a lie. Only where the agent is not restricted to its workspace, readers may leave it.

Not here: what is done with a file (`files.py`, `searching.py`). Called by the tools of the agent; blocks.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import os
import stat
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from typing import Final, NoReturn

import msgspec

from perdure.errors import FileRefused, OutsideWorkspace
from perdure.limits import LINKS_FOLLOWED_MAX
from perdure.model.files import PART_PREFIX, path_to_bytes, path_to_text
from perdure.model.ids import plain_text

# Made again by whoever needs them, or a tool's own books: of no use in a list or a search. Named itself, each is read.
LEFT_ASIDE: Final = frozenset(
    {".git", ".hg", ".svn", "__pycache__", "node_modules", ".venv", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
)

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_GONE: Final = (FileNotFoundError, NotADirectoryError, PermissionError)
_NAMES_TOLD_MAX: Final = 5
_REASONS: Final = {
    errno.ENOTDIR: "cannot be reached: a name on the way to it is no folder",
    errno.EISDIR: "is a folder; list_folder shows what is in it",
    errno.ELOOP: "cannot be reached: a link stands in its way",
    errno.EACCES: "may not be touched: permission denied",
    errno.EPERM: "may not be touched: the system does not permit it",
    errno.ENAMETOOLONG: "holds a name that is too long for a file",
    errno.ENOTEMPTY: "is a folder that is not empty",
    errno.EEXIST: "exists already",
    errno.ENXIO: "is no file that can be read",
}


class Spot(msgspec.Struct, frozen=True, kw_only=True):
    """A name in an open folder. The name itself is no link, unless a writer asked for it."""

    folder_fd: int
    name: str  # "." for the folder itself
    path: str  # as a person reads it: relative to the workspace, or absolute where it lies outside

    def stat(self) -> os.stat_result:
        """Return what stands there. Raises FileNotFoundError where nothing does."""
        return os.stat(self.name, dir_fd=self.folder_fd, follow_symlinks=False)

    def open_folder(self) -> int:
        """Open it as a folder. Raises OSError."""
        return os.open(self.name, FOLDER, dir_fd=self.folder_fd)

    def open_file(self) -> int:
        """Open a regular file to be read. Raises FileRefused for anything else, OSError."""
        fd = os.open(self.name, _FILE, dir_fd=self.folder_fd)
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode):
            os.close(fd)
            raise FileRefused(self.path, _REASONS[errno.EISDIR if stat.S_ISDIR(mode) else errno.ENXIO])
        return fd


class Below(msgspec.Struct, frozen=True, kw_only=True):
    """What stands somewhere below a folder."""

    names: tuple[str, ...]  # that lead to it, as the system has them
    spot: Spot
    seen: os.stat_result


class Inside:
    """A workspace, open. Made by `enter`."""

    def __init__(self, workspace: str, root_fd: int, *, is_restricted: bool) -> None:
        self.root_fd = root_fd
        self.workspace = workspace
        self.is_restricted = is_restricted
        self._roots = tuple(dict.fromkeys((os.path.abspath(workspace), os.path.realpath(workspace))))

    @contextlib.contextmanager
    def found(self, path: str) -> Generator[Spot]:
        """Where a reader finds `path`, all links followed. Raises OutsideWorkspace, FileRefused.

        A name that is no UTF-8 is also found as it is listed: with its odd bytes as escapes.
        """
        with self.told(path), contextlib.ExitStack() as opened:
            yield self._find(path, opened)

    @contextlib.contextmanager
    def place(self, path: str, *, make: bool = False) -> Generator[Spot]:
        """Where a writer puts or takes `path`, through no link; `make`: with the folders on the way.

        What stands there may be a link, or nothing. Nothing is put into git's own folder: its files name programs that
        the next git runs, also that of the user. Raises OutsideWorkspace, FileRefused.
        """
        with self.told(path), contextlib.ExitStack() as opened:
            names = self.names(path)
            if not names:
                raise FileRefused(path, "is the workspace itself; name something in it")
            if make and any(name.casefold() == ".git" for name in names):
                raise FileRefused(path, "belongs to git, which alone writes it; use the tools for repositories")
            folder_fd = self._own(opened, os.dup(self.root_fd))
            for count, name in enumerate(names[:-1], start=1):
                folder_fd = self._own(opened, self._down(folder_fd, names[:count], name, make=make))
            yield Spot(folder_fd=folder_fd, name=names[-1], path=text_of("/".join(names)))

    def names(self, path: str) -> list[str]:
        """Return the names of a writer's `path` below the workspace, as `tools/paths.py` reads it.

        Raises OutsideWorkspace.
        """
        whole = os.path.normpath(os.path.join(self._roots[0], path))
        relative = self._relative(whole)
        if relative is None:
            raise OutsideWorkspace(path, self.workspace)
        return [name for name in relative.split(os.sep) if name]

    @contextlib.contextmanager
    def told(self, path: str) -> Generator[None]:
        """Raise what the system says about `path` in words for a model; what says nothing about it stays as it is."""
        try:
            yield
        except OSError as error:
            if error.errno == errno.ENOENT:
                raise FileRefused(path, f"does not exist{self._near(path)}") from error
            if error.errno not in _REASONS:
                raise  # no room, a failing disk, no descriptors: the engine's classes know what to do
            raise FileRefused(path, _REASONS[error.errno]) from error
        except ValueError as error:  # a NUL, or half of a surrogate pair
            raise FileRefused(plain_text(path), "holds letters that no path can have") from error

    # --- finding ---
    def _find(self, path: str, opened: contextlib.ExitStack) -> Spot:
        try:
            return self._walk(path, opened)
        except OutsideWorkspace:
            if self.is_restricted:
                raise
            return self._anywhere(path, opened)
        except FileNotFoundError:
            raw = os.fsdecode(path_to_bytes(path)) if "\\" in path else path
            if raw == path:
                raise
            return self._walk(raw, opened)

    def _walk(self, path: str, opened: contextlib.ExitStack) -> Spot:
        """Go down name by name. `..` goes back up the folders that were really passed, as the kernel would."""
        passed: list[tuple[str, int]] = [("", self.root_fd)]
        pending = deque(self._names_to(path, path))
        links = 0
        while pending:
            name, folder_fd = pending.popleft(), passed[-1][1]
            if name == os.pardir:
                if len(passed) == 1:
                    raise OutsideWorkspace(path, self.workspace)
                passed.pop()
                continue
            if stat.S_ISLNK(os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_mode):
                links += 1
                if links > LINKS_FOLLOWED_MAX:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                target = os.readlink(name, dir_fd=folder_fd)
                passed = passed[:1] if os.path.isabs(target) else passed
                pending.extendleft(reversed(self._names_to(target, path)))
                continue
            if not pending:
                return Spot(folder_fd=folder_fd, name=name, path=_joined([*passed, (name, -1)]))
            passed.append((name, self._own(opened, os.open(name, FOLDER, dir_fd=folder_fd))))
        return Spot(folder_fd=passed[-1][1], name=os.curdir, path=_joined(passed) or os.curdir)

    def _names_to(self, path: str, asked: str) -> list[str]:
        """Split a path or a link's target; an absolute one must begin with the workspace. Raises OutsideWorkspace."""
        relative = self._relative(path) if os.path.isabs(path) else path
        if relative is None:
            raise OutsideWorkspace(asked, self.workspace)
        return [name for name in relative.split(os.sep) if name not in {"", os.curdir}]

    def _relative(self, whole: str) -> str | None:
        for root in self._roots:
            if whole == root or whole.startswith(root.rstrip(os.sep) + os.sep):
                return whole[len(root) :]
        return None

    def _anywhere(self, path: str, opened: contextlib.ExitStack) -> Spot:
        """Find a path that may lie outside, as the kernel finds it."""
        whole = os.path.realpath(os.path.join(self._roots[0], path), strict=True)
        folder, name = os.path.split(whole)
        folder_fd = self._own(opened, os.open(folder, FOLDER))
        return Spot(folder_fd=folder_fd, name=name or os.curdir, path=text_of(whole))

    def _down(self, folder_fd: int, names: Sequence[str], name: str, *, make: bool) -> int:
        """Open the folder `name` for a writer; made where it may be and nothing stands there."""
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=folder_fd)
        try:
            return os.open(name, FOLDER, dir_fd=folder_fd)
        except OSError as error:
            if error.errno not in {errno.ENOTDIR, errno.ELOOP}:
                raise
            self._refuse_way(folder_fd, names, name)

    def _refuse_way(self, folder_fd: int, names: Sequence[str], name: str) -> NoReturn:
        path = text_of("/".join(names))
        try:
            target = text_of(os.readlink(name, dir_fd=folder_fd))
        except OSError:
            raise FileRefused(path, "is no folder, nothing can stand in it") from None
        raise FileRefused(path, f"is a link to {target!r}: nothing is written through links; name the real path")

    def _near(self, path: str) -> str:
        """Name what in the same folder is called most like it; of a link that leads nowhere, where it leads."""
        folder, _, name = path.rstrip(os.sep).rpartition(os.sep)
        try:
            with contextlib.ExitStack() as opened:
                spot = self._walk(folder, opened)
                fd = self._own(opened, spot.open_folder())
                names = [text_of(each) for each in os.listdir(fd) if not is_part(each)]
                if name in names:
                    return f": it is a link to {text_of(os.readlink(name, dir_fd=fd))!r}, and nothing is there"
        except (OSError, ValueError, OutsideWorkspace):
            return ""
        near = difflib.get_close_matches(name, names, n=_NAMES_TOLD_MAX)
        return f"; near it: {', '.join(map(repr, near))}" if near else ""

    def _own(self, opened: contextlib.ExitStack, fd: int) -> int:
        opened.callback(os.close, fd)
        return fd


@contextlib.contextmanager
def enter(workspace: str, *, is_restricted: bool = True) -> Generator[Inside]:
    """Open the workspace, made if nothing was written there so far."""
    os.makedirs(workspace, exist_ok=True)
    fd = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield Inside(workspace, fd, is_restricted=is_restricted)
    finally:
        os.close(fd)


def below(spot: Spot, *, leave_aside: bool = True) -> Iterator[Below]:
    """Yield all that stands below the folder at `spot`, a level after the other, each level by name; links as links.

    `leave_aside`: what stands in a folder of `LEFT_ASIDE` is not looked at. A folder that vanishes meanwhile, or may
    not be read, is passed over. A spot is good until the next one is asked for. Raises OSError for the top.
    """
    top = "" if spot.path == os.curdir else spot.path
    top_fd = spot.open_folder()
    pending: deque[tuple[str, ...]] = deque([()])
    try:
        while pending:
            for found in _level(top_fd, top, pending.popleft()):
                pending.extend(_further(found, leave_aside=leave_aside))
                yield found
    finally:
        os.close(top_fd)


def _further(found: Below, *, leave_aside: bool) -> Iterator[tuple[str, ...]]:
    """Yield the names of what was found where it is a folder to be looked into."""
    if stat.S_ISDIR(found.seen.st_mode) and not (leave_aside and found.spot.name in LEFT_ASIDE):
        yield found.names


def _level(top_fd: int, top: str, names: tuple[str, ...]) -> Iterator[Below]:
    """Yield what stands in the folder to which `names` lead from the top; nothing of one that has vanished."""
    with contextlib.suppress(*_GONE), opened_below(top_fd, names) as fd:
        for name, seen in _entries(fd):
            here = (*names, name)
            spot = Spot(folder_fd=fd, name=name, path=text_of(os.path.join(top, *here)))
            yield Below(names=here, spot=spot, seen=seen)


@contextlib.contextmanager
def opened_below(folder_fd: int, names: Sequence[str]) -> Generator[int]:
    """Open the folder that `names` lead to from another one, through no link. Raises OSError."""
    fd = os.dup(folder_fd)
    try:
        for name in names:
            above, fd = fd, os.open(name, FOLDER, dir_fd=fd)
            os.close(above)
        yield fd
    finally:
        os.close(fd)


def text_of(path: str) -> str:
    """Return a path as a person reads it: a name that is no UTF-8 with its odd bytes as escapes."""
    return path if path.isascii() or _is_text(path) else path_to_text(os.fsencode(path))


def is_part(name: str) -> bool:
    """Whether a name is that of something of ours which is still being written."""
    return name.startswith(PART_PREFIX.decode())


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _joined(passed: Sequence[tuple[str, int]]) -> str:
    return text_of("/".join(name for name, _ in passed if name))


def _entries(fd: int) -> Iterator[tuple[str, os.stat_result]]:
    for name in sorted(os.listdir(fd)):
        if is_part(name):
            continue
        with contextlib.suppress(FileNotFoundError):
            yield name, os.stat(name, dir_fd=fd, follow_symlinks=False)
