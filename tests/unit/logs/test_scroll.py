"""Sets of log files: written from the journal, rotated, killed at every step, mended; the journal is always right."""

import asyncio
import errno
import logging
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from perdure.errors import ConfigInvalid
from perdure.logs.copying import Copier
from perdure.logs.reading import find_set, read_set
from perdure.logs.scroll import LIVE, Written, numbered, open_scroll, parse_keep, read_stub
from perdure.model import entry as e
from tests.unit.logs.material import DAY_US, TASK, Journal, Place, intent, raw, settled

STEPS = ("open", "write", "fsync", "rename", "unlink", "listdir", "ftruncate")


class Killed(BaseException):
    """Plays SIGKILL between two system calls."""


@pytest.fixture(autouse=True)
def _unsynced(monkeypatch):
    """No power is cut here, and the disk of a test machine is slow; the calls stay, as steps at which to die."""
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)


@contextmanager
def killed_at(number, monkeypatch):
    """Die at the so-many-th system call that changes or lists a set; nothing after it is done."""
    left = [number]

    def dying(call):
        def meet(*arguments, **options):
            left[0] -= 1
            if left[0] <= 0:
                raise Killed
            return call(*arguments, **options)

        return meet

    with monkeypatch.context() as patch:
        for name in STEPS:
            patch.setattr(os, name, dying(getattr(os, name)))
        yield left


def write_and_die(journal, place, number, monkeypatch):
    """One process that brings the files up and is killed at its n-th step; return whether it was."""
    with killed_at(number, monkeypatch) as left:
        scroll = None
        try:
            scroll = open_scroll(place.folder, place.files)
            lines = _written(journal, scroll.seq)
            for start in range(0, len(lines), 7):
                scroll.write(lines[start : start + 7])
        except Killed:
            pass
    if scroll is not None:
        scroll.close()
    return left[0] <= 0


def _written(journal, after):
    stubs = [(read_stub(line), line) for line in journal.lines()]
    return [Written(stub.seq, journal.at, line) for stub, line in stubs if stub.seq > after]


def test_what_is_copied_is_the_journal_line_by_line(tmp_path):
    """Files of many rotations hold every line once, in order, byte for byte as the store gives them."""
    journal, place = Journal(TASK, e.CheckpointMarked(name="far back")).notes(100), Place(tmp_path)
    for _ in range(3):
        assert place.copy(journal)
        assert journal.lines() == place.read()
        journal.write(intent(f"a{journal.seq}"), settled(f"a{journal.seq}", journal.seq + 1)).notes(20)
    assert b'"checkpoint":"far back"' in place.read()[-21]
    names = sorted(os.listdir(place.folder))
    assert len(numbered(place.folder)) > 10
    assert {"live.ndjson", "lock"} == {name for name in names if not name.endswith(".ndjson.zst")}


def test_a_kill_at_any_step_loses_and_doubles_nothing(tmp_path, monkeypatch):
    """Before the rename, after it, while packing, before the packed file takes its name: all is mended."""
    journal = Journal(TASK).notes(40)
    wanted, number = journal.lines(), 1
    while True:
        place = Place(tmp_path / str(number))
        was_killed = write_and_die(journal, place, number, monkeypatch)
        assert place.copy(journal)
        assert wanted == place.read()
        assert [] == [name for name in os.listdir(place.folder) if name.endswith(".part")]
        if not was_killed:
            break
        number += 1
    assert number > 40


def test_a_kill_while_old_files_are_dropped_leaves_the_end_of_history(tmp_path, monkeypatch):
    """What is kept is whole, ends with the newest line and is never empty, wherever the process dies."""
    journal = Journal(TASK).notes(60)
    wanted = journal.lines()
    for number in range(40, 140, 5):
        place = Place(tmp_path / str(number), files_max=3)
        write_and_die(journal, place, number, monkeypatch)
        assert place.copy(journal)
        kept = place.read()
        assert 3_000 < sum(map(len, kept)) <= 6_000
        assert wanted[-len(kept) :] == kept


def test_two_kills_in_a_row_are_mended_as_well(tmp_path, monkeypatch):
    """Recovery that is killed itself leaves nothing that the next one cannot mend."""
    journal = Journal(TASK).notes(60)
    wanted = journal.lines()
    for number in range(1, 60, 7):
        place = Place(tmp_path / str(number))
        write_and_die(journal, place, 37, monkeypatch)
        write_and_die(journal, place, number, monkeypatch)
        assert place.copy(journal)
        assert wanted == place.read()


