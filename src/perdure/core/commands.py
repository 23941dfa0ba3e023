"""The commands of a shell's line, as permissions read them. Pure; not a shell: what it cannot read for sure, it says.

`ls; sudo x | tee y` is three commands, and so are those in `$(…)`, backticks and `<(…)`. Quotes are taken away as the
shell does it, so that `s"ud"o` is `sudo`. A line with a here-document, an open quote or the like is unclear: then no
pattern for single commands allows it. Called by `permissions.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from perdure.limits import COMMAND_NESTING_MAX

_BLANKS: Final = " \t"
_ENDS: Final = ";&|\n"
_VARIABLE: Final = re.compile(r"\d|[A-Za-z_]\w*|\{\w+\}|[@*#?!$-]")  # behind the dollar
_PIECES: Final = re.compile(r"[;&|\n()`$<>\"'{}]+")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*\+?=")
_REDIRECTION: Final = re.compile(r"\d*[<>][<>&|]?\Z")
_SYNTAX: Final = frozenset({"!", "{", "}", "if", "then", "else", "elif", "fi", "while", "until", "do", "done", "esac"})
_REDIRECTED: Final = 2  # words: the sign and the file
_HEADERS: Final = frozenset({"for", "case", "select"})  # what follows is no command
_RUNNERS: Final = frozenset({  # programs whose arguments are a command, or hold one
    "alias", "ash", "bash", "builtin", "busybox", "bwrap", "chroot", "chrt", "command", "coproc", "dash", "doas", "env",
    "eval", "exec", "fakeroot", "find", "flock", "function", "ionice", "ksh", "nice", "nohup", "numactl", "parallel",
    "pkexec", "proot", "runuser", "script", "setpriv", "setsid", "sh", "ssh", "stdbuf", "strace", "su", "sudo",
    "systemd-run", "taskset", "time", "timeout", "trap", "unbuffer", "unshare", "watch", "xargs", "zsh",
})  # fmt: skip


class Command(msgspec.Struct, frozen=True):
    """One command: its words without quotes. `is_known`: the first of them is what it is, and no expansion.

    `bare`: the words without what other commands put in there.
    """

    words: tuple[str, ...]
    is_known: bool = True
    bare: tuple[str, ...] = ()


def commands_of(line: str) -> tuple[Command, ...] | None:
    """Return the commands of a line, in whichever order they may run; None where that is unclear."""
    scanner = _Scanner(line)
    return tuple(scanner.found) if scanner.read() else None


def readings_of(line: str, depth: int = 0) -> Iterator[tuple[str, ...]]:
    """Yield all that may be run by a line, each as words: rather more than is run, never less than can be read."""
    commands = commands_of(line)
    if commands is None:
        for piece in _PIECES.split(line):
            words = tuple(piece.split())
            yield from (words[start:] for start in range(len(words)))
        return
    for command in commands:
        yield from _readings(command.words, depth)
        bare = tuple(word for word in command.bare if word)
        if bare != command.words:  # all that is put in may be empty
            yield from _readings(bare, depth)


def _readings(words: tuple[str, ...], depth: int) -> Iterator[tuple[str, ...]]:
    while words and (_ASSIGNMENT.match(words[0]) or _REDIRECTION.match(words[0])):
        words = words[2 if _REDIRECTION.match(words[0]) else 1 :]
    if not words:
        return
    yield words
    program = words[0].rpartition("/")[2]
    if program != words[0]:
        yield (program, *words[1:])
    if program not in _RUNNERS or depth >= COMMAND_NESTING_MAX:
        return
    for place in range(1, len(words)):
        yield words[place:]
        yield (words[place].rpartition("/")[2], *words[place + 1 :])
        if any(letter in words[place] for letter in " \t\n;|&"):
            yield from readings_of(words[place], depth + 1)


class _Unclear(Exception):
    """The line cannot be read for sure."""


class _Scanner:
    """Reads one line from left to right."""

    def __init__(self, line: str, depth: int = 0) -> None:
        self.found: list[Command] = []
        self._line = line
        self._at = 0
        self._depth = depth
        self._words: list[str] = []
        self._word: str | None = None
        self._bare = ""  # the word without the text of expansions
        self._bares: list[str] = []
        self._is_plain = True  # the word so far has no expansion
        self._first_is_plain = True
        self._both_at = -1  # how many words of the command stand before its `&>`

    def read(self) -> bool:
        """Return whether the line could be read to its end."""
        try:
            self._read_list("")
        except _Unclear:
            return False
        return True

    def _read_list(self, closing: str) -> None:
        if self._depth > COMMAND_NESTING_MAX:
            raise _Unclear
        self._depth += 1
        while self._at < len(self._line):
            letter = self._line[self._at]
            self._at += 1
            if letter == "&" and self._line[self._at : self._at + 1] == ">":
                self._end_word()  # the output and the errors, both into a file
                self._both_at = len(self._words)
            elif letter == closing or letter in _ENDS or letter == ")":
                self._end_command()
                if letter == closing:
                    break
            elif letter == "(":
                self._end_command()
                self._read_list(")")
            elif letter in _BLANKS:
                self._end_word()
            elif letter == "#" and self._word is None:
                self._skip_comment()
            else:
                self._read_letter(letter)
        else:
            if closing:
                raise _Unclear
            self._end_command()
        self._depth -= 1

    def _read_letter(self, letter: str) -> None:
        match letter:
            case "'":
                self._add(self._until("'"))
            case '"':
                self._read_double()
            case "\\":
                text = self._escaped()
                if text:
                    self._add(text)
            case "$" | "`":
                self._read_expansion(letter)
            case "<" | ">":
                self._read_redirection(letter)
            case _:
                self._add(letter)
                self._is_plain &= letter not in "*?[~"  # the shell puts names of files there

    def _read_double(self) -> None:
        self._add("")
        while True:
            if self._at >= len(self._line):
                raise _Unclear
            letter = self._line[self._at]
            self._at += 1
            if letter == '"':
                return
            if letter in "$`":
                self._read_expansion(letter)
            elif letter == "\\" and self._line[self._at : self._at + 1] in {"$", "`", '"', "\\", "\n"}:
                self._add(self._escaped())
            else:
                self._add(letter)

    def _read_expansion(self, letter: str) -> None:
        """Behind `$` or a backtick: what is run in there is read as well, and its text stays in the word."""
        begin = self._at
        if letter == "`":
            inner = re.sub(r"\\([\\`$])", r"\1", self._until("`", escapes=True))
            self._read_inside(_Scanner(inner, self._depth + 1))
        elif self._line[begin : begin + 1] == "(":
            inside = _Scanner(self._line, self._depth + 1)
            inside._at = begin + 1
            self._read_inside(inside, ")")
            self._at = inside._at
        elif (name := _VARIABLE.match(self._line, begin)) is not None:
            self._at = name.end()
        elif self._line[begin : begin + 1] in {"{", "'", '"', "["}:
            raise _Unclear
        text = self._line[begin - 1 : self._at]
        self._word, self._is_plain = (self._word or "") + text, False
        self._bare += text if text == "$" else ""

    def _read_redirection(self, letter: str) -> None:
        """A file that is read or written counts among the words; a here-document makes the line unclear."""
        rest = self._line[self._at :]
        if rest.startswith("("):
            inside = _Scanner(self._line, self._depth + 1)
            inside._at = self._at + 1
            self._read_inside(inside, ")")
            self._add(self._line[self._at - 1 : inside._at])
            self._at, self._is_plain = inside._at, False
            return
        if letter == "<" and rest.startswith("<"):
            raise _Unclear
        sign = letter + (rest[0] if rest[:1] in {">", "|", "&"} else "")
        self._at += len(sign) - 1
        is_number = self._word is not None and self._word.isdecimal()
        before = self._word if is_number and self._word else ""
        if not is_number:
            self._end_word()
        self._word = self._bare = before + sign
        self._end_word()

    def _read_inside(self, inside: _Scanner, closing: str = "") -> None:
        inside._read_list(closing)
        self.found += inside.found

    def _skip_comment(self) -> None:
        end = self._line.find("\n", self._at)
        self._at = len(self._line) if end < 0 else end

    def _until(self, sign: str, *, escapes: bool = False) -> str:
        begin = self._at
        while self._at < len(self._line):
            letter = self._line[self._at]
            self._at += 2 if escapes and letter == "\\" else 1
            if letter == sign:
                return self._line[begin : self._at - 1]
        raise _Unclear

    def _escaped(self) -> str:
        letter = self._line[self._at : self._at + 1]
        self._at += 1
        return "" if letter == "\n" else letter or "\\"

    def _add(self, text: str) -> None:
        self._word = (self._word or "") + text
        self._bare += text

    def _end_word(self) -> None:
        if self._word is None:
            return
        if not self._words:
            if self._is_plain and self._word in _SYNTAX:
                self._word, self._bare = None, ""
                return
            self._first_is_plain = self._is_plain and "{" not in self._word  # braces make several words of one
        self._words.append(self._word)
        self._bares.append(self._bare)
        self._word, self._bare, self._is_plain = None, "", True

    def _end_command(self) -> None:
        self._end_word()
        if 0 <= self._both_at < len(self._words) - _REDIRECTED:
            raise _Unclear  # a plain shell takes the `&` for an end, and what stands behind the file for a command
        if self._words and not (self._first_is_plain and self._words[0] in _HEADERS):
            self.found.append(Command(tuple(self._words), self._first_is_plain, tuple(self._bares)))
        self._words, self._bares, self._is_plain, self._first_is_plain = [], [], True, True
        self._both_at = -1
