"""What one of AutoGPT's files says, in our words; and how several of them make one set of settings.

Values of keys are handed on to the process that makes the requests and are never recorded: `variables` shows its names
only. Made by the readers of this package, put together by `gathering.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from perdure.agent.settings import AgentSettings

_LISTS: Final = frozenset({"constraints", "resources", "best_practices", "left_out", "allow", "deny", "only"})


class Variables(Mapping[str, str]):
    """Environment variables: keys of providers, and addresses. Neither shown nor encoded: they may be secrets."""

    def __init__(self, values: Mapping[str, str] | None = None, place: str = "") -> None:
        self._values = dict(values or {})
        self.place = place  # the file

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def places(self) -> dict[str, str]:
        """From which file each of them is."""
        return dict.fromkeys(self._values, self.place)

    def __repr__(self) -> str:
        return f"<variables: {', '.join(self) or 'none'}>"


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What a file says."""

    place: str = ""  # the file; empty: there is none
    fields: Mapping[str, Any] = {}  # of AgentSettings
    goals: tuple[str, ...] = ()
    variables: Variables = Variables()
    files: Mapping[str, str] = {}  # other files that it names: key → path, as it stands there
    ignored: Mapping[str, str] = {}  # name → why
    unknown: tuple[str, ...] = ()  # names that are none of AutoGPT's


NOTHING: Final = Found()


def merge(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of several parts as one: a later one wins, and lists add up."""
    merged: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            merged[name] = tuple(dict.fromkeys((*merged.get(name, ()), *value))) if name in _LISTS else value
    return merged


def settings_of(*parts: Mapping[str, Any]) -> AgentSettings:
    """Return the settings that several parts give."""
    return AgentSettings(**merge(*parts))


def goal_of(task: str, goals: Iterable[str]) -> str:
    """Return a goal in one text: the task, and below it what `goals` say more."""
    lines = [line.strip() for line in goals]
    if not task.strip():
        return lines[0] if len(lines) == 1 else "\n".join(f"{n}. {line}" for n, line in enumerate(lines, 1))
    return "\n".join([task.strip(), *(f"- {line}" for line in lines if line not in task)])
