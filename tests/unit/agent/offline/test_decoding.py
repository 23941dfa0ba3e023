"""Decoding: text comes out of bytes whatever wrote them; what is no text is refused."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.offline.decoding import NotText, decode

GERMAN = "Über den Wäldern, grüßt der Föhn – „schön“ und 5 € teuer.\n"


@pytest.mark.parametrize(
    ("encoding", "named"),
    [
        ("utf-8", "utf-8"),
        ("utf-8-sig", "utf-8-sig"),
        ("utf-16", "utf-16"),
        ("utf-16-le", "utf-16-le"),
        ("utf-16-be", "utf-16-be"),
        ("utf-32", "utf-32"),
        ("cp1252", "cp1252"),
    ],
)
def test_text_is_decoded(encoding, named):
    """The text comes out equal, with or without a byte order mark."""
    assert (GERMAN, named) == decode(GERMAN.encode(encoding))


def test_latin_1_is_decoded():
    """Latin-1 letters come out right; they stand at the same bytes in cp1252, which is what is named."""
    text = "Les élèves ont mangé à la crêperie, près du château.\n"
    assert (text, "cp1252") == decode(text.encode("latin-1"))


def test_utf_16_of_another_script_is_decoded():
    """Few characters of Chinese or Russian have a NUL half; those of blanks and line ends decide."""
    for text in ("蜜蜂 在 花园\n里 飞\n" * 20, "Пчёлы летают в саду.\n" * 20):
        assert (text, "utf-16-be") == decode(text.encode("utf-16-be"))
        assert (text, "utf-16-le") == decode(text.encode("utf-16-le"))


def test_nothing_is_text():
    """An empty file is an empty text."""
    assert ("", "utf-8") == decode(b"")


@pytest.mark.parametrize(
    "raw",
    [
        b"text with a \0 NUL byte in it",
        "Über den Föhn".encode("latin-1") + b"\0",
        "蜜蜂在花园里飞".encode() + b"\0",
        b"\x7fELF\x02\x01\x01" + bytes(range(256)) * 8,
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\0",
        b"\xff\xfea",
        b"h\0e\0l\0l\0o\0\0\0",
        bytes(range(1, 32)) * 20,
    ],
)
def test_what_is_no_text_is_refused(raw):
    """NUL bytes that are not UTF-16, broken UTF-16 and control characters make no text."""
    with pytest.raises(NotText):
        decode(raw)


@given(st.binary(max_size=300))
def test_any_bytes_are_text_or_refused(raw):
    """Decoding never fails in another way, and never lets a NUL through."""
    try:
        text, _ = decode(raw)
    except NotText:
        return
    assert "\0" not in text


def test_random_bytes_are_no_text():
    """A file of noise is refused, not shown as letters."""
    with pytest.raises(NotText):
        decode(os.urandom(20_000))