@pytest.mark.parametrize(
    ("tail", "is_torn"),
    [
        (b'{"v":1,"task":"0123', True),
        ('{"v":1,"task":"\U0001f600'.encode()[:-2], True),
        (None, True),
        (b"\n", False),
        (b"\n\n", False),
        (bytes(4096), True),
        (b'{"no":"line"}\n', True),
    ],
)
def test_a_torn_tail_is_moved_aside_and_said_once(tmp_path, caplog, tail, is_torn):
    """Whatever lies behind the last whole line never fuses with the next; the lines are the journal's all the same."""
    journal, place = Journal(TASK).notes(3), Place(tmp_path, file_bytes=1_000_000)
    place.copy(journal)
    live = Path(place.folder) / LIVE
    whole = live.read_bytes()
    live.write_bytes(whole[:-1] if tail is None else whole + tail)
    journal.notes(1)
    with caplog.at_level(logging.WARNING, "perdure"):
        place.copy(journal)
        assert journal.lines() == place.read()
        place.copy(journal.notes(1))
    assert journal.lines() == place.read()
    assert is_torn == any("log_mended" in record.message for record in caplog.records)
    torn = [path.read_bytes() for path in Path(place.folder).glob("torn-*")]
    assert ([tail if tail is not None else whole.splitlines()[-1]] if is_torn else []) == torn


def test_the_oldest_goes_first_and_the_newest_never(tmp_path):
    """A set holds no more than its room, whole files of it, and what it holds is the end of the journal."""
    journal, place = Journal(TASK).notes(200), Place(tmp_path, files_max=3)
    place.copy(journal)
    kept = place.read()
    assert journal.lines()[-len(kept) :] == kept
    assert 3_000 < sum(map(len, kept)) <= 6_000


def test_a_line_above_the_limit_is_kept_whole(tmp_path):
    """One record of ten times a file's size has a file of its own, and history never becomes empty for it."""
    journal, place = Journal(TASK).notes(3).notes(1, size=4_000).notes(3).notes(1, size=4_000), Place(tmp_path)
    place.copy(journal)
    assert journal.lines() == place.read()
    small = Place(tmp_path / "small", files_max=1)
    small.copy(journal.notes(1, size=4_000))
    small.copy(journal.notes(1))
    assert journal.lines()[-2:] == small.read()


def test_coming_back_after_sixty_days_closes_a_file_and_drops_none(tmp_path):
    """A file spans so much time of the task; history before a long pause stays."""
    journal, place = Journal(TASK).notes(3), Place(tmp_path, file_bytes=1_000_000, files_max=2)
    place.copy(journal)
    journal.at += 60 * DAY_US
    place.copy(journal.notes(2))
    assert 1 == len(numbered(place.folder))
    for _ in range(5):
        journal.at += 60 * DAY_US
        place.copy(journal.notes(1))
    assert journal.lines() == place.read()
    assert 6 == len(numbered(place.folder))


def test_a_set_of_another_history_is_set_aside(tmp_path, caplog):
    """A store restored from an older copy gets a log of its own; the other one is kept beside it."""
    journal, place = Journal(TASK).notes(20), Place(tmp_path)
    place.copy(journal)
    other = place.read()
    for restored in (Journal(TASK).notes(5), Journal(TASK, e.NoteWritten(text="else")).notes(30)):
        with caplog.at_level(logging.WARNING, "perdure"):
            place.copy(restored)
        assert restored.lines() == place.read()
    assert 2 == sum("log_set_aside" in record.message for record in caplog.records)
    aside = next(path for path in Path(tmp_path).iterdir() if path.name.endswith(".aside-1"))
    (tmp_path / "again").mkdir()
    os.rename(aside, tmp_path / "again" / f"t.{TASK}")
    assert other == [found.raw for found in read_set(find_set(str(tmp_path / "again"), "t"))]


def test_one_process_writes_and_the_other_waits(tmp_path):
    """While a set is open elsewhere nothing is written; the next try finds it free and goes on."""
    journal, place = Journal(TASK).notes(3), Place(tmp_path)
    other = open_scroll(place.folder, place.files)
    assert not place.copy(journal)
    other.close()
    assert place.copy(journal)
    assert journal.lines() == place.read()


