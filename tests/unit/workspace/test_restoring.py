"""Files go back, what is somebody else's stays, and a kill between any two system calls changes nothing of that."""

import errno
import os
import random
import signal
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.core.manifest import Manifest
from perdure.core.way_back import Step
from perdure.errors import WorkspaceFull, WorkspaceRefused
from perdure.model.files import FileChange, Node
from perdure.workspace import restoring
from tests.unit.workspace.disks import FOLDER, Texts, file, link, make, opened, read

BLOBS = Texts("old", "new", "theirs", "other", "", "a" * 100_000)
SHUT = Node("folder", 0o555)
NONE = Node("folder", 0)


def steps_of(before, after):
    """The steps from one tree to another, with the shut folders that stay."""
    paths = sorted(before.keys() | after.keys())
    return [
        Step(path, before.get(path), after.get(path))
        for path in paths
        if before.get(path) != after.get(path) or before[path] == SHUT
    ]


def put_back(folder, steps, **how):
    """Apply the steps in a folder; returns what is done and what is kept."""
    with opened(folder) as root_fd:
        found = restoring.apply(root_fd, steps, how.pop("blobs", BLOBS), **how)
    return found.done, found.kept


# ---------------------------------------------------------------- what goes back

# One row for each kind of change: what stands there now, what is to stand there.
CHANGES = {
    "changed": (file("new"), file("old")),
    "long": (file("new"), file("a" * 100_000)),
    "emptied": (file(""), file("old")),
    "new": (file("new"), None),
    "gone": (None, file("old", 0o600)),
    "mode": (file("old", 0o755), file("old", 0o640)),
    "file_to_link": (file("new"), link("changed")),
    "link_to_file": (link("changed"), file("old")),
    "link_to_link": (link("/nowhere"), link("../elsewhere")),
    "link_gone": (None, link("a\\xff")),
    "folder_to_file": (FOLDER, file("old")),
    "folder_to_file/in": (file("new"), None),
    "folder_to_link": (FOLDER, link("changed")),
    "file_to_folder": (file("new"), FOLDER),
    "file_to_folder/in": (None, file("old")),
    "link_to_folder": (link("changed"), FOLDER),
    "folder_mode": (FOLDER, SHUT),
    "folder_mode/in": (file("new"), file("old")),
    "folder_new": (FOLDER, None),
    "folder_new/deep": (SHUT, None),
    "folder_new/deep/in": (file("new"), None),
    "folder_gone": (None, SHUT),
    "folder_gone/deep": (None, FOLDER),
    "folder_gone/deep/in": (None, file("old", 0o444)),
    "shut": (SHUT, SHUT),
    "shut/in": (file("new"), file("old")),
    "shut/new": (file("new"), None),
    "odd\\xff\\\\\n": (file("new"), file("old")),
    "same": (file("other"), file("other")),
}
NOW = {path: now for path, (now, _) in CHANGES.items() if now is not None}
THEN = {path: then for path, (_, then) in CHANGES.items() if then is not None}


def test_every_kind_of_change_goes_back(tmp_path):
    """Files, links and folders, their modes, each kind in the place of each other: the old tree stands again."""
    make(tmp_path / "w", NOW, BLOBS)
    done, kept = put_back(tmp_path / "w", steps_of(NOW, THEN))
    assert read(tmp_path / "w") == THEN
    assert (done, kept) == (tuple(sorted(path for path, (a, b) in CHANGES.items() if a != b)), ())


def test_done_twice_is_done_once(tmp_path):
    """The same steps again find all at its place: nothing is written, and the answer is the same."""
    make(tmp_path / "w", NOW, BLOBS)
    first = put_back(tmp_path / "w", steps_of(NOW, THEN))
    inodes = {path: os.lstat(tmp_path / "w" / path).st_ino for path in THEN if path.isascii() and "\\" not in path}
    blobs = Texts()
    assert put_back(tmp_path / "w", steps_of(NOW, THEN), blobs=blobs) == first
    assert (read(tmp_path / "w"), blobs.asked) == (THEN, 0)
    assert {path: os.lstat(tmp_path / "w" / path).st_ino for path in inodes} == inodes


def test_what_is_asked_for_is_known_before():
    """The digests of the files that are written, and no others."""
    steps = [Step("a", file("new"), file("old")), Step("b", file("other"), None), Step("c", None, link("old"))]
    assert restoring.blobs_of(steps) == {file("old").digest}


