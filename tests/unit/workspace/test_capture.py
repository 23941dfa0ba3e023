"""Files are taken in: each kind of thing and change, what is left out and said so, and what is never trusted."""

import contextlib
import errno
import hashlib
import os
import socket
import tempfile
import threading
from pathlib import Path

import pytest

from perdure.core.manifest import Manifest
from perdure.errors import UsageError, WorkspaceInvalid
from perdure.limits import CAPTURE_BATCH_BYTES, CAPTURE_BATCH_CHANGES
from perdure.model.files import FileChange, Node
from perdure.workspace import capture
from perdure.workspace.capture import Capturer
from perdure.workspace.folder import Folder
from perdure.workspace.ignoring import Ignoring
from tests.unit.workspace.trees import take, walk, watched

NOBODY = 65_534


@pytest.fixture
def w(tmp_path):
    """A workspace with a few things in it."""
    place = tmp_path / "w"
    (place / "a" / "b").mkdir(parents=True)
    (place / "a" / "one").write_text("one")
    (place / "a" / "b" / "two").write_text("two")
    (place / "link").symlink_to("a/one")
    return place


def file(text, mode=0o644):
    """What a file of these bytes is on record as."""
    raw = text.encode() if isinstance(text, str) else text
    return Node("file", mode, len(raw), hashlib.sha256(raw).digest())


# --- what is there, and what changes ---
def test_a_first_look_takes_everything_in(w):
    """Files, links, folders and empty folders, a folder before what is in it; a second look finds nothing."""
    (w / "empty").mkdir(mode=0o700)
    (w / "nothing").write_bytes(b"")
    with watched(w) as (capturer, manifest):
        seen = take(capturer, manifest)
        assert walk(w) == manifest
        assert [list(seen).index(path) for path in ("a", "a/b", "a/b/two")] == sorted(
            list(seen).index(path) for path in ("a", "a/b", "a/b/two")
        )
        assert (file(""), Node("folder", 0o700)) == (seen["nothing"], seen["empty"])
        assert ({}, {}) == (take(capturer, manifest), capturer.uncovered)


def test_each_kind_of_change_is_found(w):
    """New, changed, gone, another mode, another target, another kind: these and nothing else."""
    with watched(w) as (capturer, manifest):
        take(capturer, manifest)
        (w / "new").write_text("new")
        (w / "a" / "one").write_text("uno")
        os.chmod(w / "a" / "b", 0o700)
        (w / "link").unlink()
        (w / "link").symlink_to("../outside")
        assert {
            "new": file("new"),
            "a/one": file("uno"),
            "a/b": Node("folder", 0o700),
            "link": Node("link", target="../outside"),
        } == take(capturer, manifest)
        os.chmod(w / "new", 0o4755)
        (w / "a" / "one").unlink()
        (w / "a" / "one").mkdir()
        (w / "link").unlink()
        (w / "link").write_text("now a file")
        assert {
            "new": file("new", 0o4755),
            "a/one": Node("folder", 0o755),
            "link": file("now a file"),
        } == take(capturer, manifest)
        assert walk(w) == manifest


def test_what_is_gone_goes_deepest_first(w):
    """A folder that is gone, or is a file now, is emptied on record before it goes."""
    with watched(w) as (capturer, manifest):
        take(capturer, manifest)
        (w / "a").rename(w.parent / "aside")
        assert ["a/b/two", "a/one", "a/b", "a"] == sorted(
            seen := list(take(capturer, manifest)), key=lambda path: -path.count("/")
        )
        assert seen.index("a/b/two") < seen.index("a/b") < seen.index("a")
        assert {""} == set(capturer.vouched)  # nor is anything remembered of it
        (w.parent / "aside").rename(w / "a")
        take(capturer, manifest)
        (w / "a").rename(w.parent / "aside")
        (w / "a").write_text("a file")
        *below, last = take(capturer, manifest).items()
        assert ("a", file("a file")) == last
        assert {"a/b/two": None, "a/one": None, "a/b": None} == dict(below)
        assert walk(w) == manifest


