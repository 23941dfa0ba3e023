"""Leaves: what becomes a blob or a reference, and that it comes back as what it was."""

import hashlib

import pytest

from perdure.codec import leaves, values
from perdure.codec.leaves import LeafWriter
from perdure.errors import CodecError, LimitExceeded
from perdure.limits import BLOB_FROM_BYTES, REFERENCE_FROM_BYTES
from perdure.model.patch import Op, ops_to_value

LONG = "é" * BLOB_FROM_BYTES
SURROGATE = "\ud800" * BLOB_FROM_BYTES


@pytest.mark.parametrize("leaf", [LONG, LONG.encode(), SURROGATE, "a" * (BLOB_FROM_BYTES + 1)])
def test_a_long_leaf_is_a_blob_under_its_digest(leaf):
    """The encoded value names it, the writer holds its bytes, and decoding gives it back in its own type."""
    writer = LeafWriter()
    raw = leaves.encode({"deep": [leaf, leaf]}, writer)
    ((digest, blob),) = writer.blobs.items()
    assert hashlib.sha256(blob).digest() == digest
    assert [digest, digest] == leaves.blob_digests(raw)
    assert len(raw) < 500
    back = leaves.decode(raw, writer.blobs)
    assert ({"deep": [leaf, leaf]}, type(leaf)) == (back, type(back["deep"][0]))


@pytest.mark.parametrize("leaf", ["a" * BLOB_FROM_BYTES, "é" * (BLOB_FROM_BYTES // 2), b"", "x"])
def test_up_to_the_limit_a_leaf_stays_where_it_is(leaf):
    """4 KiB of UTF-8 and less is no blob."""
    writer = LeafWriter()
    raw = leaves.encode([leaf], writer)
    assert {} == writer.blobs
    assert [leaf] == leaves.decode(raw, {})


def test_a_missing_blob_is_a_key_error():
    """The reader says which one, the loader makes damage of it."""
    writer = LeafWriter()
    raw = leaves.encode(LONG, writer)
    with pytest.raises(KeyError):
        leaves.decode(raw, {})


def test_a_leaf_over_the_maximum_is_refused(monkeypatch):
    """With its size."""
    monkeypatch.setattr(leaves, "LEAF_BYTES_MAX", 5_000)
    with pytest.raises(LimitExceeded) as caught:
        leaves.encode(LONG, LeafWriter())
    assert (8_192, 5_000) == (caught.value.found, caught.value.maximum)


def test_text_that_looks_like_a_tag_names_no_blob():
    """User text is never read as one of our tags."""
    text = '{"~":["blob","str","' + "0" * 64 + '",1]}'
    for value in (text, {"~": ["blob", "str", "0" * 64, 1]}, {text: text}):
        raw = leaves.encode(value, LeafWriter())
        assert [] == leaves.blob_digests(raw)
        assert value == leaves.decode(raw, {})


# --- references -----------------------------------------------------------------------------------------------------
def test_leaves_of_the_outcome_are_written_as_references():
    """Found by equality, in containers of any depth and under keys of any type."""
    text, other = "t" * REFERENCE_FROM_BYTES, "o" * REFERENCE_FROM_BYTES
    result = {"a": [1, text], (1, "k"): {"b": other.encode()}}
    writer = LeafWriter()
    writer.refer_to(result)
    value = {"x": text, "y": [other.encode(), other], "z": "short"}
    raw = leaves.encode(value, writer)
    assert (0, 1) == (raw.count(text.encode()), raw.count(other.encode()))
    assert value == leaves.decode(raw, {}, result)


def test_short_leaves_are_never_references():
    """Their path would be longer than they are."""
    writer = LeafWriter()
    writer.refer_to(["s" * (REFERENCE_FROM_BYTES - 1)])
    assert values.encode("s" * (REFERENCE_FROM_BYTES - 1)) == leaves.encode("s" * (REFERENCE_FROM_BYTES - 1), writer)


def test_a_reference_to_nothing_is_a_codec_error():
    """It belongs to another outcome."""
    writer = LeafWriter()
    writer.refer_to(["t" * 100])
    raw = leaves.encode("t" * 100, writer)
    for root in (None, [], {"a": 1}, 5):
        with pytest.raises(CodecError):
            leaves.decode(raw, {}, root)


def test_unknown_tags_are_codec_errors():
    """A value of a later version is not guessed at."""
    with pytest.raises(CodecError):
        leaves.decode(b'{"~":["later",1]}', {})


# --- the short ways give what the long way gives --------------------------------------------------------------------
@pytest.mark.parametrize("value", ["", "short", "é", "a" * 5_000, 5, None, {"a": [LONG]}, [b"x", ("t",)]])
def test_what_is_recorded_reads_back_as_what_the_caller_gets(value):
    """`record` returns the bytes of `encode`, and a value that shares no container with the given one."""
    writer = LeafWriter()
    raw, given = leaves.record(value, writer)
    assert raw == leaves.encode(value, LeafWriter())
    assert value == given == leaves.decode(raw, writer.blobs)
    assert given is not value or not isinstance(value, dict | list)


def test_a_patch_is_encoded_as_its_value():
    """Every kind of operation, with blobs, references and odd keys."""
    text = "t" * 100
    operations = (
        Op(kind="put", path=("a", 3, (1, 2)), value={"x": text, "n": -1, "big": 2**70}),
        Op(kind="remove", path=("a",)),
        Op(kind="splice", path=("l",), value=(0, 2, [text, LONG, 5])),
        Op(kind="reorder", path=("l",), value=[1, 0]),
        Op(kind="add", path=("s",), value=frozenset({1, "e"})),
        Op(kind="discard", path=(b"s",), value=frozenset({1})),
        Op(kind="clear", path=()),
    )
    writers = [LeafWriter(), LeafWriter()]
    for writer in writers:
        writer.refer_to([text])
    assert leaves.encode(ops_to_value(operations), writers[0]) == leaves.encode_patch(operations, writers[1])
    assert writers[0].blobs == writers[1].blobs
