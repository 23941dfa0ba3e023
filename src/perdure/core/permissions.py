"""Whether a call of a tool may run: patterns in AutoGPT's form against what the call would do. Pure.

    read_file({workspace}/**)   web_search(*)   execute_shell(git:**)   execute_shell(sudo:**)

The first pattern of `deny` that fits refuses the call, else a pattern of `allow` lets it run, else a person is asked.
`*` is anything but a slash, `**` anything, and a `*` alone any call of the tool. What is compared is not the text that
a model wrote but what it means: paths absolute and without `..` (a relative pattern counts from the workspace too),
addresses with their host in small letters, command lines taken apart (`commands.py`). All of a call must be allowed:
each path, each command; one that is denied denies it. Doubt goes against the call: what cannot be read is allowed by
`(*)` only, and a pattern of `deny` is taken widely (a program wherever it lies, `*` over slashes, behind `env`).

Symbolic links are the tools' business, and what a program does once it runs is the sandbox's. Called by `agent/`.
"""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, cast
from urllib.parse import urlsplit

import msgspec

from perdure.codec import values
from perdure.core.commands import Command, commands_of, readings_of
from perdure.errors import PatternInvalid

Kind = Literal["path", "shell", "url", "text"]

_PATTERN: Final = re.compile(r"([^\s()]+)\((.+)\)", re.DOTALL)
_REDIRECTION: Final = re.compile(r"\d*[<>][<>&|]?")  # as a word
_DOUBLES: Final = re.compile(r"\d*[<>]&")  # what stands behind it is a number
_WRITES: Final = re.compile(r"\d*(?:>[>&|]?|<>)")
_BELOW: Final = r"(?!\S*(?:\.\.|[$`]))"  # in a command: what may lead out of the folder in front is not below it
_HOLE: Final = re.compile(r"\{\w+\}")
_DOT: Final = re.compile(r"%2e", re.IGNORECASE)
_FULL_STOPS: Final = str.maketrans("\u3002\uff0e\uff61", "...")  # as names of hosts are read
_PORTS: Final = {"http": 80, "https": 443}
_ANY: Final = frozenset({"*", "**"})
_SHELLS: Final = frozenset({"execute_shell", "execute_shell_popen"})
_ADDRESSES: Final = frozenset({"read_webpage", "fetch_webpage", "clone_repository"})
_TEXTS: Final = {"execute_python_code": "code", "execute_python": "code", "web_search": "query"}
_PATHS: Final = frozenset({
    "clone_path", "destination", "directory", "dst", "file", "file_path", "filename", "folder", "path", "repo_path",
    "source", "src",
})  # fmt: skip
_IN_WORKSPACE: Final = frozenset({  # without a path they are about the workspace itself
    "append_to_file", "copy_file", "delete_file", "execute_python_file", "get_file_info", "git_commit", "git_diff",
    "git_status", "list_files", "list_folder", "move_file", "read_file", "search_in_files", "write_file",
    "write_to_file",
})  # fmt: skip


class Permissions(msgspec.Struct, frozen=True, kw_only=True):
    """Patterns of calls."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    only: tuple[str, ...] = ()  # of a tool that one of these names, a call that fits none of them is refused


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What may become of a call, by which pattern, and what of the call was decisive."""

    outcome: Literal["allow", "deny", "ask"]
    rule: str = ""
    subject: str = ""


class _Subject(msgspec.Struct, frozen=True):
    """One thing that a call would do, in the spellings by which it is looked for."""

    shown: str
    kind: Kind
    allowed_as: tuple[str, ...]  # a pattern of `allow` has to fit one of them; none: it cannot be read
    denied_as: tuple[str, ...]


def judge(
    permissions: Permissions, tool: str, arguments: Mapping[str, Any], workspace: str, aliases: Sequence[str] = ()
) -> Verdict:
    """Return what may become of a call of `tool`, which a pattern may also name by one of its `aliases`.

    `arguments` are those that the model gave. Raises PatternInvalid.
    """
    names = frozenset((tool, *aliases))
    subjects = tuple(_subjects_of(names, arguments, workspace))
    for rule in _about(permissions.deny, names):
        for subject in subjects:
            if _fits(rule, subject, workspace, is_deny=True):
                return Verdict(outcome="deny", rule=rule, subject=subject.shown)
    only = _about(permissions.only, names)
    for subject in subjects if only else ():
        if not any(_fits(rule, subject, workspace) for rule in only):
            return Verdict(outcome="deny", rule=f"only {', '.join(only)}", subject=subject.shown)
    rules = _about(permissions.allow, names)
    found = [next((rule for rule in rules if _fits(rule, one, workspace)), "") for one in subjects]
    refused = next((one for one, rule in zip(subjects, found, strict=True) if not rule), None)
    if refused is not None:
        return Verdict(outcome="ask", subject=refused.shown)
    return Verdict(outcome="allow", rule=found[0], subject=subjects[0].shown)


