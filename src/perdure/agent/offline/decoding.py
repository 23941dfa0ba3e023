"""Bytes → text, whatever wrote them.

The order is from certain to likely: byte order marks; UTF-16 that shows by where its NUL bytes stand; UTF-8, which
other text hardly ever is by accident; Western European bytes that look it; then the guess of charset-normalizer where
that is installed (the `agent` extra); then cp1252 and latin-1. Pure, no I/O. Called by the reader.
"""

import codecs
import unicodedata
from importlib import import_module
from typing import Any


class NotText(ValueError):
    """These bytes are no text."""


def decode(raw: bytes) -> tuple[str, str]:
    """Return (text, encoding), line ends as written. Raises `NotText`."""
    text, encoding = _decode_marked(raw) or _decode_by_content(raw)
    if not _is_texty(text):
        raise NotText("not text (control characters)")
    return text, encoding


_MARKS = (
    # UTF-32 first: its little-endian mark begins with that of UTF-16.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_WESTERN = frozenset("ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜßàáâãäåæçèéêëìíîïñòóôõöøùúûüÿŒœ€‚„…†‡‰‘’“”•–—™£§©«®°·»¿¡½ºª\xa0")
_CONTROLS_SHARE_MAX = 0.02
_WESTERN_SHARE_MAX = 0.25
_SAMPLE = 1 << 16
_PLAIN = b"\t\n\r" + bytes(range(0x20, 0x7F))
_PLAIN_SHARE_MAX = 0.7


def _decode_marked(raw: bytes) -> tuple[str, str] | None:
    for mark, encoding in _MARKS:
        if raw.startswith(mark):
            return _strictly(raw, encoding), encoding
    return None


def _decode_by_content(raw: bytes) -> tuple[str, str]:
    if b"\0" in raw:
        encoding = _utf_16_by_nulls(raw)
        return _strictly(raw, encoding), encoding
    try:
        return raw.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return _decode_eight_bit(raw)


def _strictly(raw: bytes, encoding: str) -> str:
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError:
        raise NotText(f"not text (broken {encoding})") from None
    if "\0" in text:
        raise NotText("not text (NUL bytes)")
    return text


def _utf_16_by_nulls(raw: bytes) -> str:
    """Tell the byte order by the NUL halves of blanks, line ends and Latin letters; both halves: no UTF-16."""
    even, odd = raw[0::2].count(0), raw[1::2].count(0)
    if len(raw) % 2 or min(even, odd) * 20 > max(even, odd) or _is_eight_bit_with_nulls(raw):
        raise NotText("not text (NUL bytes)")
    return "utf-16-le" if odd > even else "utf-16-be"


def _is_eight_bit_with_nulls(raw: bytes) -> bool:
    """Tell text that a NUL strayed into, which would make fine Chinese, from UTF-16, which is half plain at most."""
    others = raw.translate(None, _PLAIN)
    if len(others) < (1 - _PLAIN_SHARE_MAX) * len(raw):
        return True
    try:
        return not raw.replace(b"\0", b"").decode("utf-8").isascii()
    except UnicodeDecodeError:
        return False


def _decode_eight_bit(raw: bytes) -> tuple[str, str]:
    western = raw.decode("cp1252", "replace")
    strange = [letter for letter in western if letter > "\x7f"]
    if _WESTERN.issuperset(strange) and len(strange) <= _WESTERN_SHARE_MAX * len(western):
        return western, "cp1252"
    guessed = _guess(raw)
    if guessed is not None:
        return guessed
    if "\ufffd" in western:
        return raw.decode("latin-1"), "latin-1"
    return western, "cp1252"


def _guess(raw: bytes) -> tuple[str, str] | None:
    try:
        normalizer: Any = import_module("charset_normalizer")  # By name: it need not be there, and is slow to import.
    except ImportError:
        return None
    best = normalizer.from_bytes(raw[:_SAMPLE]).best()
    if best is None:
        return None
    encoding: str = best.encoding
    return raw.decode(encoding, "replace"), encoding


def _is_texty(text: str) -> bool:
    """Judge by a sample: text has few control characters, and few code points that no one has assigned."""
    sample = text[:_SAMPLE]
    odd = sum(
        unicodedata.category(letter) in {"Cc", "Cn", "Co"} and letter not in "\t\n\r\f\v\x1b" for letter in sample
    )
    return odd <= _CONTROLS_SHARE_MAX * len(sample)
