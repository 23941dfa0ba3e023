"""Listing: which entries of a folder are documents, and their names."""

import os
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.offline import listing
from perdure.agent.offline.listing import find_documents, name_of, path_of
from tests.unit.agent.offline.driving import write_files


def test_documents_are_listed_by_kind(tmp_path):
    """Texts, Markdown, reStructuredText, HTML, Python and files without a suffix are documents, whatever their case."""
    names = ["LICENSE", "a.txt", "b.MD", "c.rst", "d.html", "e.htm", "f.py", "deep/er/g.txt"]
    write_files(tmp_path, dict.fromkeys([*names, "h.png", "i.png", "j.tar.gz"], "x"))
    found = find_documents(str(tmp_path))
    assert sorted(names) == found["names"]
    assert [(".gz", 1), (".png", 2)] == found["left_aside"]


def test_hidden_entries_and_stores_of_tools_are_left_aside(tmp_path):
    """What a person does not see in a folder is not digested, but counted."""
    write_files(
        tmp_path, dict.fromkeys([".env", ".git/config", "__pycache__/a.txt", "node_modules/b.md", "c.txt"], "x")
    )
    found = find_documents(str(tmp_path))
    assert ["c.txt"] == found["names"]
    expected = [("folder __pycache__", 1), ("folder node_modules", 1), ("hidden file", 1), ("hidden folder", 1)]
    assert expected == found["left_aside"]


def test_the_agents_own_workspace_is_no_document(tmp_path):
    """An earlier digest is not digested again: neither beside the documents nor in a workspace among them."""
    write_files(tmp_path, {"a.txt": "x", "digest.md": "x", "out/digest.md": "x", "out/more.txt": "x"})
    assert ["a.txt", "digest.md"] == find_documents(str(tmp_path), str(tmp_path / "out" / "digest.md"))["names"]
    beside = find_documents(str(tmp_path), str(tmp_path / "digest.md"))["names"]
    assert ["a.txt", "out/digest.md", "out/more.txt"] == beside


def test_the_folder_is_recorded_absolute(tmp_path, monkeypatch):
    """A relative folder is made absolute once, so that a resume from elsewhere reads the same files."""
    write_files(tmp_path, {"docs/a.txt": "x"})
    monkeypatch.chdir(tmp_path)
    assert str(tmp_path / "docs") == find_documents("docs")["folder"]


def test_what_cannot_be_opened_is_listed_and_never_followed(tmp_path):
    """Links to folders, broken links, pipes and sockets are listed for the reader to refuse; a loop ends."""
    write_files(tmp_path, {"a/b.txt": "x"})
    (tmp_path / "a" / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "broken.txt").symlink_to("nowhere.txt")
    (tmp_path / "self").symlink_to("self")
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        monitor = os.getcwd()
        os.chdir(tmp_path)  # A socket's path is short by law.
        server.bind("socket")
        os.chdir(monitor)
        assert ["a/b.txt", "a/loop", "broken.txt", "pipe", "self", "socket"] == find_documents(str(tmp_path))["names"]


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    """A wrong folder is the failure of the whole, not an empty digest."""
    with pytest.raises(FileNotFoundError):
        find_documents(str(tmp_path / "nowhere"))
    with pytest.raises(NotADirectoryError):
        find_documents(str(write_files(tmp_path, {"a.txt": "x"}) / "a.txt"))


def test_the_rest_of_too_many_documents_is_counted(tmp_path, monkeypatch):
    """Beyond the maximum documents are left aside, and it is said how many."""
    monkeypatch.setattr(listing, "DOCUMENTS_MAX", 2)
    write_files(tmp_path, dict.fromkeys(["a.txt", "b.txt", "c.txt", "d.txt"], "x"))
    found = find_documents(str(tmp_path))
    assert ["a.txt", "b.txt"] == found["names"]
    assert [("documents beyond the first 2", 2)] == found["left_aside"]


def test_the_walk_ends_at_its_maximum(tmp_path, monkeypatch):
    """However many entries a folder has, so many are looked at."""
    monkeypatch.setattr(listing, "ENTRIES_MAX", 3)
    write_files(tmp_path, {f"{number}.txt": "x" for number in range(5)})
    found = find_documents(str(tmp_path))
    assert 3 == len(found["names"])
    assert [("more than 3 entries, not looked at", 1)] == found["left_aside"]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("plain name.txt", "plain name.txt"),
        ("Grüße/日本.md", "Grüße/日本.md"),
        ("two\nlines|`.txt", "two\\x0alines\\x7c\\x60.txt"),
        ("back\\slash", "back\\\\slash"),
        (os.fsdecode(b"latin-\xe9.txt"), "latin-\\xe9.txt"),
        ("right\u202eleft", "right\\xe2\\x80\\xaeleft"),
    ],
)
def test_names_are_printable(path, name):
    """Whatever would break a line, a table or a code span is escaped; all else stays as it is."""
    assert name == name_of(path)
    assert path == path_of(name)


@given(st.binary(max_size=40))
def test_each_name_leads_back_to_its_path(raw):
    """Any bytes that a file system may hold give a printable UTF-8 name, and the name gives the bytes."""
    path = raw.decode("utf-8", "surrogateescape")
    name = name_of(path)
    assert name.isprintable()
    assert not set(name) & set("`|")
    assert path == path_of(name)
    assert name == name.encode("utf-8").decode("utf-8")
