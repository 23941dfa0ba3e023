"""Reading: a document's text, or a short reason why not, without ever opening what must not be opened."""

import os
import socket
import tempfile
from pathlib import Path

import pytest

from perdure.agent.offline import reading
from perdure.agent.offline.listing import name_of
from perdure.agent.offline.reading import UnreadableDocument, read_text
from tests.unit.agent.offline.driving import write_files

NOBODY = 65_534


def reason(folder, name):
    """The reason why `name` is not read."""
    with pytest.raises(UnreadableDocument) as caught:
        read_text(str(folder), name)
    return str(caught.value)


def test_line_ends_are_made_one(tmp_path):
    """All line ends become a line feed, so that a line number means the same everywhere."""
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\rthree\n")
    assert {"text": "one\ntwo\nthree\n", "encoding": "utf-8"} == read_text(str(tmp_path), "a.txt")


def test_a_file_of_any_name_is_read(tmp_path):
    """The escaped name leads to the file, even one whose name is no UTF-8."""
    path = os.fsdecode(b"odd\n|`\xff.txt")
    (tmp_path / path).write_text("here")
    assert "here" == read_text(str(tmp_path), name_of(path))["text"]


def test_a_huge_file_is_refused_unopened(tmp_path, monkeypatch):
    """A sparse file of 50 MB is refused by its size, before it is opened."""
    with open(tmp_path / "huge.txt", "wb") as file:
        file.truncate(50_000_000)
    monkeypatch.setattr(reading, "open", None, raising=False)
    assert "larger than 8 MiB" == reason(tmp_path, "huge.txt")


def test_a_file_that_grows_after_it_was_looked_at_is_refused(tmp_path, monkeypatch):
    """The maximum holds for what is read too, not only for what was promised."""
    write_files(tmp_path, {"a.txt": "12345"})
    monkeypatch.setattr(reading, "_check_openable", lambda folder, path: None)
    monkeypatch.setattr(reading, "DOCUMENT_BYTES_MAX", 4)
    assert "larger than" in reason(tmp_path, "a.txt")


def test_links_are_followed_only_inside_the_folder(tmp_path):
    """A link to a document of the folder is read; one that leads out of it, to a folder, or nowhere is not."""
    folder = write_files(tmp_path / "docs", {"a/b.txt": "inside"})
    write_files(tmp_path, {"secret.txt": "outside"})
    targets = {"in.txt": "a/b.txt", "out.txt": "../secret.txt", "gone.txt": "nowhere", "self.txt": "self.txt", "c": "a"}
    for name, target in targets.items():
        (folder / name).symlink_to(target)
    (folder / "a" / "up").symlink_to("..")
    assert "inside" == read_text(str(folder), "in.txt")["text"]
    assert "a link that leads out of the folder" == reason(folder, "out.txt")
    assert "a broken link" == reason(folder, "gone.txt")
    assert "a link that leads to itself" == reason(folder, "self.txt")
    assert "a link to a folder" == reason(folder, "c")
    assert "a link back to a folder that holds it" == reason(folder, "a/up")


def test_a_name_that_climbs_out_is_refused(tmp_path):
    """A name made by hand leads no further than a listed one."""
    write_files(tmp_path, {"docs/a.txt": "x", "secret.txt": "x"})
    assert "a link that leads out of the folder" == reason(tmp_path / "docs", "../secret.txt")


def test_pipes_sockets_and_devices_are_never_opened(tmp_path):
    """Opening a pipe would wait for ever; it is refused by what it is."""
    os.mkfifo(tmp_path / "pipe")
    before = os.getcwd()
    with socket.socket(socket.AF_UNIX) as server:
        os.chdir(tmp_path)
        server.bind("socket")
        os.chdir(before)
    assert "not a file but a pipe" == reason(tmp_path, "pipe")
    assert "not a file but a socket" == reason(tmp_path, "socket")
    assert "not a file but a device" == reason("/dev", "null")


def test_what_is_gone_or_forbidden_says_so():
    """A file that vanished, one without permission, and a folder without permission each have their reason."""
    with tempfile.TemporaryDirectory() as made:  # Not tmp_path, which no other user may enter.
        folder = write_files(Path(made), {"a.txt": "x", "shut/b.txt": "x"})
        folder.chmod(0o755)
        (folder / "a.txt").chmod(0)
        (folder / "shut").chmod(0)
        is_root = os.geteuid() == 0
        if is_root:
            os.seteuid(NOBODY)
        try:
            reasons = [reason(folder, name) for name in ("gone.txt", "a.txt", "shut", "shut/b.txt")]
        finally:
            if is_root:
                os.seteuid(0)
            (folder / "shut").chmod(0o755)
    assert ["gone since it was listed", "permission denied", "permission denied", "permission denied"] == reasons


def test_what_is_no_text_says_so(tmp_path):
    """Binary content is a reason, not a crash."""
    (tmp_path / "a.txt").write_bytes(b"\0\1\2\0\0" * 100)
    assert "not text (NUL bytes)" == reason(tmp_path, "a.txt")
