"""Reading sets of files: in order across rotation, on and on, and never past damage without a word."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from perdure.clock import SystemClock
from perdure.errors import LogDamaged, TaskAmbiguous, TaskUnknown, UsageError
from perdure.logs.lines import line_bytes
from perdure.logs.reading import Follower, Torn, find_set, read_set
from perdure.logs.scroll import LIVE, Written, numbered, open_lines, open_scroll, read_stub
from perdure.model import entry as e
from perdure.operations import rebuild_log
from perdure.views.history import Selection, file_lines, follow_files, follow_lines, log_lines, select
from tests.unit.logs.material import TASK, Journal, Place, intent, raw, settled


def live_of(place):
    """The live file of the one set."""
    return Path(place.folder) / LIVE


def foreign(line):
    """The line as another task's."""
    return line_bytes({name: value for name, value in json.loads(line).items() if name != "crc"} | {"task": "f" * 32})


def read_until_damage(place):
    """The lines before the first damage, and that damage."""
    found = []
    try:
        found.extend(record.raw for record in read_set(place.folder))
    except LogDamaged as damage:
        return found, damage
    return found, None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: [*lines[:600], lines[600][:40] + b"#" * 30 + lines[600][70:], *lines[601:]], "not a line"),
        (lambda lines: [*lines[:600], lines[600].replace(b"....", b"..;.", 1), *lines[601:]], "checksum"),
        (lambda lines: [*lines[:600], lines[599], *lines[600:]], "entry 600 behind entry 600"),
        (lambda lines: [*lines[:600], lines[601], lines[600], *lines[602:]], "entry 601 behind entry 602"),
        (lambda lines: [*lines[:600], foreign(lines[600]), *lines[601:]], "of task 'ffff"),
        (lambda lines: [*lines[:600], lines[600][:-1], *lines[601:]], "not a line"),
        (lambda lines: [*lines[:600], b"\0" * 512 + lines[600], *lines[601:]], "not a line"),
    ],
)
def test_damage_in_the_middle_stops_the_reading_at_its_place(tmp_path, change, said):
    """Overwritten, doubled, swapped, foreign, fused: what is before is given, file, line and byte are named."""
    journal, place = Journal(TASK).notes(1_000), Place(tmp_path, file_bytes=10_000_000)
    place.copy(journal)
    lines = journal.lines()
    live_of(place).write_bytes(b"".join(change(lines)))
    found, damage = read_until_damage(place)
    assert lines[:600] == found[:600]
    assert len(found) in {600, 601}
    assert said in str(damage)
    assert damage.offset == sum(map(len, found))
    assert (len(found) + 1, str(live_of(place))) == (damage.line, damage.path)


