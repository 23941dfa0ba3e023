"""The digest as a whole: what a folder holds comes out in `digest.md`, true to the letter."""

import os
import re
import subprocess
import sys
from pydoc_data.topics import topics

import pytest

from perdure.agent.offline.decoding import decode
from perdure.agent.offline.listing import path_of
from perdure.agent.offline.sentences import lines_quoted
from perdure.agent.offline.terms import words_of
from tests.unit.agent.offline.driving import digest, write_files
from tests.unit.agent.offline.planted import BEES, LONERS, TOPICS

QUOTATION = re.compile(r"^- `(.+):(\d+)(?:-(\d+))?`: “(.+)”$", re.MULTILINE)
PLANTED = {name: text for topic in (*TOPICS, LONERS) for name, text in topic.items()}


def sections(page):
    """Heading → text below it."""
    parts = re.split(r"^## (.+)$", page, flags=re.MULTILINE)
    return {"": parts[0]} | dict(zip(parts[1::2], parts[2::2], strict=True))


def files_of(section):
    """The files that a section's table lists."""
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


def check_quotations(page, folder):
    """Each quotation stands in the decoded file at the cited lines. Returns how many there are."""
    quotations = QUOTATION.findall(page)
    for name, first, last, quotation in quotations:
        text, _ = decode((folder / path_of(name)).read_bytes())
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        assert quotation in lines_quoted(lines, int(first), int(last or first))
    assert page.count("“") == len(quotations)
    return len(quotations)


def test_planted_topics(tmp_path):
    """Three topics are three parts with their terms, two loners stand under Single, all quotations are true."""
    folder = write_files(tmp_path / "docs", PLANTED)
    page, _ = digest(folder, tmp_path / "out")
    parts = sections(page)
    assert "# Digest of 14 documents" in parts[""]
    groups = [title for title in parts if title.startswith("Group")]
    assert [sorted(topic) for topic in TOPICS] == sorted(
        (files_of(parts[title]) for title in groups), key=[sorted(topic) for topic in TOPICS].index
    )
    assert sorted(LONERS) == files_of(parts["Single"])
    assert 14 == check_quotations(page, folder)


def test_seventy_nine_real_documents(tmp_path):
    """The help topics of Python: each file is in one place, the first terms of a group in half of its files."""
    folder = write_files(tmp_path / "docs", {f"{name}.txt": text for name, text in topics.items()})
    page, memory = digest(folder, tmp_path / "out")
    parts = sections(page)
    groups = {title: files_of(text) for title, text in parts.items() if title.startswith("Group")}
    placed = [name for names in groups.values() for name in names] + files_of(parts.get("Single", ""))
    assert sorted(memory["documents"]) == sorted(placed)
    assert 3 <= len(groups) <= 12
    assert len(files_of(parts.get("Single", ""))) <= len(placed) / 10
    for title, names in groups.items():
        for term in title.partition(": ")[2].split(", "):
            assert 2 * sum(term in words_of((folder / name).read_text()) for name in names) >= len(names)
    assert check_quotations(page, folder) >= 40
    assert "- `else.txt` and `if.txt`: 100 %" in parts["Near-duplicates"]


def test_near_duplicates_are_paired(tmp_path):
    """A copy and an edited copy are named with their share, an unrelated text is not."""
    text = topics["exceptions"]
    edited = text.replace("exception", "accident", 3)
    folder = write_files(tmp_path / "docs", {"a.txt": text, "b.txt": text, "c.txt": edited, "d.txt": topics["lists"]})
    part = sections(digest(folder, tmp_path / "out")[0])["Near-duplicates"]
    assert "- `a.txt` and `b.txt`: 100 %" in part
    assert {("a.txt", "b.txt"), ("a.txt", "c.txt"), ("b.txt", "c.txt")} == set(
        re.findall(r"- `(.+)` and `(.+)`:", part)
    )


