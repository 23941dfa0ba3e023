"""The agent's file tools: what they do, what they tell a model, and that nothing of them leaves the workspace."""

from __future__ import annotations

import os
import socket
import stat
import threading
from pathlib import Path

import pytest

from perdure.errors import FileRefused
from perdure.limits import READ_FILE_BYTES_MAX
from perdure.tools.builtin import files, inside, putting, searching
from perdure.tools.builtin.files import (
    append_to_file,
    copy_file,
    delete_file,
    get_file_info,
    list_folder,
    move_file,
    read_file,
    search_in_files,
    write_to_file,
)

FREE = {"restrict_to_workspace": False}


@pytest.fixture
def ws(tmp_path):
    """A workspace; a secret lies beside it."""
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


def tree(folder):
    """All that stands below a folder, parts of ours too: path → content, link target or None for a folder."""
    found = {}
    for path in sorted(Path(folder).rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        else:
            found[name] = None if path.is_dir() else path.read_text("utf-8", "replace")
    return found


def read(ws, name, **more):
    """`read_file` of an agent that is restricted."""
    return read_file(str(ws), {}, name, **more)


# ---------------------------------------------------------------- writing


def test_a_file_is_written_with_its_folders_and_read_again(ws):
    """Text comes back as it was, odd line ends and letters too; missing folders are made."""
    text = "one\r\ntwo\u2028✓ é\n"
    assert "wrote 'a/b/c.txt': 18 bytes now, a new file" == write_to_file(str(ws), "a/b/c.txt", text)
    assert text.encode() == (ws / "a/b/c.txt").read_bytes()
    assert text == read(ws, "a/b/c.txt")
    assert "wrote 'a/b/c.txt': 3 bytes now" == write_to_file(str(ws), "a/b/c.txt", "new")
    assert "new" == read(ws, "./a//b/../b/c.txt")


def test_text_is_added_to_a_file_that_is_made_where_it_is_missing(ws):
    """The first call makes the file, the second adds."""
    assert "appended to 'log': 4 bytes now, a new file" == append_to_file(str(ws), "log", "one\n")
    assert "appended to 'log': 8 bytes now" == append_to_file(str(ws), "log", "two\n")
    assert "one\ntwo\n" == read(ws, "log")


def test_lines_added_by_calls_at_once_are_all_there(ws):
    """Two appends to one file do not lose each other's text."""
    threads = [threading.Thread(target=append_to_file, args=(str(ws), "log", f"{number}\n")) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {str(number) for number in range(20)} == set(read(ws, "log").split())
    assert ["log"] == os.listdir(ws)


def test_a_replaced_file_keeps_its_mode(ws):
    """A secret file does not become one that all may read, a program stays one (NousResearch/hermes-agent #70856)."""
    for mode in (0o600, 0o640, 0o755):
        (ws / "f").write_text("old")
        (ws / "f").chmod(mode)
        write_to_file(str(ws), "f", "new")
        assert mode == stat.S_IMODE((ws / "f").stat().st_mode)


def test_a_planted_link_at_the_name_of_a_part_is_removed_and_not_followed(ws):
    """Who knows where the next write is prepared cannot lead it elsewhere (NousResearch/hermes-agent #70856)."""
    outside = ws.parent / "secret.txt"
    with inside.enter(str(ws)) as opened, opened.place("f") as spot, putting._part(spot) as part:
        pass
    (ws / part).symlink_to(outside)
    write_to_file(str(ws), "f", "new")
    assert ("secret", {"f": "new"}) == (outside.read_text(), tree(ws))


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_is_cut_off_leaves_the_old_file_and_the_next_one_succeeds(ws, monkeypatch, step):
    """Whatever fails on the way, the old content stands whole, and nothing of the new one lies about."""
    write_to_file(str(ws), "f", "old")

    def fail(*_args, **_more):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(putting.os, step, fail)
        with pytest.raises(OSError, match="No space left"):
            write_to_file(str(ws), "f", "new")
    assert {"f": "old"} == tree(ws)
    write_to_file(str(ws), "f", "new")
    assert {"f": "new"} == tree(ws)


def test_a_kill_at_any_step_leaves_the_old_file_or_the_new_one(ws):
    """SIGKILL before each system call of a write: the file is whole, and the same call made again ends well."""
    points = ("open", "fsync", "replace")
    seen = set()
    for point in points:
        for nth in range(1, 6):
            write_to_file(str(ws), "f", "old" * 1000)
            pid = os.fork()
            if pid == 0:
                _die_before(point, nth)
                write_to_file(str(ws), "f", "new" * 2000)
                os._exit(0)
            os.waitpid(pid, 0)
            seen.add((ws / "f").read_text())
            write_to_file(str(ws), "f", "new" * 2000)
            assert {"f": "new" * 2000} == tree(ws)
    assert {"old" * 1000, "new" * 2000} == seen


def _die_before(point, nth):
    """Let this process be killed before its `nth` call of `os.<point>` in a write."""
    real, calls = getattr(os, point), []

    def counted(*args, **more):
        calls.append(point)
        if len(calls) == nth:
            os.kill(os.getpid(), 9)
        return real(*args, **more)

    setattr(os, point, counted)


@pytest.mark.parametrize("name", ["", ".", "a/.."])
def test_the_workspace_itself_is_no_file(ws, name):
    """It cannot be written, moved or deleted."""
    for call in (
        lambda: write_to_file(str(ws), name, "x"),
        lambda: delete_file(str(ws), name),
        lambda: move_file(str(ws), name, "b"),
    ):
        with pytest.raises(FileRefused, match="is the workspace itself"):
            call()
    assert {} == tree(ws)


def test_what_is_too_large_to_be_brought_back_is_not_written(ws, monkeypatch):
    """A file over the limit of a capture would be lost in a rollback: the old one stays."""
    monkeypatch.setattr(putting, "WORKSPACE_FILE_BYTES_MAX", 10)
    append_to_file(str(ws), "f", "0123456789")
    with pytest.raises(FileRefused, match="with 11 bytes it would be over 10"):
        append_to_file(str(ws), "f", "x")
    with pytest.raises(FileRefused, match="with 12 bytes it would be over 10"):
        write_to_file(str(ws), "f", "x" * 12)
    assert {"f": "0123456789"} == tree(ws)


def test_a_huge_file_is_replaced_and_refused_unread(ws, monkeypatch):
    """What is of no use is not read into memory, and what is too much is known by its size, before a copy of it."""

    def unread(*_):
        raise AssertionError("it was read")

    (ws / "d").mkdir()
    for name in ("huge", "d/huge"):
        (ws / name).touch()
        os.truncate(ws / name, 2 << 30)
    monkeypatch.setattr(putting, "_read", unread)
    monkeypatch.setattr(putting, "_copy_file", unread)
    with pytest.raises(FileRefused, match="with 2,147,483,649 bytes it would be over"):
        append_to_file(str(ws), "huge", "x")
    for source in ("huge", "d"):
        with pytest.raises(FileRefused, match="more than one copy may take"):
            copy_file(str(ws), {}, source, "copy")
    assert "wrote 'huge': 1 bytes now" == write_to_file(str(ws), "huge", "x")
    assert ["d", "huge"] == sorted(os.listdir(ws))


def test_half_of_a_surrogate_pair_is_not_written(ws):
    """The model is told which letter it is."""
    with pytest.raises(FileRefused, match="half of a surrogate pair at letter 2"):
        write_to_file(str(ws), "f", "a\ud83d")
    assert {} == tree(ws)


# ---------------------------------------------------------------- copy, move, delete


def test_files_are_copied_moved_and_deleted(ws):
    """Each says what it did, and whether something was replaced."""
    write_to_file(str(ws), "a.txt", "a")
    (ws / "a.txt").chmod(0o700)
    assert "copied 'a.txt' to 'n/b.txt'" == copy_file(str(ws), {}, "a.txt", "n/b.txt")
    assert 0o700 == stat.S_IMODE((ws / "n/b.txt").stat().st_mode)
    write_to_file(str(ws), "c.txt", "c")
    assert "moved 'c.txt' to 'n/b.txt', replacing the file that was there" == move_file(str(ws), "c.txt", "n/b.txt")
    assert "copied 'a.txt' to 'n/b.txt', replacing the file that was there" == copy_file(
        str(ws), {}, "a.txt", "n/b.txt"
    )
    assert "deleted the file 'n/b.txt'" == delete_file(str(ws), "n/b.txt")
    assert "deleted the folder 'n'" == delete_file(str(ws), "n")
    assert {"a.txt": "a"} == tree(ws)


def test_a_folder_is_copied_with_modes_and_links_and_nothing_is_left_aside(ws):
    """All that stands in it comes along, a repository's own folder and empty ones too; a pipe does not."""
    (ws / "a/.git/x").mkdir(parents=True)
    (ws / "a/shut").mkdir()
    (ws / "a/shut/f").write_text("f")
    (ws / "a/out").symlink_to("/etc/passwd")
    os.mkfifo(ws / "a/pipe")
    (ws / "a/shut").chmod(0o500)
    copy_file(str(ws), {}, "a", "b")
    assert {".git": None, ".git/x": None, "out": "-> /etc/passwd", "shut": None, "shut/f": "f"} == tree(ws / "b")
    assert 0o500 == stat.S_IMODE((ws / "b/shut").stat().st_mode)


@pytest.mark.parametrize("tool", [lambda ws, *paths: copy_file(ws, {}, *paths), move_file], ids=["copy", "move"])
@pytest.mark.parametrize(
    ("source", "destination", "said"),
    [
        ("d", "d/e/f", "to itself or into itself"),
        ("d", "d", "to itself or into itself|is a folder"),
        ("f", "f", "to itself or into itself"),
        ("d", "f", "a folder replaces nothing"),
        ("f", "d", "is a folder; name a file, in it or beside it"),
        ("nothing", "x/y", "'nothing' does not exist"),
        ("f", "f/x", "is no folder, nothing can stand in it"),
        ("f", "link", "is a link: nothing is written through it"),
    ],
)
def test_what_cannot_be_copied_or_moved_is_refused_and_nothing_is_changed(ws, tool, source, destination, said):
    """Both refuse the same things in the same words."""
    (ws / "d").mkdir()
    (ws / "d/in").write_text("in")
    (ws / "f").write_text("f")
    (ws / "link").symlink_to("f")
    before = tree(ws)
    with pytest.raises(FileRefused, match=said):
        tool(str(ws), source, destination)
    after = tree(ws)
    after.pop("d/e", None)  # a folder on the way is no harm
    assert before == after


def test_one_copy_takes_only_so_much(ws, monkeypatch):
    """A folder with too many files, or too large ones, is refused, and nothing of it lies about."""
    (ws / "d").mkdir()
    for number in range(3):
        (ws / f"d/{number}").write_text("0123456789")
    for limit, value in (("COPIED_MAX", 2), ("COPIED_BYTES_MAX", 25)):
        with monkeypatch.context() as patched:
            patched.setattr(putting, limit, value)
            with pytest.raises(FileRefused, match="more than one copy may take"):
                copy_file(str(ws), {}, "d", "e")
        assert ["d"] == sorted(os.listdir(ws))


def test_a_folder_that_is_not_empty_is_not_deleted(ws):
    """One call takes one thing away."""
    write_to_file(str(ws), "d/f", "f")
    with pytest.raises(FileRefused, match="'d' is a folder that is not empty"):
        delete_file(str(ws), "d")


def test_a_link_is_deleted_and_moved_itself(ws):
    """What it leads to stays where it is, wherever that is."""
    (ws / "link").symlink_to(ws.parent / "secret.txt")
    move_file(str(ws), "link", "other")
    delete_file(str(ws), "other")
    assert ({}, "secret") == (tree(ws), (ws.parent / "secret.txt").read_text())


# ---------------------------------------------------------------- reading


def test_some_lines_of_a_file_are_read(ws):
    """Counted from 1; only LF ends a line, as in the numbers that a search tells."""
    write_to_file(str(ws), "f", "one\ntwo\u2028still two\r\nthree\nfour")
    assert "two\u2028still two\r\n" == read(ws, "f", first_line=2, lines=1)
    assert "three\nfour" == read(ws, "f", first_line=3)
    assert "one\n" == read(ws, "f", lines=1)
    assert "" == read(ws, "f", first_line=4, lines=5).removeprefix("four")
    with pytest.raises(FileRefused, match="'f' has only 4 lines"):
        read(ws, "f", first_line=5)


def test_a_large_file_is_read_in_parts(ws):
    """The whole is refused with what to do instead; some lines of it are read."""
    line = "x" * 99 + "\n"
    (ws / "f").write_text(line * (READ_FILE_BYTES_MAX // 100 + 10))
    with pytest.raises(FileRefused, match="give first_line and lines, or look for what you need"):
        read(ws, "f")
    assert line * 2 == read(ws, "f", first_line=80_000, lines=2)
    with pytest.raises(FileRefused, match="ask for fewer"):
        read(ws, "f", first_line=2)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("ümläut".encode("utf-8-sig"), "ümläut"),
        ("ümläut".encode("utf-16"), "ümläut"),
        ("Füße über Straßen, schöne Grüße an die Bäume.\n".encode("latin-1") * 5, "Füße über"),
        (b"", ""),
    ],
)
def test_text_in_other_encodings_is_read(ws, content, text):
    """By its mark, or by the best guess."""
    (ws / "f").write_bytes(content)
    assert read(ws, "f").startswith(text)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x89PNG\r\n\x1a\n\x00\x00", r"is no text \(10 bytes; it looks like a PNG image\)"),
        (b"a\x00b", r"is no text \(3 bytes\)"),
        (b"%PDF-1.7\n\xff\xfe\xe2\x80", "it looks like a PDF"),
    ],
)
def test_what_is_no_text_is_refused_by_what_it_is(ws, content, said):
    """No noise reaches the model."""
    (ws / "f").write_bytes(content)
    with pytest.raises(FileRefused, match=said):
        read(ws, "f")