def test_a_closed_file_that_is_cut_or_flipped_is_damage(tmp_path):
    """Packed files tell how much they held: half of one is no end of history."""
    for number, change in enumerate((lambda b: b[: len(b) // 2], lambda b: b[:-3] + b"###", lambda _: b"")):
        journal, place = Journal(TASK).notes(60), Place(tmp_path / str(number))
        place.copy(journal)
        _, path = numbered(place.folder)[2]
        Path(path).write_bytes(change(Path(path).read_bytes()))
        found, damage = read_until_damage(place)
        assert journal.lines()[: len(found)] == found
        assert path == damage.path


def test_an_unknown_kind_is_read_like_any_other(tmp_path):
    """200 entries, the 50th of a later version: shown raw, and everything behind it too."""
    journal = Journal(TASK).notes(48).write(e.NoteWritten(text="later"), kind=999).notes(150)
    place = Place(tmp_path)
    place.copy(journal)
    found = list(read_set(place.folder))
    assert list(range(1, 201)) == [record.stub.seq for record in found]
    assert "unknown_999" == found[49].stub.kind
    assert b'"raw":"' in found[49].raw


@pytest.mark.parametrize(("tail", "size"), [(b'{"v":1,"ta', 10), (b"\0" * 9, 9), (b"", 0), (b"\n", 0)])
def test_a_cut_last_line_is_left_out_and_reported_once(tmp_path, tail, size):
    """The live file may be in the middle of a line; a reader changes nothing about it."""
    journal, place = Journal(TASK).notes(20), Place(tmp_path)
    place.copy(journal)
    live_of(place).write_bytes(before := live_of(place).read_bytes() + tail)
    found = list(file_lines(place.folder))
    assert ([Torn(str(live_of(place)), size)] if size else []) == found[21:]
    assert journal.lines() == [one.raw for one in found[:21]]
    assert before == live_of(place).read_bytes()


def test_a_last_line_without_its_end_counts(tmp_path):
    """Complete JSON that only lacks its LF is a line; a fragment of a first line is none."""
    journal, place = Journal(TASK).notes(3), Place(tmp_path)
    place.copy(journal)
    live_of(place).write_bytes(live_of(place).read_bytes()[:-1])
    assert journal.lines() == place.read()
    live_of(place).write_bytes(b'{"v":')
    assert [Torn(str(live_of(place)), 5)] == list(read_set(place.folder))


@pytest.mark.parametrize("stride", [1, 2, 5])
def test_a_follower_misses_nothing_while_files_rotate(tmp_path, stride):
    """Between any two batches, many rotations apart too, it goes on where it was; also what was dropped under it."""
    journal, place = Journal(TASK).notes(80), Place(tmp_path, file_bytes=1_000, files_max=2 if stride == 1 else 1_000)
    lines = journal.lines()
    scroll = open_scroll(place.folder, place.files)
    follower = Follower(place.folder)
    found = []
    for start in range(0, len(lines), stride):
        scroll.write([Written(read_stub(one).seq, 0, one) for one in lines[start : start + stride]])
        while (record := follower.next()) is not None:
            found.append(record.raw)
    follower.close()
    scroll.close()
    assert lines == found


def test_files_that_are_closed_between_two_looks_are_not_passed_over(tmp_path, monkeypatch):
    """The live file that is opened may be a later one than that which was there when the folder was listed."""
    journal, place = Journal(TASK).notes(60), Place(tmp_path, file_bytes=1_000)
    lines = [Written(read_stub(one).seq, 0, one) for one in journal.lines()]
    scroll = open_scroll(place.folder, place.files)
    late = [lines[20:40], lines[40:]]

    def slow_open(path):
        if late and path.endswith(LIVE):
            scroll.write(late.pop(0))
        return open_lines(path)

    scroll.write(lines[:20])
    monkeypatch.setattr("perdure.logs.reading.open_lines", slow_open)
    assert [one.raw for one in lines] == place.read()
    scroll.close()


def test_a_follower_waits_for_the_rest_of_a_line(tmp_path):
    """Half a line is not given, and given once when it is whole; a mended tail confuses nobody."""
    journal, place = Journal(TASK).notes(3), Place(tmp_path)
    place.copy(journal)
    lines = journal.notes(1).lines()
    follower = Follower(place.folder)
    assert lines[:4] == [follower.next().raw for _ in range(4)]
    with open(live_of(place), "ab") as live:
        live.write(lines[4][:30])
        live.flush()
        assert follower.next() is None
    place.copy(journal)
    assert lines[4] == follower.next().raw
    assert follower.next() is None
    follower.close()


def test_a_follower_goes_on_through_a_rebuild(tmp_path):
    """A set made anew gives no line twice and leaves none out."""
    journal, place = Journal(TASK).notes(20), Place(tmp_path)
    place.copy(journal)
    follower = Follower(place.folder)
    found = [follower.next().raw for _ in range(21)]
    assert follower.next() is None
    journal.notes(20)
    folder = asyncio.run(rebuild_log(journal.store, place.files, SystemClock(), "t"))
    assert place.folder == folder
    while (record := follower.next()) is not None:
        found.append(record.raw)
    follower.close()
    assert journal.lines() == found == place.read()


def test_a_follower_ends_with_its_task(tmp_path):
    """From the store and from files alike: what comes while it waits is given, and the end ends it."""
    journal, place = Journal(TASK).notes(2), Place(tmp_path)
    place.copy(journal)
    steps = [
        lambda: journal.notes(1),
        lambda: None,
        lambda: journal.write(e.TaskSucceeded(result=raw(1)), ends=True),
    ]

    async def pause():
        change = steps[pauses.pop(0)]
        await asyncio.to_thread(change)
        await asyncio.to_thread(place.copy, journal)

    async def follow(lines):
        return [one async for one in lines]

    pauses = [0, 1, 2]
    found = asyncio.run(follow(follow_lines(journal.store, TASK, Selection(after=2), pause)))
    assert ([3, 4, 5], []) == ([line["seq"] for line in found], pauses)
    pauses = [1]
    again = asyncio.run(follow(follow_files(place.folder, Selection(after=2), pause)))
    assert [line_bytes(line) for line in found] == [record.raw for record in again]


def test_a_set_is_found_by_name_and_id_and_their_beginnings(tmp_path):
    """As tasks are in the store; of equal names the newest, and ambiguity is said."""
    for task, name in (("a" * 32, "report"), ("b" * 32, "report"), ("c" * 32, "résumé 1"), ("d" * 32, "other")):
        Place(tmp_path)
        scroll = open_scroll(
            str(tmp_path / f"{name.encode('ascii', 'replace').decode().replace('?', '_').replace(' ', '_')}.{task}"),
            Place(tmp_path).files,
        )
        scroll.close()
    for age, task in enumerate("dcba"):
        folder = find_set(str(tmp_path), task * 32)
        os.utime(folder, (1_000 - age, 1_000 - age))
    os.utime(find_set(str(tmp_path), "b" * 32), (2_000, 2_000))
    assert f"report.{'b' * 32}" == os.path.basename(find_set(str(tmp_path), "report"))
    assert f"report.{'a' * 32}" == os.path.basename(find_set(str(tmp_path), "aaa"))
    assert f"other.{'d' * 32}" == os.path.basename(find_set(str(tmp_path), "oth"))
    with pytest.raises(TaskAmbiguous):
        find_set(str(tmp_path), "re")
    for unknown in ("nope", "x" * 32):
        with pytest.raises(TaskUnknown):
            find_set(str(tmp_path), unknown)
    with pytest.raises(TaskUnknown):
        find_set(str(tmp_path / "nowhere"), "report")


def selected(journal, **wanted):
    """The numbers of the lines that `select` picks."""

    async def read():
        selection = select(now=journal.at, **wanted)
        return [line["seq"] async for line in log_lines(journal.store, TASK, selection)]

    return asyncio.run(read())


def test_what_is_wanted_can_be_said_by_number_moment_and_kind():
    """Entries are a second apart: 2023-11-14T22:13:20 and one second for each."""
    journal = Journal(TASK).notes(3).write(intent("a"), settled("a", 5), intent("open"))
    assert [1, 2, 3, 4, 6, 7] == selected(journal)
    assert [6, 7] == selected(journal, after=5) == selected(journal, since="6")
    assert [6, 7] == selected(journal, since="2023-11-14T22:13:26") == selected(journal, since="1s")
    assert [4, 6, 7] == selected(journal, since="2023-11-14T23:13:24+01:00") == selected(journal, since="3s")
    assert [1, 2, 3, 4, 6, 7] == selected(journal, since="2023-11-14") == selected(journal, since="2h")
    assert [] == selected(journal, since="2023-11-15")
    assert [2, 3, 4, 6] == selected(journal, kinds=("note_written", "action_settled"))
    assert [7] == selected(journal, kinds=("action_intended",))


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"since": "yesterday"}, "neither"),
        ({"since": "5x"}, "neither"),
        ({"kinds": ("note_writen",)}, "did you mean 'note_written'"),
    ],
)
def test_what_nobody_can_want_is_refused(wanted, said):
    """The nearest kind is named."""
    with pytest.raises(UsageError, match=said):
        select(now=0, **wanted)