@pytest.mark.parametrize(
    "name", [b"new\nline", b"back\\slash", b"\xff\xfe", "ü".encode(), b" ", b"-", b"\"'", b"\\xff"]
)
def test_odd_names_are_names(w, name):
    """Whatever bytes a name has, it is taken in once, changed and removed like others; link targets too."""
    place = os.path.join(os.fsencode(w), name)
    with watched(w) as (capturer, manifest):
        take(capturer, manifest)
        os.mkdir(place)
        os.symlink(name, os.path.join(place, name))
        assert 2 == len(take(capturer, manifest))
        assert walk(w) == manifest
        assert {} == take(capturer, manifest)
        os.unlink(os.path.join(place, name))
        os.rmdir(place)
        assert [None, None] == list(take(capturer, manifest).values())


def test_a_link_is_a_link(w):
    """Links to folders, to nowhere, out of the workspace and in a circle are never followed."""
    (w.parent / "outside").mkdir()
    (w.parent / "outside" / "secret").write_text("secret")
    targets = {"to-folder": "a", "nowhere": "gone", "out": "../outside", "absolute": "/etc", "self": "self", "up": "."}
    for name, target in targets.items():
        (w / name).symlink_to(target)
    with watched(w) as (capturer, manifest):
        seen = take(capturer, manifest)
        assert targets == {name: seen[name].target for name in targets}
        assert 0 == sum("secret" in path for path in seen)
        assert {} == take(capturer, manifest, ["out/secret", "to-folder/one", "self/x"])


def test_a_link_planted_on_the_way_leads_nowhere(w):
    """A folder replaced by a link out of the workspace: a declared path that was in it is gone, whatever lies there."""
    (w.parent / "outside" / "b").mkdir(parents=True)
    (w.parent / "outside" / "b" / "two").write_text("not yours")
    with watched(w) as (capturer, manifest):
        take(capturer, manifest)
        (w / "a").rename(w.parent / "aside")
        (w / "a").symlink_to("../outside")
        seen = take(capturer, manifest, ["a/b/two"])
        assert Node("link", target="../outside") == seen.pop("a")
        assert {"a/b/two": None, "a/one": None, "a/b": None} == seen


# --- declared paths ---
def test_declared_paths_are_looked_at_and_no_others(w):
    """A file, a folder with all that is in it, what is not there; and the folders above, also new ones."""
    with watched(w) as (capturer, manifest):
        take(capturer, manifest)
        (w / "elsewhere").write_text("not declared")
        (w / "new" / "deep").mkdir(parents=True)
        for path in ("new/deep/x", "new/deep/y", "new/beside", "a/b/three"):
            (w / path).write_text(path)
        (w / "a" / "one").unlink()
        os.chmod(w / "a", 0o711)
        assert {"new": Node("folder", 0o755), "new/deep": Node("folder", 0o755), "new/deep/x": file("new/deep/x")} == (
            take(capturer, manifest, ["new/deep/x", "never/was", "x" * 300])
        )
        assert {} == capturer.uncovered
        assert {"a": Node("folder", 0o711), "a/b/three": file("a/b/three"), "a/one": None} == (
            take(capturer, manifest, ["a", "a/b", "a/b/three"])
        )
        assert {"elsewhere", "new/deep/y", "new/beside"} == set(take(capturer, manifest, [""]))


def test_paths_are_looked_at_whole_whatever_stands_between_them(w):
    """Two paths below something that is no folder any more say once that it is not, before the record knows."""
    with watched(w) as (capturer, manifest):
        take(capturer, manifest)
        (w / "a").rename(w.parent / "aside")
        (w / "a").write_text("x")
        changed = [c.path for batch in capturer.look(manifest, ["a/b/two", "a/one"]) for c in batch.changes]
        assert sorted(["a", "a/b", "a/b/two", "a/one"]) == sorted(changed)


@pytest.mark.parametrize("path", ["../x", "/etc", "a/../b", "a/", "./a", "a//b", "a\0"])
def test_a_path_that_leads_out_is_refused(w, path):
    """Only paths as a manifest writes them are looked at."""
    with watched(w) as (capturer, manifest), pytest.raises(UsageError) as caught:
        take(capturer, manifest, [path])
    assert repr(path) in str(caught.value)


