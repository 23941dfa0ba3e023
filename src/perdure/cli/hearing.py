"""What running tools hear, as lines: a model's reply while it is being written. Only shown, never an answer.

Pieces are put together to lines, each call for itself, so that replies that come at once stay readable. What was shown
of a call that did not succeed is called abandoned: here, when it fails, and by the next process, when it was killed.
Prints nothing itself. Called by `progress.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

HEARD: Final = "text_streamed"  # the event; its field `text` is the next piece
_MARK: Final = "| "
_WIDTH: Final = 100  # characters; a longer line is broken at a blank


class Hearing:
    """Takes events, gives lines."""

    def __init__(self) -> None:
        self._heard: dict[str, str] = {}  # action id -> what is not shown yet

    def lines_of(self, event: str, fields: Mapping[str, Any]) -> Iterator[str]:
        """Yield what is to be shown now."""
        action = str(fields.get("action", ""))
        match event:
            case "text_streamed":
                whole, self._heard[action] = _cut(self._heard.get(action, "") + str(fields.get("text", "")))
                yield from (_MARK + line for line in whole)
            case "action_started" if fields.get("attempt", 1) > 1:
                yield f"{fields['tool']} is called again; what was shown of it before, if anything, is abandoned"
            case "action_settled" if action in self._heard:
                rest = self._heard.pop(action).rstrip()
                if rest:
                    yield _MARK + rest
                if fields.get("outcome") != "succeeded":
                    yield f"what was shown of {fields['tool']} is abandoned: it is no answer"
            case _:
                pass

    def begun(self, fields: Mapping[str, Any]) -> str:
        """Return the line that is still being written by the call of an event."""
        return _MARK + self._heard.get(str(fields.get("action", "")), "")


def _cut(text: str) -> tuple[list[str], str]:
    """Return the lines that are whole, and the rest."""
    *whole, rest = text.split("\n")
    lines = [part.rstrip() for line in whole for part in _folded(line)]
    *long, rest = _folded(rest)
    return [line for line in [*lines, *long] if line], rest


def _folded(line: str) -> list[str]:
    """Break a line at blanks; a word without one stays whole up to the width."""
    parts: list[str] = []
    while len(line) > _WIDTH:
        at = line.rfind(" ", 1, _WIDTH + 1)
        cut = at if at > 0 else _WIDTH
        parts.append(line[:cut])
        line = line[cut:].lstrip(" ")
    return [*parts, line]