def test_a_whole_tree_is_written_into_an_empty_folder(tmp_path):
    """All of a manifest stands afterwards, read-only folders with what is in them."""
    manifest = Manifest()
    manifest.apply(FileChange(path, node) for path, node in THEN.items())
    (tmp_path / "w").mkdir()
    with opened(tmp_path / "w") as root_fd:
        found = restoring.write_tree(root_fd, manifest, BLOBS)
    assert read(tmp_path / "w") == THEN
    assert (set(found.done), found.kept) == (set(THEN), ())


def test_points_before_and_after_each_step(tmp_path):
    """A crash point can stand before and after each path."""
    make(tmp_path / "w", {"a": file("new"), "b": file("new")}, BLOBS)
    seen = []
    steps = [Step("a", file("new"), file("old")), Step("b", file("new"), None)]
    put_back(tmp_path / "w", steps, reach=lambda: seen.append(sorted(read(tmp_path / "w").items())))
    assert len(seen) == 4
    assert seen[0] != seen[1] == seen[2] != seen[3]


# ---------------------------------------------------------------- what is kept


@pytest.mark.parametrize("theirs", [file("theirs"), file("new", 0o600), link("new"), FOLDER, None], ids=repr)
@pytest.mark.parametrize("target", [file("old"), link("old"), FOLDER, None], ids=repr)
@pytest.mark.parametrize("expected", [file("new"), link("x"), FOLDER, None], ids=repr)
def test_anything_else_than_expected_is_kept(tmp_path, expected, target, theirs):
    """What is neither expected nor the target is not touched, whatever it is, and named."""
    if expected == target or theirs in (expected, target):
        return
    here = {"a": theirs} if theirs else {}
    make(tmp_path / "w", here, BLOBS)
    assert put_back(tmp_path / "w", [Step("a", expected, target)]) == ((), ("a",))
    assert read(tmp_path / "w") == here


@pytest.mark.parametrize("mode", [0o750, 0o700, 0o777])
def test_a_folder_with_a_mode_of_somebody_else_is_kept(tmp_path, mode):
    """A folder is not removed, nor given another mode, if its mode is not the one on record."""
    theirs = {"gone": Node("folder", mode), "mode": Node("folder", mode)}
    make(tmp_path / "w", theirs, BLOBS)
    assert put_back(tmp_path / "w", [Step("gone", FOLDER, None), Step("mode", FOLDER, SHUT)]) == ((), ("gone", "mode"))
    assert read(tmp_path / "w") == theirs


def test_a_file_that_somebody_put_into_the_folder_keeps_it(tmp_path):
    """A folder that is not empty stays, with its mode, also where a file was to stand."""
    here = {"a": SHUT, "a/theirs": file("theirs"), "b": FOLDER, "b/theirs": file("theirs"), "b/mine": file("new")}
    make(tmp_path / "w", here, BLOBS)
    steps = [Step("a", SHUT, None), Step("b", FOLDER, file("old")), Step("b/mine", file("new"), None)]
    assert put_back(tmp_path / "w", steps) == (("b/mine",), ("a", "b"))
    del here["b/mine"]
    assert read(tmp_path / "w") == here


def test_a_planted_link_leads_nowhere(tmp_path):
    """A link in the middle of a path, to outside or to inside, is not followed: what is behind it stays."""
    make(tmp_path / "outside", {"a": file("new"), "b": file("new")}, BLOBS)
    make(tmp_path / "w", {"in": FOLDER, "in/a": file("new")}, BLOBS)
    (tmp_path / "w" / "out").symlink_to(tmp_path / "outside")
    (tmp_path / "w" / "other").symlink_to("in")
    steps = [
        Step("other/a", file("new"), file("old")),
        Step("out/a", file("new"), None),
        Step("out/b", file("new"), file("old")),
        Step("out/c", None, file("old")),
    ]
    assert put_back(tmp_path / "w", steps) == ((), ("other/a", "out/a", "out/b", "out/c"))
    assert read(tmp_path / "outside") == {"a": file("new"), "b": file("new")}
    assert read(tmp_path / "w")["in/a"] == file("new")


def test_a_link_in_the_place_of_a_shut_folder_is_not_opened(tmp_path):
    """A folder outside, to which a link leads that stands where a shut folder was, keeps its mode."""
    make(tmp_path / "outside", {"shut": SHUT}, BLOBS)
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "shut").symlink_to(tmp_path / "outside" / "shut")
    assert put_back(tmp_path / "w", [Step("shut", SHUT, SHUT), Step("shut/a", None, file("old"))]) == ((), ("shut/a",))
    assert read(tmp_path / "outside") == {"shut": SHUT}


