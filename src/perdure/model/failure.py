"""Failures as values: what is recorded of an exception, and the classes that recovery tells apart.

Never a live exception: the class of a recorded error need not be importable to read it.
"""

from __future__ import annotations

from typing import Literal

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


class ErrorRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One exception as it is recorded: readable without its class."""

    type: str  # qualified name of the exception's class
    message: str  # cut to limits.ERROR_MESSAGE_BYTES_MAX, halves of surrogate pairs escaped
    failure_class: FailureClass = "tool"
    causes: tuple[str, ...] = ()  # "type: message" of cause, context and members of a group, outermost first
    trace: tuple[str, ...] = ()  # "file:line function", innermost last; file names without folders


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One failure as recovery sees it."""

    failure_class: FailureClass
    error: ErrorRecord
    action: str = ""  # id, where an action failed
    tool: str = ""
