"""Which calls of a reply may be made. Pure. Called by `turns.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from perdure.agent.settings import AgentSettings
from perdure.model.move import PolicyView


class Questions(msgspec.Struct, frozen=True):
    """A person is to be asked first: question by key."""

    questions: Mapping[str, str]


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """What is not refused may be made."""

    refused: Mapping[str, str] = {}  # call id -> why, for the model
    change: Callable[[Any], object] | None = None  # of memory, before
    said: str = ""  # what is to be noted in the journal, before
    said_key: str = ""


def permits(view: PolicyView, settings: AgentSettings, calls: Sequence[Mapping[str, Any]]) -> Questions | Ready:
    """Return what may be made of `calls`."""
    del view, settings, calls
    return Ready()
