"""Upcasting: payloads of earlier versions are read in today's shape, one small step at a time."""

import msgspec
import pytest

from perdure.codec import entries, upcast
from perdure.codec.entries import GENESIS, pack, unpack_all
from perdure.model.entry import Header, NoteWritten
from perdure.model.kinds import KINDS, VERSIONS, version_of

STEPS = {(36, 1): lambda fields: {"text": fields["line"]}, (36, 2): lambda fields: {"text": fields["text"].upper()}}


def test_steps_are_made_one_after_the_other():
    """From version 1 to 3 both steps are made, from 2 to 3 the second alone."""
    assert {"text": "HI"} == upcast.upcast(36, 1, 3, {"line": "hi"}, STEPS)
    assert {"text": "HI"} == upcast.upcast(36, 2, 3, {"text": "hi"}, STEPS)
    assert {"text": "hi"} == upcast.upcast(36, 3, 3, {"text": "hi"}, STEPS)


def test_a_missing_step_is_an_error_of_the_release():
    """It is raised, not passed over."""
    with pytest.raises(LookupError):
        upcast.upcast(20, 1, 2, {}, STEPS)


def test_the_table_leads_every_kind_to_its_present_version():
    """No released version is without its step."""
    for number, _, _ in KINDS:
        for version in range(1, version_of(number)):
            assert (number, version) in upcast.UPCASTERS


def test_an_old_entry_is_read_in_todays_shape_and_keeps_its_digest(monkeypatch):
    """What is on disk is not touched: the chain is that of the bytes as they were written."""

    class Old(msgspec.Struct):
        line: str

    monkeypatch.setitem(entries._numbers, Old, 36)
    place = Header("0" * 32, 1, 1, 0, 0, 0, 0, 0, 0, GENESIS, b"")
    frame, digest = pack(Old(line="hi"), place, bytes(16))
    monkeypatch.setitem(VERSIONS, 36, 3)
    monkeypatch.setattr(entries, "upcast", lambda *given: upcast.upcast(*given, STEPS))
    (entry,) = unpack_all(frame, "0" * 32, first_seq=1, prev=GENESIS)
    assert (NoteWritten(text="HI"), 1, digest) == (entry.payload, entry.header.version, entry.digest)
