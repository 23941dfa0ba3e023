r"""Which documents a folder holds, and the names they go by.

A document's *name* is its path below the folder with `/` between the parts, made printable: a backslash stands as `\\`,
a backtick, a pipe or what cannot be shown as the `\xNN` of its bytes. So a name is unique, fits on one line of a table,
can be stored as UTF-8 whatever bytes the file system holds, and leads back to the path.

Nothing is opened here. What is listed may still turn out unreadable; that is said by the one who reads it.
Called by the tool `list_documents`; `path_of` also by the reader.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator
from typing import TypedDict

DOCUMENTS_MAX = 1_000
"""More documents than this are not read; the digest says how many were left aside."""

BEYOND = "documents beyond the first"
"""How a listing begins to call them; the number follows."""

ENTRIES_MAX = 200_000
"""So many directory entries are looked at; a goal that names `/` must end too."""

KINDS = {
    "": "text",
    ".txt": "text",
    ".text": "text",
    ".md": "markdown",
    ".markdown": "markdown",
    ".rst": "rst",
    ".html": "html",
    ".htm": "html",
    ".py": "python",
}
"""Suffix, in small letters → how the text in it is written."""


class Listing(TypedDict):
    """What is in the folder."""

    # Absolute, links resolved, so that a resume from another directory reads the same files. Never printed.
    folder: str
    names: list[str]
    # (what, how many): entries that are no documents; files by their suffix.
    left_aside: list[tuple[str, int]]


def find_documents(folder: str, own: str = "") -> Listing:
    """List the documents below `folder`, sorted by name; independent of the order in which the disk has them.

    `own` is the path of the digest: an earlier one is not a document of the folder, and neither is the rest of the
    agent's workspace when that lies inside. Hidden entries and the stores of tools are left aside. Links to folders
    are listed, not followed. Raises `OSError` when the folder itself cannot be listed.
    """
    root = os.path.realpath(os.path.expanduser(folder))
    names: list[str] = []
    aside: Counter[str] = Counter()
    for seen, (path, kind) in enumerate(_walk(root, os.path.realpath(own) if own else "")):
        if seen >= ENTRIES_MAX:
            aside[f"more than {ENTRIES_MAX} entries, not looked at"] += 1
            break
        if kind:
            aside[kind] += 1
        else:
            names.append(name_of(path))
    names.sort()
    if len(names) > DOCUMENTS_MAX:
        aside[f"{BEYOND} {DOCUMENTS_MAX}"] = len(names) - DOCUMENTS_MAX
    return Listing(folder=root, names=names[:DOCUMENTS_MAX], left_aside=sorted(aside.items()))


def name_of(path: str) -> str:
    """Make a path printable; `path_of` is its inverse."""
    return "".join(letter if letter.isprintable() and letter not in "\\`|" else _escaped(letter) for letter in path)


def path_of(name: str) -> str:
    """Lead a name back to the path that it came from."""
    raw = name.encode("utf-8")
    return _ESCAPE.sub(_unescaped, raw).decode("utf-8", "surrogateescape")


def kind_of(name: str) -> str | None:
    """Say how the text of a file is written, by its suffix; `None` when it is no document."""
    return KINDS.get(os.path.splitext(name)[1].lower())


_ESCAPE = re.compile(rb"\\(?:\\|x([0-9a-f]{2}))")
_STORES_OF_TOOLS = frozenset({"__pycache__", "node_modules"})


def _walk(root: str, own: str) -> Iterator[tuple[str, str]]:
    """Yield each entry below `root`: (path, "") for a document, (path, kind) for what is left aside."""
    folders = [""]
    while folders:
        below = folders.pop()
        try:
            with os.scandir(os.path.join(root, below)) as entries:
                found = list(entries)
        except OSError:
            if not below:
                raise
            yield below, ""  # The reader finds out, and says, why this folder cannot be listed.
            continue
        for entry in found:
            path = os.path.join(below, entry.name)
            kind = _kind_aside(entry, own)
            if not kind and entry.is_dir(follow_symlinks=False):
                folders.append(path)
            else:
                yield path.replace(os.sep, "/"), kind


def _kind_aside(entry: "os.DirEntry[str]", own: str) -> str:
    """Say why an entry is no document; empty when it may be one."""
    is_folder = entry.is_dir(follow_symlinks=False)
    if entry.name.startswith("."):
        return "hidden folder" if is_folder else "hidden file"
    if is_folder and entry.name in _STORES_OF_TOOLS:
        return f"folder {entry.name}"
    if own and entry.path in {own, os.path.dirname(own)}:
        return "the agent's own workspace"
    if is_folder or os.path.isdir(entry.path) or kind_of(entry.name):
        return ""
    return name_of(os.path.splitext(entry.name)[1].lower())


def _escaped(letter: str) -> str:
    if letter == "\\":
        return "\\\\"
    return "".join(f"\\x{byte:02x}" for byte in letter.encode("utf-8", "surrogateescape"))


def _unescaped(match: re.Match[bytes]) -> bytes:
    return bytes.fromhex(match[1].decode()) if match[1] else b"\\"