def test_a_full_disk_cuts_no_line_and_stops_nothing(tmp_path, monkeypatch, caplog):
    """Half a batch is taken back, it is said once, and the lines come when there is room."""
    journal, place = Journal(TASK).notes(3), Place(tmp_path, file_bytes=1_000_000)
    place.copy(journal)
    before = (Path(place.folder) / LIVE).read_bytes()
    write = os.write

    def full(descriptor, data):
        if len(data) > 100:
            return write(descriptor, data[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    journal.notes(2)

    async def try_twice():
        copier = Copier(journal.store, place.files, journal.clock)
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            tries = [await copier.copy(TASK, "t"), await copier.copy(TASK, "t")]
            journal.clock.advance(11)
            tries.append(await copier.copy(TASK, "t"))
        assert before == (Path(place.folder) / LIVE).read_bytes()
        journal.clock.advance(11)
        tries.append(await copier.copy(TASK, "t"))
        await copier.close()
        return tries

    with caplog.at_level(logging.WARNING, "perdure"):
        assert [False, False, False, True] == asyncio.run(try_twice())
    assert 1 == sum("log_not_written" in record.message for record in caplog.records)
    assert journal.lines() == place.read()


def test_a_cancelled_copy_is_no_gap(tmp_path):
    """Cancelled at any await, the next copy goes on where the files really end."""

    async def once(number):
        copier = Copier(journal.store, place.files, journal.clock)
        copying = asyncio.create_task(copier.copy(TASK, "t"))
        for _ in range(number):
            await asyncio.sleep(0.0005 if number % 2 else 0)
        copying.cancel()
        await asyncio.gather(copying, return_exceptions=True)
        await copier.copy(TASK, "t")
        await copier.close()

    for number in range(12):
        journal, place = Journal(TASK).notes(40), Place(tmp_path / str(number))
        asyncio.run(once(number))
        assert journal.lines() == place.read()


def test_bytes_are_the_same_in_every_locale(tmp_path):
    """Text of every script, line ends of every kind: one digest, whatever encoding the platform prefers."""
    program = (
        "import hashlib, sys, pathlib\n"
        "from perdure.model import entry as e\n"
        "from tests.unit.logs.material import Journal, Place, TASK\n"
        "text = '\\ufeff\\u2713 \\U0001f600 \\u0633\\u0644\\u0627\\u0645 e\\u0301 \\r\\n \\r \\u2028'\n"
        "journal, place = Journal(TASK, e.NoteWritten(text=text)), Place(sys.argv[1])\n"
        "place.copy(journal)\n"
        "assert journal.lines() == place.read()\n"
        "print(hashlib.sha256(b''.join(place.read())).hexdigest())\n"
    )
    root = Path(__file__).parents[3]
    digests = set()
    for name, environ in (("c", {"LC_ALL": "C", "PYTHONUTF8": "0"}), ("u", {"LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"})):
        environ |= {"PYTHONPATH": f"{root / 'src'}:{root}", "PYTHONCOERCECLOCALE": "0", "PATH": os.environ["PATH"]}
        command = [sys.executable, "-c", program, str(tmp_path / name)]
        digests.add(subprocess.run(command, env=environ, check=True, capture_output=True, cwd=root).stdout)
    assert 1 == len(digests)


def test_lines_end_at_lf_and_nowhere_else(tmp_path):
    """Strings with every other line end of Unicode stay one line each, through rotation and back."""
    awkward = ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\r", "\r\n"]
    journal = Journal(TASK, *(e.NoteWritten(text=f"a{mark}b", fields=raw({mark: mark})) for mark in awkward)).notes(9)
    place = Place(tmp_path, file_bytes=1_000)
    place.copy(journal)
    assert 20 == len(place.read())
    assert journal.lines() == place.read()
    assert {b"\n"} == {line[-1:] for line in place.read()}
    assert all(1 == len(line.decode().splitlines()) for line in place.read())


@pytest.mark.parametrize(
    ("keep", "size", "files", "days"),
    [("10 MB x 5", 10_000_000, 5, 7), ("1GB×2, 30 d", 1_000_000_000, 2, 30), ("500 kb x 1,1d", 500_000, 1, 1)],
)
def test_how_much_is_kept_can_be_said_in_words(keep, size, files, days):
    """Size of a file, number of files, days in one file."""
    kept = parse_keep("there", keep)
    assert (size, files, days * 86_400) == (kept.file_bytes, kept.files_max, kept.span_s)


@pytest.mark.parametrize("keep", ["", "10 x 5", "0 MB x 5", "5 MB x 0", "10 MB x 5, 7", "-1 MB x 5"])
def test_what_cannot_be_kept_is_refused(keep):
    """Nothing is guessed."""
    with pytest.raises(ConfigInvalid, match="log_keep"):
        parse_keep("there", keep)