def check_permissions(permissions: Permissions) -> None:
    """Raise PatternInvalid for the first pattern that cannot be read."""
    for pattern in (*permissions.deny, *permissions.only, *permissions.allow):
        name, text = _parse(pattern)
        _expression(pattern, text, "/", _kind_of(frozenset({name})) or "text", is_deny=False)


def digest_of_call(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return 64 hex digits that stand for exactly this call: an approval holds for no other."""
    return values.digest([tool, dict(arguments)]).hex()


# --- patterns -------------------------------------------------------------------------------------------------------
def _about(patterns: Iterable[str], names: frozenset[str]) -> tuple[str, ...]:
    return tuple(pattern for pattern in patterns if _parse(pattern)[0] in names)


@functools.lru_cache(maxsize=1024)
def _parse(pattern: str) -> tuple[str, str]:
    found = _PATTERN.fullmatch(pattern.strip())
    if found is None:
        raise PatternInvalid(pattern, "it is not TOOL(ARGUMENTS)")
    return found[1], found[2]


def _fits(rule: str, subject: _Subject, workspace: str, *, is_deny: bool = False) -> bool:
    _, text = _parse(rule)
    if text in _ANY:
        return True
    expression = _expression(rule, text, workspace, subject.kind, is_deny=is_deny)
    spellings = subject.denied_as if is_deny else subject.allowed_as
    return any(expression.fullmatch(spelling) for spelling in spellings)


@functools.lru_cache(maxsize=1024)
def _expression(rule: str, text: str, workspace: str, kind: Kind, *, is_deny: bool) -> re.Pattern[str]:
    """Return the regular expression of what stands in the brackets. Raises PatternInvalid."""
    if kind == "path":
        text = _anchored(rule, text)
    elif kind == "shell" and is_deny and not re.search(r"[:\s*]", text):
        text = f"{text}:**"  # a program's name alone: whatever it is given
    root = _normal(workspace)
    slash_too = is_deny and kind != "path"  # there a slash is a letter like others
    signs = {"**": ".*", "*": ".*" if slash_too else "[^/]*", "{workspace}": re.escape("" if root == "/" else root)}
    if kind == "shell" and not is_deny:
        signs |= {"/**": f"/{_BELOW}\\S*", "/*": f"/{_BELOW}[^/\\s]*"}
    parts = re.split(f"({'|'.join(map(re.escape, sorted(signs, key=len, reverse=True)))})", text)
    made = "".join(signs.get(part) or ("" if part in signs else re.escape(part)) for part in parts)
    if kind == "path" and text.endswith("/**"):
        made = made.removesuffix("/.*") + "(?:/.*)?"  # the folder itself, too
    return re.compile(made, re.DOTALL)


def _anchored(rule: str, text: str) -> str:
    """Return a pattern of paths that begins at the root. Raises PatternInvalid for one that no path can fit."""
    hole = next((found for found in _HOLE.findall(text) if found != "{workspace}"), "")
    if hole:
        raise PatternInvalid(rule, f"{hole} is not known, only {{workspace}} is")
    if text.startswith("~"):
        raise PatternInvalid(rule, "~ is not known; write the folder out")
    if {"..", "."} & set(text.split("/")) or "//" in text:
        raise PatternInvalid(rule, "a path is compared without '..', '.' and '//'; write it without them")
    return text if text.startswith(("/", "{workspace}", "**")) else f"{{workspace}}/{text}"


# --- what a call would do -------------------------------------------------------------------------------------------
def _kind_of(names: frozenset[str]) -> Kind | None:
    if names & _SHELLS:
        return "shell"
    if names & _ADDRESSES:
        return "url"
    if names & _TEXTS.keys():
        return "text"
    return "path" if names & _IN_WORKSPACE else None


def _subjects_of(names: frozenset[str], arguments: Mapping[str, Any], workspace: str) -> Iterable[_Subject]:
    """Return what is to be allowed: at least one thing."""
    kind = _kind_of(names)
    if kind == "shell":
        return _commands(str(arguments.get("command_line", "")), workspace)
    if kind == "url":
        url, denied = _address(str(arguments.get("url", "")))
        return (_Subject(url, kind, (url,), (url, denied, denied.rstrip("/"))),)
    if kind == "text":
        text = str(arguments.get(next(_TEXTS[name] for name in names if name in _TEXTS), ""))
        return (_Subject(text, kind, (text,), (text,)),)
    given = [path for name in sorted(arguments) if name in _PATHS for path in _texts_in(arguments[name])]
    if kind == "path" or given:
        paths = [_normal(posixpath.join(workspace, path)) for path in given or [""]]
        return tuple(_Subject(path, "path", (path,), (path,)) for path in paths)
    text = ":".join(_text_of(arguments[name]) for name in sorted(arguments))
    return (_Subject(text, "text", (text,), (text,)),)


def _commands(line: str, workspace: str) -> tuple[_Subject, ...]:
    """Return the commands of a line; one that is denied in any reading stands for the whole line."""
    denied = tuple(dict.fromkeys(spelling for words in readings_of(line) for spelling in _denied_as(words)))
    whole = (line, *denied)
    commands = commands_of(line)
    if not commands:
        return (_Subject(line, "shell", (), whole),)
    return tuple(
        _Subject(" ".join(command.words), "shell", _allowed_as(command, workspace), whole if place == 0 else ())
        for place, command in enumerate(commands)
    )


def _allowed_as(command: Command, workspace: str) -> tuple[str, ...]:
    """Return how a command is looked for in `allow`; paths in it are taken for what they are.

    What writes a file outside of the workspace, or one that nobody can name before it runs, is more than the program.
    """
    signs = zip(command.words, command.words[1:], strict=False)
    if not command.is_known or any(_WRITES.fullmatch(sign) and not _is_within(to, workspace) for sign, to in signs):
        return ()
    return _spellings(_plain(command.words))


def _denied_as(words: tuple[str, ...]) -> Iterable[str]:
    """Return how a reading of a line is looked for in `deny`: as it stands, with plain paths, without redirections."""
    pairs = zip(("", *words), words, strict=False)
    bare = tuple(word for sign, word in pairs if not (_REDIRECTION.fullmatch(word) or _DOUBLES.fullmatch(sign)))
    for reading in (words, _plain(words), _plain(bare or words)):
        yield from _spellings(reading)


def _plain(words: tuple[str, ...]) -> tuple[str, ...]:
    first, *rest = words
    return (first, *(_normal(word) if word.startswith("/") else word for word in rest))


def _is_within(file: str, workspace: str) -> bool:
    """Whether a redirection to `file` writes nothing but a file of the workspace, or into the void."""
    if file in {"/dev/null", "-"} or file.isdecimal():
        return True
    is_named = not file.startswith("~") and not set(file) & set("$`*?[{")
    return is_named and _normal(posixpath.join(workspace, file)).startswith(f"{_normal(workspace)}/")


def _spellings(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return `command:arguments`, and the words as they are typed."""
    first, *rest = words
    return (f"{first}:{' '.join(rest)}", " ".join(words))


def _address(url: str) -> tuple[str, str]:
    """Return an address in its plain spelling, and the same without user and port; one that is none as it is."""
    try:
        parts = urlsplit(url.strip())
        host, port = (parts.hostname or "").translate(_FULL_STOPS).rstrip("."), parts.port
    except ValueError:
        return url, url
    user, has_user, _ = parts.netloc.rpartition("@")
    shown = f"[{host}]" if ":" in host else host
    place = shown if port is None or _PORTS.get(parts.scheme) == port else f"{shown}:{port}"
    dots = _DOT.sub(".", parts.path)
    path = _normal(dots) + ("/" if dots.endswith("/") and dots.strip("/") else "")
    plain = parts._replace(path=path, fragment="")
    return plain._replace(netloc=f"{user}{has_user}{place}").geturl(), plain._replace(netloc=shown).geturl()


def _normal(path: str) -> str:
    """Return an absolute path without `.`, `..`, doubled slashes and a slash at its end."""
    return re.sub(r"\A/+", "/", posixpath.normpath(f"/{path}"))


def _texts_in(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    several = cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()
    return tuple(one for one in several if isinstance(one, str))


def _text_of(value: object) -> str:
    if not isinstance(value, str):
        return msgspec.json.encode(value, order="deterministic", enc_hook=repr).decode()
    return _normal(value) if value.startswith("/") else value