# --- what is left out ---
def test_what_cannot_be_taken_in_is_listed(w):
    """Sockets, pipes, devices and large files are named with their why, and do not stop the rest."""
    os.mkfifo(w / "pipe")
    with socket.socket(socket.AF_UNIX) as listener, watched(w, file_bytes_max=100) as (capturer, manifest):
        _bind(listener, w / "socket")
        (w / "fits").write_bytes(b"x" * 100)
        (w / "large").write_bytes(b"x" * 101)
        expected = {"pipe": "pipe", "socket": "socket", "large": "too_large"}
        if os.geteuid() == 0:
            os.mknod(w / "device", 0o20600, os.makedev(1, 3))
            expected["device"] = "device"
        assert not expected.keys() & take(capturer, manifest).keys()
        assert expected == capturer.uncovered
        assert {"a", "a/b", "a/b/two", "a/one", "fits", "link"} == {path for path, _ in manifest.items()}


def test_what_is_left_out_is_not_said_to_be_gone(w):
    """A file that grows too large keeps its place on record; small again, it is taken in and listed no more."""
    with watched(w, file_bytes_max=100) as (capturer, manifest):
        take(capturer, manifest)
        (w / "a" / "one").write_bytes(b"x" * 101)
        (w / "a" / "b" / "two").unlink()
        os.mkfifo(w / "a" / "b" / "two")
        assert {} == take(capturer, manifest, ["a"])
        assert ({"a/one": "too_large", "a/b/two": "pipe"}, file("one")) == (capturer.uncovered, manifest.get("a/one"))
        (w / "a" / "one").write_text("small")
        assert {"a/one": file("small")} == take(capturer, manifest, ["a/one"])
        assert {"a/b/two": "pipe"} == capturer.uncovered
        (w / "a" / "b" / "two").unlink()
        (w / "a" / "b").rmdir()
        (w / "a" / "b").write_text("a file")
        take(capturer, manifest, ["a/b/two"])
        assert {} == capturer.uncovered


def test_what_may_not_be_read_is_listed():
    """Files and folders without rights are named; what is on record in them stays; readable again, all is seen."""
    with _place_where_rights_count() as w, watched(w) as (capturer, manifest):
        (w / "a" / "b").mkdir(parents=True)
        (w / "a" / "one").write_text("one")
        (w / "a" / "b" / "two").write_text("two")
        take(capturer, manifest)
        os.chmod(w / "a" / "one", 0)
        os.chmod(w / "a" / "b", 0)
        (w / "new").write_text("new")
        assert {"a/b": Node("folder", 0), "new": file("new")} == take(capturer, manifest)
        assert {"a/one": "unreadable", "a/b": "unreadable"} == capturer.uncovered
        assert {} == take(capturer, manifest, ["a/b/two"])
        assert (file("two"), "unreadable") == (manifest.get("a/b/two"), capturer.uncovered["a/b"])
        os.chmod(w / "a" / "b", 0o600)  # names can be listed, and nothing more
        assert {"a/b": Node("folder", 0o600)} == take(capturer, manifest)
        assert (file("two"), "unreadable") == (manifest.get("a/b/two"), capturer.uncovered["a/b"])
        os.chmod(w / "a" / "b", 0o700)
        assert {"a/b": Node("folder", 0o700)} == take(capturer, manifest, ["a/b/two"])
        assert {"a/one": "unreadable"} == capturer.uncovered
        os.chmod(w / "a" / "one", 0o600)
        take(capturer, manifest)
        assert ({}, walk(w)) == (capturer.uncovered, manifest)


def test_another_disk_is_listed(w, monkeypatch):
    """A folder on which another disk is mounted is named, what is in it neither taken in nor gone from the record."""
    with watched(w) as (capturer, manifest):
        take(capturer, manifest)
        disk, inode = capturer.folder.identity
        monkeypatch.setattr(Folder, "check", lambda folder: None)
        capturer.folder.identity = (disk + 1, inode)
        (w / "a" / "one").unlink()
        assert {} == take(capturer, manifest)
        assert {"a": "other_disk"} == capturer.uncovered


