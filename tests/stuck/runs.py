"""Reads real runs of agents as steps of the detector. They lie beside the repository and are not part of it.

A run is a line `{"src", "run", "success", "steps": [{"a": action, "o": observation, "label"}]}`. What the frameworks
put around an action or an observation is taken off here: it says nothing about the step, and an echo of the action in
the observation would make the judgement easier than it is.
"""

from __future__ import annotations

import ast
import gzip
import hashlib
import json
import re
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from perdure.core.stuck import Step

DATA = Path(__file__).parents[2] / ".." / "shared" / "data"
LABELLED = "repetition_labelled_train.jsonl.gz"
TAU = "taubench_airline_train.jsonl.gz"
HOTPOT = ("hotpot_react_base_train.jsonl.gz", "hotpot_react_reflexion_train.jsonl.gz")

_ECHO = re.compile(r"; action at iteration ?\d+ ?:.*", re.DOTALL)
_FRAME = re.compile(r"(?:the result of executing that last command is: ?)?(?:command \w+ returned(?: ?:)? ?)?")
_NONE = re.compile(r"<none-\d+>")  # stands for "no observation was recorded", with a number for each
_FAILED = re.compile(r"\s*(?:error\b|failure\b|your fix did not\b|the fix you passed is empty|could not find\b)")


class Run(NamedTuple):
    """One run: where it comes from, whether it reached its goal, its steps, and what people called each of them."""

    part: str
    name: str
    success: bool
    steps: tuple[Step, ...]
    labels: tuple[str | None, ...]


def read(path: Path) -> list[Run]:
    """Return the runs of a file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [_run(json.loads(line)) for line in lines]


def _run(row: dict) -> Run:
    steps, edits = [], {}
    for number, raw in enumerate(row["steps"]):
        tool, arguments = _action(raw["a"])
        observation = _observation(raw["o"] or "", arguments)
        failed = bool(_FAILED.match(observation.lower()))
        encoded = _encode(arguments)
        files = () if failed else _edit(arguments, edits)
        digest = hashlib.sha256(encoded).digest()
        steps.append(
            Step(
                seq=number + 1,
                tool=tool,
                arguments=encoded,
                digest=digest,
                observation=observation.encode(),
                failed=failed,
                files=files,
            )
        )
    labels = tuple(raw.get("label") for raw in row["steps"])
    return Run(row["src"].rpartition(":")[2], str(row["run"]), bool(row["success"]), tuple(steps), labels)


def _encode(arguments: object) -> bytes:
    if isinstance(arguments, str):
        return arguments.encode()
    return json.dumps(arguments, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def _action(text: str) -> tuple[str, object]:
    """Return tool and arguments; arguments that were cut stay a text."""
    try:
        call = ast.literal_eval(text)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):  # all that it is said to raise
        return _loose_action(text)
    if not isinstance(call, dict):
        return text, {}
    name, arguments = str(call.get("name") or ""), call.get("arguments", call.get("args") or {})
    if not isinstance(arguments, str):
        return name, arguments
    try:
        return name, json.loads(arguments, strict=False)
    except json.JSONDecodeError:
        return name, arguments


def _loose_action(text: str) -> tuple[str, str]:
    """Return tool and arguments of `tool {…}`, `tool[…]`, and of the repr of a call that was cut at its end."""
    if text.startswith("{'arguments': '"):
        return "str_replace_editor", text.removeprefix("{'arguments': '").replace("\\\\", "\\")
    named = re.match(r"\{'name': '([\w ]+)', 'args': ", text) or re.match(r"\s*(\w+)", text)
    return (named[1], text[named.end() :]) if named else ("", text)


def _observation(text: str, arguments: object) -> str:
    text = _FRAME.sub("", _NONE.sub("", _ECHO.sub("", text)), count=1)
    command = arguments.get("command") if isinstance(arguments, dict) else None
    return text.removeprefix(command).lstrip() if isinstance(command, str) else text


def _edit(arguments: object, edits: dict[str, list[tuple[str, str]]]) -> tuple[tuple[int, int], ...]:
    """Return marks of a file before and after an edit; what is in it is known by the edits that still stand."""
    if not isinstance(arguments, dict) or arguments.get("command") != "str_replace":
        return ()
    path, old, new = (str(arguments.get(name) or "") for name in ("path", "old_str", "new_str"))
    standing = edits.setdefault(path, [])
    before = _mark(path, standing)
    old, new = _what_differs(old, new)
    if old == new:  # it was about white space, which the runs have lost
        return ()
    if (new, old) in standing:
        standing.remove((new, old))
    else:
        standing.append((old, new))
    return ((before, _mark(path, standing)),)


def _what_differs(old: str, new: str) -> tuple[str, str]:
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    old, new, end = old[start:], new[start:], 0
    while end < min(len(old), len(new)) and old[-1 - end] == new[-1 - end]:
        end += 1
    return old[: len(old) - end].strip(), new[: len(new) - end].strip()


def _mark(path: str, standing: list[tuple[str, str]]) -> int:
    return crc32(repr((path, sorted(standing))).encode())
