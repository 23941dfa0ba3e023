"""Which paths of a workspace are left aside: neither taken in, nor missed, nor put back.

A small part of gitignore's language, matched by names: a library would be asked for each of 20,000 paths, and would
bring rules (`!`, `**`, the order of lines) that nobody wants to explain in the middle of a rollback. What this part
lacks is refused, never read as something else. What `.gitignore` says is not asked: files that git ignores (a
database, a `.env`, what was built) are an agent's work like others.
Called by `capture` for paths that it does not know yet, and by the restoring of files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from perdure.errors import ConfigInvalid

# Ours; the user's own repository, which is never touched; what is made again by whoever needs it.
DEFAULTS: Final = (
    ".perdure/",
    ".perdure-part-*",
    "/.git",
    "__pycache__/",
    "*.pyc",
    ".mypy_cache/",
    ".pytest_cache/",
    ".ruff_cache/",
    "node_modules/",
    ".venv/",
)

_LETTER: Final = re.compile(r"\[!?[^]/]+\]|.", re.DOTALL)  # a set of letters counts as one


class Ignoring:
    """Patterns, ready to be asked.

    `name` fits at any depth, `name/` only folders; with a slash in front or between names, a pattern counts from the
    workspace: `/.git`, `build/*.o`. `*`, `?` and `[…]` stand for letters of one name. What is in an ignored folder is
    ignored.
    """

    def __init__(self, patterns: Iterable[str] = (), *, defaults: Iterable[str] = DEFAULTS) -> None:
        """Raises ConfigInvalid naming the pattern that is none."""
        self.patterns = (*defaults, *patterns)
        anchored = [pattern for pattern in self.patterns if "/" in pattern.rstrip("/")]
        self._name = _compiled([pattern for pattern in self.patterns if pattern not in anchored])
        self._path = _compiled([pattern.removeprefix("/") for pattern in anchored])

    @classmethod
    def from_text(cls, text: str) -> Ignoring:
        """Return the defaults and what a setting says: patterns with commas between them. Raises ConfigInvalid."""
        return cls(pattern for part in text.split(",") if (pattern := part.strip()))

    def fits(self, folder: str, name: str, *, is_folder: bool) -> bool:
        """Return whether `name`, in a `folder` that is not ignored itself, is left aside."""
        end = "/" if is_folder else ""
        if self._name.fullmatch(name + end):
            return True
        return bool(self._path.fullmatch(f"{folder}/{name}{end}" if folder else name + end))

    def fits_path(self, path: str, *, is_folder: bool) -> bool:
        """Return whether a path is left aside, itself or with a folder above it."""
        while path:
            folder, _, name = path.rpartition("/")
            if self.fits(folder, name, is_folder=is_folder):
                return True
            path, is_folder = folder, True
        return False


def _compiled(patterns: list[str]) -> re.Pattern[str]:
    """Return what matches any of the patterns, in texts that end with a slash if they name a folder."""
    return re.compile("|".join(f"(?:{_translated(pattern)})" for pattern in patterns) or r"(?!)", re.DOTALL)


def _translated(pattern: str) -> str:
    names = pattern.removesuffix("/").split("/")
    letters = [_translated_letter(found[0]) for found in _LETTER.finditer(pattern.removesuffix("/"))]
    translated = "".join(letters) + ("/" if pattern.endswith("/") else "/?")
    try:
        re.compile(translated)
        is_pattern = all(names) and not {".", "..", "**"} & set(names) and not pattern.startswith("!")
    except re.error:
        is_pattern = False
    if not is_pattern:
        raise ConfigInvalid("workspace_ignore", f"{pattern!r} is no pattern; those are like `*.tmp`, `out/`, `/a/b`")
    return translated


def _translated_letter(letter: str) -> str:
    if letter == "*":
        return "[^/]*"
    if letter == "?":
        return "[^/]"
    if len(letter) == 1:
        return re.escape(letter)
    inside = letter[1:-1].replace("\\", "\\\\")
    return f"[^/{inside[1:]}]" if inside.startswith("!") else f"[{inside}]"
