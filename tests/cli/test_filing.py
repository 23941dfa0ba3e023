"""`perdure file`: a file of the workspace as it was at any entry, without a look at the disk."""

import hashlib
import json
import re
import shutil

import pytest

TEXTS = [["a.txt", "one\n"], ["d/b.bin", "\x00\xff\n\r\x1b"], ["a.txt", "two\n"], ["l", "->d/b.bin"], ["a.txt", ""]]


@pytest.fixture
def written(perdure, here):
    """A task `w` that wrote a.txt twice and took it away, and others; its workspace is gone."""
    (here / "texts.json").write_text(json.dumps(TEXTS))
    arguments = ("--program", "programs.py:writing", "--set", "texts=@texts.json", "--name", "w", "--workspace", "ws")
    assert 0 == perdure("run", *arguments)[0]
    shutil.rmtree(here / "ws")
    return here


def captures(perdure):
    """The entries that took files in; the first of all finds an empty folder."""
    lines = perdure("log", "w", "--kind", "files_captured")[1].splitlines()
    return [json.loads(line)["seq"] for line in lines][1:]


def test_a_file_as_it_was(perdure, written):
    """At an entry, a checkpoint, before and after a change; by its path in the workspace or on the disk."""
    seen = [perdure("file", "w", "a.txt", "--at", seq)[1] for seq in captures(perdure)[:4]]
    assert seen == ["one\n", "one\n", "two\n", "two\n"]
    assert (0, "one\n", "") == perdure("file", "w", "a.txt", "--at", "written#2")
    assert (0, "two\n", "") == perdure("file", "w", written / "ws" / "a.txt", "--at", "written")
    assert (0, "two\n", "") == perdure("file", "w", "./d/../a.txt", "--at", "written")


def test_bytes_are_printed_as_they_are(perdure, written, spawn):
    """Whatever they are: nothing is translated, escaped or added; into a file too, which is never overwritten."""
    content = TEXTS[1][1].encode("latin-1")
    assert content == spawn("file", "w", "d/b.bin").communicate(timeout=30)[0]
    assert (0, f"d/b.bin is in out ({len(content)} bytes)\n") == perdure("file", "w", "d/b.bin", "--to", "out")[:2]
    assert content == (written / "out").read_bytes()
    code, _, err = perdure("file", "w", "d/b.bin", "--to", "out")
    assert (2, True) == (code, "'out' was not written: File exists" in err)
    assert content == (written / "out").read_bytes()


def test_what_stood_in_the_workspace_is_listed(perdure, written):
    """Paths with mode and size, folders and links marked; in a folder, at an entry; facts as JSON."""
    rows = [re.split(r"  +", line) for line in perdure("file", "w", "--list")[1].splitlines()[1:]]
    assert [row[-1] for row in rows] == ["d/", "d/b.bin", "l -> d/b.bin"]
    listed = json.loads(perdure("file", "w", "--list", "--json")[1])
    assert [(one["path"], one["kind"]) for one in listed] == [("d", "folder"), ("d/b.bin", "file"), ("l", "link")]
    assert listed[2] == {"path": "l", "kind": "link", "target": "d/b.bin"}
    content = TEXTS[1][1].encode("latin-1")
    facts = {"path": "d/b.bin", "kind": "file", "size": 5, "digest": hashlib.sha256(content).hexdigest()}
    assert listed[1].items() >= facts.items()
    assert listed[1] == json.loads(perdure("file", "w", "d/b.bin", "--json")[1])
    assert [listed[1]] == json.loads(perdure("file", "w", "d", "--list", "--json")[1])
    first = json.loads(perdure("file", "w", "--list", "--json", "--at", captures(perdure)[0])[1])
    assert ["a.txt"] == [one["path"] for one in first]
    assert "no action of task 'w' has written files" in perdure("file", "w", "--list", "--at", 1)[1]


def test_a_path_without_a_file_says_where_there_is_one(perdure, written):
    """Gone, not yet there, never there, a folder, a link, no path at all: exit 2, and what to ask for instead."""
    first, second, last_known, *_ = captures(perdure)
    said = {
        ("a.txt",): f"nothing stands there; it is known from entry {last_known}: ask for that by `--at`",
        ("d/b.bin", "--at", first): f"nothing stands there; it is known from entry {second}",
        ("../else",): "no entry of this task has taken it in",
        ("d",): "it is a folder: `--list` says what is in it",
        ("l",): "it is a link, to 'd/b.bin'",
        ("d/b.bin", "--list"): "it is a file, nothing is in it",
        (): "which file?",
        ("a.txt", "--at", 999): "none is 999",
    }
    for arguments, text in said.items():
        code, out, err = perdure("file", "w", *arguments)
        assert (2, "", True) == (code, out, text in err), err
    assert "two\n" == perdure("file", "w", "a.txt", "--at", last_known)[1]


def test_a_file_that_was_not_taken_in_says_why(perdure, here, monkeypatch):
    """One that is too large now: the reason, and the entry that still has it."""
    monkeypatch.setenv("PERDURE_WORKSPACE_FILE_MAX", "1KiB")
    (here / "texts.json").write_text(json.dumps([["a", "small"], ["a", "x" * 2000], ["b", "-"]]))
    arguments = ("--program", "programs.py:writing", "--set", "texts=@texts.json", "--name", "w", "--workspace", "ws")
    assert 0 == perdure("run", *arguments)[0]
    code, out, err = perdure("file", "w", "a")
    assert (2, "", True) == (code, out, "no capture holds it (too_large); it is known from entry " in err)
    seq = err.partition("from entry ")[2].partition(":")[0]
    assert "small" == perdure("file", "w", "a", "--at", seq)[1]


def test_show_says_what_is_on_record_and_what_is_not(perdure, written):
    """How many paths, the patterns of those left aside, and each path that no capture holds."""
    shown = json.loads(perdure("show", "w", "--json")[1])
    assert (shown["files"], "uncovered" in shown) == (3, False)
    assert {"/.git", ".perdure/"} <= set(shown["left_aside"])
    assert re.search(r"^  files +3 on record; left aside: .*/\.git", perdure("show", "w")[1], re.MULTILINE)
