"""A workspace's folder: one task each, nested ones too, and only while it is the same folder."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.errors import WorkspaceBusy, WorkspaceInvalid
from perdure.workspace.folder import Folder, open_below

OPENING = """
import sys
from pathlib import Path
from perdure.errors import WorkspaceBusy
from perdure.workspace.folder import Folder
try:
    Folder.open(sys.argv[1])
except WorkspaceBusy:
    sys.exit(7)
"""


@pytest.fixture
def opened():
    """Opens folders, and closes them all at the end."""
    made = []

    def open_folder(path, **options):
        made.append(Folder.open(path, **options))
        return made[-1]

    yield open_folder
    for folder in made:
        folder.close()


def test_it_is_made_if_absent_and_known_by_its_real_place(tmp_path, opened):
    """A folder that is not there is made, with those above it; through a link, the real one is opened."""
    first = opened(tmp_path / "a" / "b")
    assert str(tmp_path.resolve() / "a" / "b") == first.path
    found = os.stat(tmp_path / "a" / "b")
    assert (found.st_dev, found.st_ino) == first.identity
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert str(tmp_path.resolve() / "real") == opened(tmp_path / "link").path


@pytest.mark.parametrize(
    ("held", "wanted"),
    [("a", "a"), ("a", "a/b/c"), ("a/b/c", "a"), ("a", "link"), ("a", "link/b")],
    ids=["same", "inside", "around", "by a link", "inside by a link"],
)
def test_one_task_works_in_it(tmp_path, opened, held, wanted):
    """A second opener is refused, in this process or another, also inside or around it; afterwards it is free."""
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    (tmp_path / "link").symlink_to("a")
    first = opened(tmp_path / held)
    with pytest.raises(WorkspaceBusy) as caught:
        opened(tmp_path / wanted)
    assert os.path.realpath(tmp_path / wanted) == caught.value.folder
    assert 7 == _open_elsewhere(tmp_path / wanted)
    first.close()
    first.close()
    assert 0 == _open_elsewhere(tmp_path / wanted)
    opened(tmp_path / wanted)


def test_neighbours_do_not_meet(tmp_path, opened):
    """Two folders beside each other are two workspaces, however alike their names are."""
    assert {opened(tmp_path / name).path for name in ("a", "ab", "a b")} == {
        str(tmp_path.resolve() / name) for name in ("a", "ab", "a b")
    }


def test_a_refused_opening_holds_nothing(tmp_path, opened):
    """Who was refused has taken no lock and left no descriptor."""
    inner = opened(tmp_path / "a" / "b")
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(5):
        with pytest.raises(WorkspaceBusy):
            opened(tmp_path / "a")
    assert before == (len(os.listdir("/proc/self/fd")) if before else 0)
    inner.close()
    opened(tmp_path / "a")


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}"])
def test_it_holds_no_store(tmp_path, opened, form):
    """A workspace around the store is refused, by whatever name; one beside it is not."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    place = form.format(tmp_path / "real" / ".perdure" / "perdure.db")
    for wanted in (tmp_path, tmp_path / "real", tmp_path / "link"):
        with pytest.raises(WorkspaceInvalid, match="holds the store"):
            opened(wanted, store_place=place)
    opened(tmp_path / "real" / ".perdure" / "workspaces" / "t", store_place=place)
    opened(tmp_path / "re", store_place=place)
    opened(tmp_path / "other", store_place="memory://")


def test_what_is_no_folder_is_refused(tmp_path, opened):
    """A file, a name below a file, and a link to nowhere that cannot be made are refused with their reason."""
    (tmp_path / "file").write_text("x")
    for wanted, reason in (("file", "File exists"), ("file/below", "Not a directory")):
        with pytest.raises(WorkspaceInvalid, match=reason) as caught:
            opened(tmp_path / wanted)
        assert str(tmp_path.resolve() / wanted) == caught.value.folder


def test_another_folder_in_its_place_is_found(tmp_path, opened):
    """Moved, gone, replaced by a folder or a link, or reached by a link that leads elsewhere now: `check` says so."""
    place, aside, link = tmp_path / "w", tmp_path / "aside", tmp_path / "link"
    link.symlink_to("w")
    folder = opened(link)
    folder.check()
    place.rename(aside)
    with pytest.raises(WorkspaceInvalid, match="put the folder back"):
        folder.check()
    place.mkdir()
    with pytest.raises(WorkspaceInvalid, match="another stands there"):
        folder.check()
    place.rmdir()
    place.symlink_to("aside")
    with pytest.raises(WorkspaceInvalid, match="another stands there"):
        folder.check()
    place.unlink()
    aside.rename(place)
    folder.check()
    link.unlink()
    link.symlink_to("elsewhere")
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(WorkspaceInvalid, match="another stands there"):
        folder.check()


def test_nothing_is_reached_through_a_link(tmp_path, opened):
    """A link in the middle or at the end of the way is not followed, wherever it leads."""
    (tmp_path / "w" / "a" / "b").mkdir(parents=True)
    (tmp_path / "w" / "link").symlink_to("a")
    (tmp_path / "w" / "out").symlink_to(tmp_path)
    folder = opened(tmp_path / "w")
    os.close(open_below(folder.fd, ["a", "b"]))
    for names in (["link"], ["link", "b"], ["out"], ["out", "w"]):
        with pytest.raises(NotADirectoryError):
            open_below(folder.fd, names)


def test_its_time_is_never_ahead_of_a_later_change(tmp_path, opened):
    """What is changed after the file system was asked for its time has at least that time; asking changes no mode."""
    folder = opened(tmp_path)
    os.chmod(tmp_path, 0o2751)
    for number in range(50):
        now_ns = folder.now_ns()
        (tmp_path / f"{number}").write_text("x")
        assert now_ns <= os.stat(tmp_path / f"{number}").st_ctime_ns
    assert 0o2751 == os.stat(tmp_path).st_mode & 0o7777
    assert os.stat(tmp_path / "0").st_ctime_ns < folder.now_ns()


def _open_elsewhere(path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run([sys.executable, "-c", OPENING, path], env=environment, check=False).returncode


def test_a_process_without_descriptors_is_not_told_that_nobody_works_around_it(tmp_path, monkeypatch):
    """Whether a folder around it is another task's could not be asked: that is no answer."""
    (tmp_path / "w").mkdir()
    open_ = os.open

    def open_few(path, *arguments, **named):
        if Path(path) == tmp_path:
            raise OSError(errno.EMFILE, "Too many open files")
        return open_(path, *arguments, **named)

    monkeypatch.setattr(os, "open", open_few)
    with pytest.raises(WorkspaceInvalid, match="Too many open files"):
        Folder.open(tmp_path / "w")
