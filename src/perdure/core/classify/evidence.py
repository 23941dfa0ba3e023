"""What is known of an error, and what is made of it: the two values of the classifier. Decides nothing itself.

`tools/evidence.py` takes the evidence out of a live exception; adapters for models make their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from perdure.model.failure import FailureClass

EvidenceKind = Literal["http", "reply", "event", "socket", "process", "mcp", "exception"]


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the other side, the operating system or an exception has said."""

    kind: EvidenceKind = "exception"
    provider: str = ""  # "openai", "azure", "anthropic", "google", "aws"; "": told from headers and body
    status: int = 0  # of HTTP; 0: there was none
    headers: Mapping[str, str] = {}  # names in lower case
    body: object = None  # decoded JSON, or text
    errno: int = 0
    exit_code: int | None = None
    type: str = ""  # qualified name of the exception's class
    message: str = ""  # also what a process wrote to stderr


class Verdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The class of a failure, how long the other side asks to wait, and the row of the table that said so."""

    failure_class: FailureClass
    wait_s: float = 0.0  # as told by the other side; 0: it said nothing
    until: int = 0  # UTC microseconds: when a quota comes back, where that can be known; else 0
    rule: str = ""  # name of the row that fired
    provider: str = ""
    is_unknown: bool = False  # no row knows this error: "capacity" this time, recovery makes it "request" the next
