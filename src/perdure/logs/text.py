"""A line of the log for people to read: one line of text. Not a contract; JSON lines are. Called by `perdure log`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, cast

import msgspec

from perdure.logs.lines import Line
from perdure.logs.plain import Plain
from perdure.model.ids import cut_text

_VALUE_BYTES: Final = 80
_MOMENT_CHARS: Final = len("2024-02-29T01:02:03.456")
_BARE: Final = re.compile(r"[\w./:@+-]+\Z")  # text that reads well without quotes
_MARKS: Final = {"error": "E", "warning": "W"}


def to_text(line: Line) -> str:
    """Return the line as text without a line end; long values are cut, and say how long they were."""
    moment = str(line["at"])[:_MOMENT_CHARS].replace("T", " ")
    mark = _MARKS.get(str(line["level"]), " ")
    what = _action(line) if "action" in line else _other(line)
    return f"{moment} {mark} {line['seq']:>6}  {' '.join(what.splitlines())}"


def _action(line: Line) -> str:
    inputs = ", ".join(f"{name}={_short(value)}" for name, value in _pairs(line.get("inputs")))
    text = f"{line['action']}({inputs}) {line['outcome']}"
    if "duration_ms" in line:
        text += f" in {line['duration_ms']:g} ms"
    if "error" in line:
        error = line["error"]
        text += f": {error['type']}: {cut_text(str(error['message']), _VALUE_BYTES)} ({error['class']})"
    elif "result" in line:
        text += f": {_short(line['result'])}"
    return text


def _other(line: Line) -> str:
    fields = "  ".join(f"{name}={_short(value)}" for name, value in _pairs(line.get("fields")))
    raw = "of a kind that this version does not know" if "raw" in line else ""
    return f"{line['kind']}  {fields}{raw}".rstrip()


def _pairs(value: Plain) -> list[tuple[str, Plain]]:
    if isinstance(value, dict):
        return list(cast("Mapping[str, Plain]", value).items())
    return [] if value is None else [("value", value)]


def _short(value: Plain) -> str:
    is_bare = isinstance(value, str) and _BARE.match(value)
    text = value if is_bare else msgspec.json.encode(value).decode()
    return cut_text(text, _VALUE_BYTES)
