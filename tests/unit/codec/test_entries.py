"""Entries as bytes: the layout is pinned, the chain is checked, and every kind of damage has its name and place."""

import msgspec
import pytest

from perdure.codec import entries
from perdure.codec.entries import FORMAT, GENESIS, first_prev, pack, rechain, unpack_all
from perdure.errors import Damaged, UnknownKind
from perdure.limits import COMPRESS_FROM_BYTES
from perdure.model.effect import Effect
from perdure.model.entry import ActionIntended, Header, NoteWritten, Raw, StateEdited, TaskSucceeded
from perdure.model.kinds import KINDS, VERSIONS

TASK = "00112233445566778899aabbccddeeff"
SALT = bytes(range(16))


def place(seq=1, prev=GENESIS, **changed):
    """Return a header to pack by."""
    made = Header(TASK, seq, 1, 1_700_000_000_000_000, 0, 0, 0, 0, 0, prev, b"")
    return msgspec.structs.replace(made, **changed)


def chain(texts):
    """Return (frames, digests) of linked notes."""
    frames, digests, prev = [], [], GENESIS
    for seq, text in enumerate(texts, start=1):
        frame, prev = pack(NoteWritten(text=text), place(seq, prev), SALT)
        frames.append(frame)
        digests.append(prev)
    return frames, digests


def read(frames, first_seq=1, prev=GENESIS):
    """Return the texts of the notes in `frames`."""
    return [entry.payload.text for entry in unpack_all(b"".join(frames), TASK, first_seq=first_seq, prev=prev)]


# --- layout ---------------------------------------------------------------------------------------------------------
def test_the_bytes_of_a_frame_are_pinned():
    """Length, header, salt, body: what is on disk today is read for ever."""
    frame, digest = pack(NoteWritten(text="hi"), place(), SALT)
    parts = [
        "00000092",  # length of what follows
        "01 0024 01 00 00000000",  # format, kind 36, version, flags, key id
        "00112233445566778899aabbccddeeff",  # task
        "0000000000000001 0000000000000001 00060a24181e4000 00000000",  # seq, epoch, at, branch
        "00" * 32,  # prev
        "865ccff1e9892d1f273adf555d3dfb3ae55c93d7fe0f729f90a4a0cccfcab287",  # digest of salt and body
        SALT.hex(),
        b'{"text":"hi"}'.hex(),
    ]
    assert bytes.fromhex(" ".join(parts)) == frame
    assert "3e4f4534082aef8f2d2889f26753a1dc05cdce7c946c556e442f546d07bd418f" == digest.hex()


def test_numbers_and_names_of_kinds_are_pinned():
    """A kind's number is on disk: rows are added, never changed."""
    numbers = {number: name for number, name, _ in KINDS}
    assert len(numbers) == len(KINDS) == len({kind for _, _, kind in KINDS})
    pinned = {1: "task_started", 2: "lease_claimed", 20: "action_intended", 21: "action_settled", 30: "state_edited",
              33: "checkpoint_marked", 54: "rollback_began", 56: "rolled_back", 60: "snapshot_taken"}  # fmt: skip
    assert pinned == {number: numbers[number] for number in pinned}
    assert ["note_written", "unknown_999"] == [entries.kind_name(36), entries.kind_name(999)]


def test_every_payload_comes_back_equal():
    """Raw values of user code come back byte by byte."""
    payload = ActionIntended(
        action="a", tool="t", effect=Effect(retry="free", undo="nothing"), arguments=Raw(b'{"x":[1]}'), digest=b"d" * 32
    )
    frame, _ = pack(payload, place(), SALT)
    (entry,) = unpack_all(frame, TASK, first_seq=1, prev=GENESIS)
    assert b'{"x":[1]}' == bytes(entry.payload.arguments)
    assert msgspec.json.encode(payload) == msgspec.json.encode(entry.payload)
    assert len(frame) == entry.size


@pytest.mark.parametrize("seq", [9_998, 99_998, 2**31 - 2, 2**53 - 2, 2**63 - 2])
def test_seqs_of_any_width_come_back(seq):
    """There is no boundary at which numbers wrap or sort as text (OpenHands 3926)."""
    frame, _ = pack(NoteWritten(text="x"), place(seq), SALT)
    (entry,) = unpack_all(frame, TASK, first_seq=seq, prev=GENESIS)
    assert seq == entry.header.seq


def test_long_payloads_are_compressed_and_come_back():
    """From the limit on, and only where it is said in the flags."""
    for size, flags in ((10, 0), (COMPRESS_FROM_BYTES * 3, 1)):
        frame, _ = pack(NoteWritten(text="x" * size), place(), SALT)
        (entry,) = unpack_all(frame, TASK, first_seq=1, prev=GENESIS)
        assert ("x" * size, flags) == (entry.payload.text, entry.header.flags)
        assert len(frame) < COMPRESS_FROM_BYTES


def test_the_payload_digest_is_of_the_payload_as_first_encoded():
    """So the chain can be linked from the headers alone, without opening a body."""
    frames, digests = chain(["a", "b" * 10_000, "c"])
    prevs = [first_prev(frame) for frame in frames]
    assert [GENESIS, *digests[:-1]] == prevs


