"""Failures as values: what is recorded of an exception, and the classes that recovery tells apart.

Never a live exception: the class of a recorded error need not be importable to read it.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

FailureClass = Literal[
    "network",
    "capacity",
    "throttled",
    "quota",
    "auth",
    "request",
    "context",
    "refusal",
    "output",
    "tool",
    "suspicious",
    "stuck",
    "exhausted",
    "storage",
    "timeout",
    "cancelled",
]

# Faults of what was called, or of the way there, that pass by themselves.
PASSING: Final[frozenset[FailureClass]] = frozenset({"network", "capacity", "throttled", "timeout"})


class ErrorRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One exception as it is recorded: readable without its class."""

    type: str  # qualified name of the exception's class
    message: str  # cut to limits.ERROR_MESSAGE_BYTES_MAX, halves of surrogate pairs escaped
    failure_class: FailureClass = "tool"
    causes: tuple[str, ...] = ()  # "type: message" of cause, context and members of a group, outermost first
    trace: tuple[str, ...] = ()  # "file:line function", innermost last; file names without folders
    rule: str = ""  # row of `core/classify.py` that gave the class
    provider: str = ""  # whose answer it was, where that is known
    status: int = 0  # of HTTP
    wait_s: float = 0.0  # as told by the other side; 0: it said nothing
    until: int = 0  # when a quota comes back (UTC, microseconds), where that is known
    is_unknown: bool = False  # no row knows it: it counts as passing once, then as a wrong request


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One failure as recovery sees it."""

    failure_class: FailureClass
    error: ErrorRecord
    action: str = ""  # id, where an action failed
    tool: str = ""