def test_a_shut_folder_of_somebody_else_is_not_opened_for_good(tmp_path):
    """A folder that the journal knows as open and somebody has shut since keeps its mode."""
    make(tmp_path / "w", {"d": SHUT, "d/a": file("theirs")}, BLOBS)
    assert put_back(tmp_path / "w", [Step("d", FOLDER, None), Step("d/a", file("new"), None)]) == ((), ("d", "d/a"))
    assert read(tmp_path / "w") == {"d": SHUT, "d/a": file("theirs")}


def test_a_folder_that_is_gone(tmp_path):
    """In a folder that is gone there is nothing to remove, and nothing is put."""
    (tmp_path / "w").mkdir()
    steps = [Step("d/a", file("new"), None), Step("d/b", file("new"), file("old"))]
    assert put_back(tmp_path / "w", steps) == (("d/a",), ("d/b",))
    assert read(tmp_path / "w") == {}


def part_of(path):
    """The name beside `path` under which its new content is made."""
    return restoring._Place(-1, b"", Step(path, None, None)).part.decode()


@pytest.mark.parametrize("planted", [file("theirs"), link("../outside/victim"), FOLDER], ids=["file", "link", "folder"])
def test_a_planted_part_is_not_written_through(tmp_path, planted):
    """What stands under the name of a part is removed first: a link there leads nobody's file astray."""
    make(tmp_path / "outside", {"victim": file("other")}, BLOBS)
    part = part_of("a")
    make(tmp_path / "w", {"a": file("new"), part: planted, "b": file("new")}, BLOBS)
    assert put_back(tmp_path / "w", [Step("a", file("new"), file("old"))]) == (("a",), ())
    assert read(tmp_path / "w") == {"a": file("old"), "b": file("new")}
    assert read(tmp_path / "outside") == {"victim": file("other")}


def test_a_part_planted_in_between_is_not_written_through(tmp_path, monkeypatch):
    """A link under the name of a part that comes after the first look at it is no way out either."""
    make(tmp_path / "outside", {"victim": file("other")}, BLOBS)
    make(tmp_path / "w", {"a": file("new")}, BLOBS)
    clear = restoring._Place._clear_part

    def clear_and_plant(self):
        clear(self)
        os.symlink("../outside/victim", self.part, dir_fd=self.folder_fd)

    monkeypatch.setattr(restoring._Place, "_clear_part", clear_and_plant)
    assert put_back(tmp_path / "w", [Step("a", file("new"), file("old"))]) == ((), ("a",))
    assert read(tmp_path / "w")["a"] == file("new")
    assert read(tmp_path / "outside") == {"victim": file("other")}


def test_somebody_quicker_is_kept(tmp_path):
    """A file that is changed while its old content is being written beside it stays as it is."""
    make(tmp_path / "w", {"a": file("new")}, BLOBS)

    class Slow(Texts):
        def __getitem__(self, digest):
            (tmp_path / "w" / "a").write_text("theirs")
            return super().__getitem__(digest)

    assert put_back(tmp_path / "w", [Step("a", file("new"), file("old"))], blobs=Slow("old")) == ((), ("a",))
    assert read(tmp_path / "w") == {"a": file("theirs")}


def test_never_more_open_on_the_way(tmp_path, monkeypatch):
    """While a private file or folder is made, nobody else can read it."""
    modes = []
    finish = restoring._Place._finish

    def watch(self, part_fd, *how):
        modes.append(stat.S_IMODE(os.fstat(part_fd).st_mode))
        finish(self, part_fd, *how)

    monkeypatch.setattr(restoring._Place, "_finish", watch)
    (tmp_path / "w").mkdir()
    put_back(tmp_path / "w", [Step("a", None, file("old", 0o666)), Step("d", None, FOLDER)])
    assert modes == [0o600, 0o700]


def test_durable_before_and_after_the_rename(tmp_path, monkeypatch):
    """The content is on the disk before it takes the file's place, and the folder is when the call returns."""
    make(tmp_path / "w", {"d": FOLDER, "d/a": file("new"), "d/b": file("new")}, BLOBS)
    events = []

    def watch(name):
        real = getattr(os, name)

        def call(what, *args, **kwargs):
            if name == "fsync":
                events.append((name, os.readlink(f"/proc/self/fd/{what}").rpartition("/")[2]))
            else:
                events.append((name, what.decode()))
            return real(what, *args, **kwargs)

        monkeypatch.setattr(restoring.os, name, call)

    for name in ("fsync", "rename", "unlink"):
        watch(name)
    put_back(tmp_path / "w", [Step("d/a", file("new"), file("old")), Step("d/b", file("new"), None)])
    part = part_of("d/a")
    assert events == [("unlink", "b"), ("fsync", part), ("rename", part), ("fsync", "d")]