def test_no_stamp_of_another_disk_is_trusted(w, monkeypatch):
    """A file of another disk, mounted by itself, is read by each look: nothing is known of that disk's ticks."""
    read = []
    real = capture._read_whole
    monkeypatch.setattr(capture, "_read_whole", lambda fd, size: read.append(size) or real(fd, size))
    monkeypatch.setattr(Folder, "check", lambda folder: None)
    (w / "mounted").write_bytes(b"mounted")
    with watched(w) as (capturer, manifest):
        _tick(w, capturer)
        disk, inode = capturer.folder.identity
        capturer.folder.identity = (disk + 1, inode)
        take(capturer, manifest, ["mounted"])
        assert {} == take(capturer, manifest, ["mounted"])
        assert [7, 7] == read


def test_a_shortage_of_the_process_is_no_unreadable_file(w, monkeypatch):
    """Out of descriptors, a look raises; it does not say that files cannot be read."""
    real = os.open

    def short(path, flags, *args, **options):
        if path == "one":
            raise OSError(errno.EMFILE, "Too many open files")
        return real(path, flags, *args, **options)

    with watched(w) as (capturer, manifest):
        monkeypatch.setattr(os, "open", short)
        with pytest.raises(OSError, match="Too many open files"):
            take(capturer, manifest)
        assert {} == capturer.uncovered


def test_ignored_paths_are_neither_taken_in_nor_missed(w):
    """The user's own repository and caches are left aside, a nested repository is not; nor what git would ignore."""
    for path in (".git/HEAD", "a/.git/HEAD", "a/__pycache__/x.pyc", ".perdure/x", "a/b/.perdure-part-00", "a/x.tmp"):
        (w / path).parent.mkdir(exist_ok=True)
        (w / path).write_text(path)
    (w / ".gitignore").write_text("one\n")
    with watched(w, "*.tmp") as (capturer, manifest):
        take(capturer, manifest)
        added = {path for path, _ in manifest.items()} - {"a", "a/b", "a/b/two", "link"}
        assert {"a/one", ".gitignore", "a/.git", "a/.git/HEAD"} == added
        assert {} == take(capturer, manifest, [".git/HEAD", "a/x.tmp"])
    folder = Folder.open(w)  # what is ignored from now on stays on record, changed or gone
    (w / "a" / "x.tmp").unlink()
    (w / "a" / ".git" / "HEAD").write_text("other")
    (w / "a" / "one").unlink()
    assert {} == take(Capturer(folder, Ignoring(["/a/.git", "one"])), manifest)
    assert {} == take(Capturer(folder, Ignoring(["a/"])), manifest, ["a/one"])
    folder.close()


# --- time, and others at work ---
def test_a_change_within_one_tick_is_seen(w, monkeypatch):
    """Where the file system's clock ticks slowly, a file written twice in a tick keeps its stamp: it is read again."""
    monkeypatch.setattr(capture, "_stamp", _slow_stamp)
    monkeypatch.setattr(Folder, "now_ns", lambda folder: _slow(os.stat(folder.path).st_mtime_ns))
    place = w / "a" / "one"
    os.utime(w)
    for text in ("uno", "due", "tre"):
        place.write_text(text)
        with_same_stamp = _slow_stamp(os.stat(place))
        with watched(w) as (capturer, manifest):
            take(capturer, manifest)
            place.write_text(text.upper())
            assert with_same_stamp == _slow_stamp(os.stat(place))
            assert {"a/one": file(text.upper())} == take(capturer, manifest)


def test_a_change_right_after_a_look_is_seen(w):
    """The same on this machine's own file system, as fast as it goes: many writes of one size, a look after each."""
    place = w / "a" / "one"
    with watched(w) as (capturer, manifest):
        for number in range(1_000, 1_400):
            place.write_text(str(number))
            take(capturer, manifest, ["a/one"])
            assert file(str(number)) == manifest.get("a/one")


