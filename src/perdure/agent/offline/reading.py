"""Read one document, or say in a few words why not.

Everything about the file is asked before it is opened: what it is, where it leads, how big it is. So a pipe never
blocks the agent, a huge file never fills its memory, and a link never leads it out of the folder that the goal named.
Called by the tool `read_document`.
"""

import errno
import os
import stat
from typing import NoReturn, TypedDict

from perdure.agent.offline.decoding import NotText, decode
from perdure.agent.offline.listing import path_of

DOCUMENT_BYTES_MAX = 8 << 20


class UnreadableDocument(ValueError):
    """A document cannot be read; the message is the reason, short enough for a cell of a table."""


class Reading(TypedDict):
    """A document as text."""

    # Line ends are `\n`, whatever they were; otherwise as written.
    text: str
    encoding: str


def read_text(folder: str, name: str) -> Reading:
    """Read the document `name` below `folder`. Raises `UnreadableDocument` for whatever stands in the way."""
    path = os.path.join(folder, path_of(name))
    try:
        _check_openable(folder, path)
        with open(path, "rb") as file:
            raw = file.read(DOCUMENT_BYTES_MAX + 1)
    except OSError as error:
        raise UnreadableDocument(_reason(error, path)) from error
    _check_size(len(raw))
    try:
        text, encoding = decode(raw)
    except NotText as error:
        raise UnreadableDocument(str(error)) from error
    return Reading(text=text.replace("\r\n", "\n").replace("\r", "\n"), encoding=encoding)


def _check_openable(folder: str, path: str) -> None:
    status = os.stat(path)
    root, real = os.path.realpath(folder), os.path.realpath(path)
    if stat.S_ISDIR(status.st_mode):
        _refuse_folder(path, real)
    if os.path.commonpath([root, real]) != root:
        raise UnreadableDocument("a link that leads out of the folder")
    if not stat.S_ISREG(status.st_mode):
        raise UnreadableDocument(f"not a file but {_SPECIAL.get(stat.S_IFMT(status.st_mode), 'something else')}")
    _check_size(status.st_size)


def _check_size(size_bytes: int) -> None:
    if size_bytes > DOCUMENT_BYTES_MAX:
        raise UnreadableDocument(f"larger than {DOCUMENT_BYTES_MAX >> 20} MiB")


def _refuse_folder(path: str, real: str) -> NoReturn:
    if os.path.islink(path):
        above = os.path.realpath(os.path.dirname(path))
        is_loop = os.path.commonpath([real, above]) == real
        raise UnreadableDocument("a link back to a folder that holds it" if is_loop else "a link to a folder")
    os.scandir(path).close()  # Raises what kept the listing out.
    raise UnreadableDocument("a folder")


def _reason(error: OSError, path: str) -> str:
    if isinstance(error, FileNotFoundError):
        return "a broken link" if os.path.islink(path) else "gone since it was listed"
    if isinstance(error, PermissionError):
        return "permission denied"
    if error.errno == errno.ELOOP:
        return "a link that leads to itself"
    return f"cannot be read ({errno.errorcode.get(error.errno or 0, 'unknown error')})"


_SPECIAL = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