def test_what_is_no_file_is_refused_by_what_it_is(ws):
    """A folder, a pipe without a writer, a socket, a device: none of them is waited for."""
    (ws / "d").mkdir()
    os.mkfifo(ws / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(ws / "s"))
        with pytest.raises(FileRefused, match="is a folder; list_folder shows what is in it"):
            read(ws, "d")
        for name in ("pipe", "s"):
            with pytest.raises(FileRefused, match="is no file that can be read"):
                read(ws, name)
            with pytest.raises(FileRefused, match=r"is no file \(a pipe, socket or device\)"):
                write_to_file(str(ws), name, "x")
    with pytest.raises(FileRefused, match="is no file that can be read"):
        read_file(str(ws), FREE, "/dev/null")


def test_a_missing_file_is_told_with_those_that_are_called_like_it(ws):
    """A model that has mistaken a name finds the right one."""
    write_to_file(str(ws), "d/notes.txt", "n")
    with pytest.raises(FileRefused, match=r"^'d/note.txt' does not exist; near it: 'notes.txt'$"):
        read(ws, "d/note.txt")
    with pytest.raises(FileRefused, match=r"^'e/note.txt' does not exist$"):
        read(ws, "e/note.txt")
    with pytest.raises(FileRefused, match="a name on the way to it is no folder"):
        read(ws, "d/notes.txt/x")