# ---------------------------------------------------------------- what fails


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("call", ["open", "write", "mkdir", "symlink", "fsync", "rename"])
def test_no_room_is_said_and_gone_on_from(tmp_path, monkeypatch, call, code):
    """A full disk raises WorkspaceFull with the path, leaves no part, and the same call goes on when there is room."""
    make(tmp_path / "w", NOW, BLOBS)
    real = getattr(os, call)

    def full(*args, **kwargs):
        if call == "open" and not args[1] & os.O_CREAT:
            return real(*args, **kwargs)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(restoring.os, call, full)
    with pytest.raises(WorkspaceFull) as caught:
        put_back(tmp_path / "w", steps_of(NOW, THEN))
    assert caught.value.folder == str(tmp_path / "w")
    assert caught.value.path in CHANGES or caught.value.path == ""
    monkeypatch.undo()
    left = read(tmp_path / "w")
    parts = [path for path in left if ".perdure-part-" in path]
    assert parts == ([part_of("folder_to_link")] if call == "rename" else [])  # there nothing else is left of it
    assert left["shut"] == SHUT
    assert put_back(tmp_path / "w", steps_of(NOW, THEN))[1] == ()
    assert read(tmp_path / "w") == THEN


def as_nobody(deed):
    """Do something in a child without rights; returns what it wrote, or fails with what it raised."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            os.write(into, repr(deed()).encode())
        except BaseException as error:  # noqa: BLE001 - told to the parent
            os.write(into, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(into)
    with open(out, "rb") as answer:
        text = answer.read().decode()
    os.waitpid(child, 0)
    return text


@pytest.fixture
def common():
    """A folder that belongs to who runs without rights, where he can reach it."""
    with tempfile.TemporaryDirectory() as above:
        os.chmod(above, 0o755)
        folder = Path(above) / "w"
        folder.mkdir()
        if os.getuid() == 0:
            os.chown(folder, 65534, 65534)
        yield folder


def test_without_rights_the_path_is_named(common):
    """A folder of another owner, shut: WorkspaceRefused names the path, and the reason of the system."""
    if os.getuid() != 0:
        pytest.skip("only root can make somebody else's folder")
    make(common, {"d": FOLDER, "d/a": file("new")}, BLOBS)
    text = as_nobody(lambda: put_back(common, [Step("d/a", file("new"), file("old"))]))
    assert text.startswith("WorkspaceRefused: 'd/a' in ")
    assert "Permission denied" in text
    assert read(common)["d/a"] == file("new")


def test_shut_folders_are_opened_by_their_owner(common):
    """Who has no rights but an owner's puts files back into folders that he may not write, read or enter."""
    now, then = ({**NOW, **extra} for extra in ({"none": NONE, "none/a": file("new")}, {}))
    then = {**THEN, "none": NONE, "none/a": file("old")}

    def deed():
        make(common, now, BLOBS)
        found = put_back(common, [*steps_of(now, then), Step("none", NONE, NONE)])
        return found[1], stat.S_IMODE(os.lstat(common / "none").st_mode) == 0

    assert as_nobody(deed) == "((), True)"
    assert read(common) == then


def test_who_shut_a_folder_since_is_asked_to_open_it(common):
    """A folder that somebody else has closed to all keeps its mode: WorkspaceRefused names what is in it."""

    def deed():
        make(common, {"d": NONE}, BLOBS)
        with pytest.raises(WorkspaceRefused) as caught:
            put_back(common, [Step("d", FOLDER, FOLDER), Step("d/a", None, file("old"))])
        return caught.value.path, stat.S_IMODE(os.lstat(common / "d").st_mode)

    assert as_nobody(deed) == "('d/a', 0)"


def test_a_failing_disk_is_named(tmp_path, monkeypatch):
    """What the system says otherwise is raised as WorkspaceRefused, with its words."""
    make(tmp_path / "w", NOW, BLOBS)

    def broken(*_args, **_kwargs):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(restoring.os, "fsync", broken)
    with pytest.raises(WorkspaceRefused, match=os.strerror(errno.EIO)):
        put_back(tmp_path / "w", steps_of(NOW, THEN))


# ---------------------------------------------------------------- kills


class Killed(BaseException):
    """The process is gone."""


CALLS = ["open", "close", "write", "read", "fsync", "fchmod", "chmod", "rename", "unlink", "rmdir", "mkdir", "symlink"]
CALLS += ["stat", "fstat", "readlink", "dup"]


