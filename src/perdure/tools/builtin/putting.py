"""How a file or folder comes to stand at its place: made whole beside it, made durable, then renamed into it.

A kill at any moment leaves what stood there or what is to stand there. What it leaves beside the place has a name that
no capture takes in (`PART_PREFIX`), the same one at each try, so the next try clears it away. A planted link at that
name is removed, not followed. Called by `files.py`; blocks.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import threading
from collections.abc import Generator
from typing import BinaryIO, Final

from perdure.errors import FileRefused
from perdure.limits import COPIED_BYTES_MAX, COPIED_MAX, WORKSPACE_FILE_BYTES_MAX
from perdure.model.files import PART_PREFIX
from perdure.tools.builtin.inside import Below, Spot, below, opened_below

# One task has the folder to itself: two of its calls at once must not share a part, nor lose a line that was added.
_alone: Final = threading.RLock()

_MAKE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE_BYTES: Final = 1024 * 1024


def put(spot: Spot, content: bytes, *, is_added: bool = False) -> tuple[int, bool]:
    """Let a file with `content` stand at `spot`; return how many bytes it has, and whether it replaced one.

    The mode of that is kept; with `is_added` its content too, before the new one. Raises FileRefused where anything but
    a file stands there, or it would be too large to be brought back; OSError.
    """
    with _alone:
        mode = _mode_of_file(spot)
        if is_added and mode is not None:
            _refuse_large(spot, spot.stat().st_size + len(content))  # before anything of it is read
            content = _read(spot) + content
        _refuse_large(spot, len(content))
        with _part(spot) as part:
            fd = os.open(part, _MAKE, 0o666, dir_fd=spot.folder_fd)
            with open(fd, "wb") as file:
                file.write(content)
                _finish(file, mode)
            os.replace(part, spot.name, src_dir_fd=spot.folder_fd, dst_dir_fd=spot.folder_fd)
        os.fsync(spot.folder_fd)
    return len(content), mode is not None


def copy(source: Spot, spot: Spot) -> bool:
    """Let a copy of the file or folder at `source` stand at `spot`; return whether it replaced a file.

    Modes come along, and links as links. Raises FileRefused where a folder would replace something, or a file something
    that is none, and where there is too much to copy; OSError.
    """
    with _alone, _part(spot) as part:
        is_folder = stat.S_ISDIR(source.stat().st_mode)
        mode = _mode_of_file(spot)
        if is_folder and mode is not None:
            raise FileRefused(spot.path, "exists already: a folder replaces nothing; delete it first")
        made = Spot(folder_fd=spot.folder_fd, name=part, path=spot.path)
        if is_folder:
            _weigh(source)
            _copy_folder(source, made)
        else:
            _Allowance().take(source.path, size_bytes=source.stat().st_size)
            _copy_file(source, made, _Allowance())
        os.rename(part, spot.name, src_dir_fd=spot.folder_fd, dst_dir_fd=spot.folder_fd)
        os.fsync(spot.folder_fd)
    return mode is not None


def move(source: Spot, spot: Spot) -> bool:
    """Let what stands at `source` stand at `spot` instead; return whether it replaced a file. Raises as `copy`."""
    with _alone:
        mode = _mode_of_file(spot)
        if mode is not None and stat.S_ISDIR(source.stat().st_mode):
            raise FileRefused(spot.path, "exists already: a folder replaces nothing; delete it first")
        os.rename(source.name, spot.name, src_dir_fd=source.folder_fd, dst_dir_fd=spot.folder_fd)
        os.fsync(spot.folder_fd)
        os.fsync(source.folder_fd)
    return mode is not None


def remove(spot: Spot) -> str:
    """Take away the file, link or empty folder at `spot`; return which it was. Raises OSError."""
    with _alone:
        is_folder = stat.S_ISDIR(spot.stat().st_mode)
        if is_folder:
            os.rmdir(spot.name, dir_fd=spot.folder_fd)
        else:
            os.unlink(spot.name, dir_fd=spot.folder_fd)
        os.fsync(spot.folder_fd)
    return "folder" if is_folder else "file"


class _Allowance:
    """What is left of what one copy may take."""

    def __init__(self) -> None:
        self.files = COPIED_MAX
        self.size_bytes = COPIED_BYTES_MAX

    def take(self, path: str, *, files: int = 0, size_bytes: int = 0) -> None:
        """Raise FileRefused where there is none left."""
        self.files -= files
        self.size_bytes -= size_bytes
        if self.files < 0 or self.size_bytes < 0:
            raise FileRefused(
                path, f"holds more than one copy may take ({COPIED_MAX:,} files, {COPIED_BYTES_MAX:,} bytes)"
            )


@contextlib.contextmanager
def _part(spot: Spot) -> Generator[str]:
    """Name of what is made beside `spot`; nothing stands there when the block begins, nor when it fails."""
    name = PART_PREFIX.decode() + hashlib.sha256(os.fsencode(spot.name)).hexdigest()[:32]
    _clear(spot.folder_fd, name)
    try:
        yield name
    except BaseException:
        _clear(spot.folder_fd, name)
        raise


def _clear(folder_fd: int, name: str) -> None:
    try:
        mode = os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        shutil.rmtree(name, dir_fd=folder_fd)
    else:
        os.unlink(name, dir_fd=folder_fd)


def _mode_of_file(spot: Spot) -> int | None:
    """Return the permission bits of the file at `spot`, None where nothing stands there. Raises FileRefused."""
    try:
        mode = spot.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISREG(mode):
        return stat.S_IMODE(mode) & 0o777
    if stat.S_ISDIR(mode):
        raise FileRefused(spot.path, "is a folder; name a file, in it or beside it")
    if stat.S_ISLNK(mode):
        raise FileRefused(
            spot.path, "is a link: nothing is written through it; name the file it leads to, or delete it"
        )
    raise FileRefused(spot.path, "is no file (a pipe, socket or device)")


def _refuse_large(spot: Spot, size_bytes: int) -> None:
    if size_bytes > WORKSPACE_FILE_BYTES_MAX:
        why = f"was left as it is: with {size_bytes:,} bytes it would be over {WORKSPACE_FILE_BYTES_MAX:,}"
        raise FileRefused(spot.path, f"{why}, and no rollback could bring it back; write several files")


def _read(spot: Spot) -> bytes:
    with open(spot.open_file(), "rb") as file:
        return file.read(WORKSPACE_FILE_BYTES_MAX + 1)  # it may have grown since it was looked at


def _finish(file: BinaryIO, mode: int | None) -> None:
    """Make durable what was written, with permission bits where they are not those of any new file."""
    file.flush()
    if mode is not None:
        os.fchmod(file.fileno(), mode & 0o777)
    os.fsync(file.fileno())


def _copy_file(source: Spot, spot: Spot, allowance: _Allowance) -> None:
    with open(source.open_file(), "rb") as come, open(os.open(spot.name, _MAKE, dir_fd=spot.folder_fd), "wb") as made:
        while piece := come.read(_PIECE_BYTES):
            allowance.take(source.path, size_bytes=len(piece))
            made.write(piece)
        _finish(made, os.fstat(come.fileno()).st_mode)


def _weigh(source: Spot) -> None:
    """Raise FileRefused where there is too much in a folder, before any of it is copied."""
    allowance = _Allowance()
    for found in below(source, leave_aside=False):
        size_bytes = found.seen.st_size if stat.S_ISREG(found.seen.st_mode) else 0
        allowance.take(source.path, files=1, size_bytes=size_bytes)


def _copy_folder(source: Spot, spot: Spot) -> None:
    """Copy all that stands below `source`, nothing left aside; what is no file, folder or link is passed over."""
    allowance = _Allowance()
    os.mkdir(spot.name, dir_fd=spot.folder_fd)
    folders: list[tuple[tuple[str, ...], int]] = [((), source.stat().st_mode)]
    with contextlib.ExitStack() as opened:
        top_fd = spot.open_folder()
        opened.callback(os.close, top_fd)
        for found in below(source, leave_aside=False):
            allowance.take(source.path, files=1)
            if stat.S_ISDIR(found.seen.st_mode):
                folders.append((found.names, found.seen.st_mode))
            with opened_below(top_fd, found.names[:-1]) as folder_fd:
                _copy_one(found, Spot(folder_fd=folder_fd, name=found.names[-1], path=spot.path), allowance)
        for names, mode in reversed(folders):  # last and deepest first: nothing can be put into some of them
            with opened_below(top_fd, names) as folder_fd:
                os.fchmod(folder_fd, mode & 0o777)
                os.fsync(folder_fd)


def _copy_one(found: Below, spot: Spot, allowance: _Allowance) -> None:
    match stat.S_IFMT(found.seen.st_mode):
        case stat.S_IFDIR:
            os.mkdir(spot.name, dir_fd=spot.folder_fd)
        case stat.S_IFLNK:
            os.symlink(os.readlink(found.spot.name, dir_fd=found.spot.folder_fd), spot.name, dir_fd=spot.folder_fd)
        case stat.S_IFREG:
            _copy_file(found.spot, spot, allowance)
        case _:
            pass