def test_paths_that_no_file_can_have_are_told(ws):
    """A NUL, half of a surrogate pair, a name that is too long."""
    for name, said in (("a\0b", "letters that no path"), ("\ud83d", "letters that no path"), ("x" * 300, "too long")):
        with pytest.raises(FileRefused, match=said):
            read(ws, name)
        with pytest.raises(FileRefused, match=said):
            write_to_file(str(ws), name, "x")


def test_a_name_that_is_no_utf8_is_listed_and_read_by_its_escapes(ws):
    """What is listed can be stored, sent to a model, and given back by it."""
    with open(os.fsencode(ws) + b"/caf\xe9.txt", "w", encoding="utf-8") as file:
        file.write("au lait")
    assert ["caf\\xe9.txt"] == list_folder(str(ws), {})
    assert "au lait" == read(ws, "caf\\xe9.txt")
    assert "caf\\xe9.txt" == get_file_info(str(ws), {}, "caf\\xe9.txt")["path"]
    assert "caf\\xe9.txt:1: au lait" == search_in_files(str(ws), {}, "lait").splitlines()[1]


def test_a_path_is_looked_at(ws):
    """Kind, size, mode, time; of a folder too."""
    write_to_file(str(ws), "a/f.md", "1234")
    (ws / "a/f.md").chmod(0o640)
    os.utime(ws / "a/f.md", (1_700_000_000, 1_700_000_000))
    assert {
        "path": "a/f.md",
        "kind": "file",
        "size_bytes": 4,
        "modified": "2023-11-14T22:13:20+00:00",
        "mode": "-rw-r-----",
        "extension": ".md",
    } == get_file_info(str(ws), {}, "a/f.md")
    assert "folder" == get_file_info(str(ws), {}, "a")["kind"]
    assert ("folder", ".") == tuple(get_file_info(str(ws), {}, ".")[key] for key in ("kind", "path"))


