"""In which spellings a secret comes along: as it is, escaped, quoted, in hex, inside base64. Called by `known.py`.

Pure functions of texts. Not complete, and it cannot be: a secret that is encrypted, compressed, reversed or cut in two
is not found again (docs/explanation/secrets.md says what is promised).
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote, quote_plus

import msgspec

SPELLING_BYTES_MIN: Final = 8  # a shorter text stands in others by chance
LINE_CHARS_MIN: Final = 16  # a line of a secret of many lines, looked for by itself
_GROUP: Final = 3  # bytes that base64 writes as four characters
_BITS: Final = 6  # of one character of base64


class Spelling(msgspec.Struct, frozen=True):
    """One text to look for."""

    text: str
    is_inside: bool = False  # base64: its neighbours on both sides may hold some bits of the secret, too


def spellings(secret: bytes) -> tuple[Spelling, ...]:
    """Return what to look for, each once; too short ones are left out."""
    found: dict[str, Spelling] = {}
    for text in _texts(secret):
        found.setdefault(text, Spelling(text))
    for text in _base64(secret):
        found.setdefault(text, Spelling(text, is_inside=True))
    return tuple(one for one in found.values() if len(one.text.encode()) >= SPELLING_BYTES_MIN)


def _texts(secret: bytes) -> Iterator[str]:
    try:
        text = secret.decode()
    except UnicodeDecodeError:
        yield repr(secret)[2:-1]
    else:
        yield text
        yield from _escaped(text)
        yield from _quoted(text)
        lines = text.splitlines()
        if len(lines) > 1:
            yield from (line for line in map(str.strip, lines) if len(line) >= LINE_CHARS_MIN and "-----" not in line)
    yield secret.hex()
    yield secret.hex().upper()


def _escaped(text: str) -> Iterator[str]:
    for is_ascii in (False, True):
        once = json.dumps(text, ensure_ascii=is_ascii)[1:-1]
        yield once
        yield once.replace("/", "\\/")
        yield json.dumps(once, ensure_ascii=is_ascii)[1:-1]  # JSON as a text inside JSON
    yield repr(text)[1:-1]
    yield ascii(text)[1:-1]
    yield repr(text.encode())[2:-1]
    yield text.replace("'", "'\"'\"'")  # as the shell is given it
    yield html.escape(text)
    yield html.escape(text, quote=False)


def _quoted(text: str) -> Iterator[str]:
    for made in (quote(text, safe=""), quote(text), quote_plus(text), quote(text, safe="~!*'()$&+,/:;=?@")):
        yield made
        yield re.sub("%..", lambda code: code[0].lower(), made)


def _base64(secret: bytes) -> Iterator[str]:
    """Return, for each place in a group of three bytes where the secret may begin, the characters that are all its."""
    for before in range(_GROUP):
        whole = base64.b64encode(bytes(before) + secret).decode()
        first = -(-before * 8 // _BITS)
        end = (before + len(secret)) * 8 // _BITS
        yield whole[first:end]
        yield whole[first:end].translate(_FOR_URLS)


_FOR_URLS: Final = str.maketrans("+/", "-_")
