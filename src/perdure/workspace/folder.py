"""The real folder of a workspace: its identity, its lock, and the only way in.

One task per real folder: the lock is the kernel's (`flock` on the directory itself), so it ends with its process, and
other names of the folder (links, mounts) are the same lock. Each folder around it is locked as shared, so that a
workspace inside another's is refused, whichever came first. Two tasks of one process compete like any other two.
Called by the engine when it opens a task, and by `capture` and the restoring of files.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Final

from perdure.errors import WorkspaceBusy, WorkspaceInvalid

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_SHORTAGES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_NOT_FOLLOWED: Final = _FOLDER | os.O_NOFOLLOW


class Folder:
    """A workspace's folder, open and locked until `close`. Safe to read from any thread."""

    __slots__ = ("_held", "fd", "given", "identity", "path")

    def __init__(self, given: str, path: str, fd: int, held: contextlib.ExitStack) -> None:
        self.given = given  # absolute, as it was asked for; may lead through links
        self.path = path  # the real one
        self.fd = fd  # of the folder, for the `dir_fd` of system calls; -1 once closed
        found = os.fstat(fd)
        self.identity = (found.st_dev, found.st_ino)
        self._held = held

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, store_place: str = "", is_shared: bool = False) -> Folder:
        """Open and lock the folder at `path`, made if absent. `store_place`: the store's path or URL.

        `is_shared`: for looks alone, beside whoever has it locked. Raises WorkspaceBusy where another task has it, or
        one inside or around it; WorkspaceInvalid where it is no folder, may not be read, knows no locks, or holds the
        store.
        """
        given = os.path.abspath(path)
        real = os.path.realpath(given)
        _refuse_store(real, store_place)
        with _translated(real), contextlib.ExitStack() as held:
            os.makedirs(real, exist_ok=True)
            fd = os.open(real, _NOT_FOLLOWED)
            held.callback(os.close, fd)
            with contextlib.suppress(BlockingIOError) if is_shared else contextlib.nullcontext():
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for above in Path(real).parents:
                    _lock_shared(above, held)
            made = cls(given, real, fd, held)
            made.check()
            made._held = held.pop_all()
            return made

    def check(self) -> None:
        """Raise WorkspaceInvalid if another folder than this one, or none, stands at its path by now."""
        for path, look in ((self.path, os.lstat), (self.given, os.stat)):
            try:
                found = look(path)
            except OSError as error:
                raise WorkspaceInvalid(path, f"{error.strerror}; put the folder back where it was") from error
            if (found.st_dev, found.st_ino) != self.identity:
                raise WorkspaceInvalid(path, "another stands there than when the task opened it; put that one back")

    def now_ns(self) -> int:
        """Return a time of this file system that is not in its future, as fine as its own time stamps are.

        The folder is given the owner that it has, which changes nothing but the time of its last change. Where that is
        refused, the time is an old one.
        """
        with contextlib.suppress(OSError):
            os.fchown(self.fd, -1, -1)
        return os.fstat(self.fd).st_ctime_ns

    def close(self) -> None:
        """Give the lock back. Closing twice does nothing."""
        self.fd = -1
        self._held.close()


def open_below(root_fd: int, names: Iterable[str | bytes]) -> int:
    """Open the folder that `names` lead to from `root_fd`, name by name, through no link; return its descriptor.

    Raises OSError: NotADirectoryError (a link too), FileNotFoundError, PermissionError.
    """
    fd = os.open(".", _FOLDER, dir_fd=root_fd)
    for name in names:
        above = fd
        try:
            fd = os.open(name, _NOT_FOLLOWED, dir_fd=above)
        finally:
            os.close(above)
    return fd


def _refuse_store(real: str, store_place: str) -> None:
    if "://" in store_place and not store_place.startswith("sqlite:///"):
        return
    place = store_place.removeprefix("sqlite:///")
    if place and os.path.commonpath((real, os.path.realpath(place))) == real:
        raise WorkspaceInvalid(real, f"it holds the store {place!r}; move one of the two")


def _lock_shared(above: Path, held: contextlib.ExitStack) -> None:
    """Lock a folder around the workspace, where that is possible. Raises BlockingIOError where a task works in it."""
    try:
        fd = os.open(above, _FOLDER)
        held.callback(os.close, fd)
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError as error:
        if error.errno in _SHORTAGES:
            raise  # that says nothing about the folder: whether a task works in it must be known
        return  # it may not be read, or has no locks: then no task of ours works in it


@contextlib.contextmanager
def _translated(real: str) -> Generator[None]:
    """Raise what the system says about the folder `real` as errors of ours."""
    try:
        yield
    except BlockingIOError as error:
        raise WorkspaceBusy(real) from error
    except OSError as error:
        raise WorkspaceInvalid(real, f"{error.strerror}; name another with `workspace=`") from error
