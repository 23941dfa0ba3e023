r"""The prose of a document, line by line beside its source.

`prose_lines` returns as many lines as the source has, each with what a reader would read on it: tags, code and
directives are gone. What it says on line 12 stands on line 12 of the file, so whatever is found in it can be cited.
`BREAK` stands where one block ends and another begins within a line (`</p><p>`).

It reads by shape, does not parse: broken HTML and Python 2 are read as well as any, in linear time.
Called by `profile`. Not for showing: white space is as it comes.
"""

import html
import re
from collections.abc import Callable

BREAK = "\x1e"


def prose_lines(text: str, kind: str) -> list[str]:
    """Return the prose on each line of `text`, which is written as `kind` says (`listing.KINDS`)."""
    lines = _READERS[kind](text)
    return [_URL.sub(" ", line) for line in lines]


_URL = re.compile(r"(?:https?|ftp|file)://[^\s<>\"')\]]+")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_PROMPT = re.compile(r"\s*+(?:>>>|\.\.\. |\$ |In \[)")
_MARKDOWN_BLOCK = re.compile(r" {0,3}(?:#|\|)")  # headings and rows of tables
_DIRECTIVE = re.compile(r"\s*+\.\. [\w-]++::")
_CODE_DIRECTIVE = re.compile(
    r"\s*+\.\. (?:code|code-block|sourcecode|parsed-literal|image|figure|toctree|math|index|_)"
)
_SILENT_TAGS = re.compile(r"script|style|template|svg|noscript", re.IGNORECASE)
_TAG_NAME = re.compile(r"[/!?]?([A-Za-z][A-Za-z0-9]*)?")
_INLINE = """
    a abbr b bdi bdo big cite code del dfn em font i ins kbd mark q s samp small span strong sub sup tt u var wbr
"""
_INLINE_TAGS = frozenset(_INLINE.split())
# Possessive throughout (`*+`): never tries a shorter string, so takes linear time and no memory.
_PYTHON_TEXT = re.compile(
    r"""
      \#[^\n]*+
    | \"{3} (?P<double> [^\"\\]*+ (?: (?: \\. | \"(?!\"\") ) [^\"\\]*+ )*+ ) \"{3}
    | '{3} (?P<single> [^'\\]*+ (?: (?: \\. | '(?!'') ) [^'\\]*+ )*+ ) '{3}
    | \" (?: \\. | [^\"\\\n] )*+ \"
    | ' (?: \\. | [^'\\\n] )*+ '
    """,
    re.VERBOSE | re.DOTALL,
)
_INDENT_MAX = 200


def _read_text(text: str) -> list[str]:
    return ["" if _PROMPT.match(line) else line for line in text.split("\n")]


def _read_markdown(text: str) -> list[str]:
    """Leave out fenced code, front matter and comments."""
    lines: list[str] = []
    fence = ""
    for line in _blank_comments(text).split("\n"):
        match = _FENCE.match(line)
        if fence:
            fence = "" if match and line.strip().startswith(fence) else fence
            lines.append("")
        else:
            fence = match[1] if match else ""
            block = f"{BREAK}{line}{BREAK}" if _MARKDOWN_BLOCK.match(line) else line
            lines.append("" if match or _PROMPT.match(line) else block)
    return _without_front_matter(lines)


def _without_front_matter(lines: list[str]) -> list[str]:
    if lines[0].rstrip() == "---" and "---" in lines[1:60]:
        end = lines.index("---", 1)
        return [""] * (end + 1) + lines[end + 1 :]
    return lines


def _read_rst(text: str) -> list[str]:
    """Leave out literal blocks, code and picture directives, comments."""
    lines: list[str] = []
    code_indent: int | None = None  # Lines indented more than this belong to a block of code.
    for line in _read_text(text):
        indent = len(line) - len(line.lstrip())
        if code_indent is not None and (not line.strip() or indent > code_indent):
            lines.append("")
            continue
        is_code = bool(_CODE_DIRECTIVE.match(line))
        directive = _DIRECTIVE.match(line)
        rest = BREAK + line[directive.end() :] if directive else line
        code_indent = indent if is_code or rest.rstrip().endswith("::") else None
        lines.append("" if is_code else rest)
    return lines


def _read_html(text: str) -> list[str]:
    """Leave out tags, comments, scripts and styles; entities become what they stand for."""
    parts: list[str] = []
    at = 0
    while (start := text.find("<", at)) >= 0:
        parts.append(text[at:start])
        name = _TAG_NAME.match(text, start + 1)
        if name is None or not name[0]:
            parts.append("<")
            at = start + 1
            continue
        at = _end_of_tag(text, start, name[1] or "")
        parts.append("" if (name[1] or "").lower() in _INLINE_TAGS else BREAK)
        parts.append("\n" * text.count("\n", start, at))
    parts.append(text[at:])
    return [html.unescape(line).replace("\n", " ") for line in "".join(parts).split("\n")]


def _end_of_tag(text: str, start: int, name: str) -> int:
    """Find where a tag ends, with its content if no one reads that. What is never closed goes on to the end."""
    if text.startswith("<!--", start):
        end, length = text.find("-->", start + 4), 3
    elif _SILENT_TAGS.fullmatch(name) and text[start + 1] != "/":
        closing = re.compile(f"</{name}", re.IGNORECASE).search(text, start)
        end, length = text.find(">", closing.end()) if closing else -1, 1
    else:
        end, length = text.find(">", start), 1
    return end + length if end >= 0 else len(text)


def _read_python(text: str) -> list[str]:
    """Keep the docstrings: strings in three quotation marks that begin their line."""
    parts: list[str] = []
    at = 0
    for match in _PYTHON_TEXT.finditer(text):
        inner = match["double"] or match["single"] or ""
        before = text[max(0, match.start() - _INDENT_MAX) : match.start()].rpartition("\n")[2]
        is_docstring = before.strip().lower() in {"", "r", "u"}
        parts.append("\n" * text.count("\n", at, match.start()))
        parts.append(inner + BREAK if is_docstring else "\n" * match[0].count("\n"))
        at = match.end()
    parts.append("\n" * text.count("\n", at))
    return _read_rst("".join(parts))


def _blank_comments(text: str) -> str:
    """Empty the comments; one that is never closed is no comment."""
    head, *parts = text.split("<!--")
    for part in parts:
        comment, closed, rest = part.partition("-->")
        head += "\n" * comment.count("\n") + rest if closed else part
    return head


_READERS: dict[str, Callable[[str], list[str]]] = {
    "text": _read_text,
    "markdown": _read_markdown,
    "rst": _read_rst,
    "html": _read_html,
    "python": _read_python,
}