# ---------------------------------------------------------------- list and search


def test_a_folder_is_listed_with_paths_that_other_tools_take(ws):
    """Below the folder, relative to the workspace; folders only where nothing is in them; ours never."""
    for name in ("a/x", "a/b/y", "z", "node_modules/m/i"):
        write_to_file(str(ws), name, "")
    (ws / ".git").mkdir()
    (ws / ".git/config").write_text("")
    (ws / "empty").mkdir()
    (ws / "link").symlink_to("a")
    (ws / ".perdure-part-x").write_text("")
    listed = [".git/ (left aside)", "a/b/y", "a/x", "empty/", "link (a link)", "node_modules/ (left aside)", "z"]
    assert listed == list_folder(str(ws), {})
    assert ["a/b/y", "a/x"] == list_folder(str(ws), {}, "a")
    assert ["a/b/y", "a/x"] == list_folder(str(ws), {}, "link")
    assert [".git/config"] == list_folder(str(ws), {}, ".git")
    with pytest.raises(FileRefused, match="'z' is no folder; read_file reads it"):
        list_folder(str(ws), {}, "z")


def test_a_workspace_without_files_is_empty(ws):
    """Nothing has to be there before the first look."""
    assert [] == list_folder(str(ws / "not yet"), {})


def test_a_long_list_is_cut_with_the_upper_levels_first(ws, monkeypatch):
    """The last line says that there is more, and what to do."""
    monkeypatch.setattr(files, "LISTED_MAX", 4)
    for name in ("a", "b/c/d", "e"):
        write_to_file(str(ws), name, "")
    assert ["a", "b/c/d", "e"] == list_folder(str(ws), {})
    for name in ("b/f", "b/g", "b/c/h"):
        write_to_file(str(ws), name, "")
    cut = ["a", "b/c/", "b/f", "e", "… and more than these 4: name a folder below this one"]
    assert cut == list_folder(str(ws), {})


