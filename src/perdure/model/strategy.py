"""A way to go about a task, as plain values; recovery may choose another one."""

from __future__ import annotations

from typing import Literal

import msgspec

Change = Literal["", "template", "tools", "source", "model", "temperature", "smaller_steps", "fresh_context", "ask"]


class Strategy(msgspec.Struct, frozen=True, omit_defaults=True):
    """prompt template x tools in order x information source x model.

    `tools`: names, in the order in which they are to be tried; a tool that another strategy of the task names and this
    one does not is refused. `change`: what it does otherwise than the first one, where its fields do not say so:
    "smaller_steps", "fresh_context", "ask" (a person is asked for help).
    """

    name: str
    prompt: str = ""
    tools: tuple[str, ...] = ()
    source: str = ""
    model: str = ""
    temperature: float | None = None
    change: Change = ""


DEFAULT_STRATEGY = Strategy("default")