def test_an_old_file_is_read_once(w, monkeypatch):
    """A file that is older than the look is not read again, whatever else changes; one with a set-back time is."""
    read = []
    real = capture._read_whole
    monkeypatch.setattr(capture, "_read_whole", lambda fd, size: read.append(size) or real(fd, size))
    with watched(w) as (capturer, manifest):
        _tick(w, capturer)
        take(capturer, manifest)
        read.clear()
        assert ({}, {}) == (take(capturer, manifest), take(capturer, manifest, ["a/one", "a/b"]))
        assert [] == read
        before = os.stat(w / "a" / "one")
        (w / "a" / "one").write_text("eno")
        os.utime(w / "a" / "one", ns=(before.st_atime_ns, before.st_mtime_ns))
        assert {"a/one": file("eno")} == take(capturer, manifest)
        assert [3] == read
        seen = take(capturer, Manifest())  # what the record lacks is read, so that its bytes can be stored
        assert {"a/one", "a/b/two", "link"} <= seen.keys()
        assert {"a", "a/one"} == take(capturer, Manifest(), ["a/one"]).keys()


def test_a_file_that_keeps_changing_is_listed(w, monkeypatch):
    """A writer that never stops: after three readings the file is named; the one that pauses in time is taken in."""
    real, writes = capture._read_whole, [2, 5]

    def write_meanwhile(fd, size):
        content = real(fd, size)
        if size != 3 and writes[0]:
            writes[0] -= 1
            with open(w / "busy", "ab") as busy:
                busy.write(b"more")
        return content

    monkeypatch.setattr(capture, "_read_whole", write_meanwhile)
    (w / "busy").write_bytes(b"first")
    with watched(w) as (capturer, manifest):
        take(capturer, manifest)
        assert file(b"firstmoremore") == manifest.get("busy")
        writes[0] = 3
        os.utime(w / "busy")
        assert {} == take(capturer, manifest)
        assert {"busy": "changing"} == capturer.uncovered
        assert {"busy": file(b"first" + b"more" * 5)} == take(capturer, manifest)
        assert {} == capturer.uncovered


def test_a_writing_thread_never_spoils_a_look(w):
    """Beside a thread that appends, replaces, moves and removes, each look ends; the last one sees what is there."""
    stop = threading.Event()

    def disturb():
        turn = 0
        while not stop.is_set():
            turn += 1
            with open(w / "a" / "one", "ab" if turn % 50 else "wb") as busy:
                busy.write(b"x" * 1_000)
            os.makedirs(w / "comes" / "goes", exist_ok=True)
            (w / "comes" / "goes" / "f").write_text(str(turn))
            os.replace(w / "comes" / "goes" / "f", w / "comes" / "f")
            (w / "comes" / "goes").rmdir()
            if turn % 2:
                (w / "comes" / "goes").write_text("a file now")
                (w / "comes" / "goes").unlink()

    thread = threading.Thread(target=disturb)
    with watched(w) as (capturer, manifest):
        thread.start()
        try:
            for number in range(300):
                take(capturer, manifest, None if number % 3 else ["comes/goes", "a/one"])
                assert capturer.uncovered.keys() <= {"a/one", "comes/f", "comes/goes/f"}
        finally:
            stop.set()
            thread.join()
        take(capturer, manifest)
        assert ({}, walk(w)) == (capturer.uncovered, manifest)


@pytest.mark.parametrize("becomes", ["link", "folder", "pipe", "socket", "nothing"])
def test_another_kind_between_listing_and_reading(w, monkeypatch, becomes):
    """A file that is something else by the time it is opened is taken for what it is then."""
    real, place = os.open, w / "a" / "one"

    def swap(path, flags, *args, **options):
        if path == "one" and place.is_file() and not place.is_symlink():
            place.unlink()
            _make(place, becomes)
        return real(path, flags, *args, **options)

    with watched(w) as (capturer, manifest):
        monkeypatch.setattr(os, "open", swap)
        take(capturer, manifest)
        expected = {"link": Node("link", target="/etc/passwd"), "folder": Node("folder", 0o755)}
        assert expected.get(becomes) == manifest.get("a/one")
        assert ({"a/one": becomes} if becomes in {"pipe", "socket"} else {}) == capturer.uncovered