def test_any_encoding_and_all_that_cannot_be_read(tmp_path):
    """Encodings are read, quoted and named; what cannot be read stands in the table with its reason."""
    folder = write_files(tmp_path / "docs", BEES)
    french = "Les abeilles récoltent le nectar des fleurs près du château en été.\r\nElles reviennent à la ruche.\r\n"
    for encoding in ("utf-16", "utf-16-be", "latin-1", "utf-8-sig"):
        (folder / f"{encoding}.txt").write_bytes(french.encode(encoding))
    (folder / "nul.txt").write_bytes(b"one\0two\0three\0four")
    with open(folder / "huge.txt", "wb") as file:
        file.truncate(50_000_000)
    (folder / "broken.md").symlink_to("nowhere.md")
    (folder / "loop").symlink_to(".")
    os.mkfifo(folder / "pipe")
    page, _ = digest(folder, tmp_path / "out")
    expected = {
        "broken.md": "a broken link",
        "huge.txt": "larger than 8 MiB",
        "loop": "a link back to a folder that holds it",
        "nul.txt": "not text (NUL bytes)",
        "pipe": "not a file but a pipe",
    }
    assert expected == dict(re.findall(r"^\| `(.+)` \| (.+) \|$", sections(page)["Not read"], re.MULTILINE))
    assert "not UTF-8, read as: `latin-1.txt` (cp1252), `utf-16-be.txt` (utf-16-be), `utf-16.txt` (utf-16)" in page
    assert "“Les abeilles récoltent le nectar des fleurs près du château en été.”" in page
    check_quotations(page, folder)


def test_no_name_breaks_the_page(tmp_path):
    """Names with line ends, pipes, backticks and odd bytes stay inside their cell and their line."""
    odd = [
        "two\n# lines.txt",
        "pi|pe.txt",
        "back`tick.txt",
        "<script>.txt",
        "**bold**.txt",
        os.fsdecode(b"\xff\xfe.txt"),
    ]
    folder = write_files(tmp_path / "docs", dict.fromkeys(odd, BEES["keeping/swarm.txt"]))
    (folder / "not|\nread.txt").write_bytes(b"\0\0\0")
    page, _ = digest(folder, tmp_path / "out")
    assert "\n# lines" not in page
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert 7 == len(rows)
    assert {3, 4} == {row.count("|") for row in rows}
    assert check_quotations(page, folder) >= 1


def test_the_page_depends_on_the_documents_only(tmp_path):
    """Same bytes from another place, made in another order, in a process with another hash seed and locale."""
    page, _ = digest(write_files(tmp_path / "one", PLANTED), tmp_path / "out")
    write_files(tmp_path / "elsewhere" / "two", dict(reversed(PLANTED.items())))
    program = (
        "import sys; from pathlib import Path; from tests.unit.agent.offline.driving import digest\n"
        "digest(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    target = tmp_path / "other"
    environment = {**os.environ, "PYTHONHASHSEED": "4711", "LC_ALL": "C", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program, str(tmp_path / "elsewhere" / "two"), str(target)]
    subprocess.run(command, check=True, env=environment)
    assert page.encode("utf-8") == (target / "digest.md").read_bytes()
    assert str(tmp_path) not in page
    assert "\r" not in page


def test_an_empty_folder_has_a_digest(tmp_path):
    """Nothing to read is an answer too."""
    (tmp_path / "docs").mkdir()
    page, _ = digest(tmp_path / "docs", tmp_path / "out")
    assert page.startswith("# Digest of 0 documents\n")
    assert {""} == sections(page).keys()


def test_what_was_left_aside_is_counted(tmp_path):
    """A person learns of the pictures too, if only how many there are."""
    folder = write_files(tmp_path / "docs", {**BEES, "a.png": "x", "b.png": "x", ".git/config": "x"})
    assert "- left aside: `.png` × 2, hidden folder × 1\n" in digest(folder, tmp_path / "out")[0]


def test_the_report_replaces_a_file_whole(tmp_path, monkeypatch):
    """If the last step fails, the earlier page is untouched; what is left behind is overwritten the next time."""
    folder = write_files(tmp_path / "docs", BEES)
    page, _ = digest(folder, tmp_path / "out")
    write_files(folder, LONERS)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("killed here")))
        assert page == digest(folder, tmp_path / "out")[0]
    assert page != digest(folder, tmp_path / "out")[0]
    assert ["digest.md"] == os.listdir(tmp_path / "out")


@pytest.mark.parametrize("kind", ["html", "md", "rst", "py", ""])
def test_each_kind_is_quoted(tmp_path, kind):
    """A sentence in each kind of document is quoted at its line."""
    sentence = "The old queen leaves the hive with half of the bees."
    texts = {
        "html": f"<html>\n<p>{sentence}</p>",
        "md": f"# Swarm\n{sentence}",
        "rst": f".. note::\n   {sentence}",
        "py": f'"""\n{sentence}\n"""',
        "": f"\n{sentence}",
    }
    folder = write_files(tmp_path / "docs", {f"doc.{kind}".rstrip("."): texts[kind]})
    page, _ = digest(folder, tmp_path / "out")
    assert f"- `{f'doc.{kind}'.rstrip('.')}:2`: “{sentence}”" in page