def test_a_salt_of_its_own_hides_equal_payloads():
    """Equal facts have other digests."""
    one = pack(NoteWritten(text="same"), place(), SALT)[1]
    assert one != pack(NoteWritten(text="same"), place(), bytes(16))[1]


# --- damage ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("size", [1, COMPRESS_FROM_BYTES])
def test_an_entry_taken_over_by_another_journal_keeps_all_but_task_and_link(size):
    """Its bytes are those that it would have been packed to there; nothing of the body is touched."""
    other, prev = "f" * 32, bytes(range(32))
    payload, at = NoteWritten(text="x" * size), {"epoch": 3, "branch": 2}
    frame, _ = pack(payload, place(7, **at), SALT)
    there = pack(payload, place(7, prev, task=other, **at), SALT)
    assert there == rechain(frame, other, prev)
    (entry,) = unpack_all(there[0], other, first_seq=7, prev=prev)
    assert (payload, other, 3, 2) == (entry.payload, entry.header.task, entry.header.epoch, entry.header.branch)


def test_any_changed_byte_is_found():
    """Whichever byte of the middle entry is changed, reading stops there or right behind it with task and seq."""
    frames, _ = chain(["first", "second", "third"])
    for offset in range(len(frames[1])):
        spoilt = bytearray(frames[1])
        spoilt[offset] ^= 0x55
        with pytest.raises((Damaged, UnknownKind)) as caught:
            read([frames[0], bytes(spoilt), frames[2]])
        assert caught.value.seq in {2, 3}


def test_any_cut_is_found():
    """A journal that ends inside an entry is damaged, not short."""
    frames, _ = chain(["first", "second"])
    whole = b"".join(frames)
    for end in range(len(frames[0]) + 1, len(whole)):
        with pytest.raises(Damaged) as caught:
            read([whole[:end]])
        assert 2 == caught.value.seq


@pytest.mark.parametrize(("order", "seq"), [([0, 2], 2), ([0, 1, 1, 2], 3), ([0, 2, 1], 2), ([1], 1)])
def test_missing_doubled_and_swapped_entries_are_found(order, seq):
    """Each has its position (claude-code 50347)."""
    frames, _ = chain(["a", "b", "c"])
    with pytest.raises(Damaged) as caught:
        read([frames[number] for number in order])
    assert (TASK, seq) == (caught.value.task, caught.value.seq)


def test_an_entry_of_another_task_is_found():
    """Frames cannot be moved between tasks."""
    frames, _ = chain(["a"])
    with pytest.raises(Damaged):
        list(unpack_all(frames[0], "f" * 32, first_seq=1, prev=GENESIS))


def test_a_chain_forged_behind_an_entry_is_not_linked_to_it():
    """A sound entry with another prev is refused at its place."""
    frames, _ = chain(["a"])
    forged, _ = pack(NoteWritten(text="b"), place(2, b"x" * 32), SALT)
    with pytest.raises(Damaged, match="linked"):
        read([frames[0], forged])


# --- what this version does not know --------------------------------------------------------------------------------
def test_unknown_kinds_and_versions_are_named(monkeypatch):
    """UnknownKind with kind, version and seq: neither damage nor silence (OpenHands 4080)."""
    frame, _ = pack(NoteWritten(text="a"), place(), SALT)
    monkeypatch.setattr(entries, "_decoders", {})
    with pytest.raises(UnknownKind) as caught:
        read([frame])
    assert (36, 1, 1) == (caught.value.kind, caught.value.version, caught.value.seq)
    monkeypatch.undo()
    monkeypatch.setitem(VERSIONS, 36, 2)
    later, _ = pack(NoteWritten(text="a"), place(), SALT)
    monkeypatch.undo()
    with pytest.raises(UnknownKind):
        read([later])


@pytest.mark.parametrize("body", [b"null", b"[]", b"7", b'{"text":5}', b'{"text":{}}', b"{}", b"{", b"\xff"])
def test_a_payload_of_the_wrong_shape_is_damage(body, monkeypatch):
    """A sound digest over JSON of another shape: a typed error with the place (gemini-cli 29207)."""
    monkeypatch.setattr(entries, "_encode_json", lambda payload: body)
    frame, _ = pack(NoteWritten(text="a"), place(), SALT)
    with pytest.raises(Damaged, match="shape") as caught:
        read([frame])
    assert 1 == caught.value.seq


def test_a_field_more_is_a_version_more():
    """A reader never passes over a field that it does not know: it would fold to something else."""

    class Later(NoteWritten, frozen=True, kw_only=True):
        more: int = 0

    entries._numbers[Later] = 36
    try:
        frame, _ = pack(Later(text="a", more=5), place(), SALT)
    finally:
        del entries._numbers[Later]
    with pytest.raises(Damaged, match="unknown field"):
        read([frame])


def test_empty_raw_fields_are_left_out():
    """What was never set takes no bytes and comes back as nothing."""
    frame, _ = pack(StateEdited(patch=Raw(b"[]")), place(), SALT)
    (entry,) = unpack_all(frame, TASK, first_seq=1, prev=GENESIS)
    assert (b"[]", "") == (bytes(entry.payload.patch), entry.payload.action)
    frame, _ = pack(TaskSucceeded(result=Raw(b"null")), place(), SALT)
    assert FORMAT == frame[4]