def test_lines_that_fit_are_found_with_their_places(ws):
    """Number and text of each, in the order of files; what is no text is told as passed over."""
    write_to_file(str(ws), "a.py", "import os\n  x = os.sep  \n")
    write_to_file(str(ws), "b/c.txt", "os\r\n" + "y" * 1000 + "os")
    (ws / "bin").write_bytes(b"os\x00")
    (ws / "old").write_bytes("os über".encode("latin-1"))
    found = search_in_files(str(ws), {}, r"\bos\b|yos$")
    assert [
        r"5 lines fit '\\bos\\b|yos$' in 3 files; 1 that are no text or too large were passed over:",
        "a.py:1: import os",
        "a.py:2: x = os.sep",
        "old:1: os über",
        "b/c.txt:1: os",
        "b/c.txt:2: " + "y" * 300 + "…",
    ] == found.splitlines()
    assert "a.py:1: import os" == search_in_files(str(ws), {}, "import", file_pattern="*.py").splitlines()[1]
    assert "b/c.txt:1: os" == search_in_files(str(ws), {}, "^os$", directory="b/c.txt").splitlines()[1]
    assert search_in_files(str(ws), {}, "os", max_results=2).startswith("2 lines fit 'os' in 2 files (there are more);")
    assert "nothing fits 'nowhere' in 1 files" == search_in_files(str(ws), {}, "nowhere", file_pattern="b/*")


def test_a_pattern_that_never_ends_is_stopped(ws, monkeypatch):
    """Another process is killed; this one, with its event loop and its leases, was never held up."""
    monkeypatch.setattr(searching, "FILE_SEARCH_S", 1.0)
    write_to_file(str(ws), "f", "a" * 200 + "b")
    with pytest.raises(FileRefused, match="was looked for during 1 s without an end"):
        search_in_files(str(ws), {}, "(a+)+$")


@pytest.mark.parametrize("pattern", ["(", "a{99999999999}", "*"])
def test_what_is_no_pattern_is_told(ws, pattern):
    """The words are Python's own."""
    with pytest.raises(FileRefused, match="is no regular expression"):
        search_in_files(str(ws), {}, pattern)


def test_a_module_in_the_workspace_is_not_taken_for_one_of_the_search(ws):
    """What an agent has written is not run by looking for something in it."""
    write_to_file(str(ws), "json.py", f"open({str(ws / 'ran')!r}, 'w')")
    search_in_files(str(ws), {}, "open")
    assert ["json.py"] == os.listdir(ws)