def test_a_workspace_that_was_moved_is_not_looked_at(w):
    """Another folder in its place, or none, stops a look: it is not a workspace whose files are all gone."""
    with watched(w) as (capturer, manifest):
        take(capturer, manifest)
        w.rename(w.parent / "moved")
        for make in (lambda: None, w.mkdir):
            make()
            with pytest.raises(WorkspaceInvalid):
                take(capturer, manifest)


# --- batches ---
def test_batches_are_bounded_and_may_be_taken_in_as_they_come(w):
    """No batch holds more than it may, in bytes or in changes; a file beyond that goes alone."""
    for number in range(5):
        (w / f"part{number}").write_bytes(bytes([number]) * (CAPTURE_BATCH_BYTES // 2))
    (w / "whole").write_bytes(b"w" * (CAPTURE_BATCH_BYTES + 1))
    with watched(w) as (capturer, manifest):
        sizes = []
        for batch in capturer.look(manifest):
            sizes.append(sum(map(len, batch.blobs.values())))
            manifest.apply(batch.changes)
        assert (3, walk(w)) == (sum(size > CAPTURE_BATCH_BYTES // 2 for size in sizes), manifest)
        assert CAPTURE_BATCH_BYTES + 1 == max(sizes)
        assert 1 == sum(size > CAPTURE_BATCH_BYTES for size in sizes)


def test_a_look_that_is_left_early_holds_nothing(w):
    """Whoever stops in the middle gets all descriptors back, and the next look begins anew."""
    for number in range(2):
        (w / "a" / f"part{number}").write_bytes(bytes([number]) * CAPTURE_BATCH_BYTES)
    with watched(w) as (capturer, manifest):
        before = _descriptors()
        for paths in (None, ["a/part0", "a/part1", "link"]):
            look = capturer.look(manifest, paths)
            next(look)
            assert before < _descriptors()
            look.close()
            assert before == _descriptors()
        take(capturer, manifest)
        assert (walk(w), before) == (manifest, _descriptors())


def test_many_changes_are_cut_into_batches(w):
    """Removing more than one batch may hold takes several, each before its folder's own."""
    with watched(w) as (capturer, manifest):
        take(capturer, manifest)
        many = [FileChange(f"gone/{number}", file("x")) for number in range(CAPTURE_BATCH_CHANGES + 5)]
        manifest.apply([FileChange("gone", Node("folder", 0o755)), *many])
        batches = []
        for batch in capturer.look(manifest):
            batches.append(batch.changes)
            manifest.apply(batch.changes)
        assert [CAPTURE_BATCH_CHANGES, 6] == [len(changes) for changes in batches]
        assert FileChange("gone") == batches[-1][-1]
        assert walk(w) == manifest


def _descriptors():
    return len(os.listdir("/dev/fd"))


def _make(place, kind):
    if kind == "link":
        place.symlink_to("/etc/passwd")
    elif kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            _bind(listener, place)


def _bind(listener, place):
    """Make a socket file; the way to it may be longer than an address may be."""
    here = os.getcwd()
    os.chdir(place.parent)
    try:
        listener.bind(place.name)
    finally:
        os.chdir(here)


def _slow(time_ns):
    return time_ns // 10**12 * 10**12  # a tick of a thousand seconds


def _slow_stamp(found):
    times = _slow(found.st_mtime_ns), _slow(found.st_ctime_ns)
    return (found.st_dev, found.st_ino, found.st_size, *times, found.st_mode)


def _tick(w, capturer):
    """Wait until the file system's clock is past the youngest file."""
    youngest = max(os.lstat(path).st_ctime_ns for path in w.rglob("*"))
    while capturer.folder.now_ns() <= youngest:
        pass


@contextlib.contextmanager
def _place_where_rights_count():
    """A folder of its own, for a user whom rights hold back."""
    is_root = os.geteuid() == 0
    with tempfile.TemporaryDirectory(prefix="perdure-rights-") as place:
        if is_root:
            os.chown(place, NOBODY, NOBODY)
            os.seteuid(NOBODY)
        try:
            yield Path(place) / "w"
        finally:
            if is_root:
                os.seteuid(0)
