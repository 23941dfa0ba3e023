"""An exception as it is recorded. Called by the engine at the tool boundary; what class it has, `core/classify` says.

The record is readable without the exception's class, and nothing that the exception does (a `__str__` that raises, a
cycle of causes, a message of 20 MB) can mask it or make it large.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import subprocess
import traceback
from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Final, cast, get_args

from perdure.codec.redact import cut_redacted, redact_text
from perdure.core.classify import Evidence, Verdict, classify
from perdure.core.classify.waits import clamped
from perdure.limits import ERROR_MESSAGE_BYTES_MAX, KIB
from perdure.model.failure import ErrorRecord, FailureClass
from perdure.model.ids import plain_text
from perdure.tools.evidence import chain, evidence_of, field, own, type_name

CAUSES_MAX: Final = 20
CAUSE_BYTES_MAX: Final = 1 * KIB
TRACE_LINES_MAX: Final = 30
GROUP_DEPTH_MAX: Final = 8

_SECOND_US: Final = 1_000_000


def record_error(error: BaseException, now: int = 0) -> ErrorRecord:
    """Return what is recorded of `error`: type, message, causes, trace, class of failure and who said so.

    `now` is UTC in microseconds since 1970. Without it no moment is told that would have to be counted from now on.
    """
    message = _message(error)
    evidence, verdict = _judged(error, message, now)
    return ErrorRecord(
        type=redact_text(plain_text(type_name(error))),
        message=cut_redacted(plain_text(message), ERROR_MESSAGE_BYTES_MAX),
        failure_class=verdict.failure_class,
        causes=_causes(error),
        trace=_trace(error),
        rule=verdict.rule,
        provider=plain_text(verdict.provider),
        status=evidence.status,
        wait_s=verdict.wait_s,
        until=verdict.until,
        is_unknown=verdict.is_unknown,
    )


def classify_error(error: BaseException, now: int = 0) -> Verdict:
    """Return the verdict on `error`: the class that it names in `failure_class`, else by what it carries."""
    return _judged(error, _message(error), now)[1]


def _judged(error: BaseException, message: str, now: int, depth: int = 0) -> tuple[Evidence, Verdict]:
    evidence = evidence_of(error, message)
    named = inspect.getattr_static(error, "failure_class", None)  # runs no code of the exception's
    if type(named) is str and named in get_args(FailureClass):
        return evidence, _named(cast("FailureClass", named), error, now)
    if issubclass(type(error), BaseExceptionGroup):
        return _judged_group(error, evidence, now, depth)
    if issubclass(type(error), asyncio.CancelledError):
        return evidence, Verdict(failure_class="cancelled")
    if evidence.kind == "exception" and any(_is_late(cause) for cause in chain(error)):
        return evidence, Verdict(failure_class="timeout", rule="late")
    verdict = classify(evidence, now)
    return evidence, verdict if verdict.rule != "exception" else Verdict(failure_class="tool")


def _named(failure_class: FailureClass, error: BaseException, now: int) -> Verdict:
    """Return the verdict of an exception that knows its class, with `retry_after_s` where it has that."""
    asked = field(error, "retry_after_s")
    wait_s = clamped(float(asked)) if type(asked) in {int, float} and math.isfinite(asked) else 0.0
    until = now + round(wait_s * _SECOND_US) if failure_class == "quota" and wait_s and now else 0
    return Verdict(failure_class=failure_class, wait_s=wait_s, until=until, rule="named")


def _judged_group(group: BaseException, evidence: Evidence, now: int, depth: int) -> tuple[Evidence, Verdict]:
    """A group is of its members' class where they all have the same; the one that asks for the longest wait counts."""
    if depth >= GROUP_DEPTH_MAX:
        return evidence, Verdict(failure_class="tool")
    found = [_judged(member, _message(member), now, depth + 1) for member in _members(group)]
    if len({verdict.failure_class for _, verdict in found}) == 1:
        return max(found, key=lambda judged: judged[1].wait_s)
    return evidence, Verdict(failure_class="tool")


def _is_late(error: BaseException) -> bool:
    return issubclass(type(error), TimeoutError | subprocess.TimeoutExpired)


def _members(group: BaseException) -> tuple[BaseException, ...]:
    return cast("tuple[BaseException, ...]", own(group, "exceptions", BaseExceptionGroup))


class _Text(Exception):
    """Asks another exception for its text, where the standard library catches whatever that raises."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __str__(self) -> str:
        return str(self.error)


def _message(error: BaseException) -> str:
    """`str(error)`, by way of the one function of the standard library that survives a `__str__` which raises."""
    bare = traceback.TracebackException(_Text, _Text(error), None, lookup_lines=False, compact=True)
    return str.__str__(str(bare))


def _causes(error: BaseException) -> tuple[str, ...]:
    """Return "type: message" of cause or context and of a group's members, outermost first."""
    lines: list[str] = []
    seen = {id(error)}
    pending = deque(_next_errors(error))
    while pending and len(lines) < CAUSES_MAX:
        cause = pending.popleft()
        if id(cause) not in seen:
            seen.add(id(cause))
            lines.append(cut_redacted(plain_text(f"{type_name(cause)}: {_message(cause)}"), CAUSE_BYTES_MAX))
            pending.extend(_next_errors(cause))
    return tuple(lines)


def _next_errors(error: BaseException) -> Iterator[BaseException]:
    cause, context = own(error, "__cause__"), own(error, "__context__")
    if cause is not None:
        yield cast("BaseException", cause)
    elif context is not None and not own(error, "__suppress_context__"):
        yield cast("BaseException", context)
    if issubclass(type(error), BaseExceptionGroup):
        yield from _members(error)


def _trace(error: BaseException) -> tuple[str, ...]:
    came = cast("TracebackType | None", own(error, "__traceback__"))
    frames: deque[Any] = deque(traceback.walk_tb(came), maxlen=TRACE_LINES_MAX)
    return tuple(
        plain_text(f"{_file_name(frame.f_code.co_filename)}:{line} {frame.f_code.co_name}") for frame, line in frames
    )


def _file_name(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]
