"""A way to go about a task, as plain values; recovery may choose another one."""

from __future__ import annotations

import msgspec


class Strategy(msgspec.Struct, frozen=True, omit_defaults=True):
    """prompt template x tools in order x information source x model."""

    name: str
    prompt: str = ""
    tools: tuple[str, ...] = ()
    source: str = ""
    model: str = ""
    temperature: float | None = None


DEFAULT_STRATEGY = Strategy("default")
