"""What a person sees while a task runs: one moving line on a terminal, plain lines elsewhere. A hook of the runtime."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from perdure.cli.hearing import HEARD, Hearing
from perdure.cli.terminal import complain, is_live, status
from perdure.logs.plain import moment

_TEXT_MAX: Final = 160
_CUT_SHORT: Final = "asyncio.exceptions.CancelledError"  # what a call fails with that a person has stopped
_BETWEEN: Final = frozenset({"action_settled", "action_found"})  # the next event follows at once
_RULES: Final[dict[str, Callable[[Mapping[str, Any]], str]]] = {
    "checkpoint_marked": lambda fields: f"checkpoint: {fields.get('name')}",
    "note": lambda fields: str(fields.get("text")),
    "plan_adopted": lambda fields: "plan: " + " > ".join(map(str, fields.get("steps", ()))),
    "decision": lambda fields: f"decided: {fields.get('decision')} ({fields.get('row')}): {fields.get('error')}",
    "rolled_back": lambda fields: f"rolled back to {fields.get('checkpoint')}",
    "program_called": lambda fields: f"attempt {fields['attempt']}" if fields.get("attempt", 1) > 1 else "",
    "waiting": lambda fields: f"waiting until {moment(fields['until'])[:19]}: {fields.get('reason')}",
    "health_changed": lambda fields: (
        f"{fields.get('of')} is {'bad' if fields.get('is_bad') else 'good again'}: " + str(fields.get("text"))
    ),
    "budget_low": lambda fields: f"the budget is low: {fields.get('text')}",
    "stopped": lambda fields: f"stopped: {fields.get('status')}",
}


class Progress:
    """Shows events on stderr, and calls `on_start` with the id of each task at its first event."""

    def __init__(self, on_start: Callable[[str], None], *, quiet: bool = False) -> None:
        self.task = ""  # of which something was heard last
        self._on_start = on_start
        self._is_quiet = quiet
        self._is_live = is_live(sys.stderr) and not quiet
        self._settled = 0
        self._found = 0
        self._hearing = Hearing()
        self._running: dict[str, tuple[str, float]] = {}  # action id -> tool, when it began (monotonic)

    def __call__(self, task: str, event: str, fields: Mapping[str, Any]) -> None:
        """Take one event of the runtime."""
        if task != self.task:
            self.task = task
            self._on_start(task)
        self._count(event, fields)
        heard = list(self._hearing.lines_of(event, fields))
        line = self._line_of(event, fields)
        for shown in [*heard, line] if not self._is_quiet else ():
            if shown:
                complain("  " + _short(shown))
        if self._is_live and event not in _BETWEEN:
            status.show("  " + self._hearing.begun(fields) if event == HEARD else self._summary())

    def _count(self, event: str, fields: Mapping[str, Any]) -> None:
        match event:
            case "action_started":
                self._running[fields["action"]] = str(fields["tool"]), time.monotonic()
            case "action_found":
                self._found += 1
            case _:
                pass

    def _line_of(self, event: str, fields: Mapping[str, Any]) -> str:
        """Return what is said about the event; on a terminal only what is rare."""
        if event == "action_settled":
            return self._line_of_settled(fields)
        rule = _RULES.get(event)
        return rule(fields) if rule else ""

    def _line_of_settled(self, fields: Mapping[str, Any]) -> str:
        tool, outcome = str(fields["tool"]), fields["outcome"]
        self._settled += 1
        _, began = self._running.pop(fields["action"], ("", 0.0))
        if str(fields.get("error", "")).startswith(_CUT_SHORT):
            return f"{tool} was cut short" + (", and may have happened" if outcome == "in_doubt" else "")
        if outcome != "succeeded":
            return f"{tool} {outcome}" + (f": {fields['error']}" if fields.get("error") else "")
        took = f" ({(time.monotonic() - began) * 1000:.0f} ms)" if began else ""
        return "" if self._is_live else f"{tool}{took}"

    def _summary(self) -> str:
        found = f", {self._found} reused" if self._found else ""
        tools = ", ".join(sorted({tool for tool, _ in self._running.values()}))
        return f"  {self._settled} actions{found}" + (f": {tools}" if tools else "")


def _short(text: str) -> str:
    line = text.replace("\n", " ")
    return line if len(line) <= _TEXT_MAX else line[: _TEXT_MAX - 3] + "..."
