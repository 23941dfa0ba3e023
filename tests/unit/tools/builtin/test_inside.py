"""Nothing that an agent names leads a file tool out of the workspace, whatever is swapped meanwhile."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import pytest

from perdure.errors import FileRefused, OutsideWorkspace, PerdureError
from perdure.tools.builtin import files, inside, searching

FREE = {"restrict_to_workspace": False}

READS = {
    "read_file": lambda ws, path, settings: files.read_file(ws, settings, path),
    "list_folder": lambda ws, path, settings: files.list_folder(ws, settings, path),
    "get_file_info": lambda ws, path, settings: files.get_file_info(ws, settings, path),
    "search_in_files": lambda ws, path, settings: files.search_in_files(ws, settings, "secret", directory=path),
    "copy_file from": lambda ws, path, settings: files.copy_file(ws, settings, path, "copied"),
}
WRITES = {
    "write_to_file": lambda ws, path, _: files.write_to_file(ws, path, "planted"),
    "append_to_file": lambda ws, path, _: files.append_to_file(ws, path, "planted"),
    "delete_file": lambda ws, path, _: files.delete_file(ws, path),
    "move_file from": lambda ws, path, _: files.move_file(ws, path, "moved"),
    "move_file to": lambda ws, path, _: files.move_file(ws, "mine.txt", path),
    "copy_file to": lambda ws, path, settings: files.copy_file(ws, settings, "mine.txt", path),
}

OUT = {
    "above": "../out/secret.txt",
    "above, from within": "folder/../../out/secret.txt",
    "absolute": "{out}/secret.txt",
    "beside, with the same beginning": "{ws}-other/secret.txt",
    "a link to a file": "link.txt",
    "a link to a folder": "linked/secret.txt",
    "a link to above": "up/out/secret.txt",
    "a chain of links": "chain/secret.txt",
    "above a link that stays inside": "within/../../../out/secret.txt",
    "the root of the process": "/proc/self/root{out}/secret.txt",
    "a link to the root of the process": "proc{out}/secret.txt",
    "the folder of the process": "/proc/self/cwd/secret.txt",
    "a link to an open folder": "fd/secret.txt",
}


@pytest.fixture
def place(tmp_path):
    """A workspace with every kind of way out, and a folder outside with a secret."""
    out, ws = tmp_path / "out", tmp_path / "ws"
    for folder in (out, ws / "folder/deep", tmp_path / "ws-other"):
        folder.mkdir(parents=True)
    for folder in (out, tmp_path / "ws-other"):
        (folder / "secret.txt").write_text("secret")
    (ws / "mine.txt").write_text("mine")
    (ws / "link.txt").symlink_to(out / "secret.txt")
    (ws / "linked").symlink_to(out)
    (ws / "up").symlink_to("..")
    (ws / "chain").symlink_to("folder/next")
    (ws / "folder/next").symlink_to("../linked")
    (ws / "within").symlink_to("folder/deep")
    (ws / "proc").symlink_to("/proc/self/root")
    fd = os.open(out, os.O_RDONLY)
    (ws / "fd").symlink_to(f"/proc/self/fd/{fd}")
    yield tmp_path
    os.close(fd)


def outside(place):
    """All that stands outside of the workspace."""
    return {
        str(path.relative_to(place)): path.read_text()
        for folder in ("out", "ws-other")
        for path in sorted((place / folder).rglob("*"))
    }


UNTOUCHED = {"out/secret.txt": "secret", "ws-other/secret.txt": "secret"}


def named(place, path):
    """The path as an agent gives it."""
    return path.format(out=place / "out", ws=place / "ws")


@pytest.mark.parametrize("path", OUT.values(), ids=OUT.keys())
@pytest.mark.parametrize("tool", READS)
def test_no_read_leads_out(place, tool, path):
    """Every reader refuses every way out, by name, and says what to do; nothing of the secret is told."""
    with pytest.raises(OutsideWorkspace, match="leads out of the workspace") as refused:
        READS[tool](str(place / "ws"), named(place, path), {})
    assert "give a path inside" in str(refused.value)
    assert not (place / "ws/copied").exists()


@pytest.mark.parametrize("settings", [{}, FREE], ids=["restricted", "free to read"])
@pytest.mark.parametrize("path", OUT.values(), ids=OUT.keys())
@pytest.mark.parametrize("tool", WRITES)
def test_no_write_leads_out(place, tool, path, settings):
    """Every writer refuses every way out, also where reads may leave: nothing outside is made, changed or taken away.

    A link that stands at the path itself is the one thing that may be moved or deleted.
    """
    if path == "link.txt" and tool in {"delete_file", "move_file from"}:
        WRITES[tool](str(place / "ws"), path, settings)
        assert not (place / "ws/link.txt").is_symlink()
    else:
        with pytest.raises((OutsideWorkspace, FileRefused)):
            WRITES[tool](str(place / "ws"), named(place, path), settings)
    assert outside(place) == UNTOUCHED


@pytest.mark.parametrize(
    "path", [path for path in OUT.values() if path != "/proc/self/cwd/secret.txt"], ids=lambda path: path
)
def test_reads_lead_out_where_the_settings_say_so(place, path):
    """With `restrict_to_workspace` off the same paths are read, as the system finds them."""
    assert "secret" == files.read_file(str(place / "ws"), FREE, named(place, path))


def test_tools_that_read_folders_lead_out_where_the_settings_say_so(place):
    """Paths outside are told whole, so that other tools can take them."""
    ws, out = str(place / "ws"), str(place / "out")
    assert [f"{out}/secret.txt"] == files.list_folder(ws, FREE, "../out")
    assert f"{out}/secret.txt:1: secret" in files.search_in_files(ws, FREE, "secret", directory="linked")
    assert f"{out}/secret.txt" == files.get_file_info(ws, FREE, "link.txt")["path"]
    files.copy_file(ws, FREE, "../out", "got")
    assert "secret" == files.read_file(ws, {}, "got/secret.txt")
    with pytest.raises(FileRefused, match="does not exist"):
        files.read_file(ws, FREE, "/nowhere/at/all")


def test_links_that_stay_inside_are_read_and_not_written_through(place):
    """A reader follows them, also to above a folder, and by absolute targets; a writer is told the real path."""
    ws = place / "ws"
    (ws / "folder/deep/f").write_text("f")
    (ws / "whole").symlink_to(ws / "folder")
    for path in ("within/f", "whole/deep/f", "within/../deep/f", f"{ws}/within/f"):
        assert "f" == files.read_file(str(ws), {}, path)
    assert "folder/deep/f" == files.get_file_info(str(ws), {}, "within/f")["path"]
    with pytest.raises(FileRefused, match="'within' is a link to 'folder/deep': nothing is written through links"):
        files.write_to_file(str(ws), "within/f", "new")
    assert "f" == (ws / "folder/deep/f").read_text()


def test_a_workspace_that_is_reached_through_a_link_is_a_workspace(place):
    """Absolute paths may name it by either name; links inside may lead to either."""
    (place / "alias").symlink_to("ws")
    alias = str(place / "alias")
    assert "mine" == files.read_file(alias, {}, f"{place}/alias/mine.txt")
    assert "mine" == files.read_file(alias, {}, f"{place}/ws/mine.txt")
    files.write_to_file(alias, f"{place}/ws/new.txt", "new")
    assert "new" == (place / "ws/new.txt").read_text()


def test_a_link_that_leads_nowhere_is_told_as_one(place):
    """The model learns why the name that it sees listed cannot be read."""
    (place / "ws/dangling").symlink_to("gone")
    with pytest.raises(FileRefused, match="a link to 'gone', and nothing is there"):
        files.read_file(str(place / "ws"), {}, "dangling")


def test_links_in_a_circle_end(place):
    """The reader says that a link stands in the way, as the system would."""
    ws = place / "ws"
    (ws / "one").symlink_to("two")
    (ws / "two").symlink_to("one")
    for settings in ({}, FREE):
        with pytest.raises(FileRefused, match="cannot be reached: a link stands in its way"):
            files.read_file(str(ws), settings, "one")


@pytest.mark.parametrize("path", [".git/config", ".git/hooks/post-commit", "folder/.GIT/config", ".git", "new/.git"])
@pytest.mark.parametrize("tool", ["write_to_file", "append_to_file", "copy_file to", "move_file to"])
def test_nothing_is_put_where_git_finds_programs(place, tool, path):
    """A hook or a setting would run with the next git, also that of the user, whatever programs are denied."""
    with pytest.raises(FileRefused, match="belongs to git"):
        WRITES[tool](str(place / "ws"), path, {})
    assert not any(".git" in found.name.casefold() for found in (place / "ws").rglob("*"))
    assert not (place / "ws/new").exists()


# ---------------------------------------------------------------- swapped during use


HERE = {  # what a search does in a process of its own, done in this one
    "search_in_files": lambda ws, path, _: (
        searching._search(
            searching.Search(
                workspace=ws, directory=path, pattern="^", file_pattern="*", max_results=9, is_restricted=True
            )
        ).lines
    ),
}


class Swapper:
    """Before the `nth` system call of a tool, puts a link to outside at the place of a folder, or a file."""

    CALLS = ("stat", "open", "readlink", "mkdir", "replace", "rename", "unlink", "rmdir", "listdir", "symlink")

    def __init__(self, victim: Path, target: Path, nth: int) -> None:
        self.victim, self.target, self.nth = victim, target, nth
        self.count = 0
        self.is_at_work = False

    def wrap(self, real):
        """The same call, counted."""

        def call(*args, **more):
            if not self.is_at_work:
                self.is_at_work = True
                self.count += 1
                if self.count == self.nth:
                    self.swap()
                self.is_at_work = False
            return real(*args, **more)

        return call

    def swap(self):
        """What stood there goes away, and a link to outside comes."""
        if self.victim.is_dir() and not self.victim.is_symlink():
            shutil.move(self.victim, f"{self.victim}.gone")
        else:
            self.victim.unlink(missing_ok=True)
        self.victim.symlink_to(self.target)


@pytest.mark.parametrize("tool", [*READS, *WRITES])
@pytest.mark.parametrize("victim", ["folder", "folder/secret.txt"])
def test_a_link_that_is_put_there_during_use_leads_nowhere(tmp_path, monkeypatch, tool, victim):
    """For each system call of each tool: a folder on the way, or the file, becomes a link to outside just before.

    Nothing outside is changed, and nothing of it is read, listed or copied in.
    """
    nth, count = 0, 1
    while nth < count:
        nth += 1
        place = tmp_path / f"{nth}"
        ws, out = place / "ws", place / "out"
        for folder in (ws / "folder", out, place / "ws-other"):
            folder.mkdir(parents=True)
            (folder / "secret.txt").write_text("mine" if folder.parent == ws else "secret")
        (out / "only here.txt").write_text("secret")
        (ws / "mine.txt").write_text("mine")
        swapper = Swapper(ws / victim, out / "secret.txt" if victim.endswith(".txt") else out, nth)
        path = "folder" if tool in {"list_folder", "search_in_files"} else "folder/secret.txt"
        told = ""
        with monkeypatch.context() as patched:
            for name in Swapper.CALLS:
                patched.setattr(inside.os, name, swapper.wrap(getattr(os, name)))
            with contextlib.suppress(PerdureError):
                told = str({**READS, **WRITES, **HERE}[tool](str(ws), path, {}))
        count = max(count, swapper.count)
        assert {**UNTOUCHED, "out/only here.txt": "secret"} == outside(place)
        assert "only here" not in told
        assert told.strip("'[]").removeprefix("folder/secret.txt:1: ") != "secret"
        assert "secret" not in [(ws / name).read_text() for name in ("copied", "moved") if _is_file(ws / name)]
    assert count > 3


def _is_file(path):
    return path.is_file() and not path.is_symlink()
