r"""Files of a workspace as values: what stands at a path, how it changed, and what could not be taken in.

Paths are text, relative to the workspace, with "/" between names; "" is the workspace itself. Names that are no UTF-8
have their odd bytes as `\xNN`, and a backslash is doubled, so that each name of any file system has one text.
"""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

FileKind = Literal["file", "link", "folder"]
WhyUncovered = Literal["socket", "device", "pipe", "too_large", "changing", "unreadable", "other_disk"]

PART_PREFIX: Final = b".perdure-part-"  # names that start so are ours, of what is being written; never captured

_ESCAPE: Final = re.compile(rb"\\(?:\\|x([0-9a-f]{2}))")


class Node(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """What stands at one path."""

    kind: FileKind
    mode: int = 0  # permission bits, 0 for links
    size: int = 0  # bytes of a file
    digest: bytes = b""  # sha256 of a file's bytes: the name of its blob
    target: str = ""  # where a link points, as a path is written


class FileChange(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """One path that is different from before; `node` None = nothing stands there any more."""

    path: str
    node: Node | None = None


class Uncovered(msgspec.Struct, frozen=True, array_like=True):
    """A path whose content no capture holds, so that no rollback brings it back."""

    path: str
    why: WhyUncovered


def path_to_text(raw: bytes) -> str:
    """Return a path or link target as text; `path_to_bytes` takes it back."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return raw.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
    return text.replace("\\", "\\\\") if "\\" in text else text


def path_to_bytes(text: str) -> bytes:
    """Return the bytes of a path as the file system has them."""
    raw = text.encode()
    return _ESCAPE.sub(_unescape, raw) if b"\\" in raw else raw


def _unescape(found: re.Match[bytes]) -> bytes:
    return bytes.fromhex(found[1].decode()) if found[1] else b"\\"
