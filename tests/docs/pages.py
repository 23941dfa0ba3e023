"""The pages of this repository as tests read them: which there are, their code blocks, links and command lines.

Not the checks themselves. Called by the tests in this folder.
"""

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`]+)`")
_COMMAND = re.compile(r"(?:^|\s|\$ )perdure ([a-z][a-z-]*)((?:(?![|;&#]).)*)")


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, the file name behind it (or ""), its text."""

    language: str
    name: str
    text: str


def blocks_of(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    return [_block(*found.groups()) for found in _FENCE.finditer(page.read_text("utf-8"))]


def links_of(page: Path) -> Iterator[tuple[str, Path, str]]:
    """Yield (link, file, heading) of each link to another place of this repository."""
    for link in _LINK.findall(_FENCE.sub("", page.read_text("utf-8"))):
        if "://" in link or link.startswith("mailto:"):
            continue
        name, _, heading = link.partition("#")
        yield link, (page.parent / name).resolve() if name else page, heading


def headings_of(page: Path) -> set[str]:
    """Return the names by which a link can reach a heading of the page."""
    titles = re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def commands_of(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield (verb, options) of each `perdure VERB …` in code, inline or in a block of the shell's."""
    text = page.read_text("utf-8")
    shell = [block.text for block in blocks_of(page) if block.language in {"sh", "console", "bash"}]
    for code in [*_CODE.findall(_FENCE.sub("", text)), *"\n".join(shell).splitlines()]:
        for verb, rest in _COMMAND.findall(code):
            yield verb, re.findall(r"(?<=\s)--[a-z][a-z-]*", rest)


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Return the environment of a reader: `python` and `perdure` of this checkout, nothing set of ours."""
    programs = folder / ".programs"
    if not programs.exists():
        programs.mkdir()
        command = "import sys; from perdure.cli import main; sys.exit(main())"
        _write_program(programs / "python", f'exec "{sys.executable}" "$@"')
        _write_program(programs / "perdure", f'exec "{sys.executable}" -c "{command}" "$@"')
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PERDURE_", "XDG_"))}
    path = f"{programs}{os.pathsep}{kept.get('PATH', '')}"
    return {**kept, "PATH": path, "PYTHONPATH": str(ROOT / "src"), "HOME": str(folder), **more}


def _block(info: str, text: str) -> Block:
    language, _, name = info.strip().partition(" ")
    return Block(language, name, text)


def _write_program(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n", "utf-8")
    path.chmod(0o755)