def dying(monkeypatch, count, kill):
    """From the `count`-th system call on, `kill` instead of it."""
    left = [count]

    def counted(real):
        def call(*args, **kwargs):
            left[0] -= 1
            if left[0] < 0 and real is not os_close:  # a dead process' descriptors are closed
                kill()
            return real(*args, **kwargs)

        return call

    os_close = os.close
    for name in CALLS:
        monkeypatch.setattr(restoring.os, name, counted(getattr(os, name)))


def raise_killed():
    """Be killed."""
    raise Killed


def kill_once(folder, count):
    """Put back until the `count`-th system call; returns whether it came to its end before."""
    with pytest.MonkeyPatch.context() as patched:
        dying(patched, count, raise_killed)
        try:
            put_back(folder, steps_of(NOW, THEN))
        except Killed:
            return False
    return True


def all_counts(tmp_path):
    """Every number of system calls after which one run over the tree can be killed."""
    make(tmp_path / "probe", NOW, BLOBS)
    low, high = 0, 1 << 16
    while high - low > 1:  # the first count at which nothing is killed any more
        middle = (low + high) // 2
        fresh = make(tmp_path / f"probe{middle}", NOW, BLOBS)
        low, high = (low, middle) if kill_once(fresh, middle) else (middle, high)
    assert high > 300
    return range(high)


@pytest.mark.parametrize("seed", range(4))
def test_killed_anywhere_and_run_again(tmp_path, seed):
    """Killed before any system call, and the second run too, the third comes to the same end; no part is left."""
    counts = all_counts(tmp_path)
    chance = random.Random(seed)
    for count in counts[seed::4]:
        folder = make(tmp_path / f"w{count}", NOW, BLOBS)
        assert not kill_once(folder, count)
        kill_once(folder, chance.randrange(counts.stop))
        assert put_back(folder, steps_of(NOW, THEN))[1] == (), count
        assert read(folder) == THEN, count


@pytest.mark.parametrize("seed", range(12))
def test_killed_for_real(tmp_path, seed):
    """The same with SIGKILL in a process of its own."""
    folder = make(tmp_path / "w", NOW, BLOBS)
    chance = random.Random(seed)
    for _ in range(3):
        child = os.fork()
        if child == 0:
            with pytest.MonkeyPatch.context() as patched:
                dying(patched, chance.randrange(500), lambda: os.kill(os.getpid(), signal.SIGKILL))
                put_back(folder, steps_of(NOW, THEN))
            os._exit(0)
        chance.random()
        os.waitpid(child, 0)
    assert put_back(folder, steps_of(NOW, THEN))[1] == ()
    assert read(folder) == THEN


# ---------------------------------------------------------------- any trees

NAMES = st.sampled_from([f"{top}{rest}" for top in "ab" for rest in ("", "/c", "/d", "/c/e")])
NODES = st.one_of(
    st.sampled_from([FOLDER, FOLDER, SHUT, link("a"), link("..")]), st.sampled_from(["old", "new", "other"]).map(file)
)
TREES = st.dictionaries(NAMES, NODES)


def whole(nodes):
    """The tree with only what has folders above it, these added where nothing is said of them."""
    tree = {}
    for path, node in sorted(nodes.items()):
        above = path.rpartition("/")[0]
        if above and above not in tree and "/" not in above:
            tree[above] = FOLDER
        if not above or (above in tree and tree[above].kind == "folder"):
            tree[path] = node
    return tree


@settings(max_examples=200, deadline=None)
@given(TREES.map(whole), TREES.map(whole), st.dictionaries(NAMES, st.none(), max_size=1))
def test_any_tree_becomes_any_other(tmp_path_factory, now, then, theirs):
    """Whatever stands and whatever is to stand: it stands afterwards, but for what is in the way of a planted file."""
    folder = make(tmp_path_factory.mktemp("w") / "w", now, BLOBS)
    planted = next((path for path in theirs if now.get(path, link("")).kind == "file"), None)
    if planted:
        (folder / planted).write_text("theirs")
    done, kept = put_back(folder, steps_of(now, then))
    after = read(folder)
    if planted and now.get(planted) != then.get(planted):
        assert after[planted] == file("theirs")
        assert planted in kept
        assert all(planted.startswith(f"{path}/") or path.startswith(planted) for path in kept)
    elif not planted:
        assert (after, kept) == (then, ())
    assert set(done) | set(kept) == {step.path for step in steps_of(now, then) if step.expected != step.target}
