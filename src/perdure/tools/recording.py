"""An exception as it is recorded. Called by the engine at the tool boundary; not a classifier of providers' errors.

The record is readable without the exception's class, and nothing that the exception does (a `__str__` that raises, a
cycle of causes, a message of 20 MB) can mask it or make it large.
"""

from __future__ import annotations

import asyncio
import errno
import inspect
import socket
import traceback
from collections import deque
from collections.abc import Iterator
from typing import Any, Final, cast, get_args

from perdure.limits import ERROR_MESSAGE_BYTES_MAX, KIB
from perdure.model.failure import ErrorRecord, FailureClass
from perdure.model.ids import cut_text, plain_text

CAUSES_MAX: Final = 20
CAUSE_BYTES_MAX: Final = 1 * KIB
TRACE_LINES_MAX: Final = 30

_NETWORK_ERRNOS: Final = frozenset(
    {
        errno.ECONNABORTED,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.ENETRESET,
        errno.ENETUNREACH,
        errno.ENOTCONN,
        errno.EPIPE,
        errno.ETIMEDOUT,
    }
)
# What sockets and TLS say when their own time ran out. They raise the same TimeoutError as asyncio, which says nothing.
_NETWORK_TIMEOUTS: Final = (
    "timed out",
    "The read operation timed out",
    "The write operation timed out",
    "The handshake operation timed out",
)


def record_error(error: BaseException) -> ErrorRecord:
    """Return what is recorded of `error`: type, message, causes, trace, class of failure."""
    return ErrorRecord(
        type=_type_name(error),
        message=cut_text(plain_text(_message(error)), ERROR_MESSAGE_BYTES_MAX),
        failure_class=classify_error(error),
        causes=_causes(error),
        trace=_trace(error),
    )


def classify_error(error: BaseException) -> FailureClass:
    """Return the class of failure: the one that the exception names in `failure_class`, else by its type."""
    named = inspect.getattr_static(error, "failure_class", None)  # runs no code of the exception's
    if isinstance(named, str) and named in get_args(FailureClass):
        return cast("FailureClass", named)
    return _classify_type(error)


def _classify_type(error: BaseException) -> FailureClass:
    if isinstance(error, BaseExceptionGroup):
        return _classify_group(cast("BaseExceptionGroup[BaseException]", error))
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    if isinstance(error, ConnectionError | socket.gaierror | socket.herror):
        return "network"
    if isinstance(error, OSError) and error.errno in _NETWORK_ERRNOS:
        return "network"
    if isinstance(error, TimeoutError):
        return "network" if _message(error) in _NETWORK_TIMEOUTS else "timeout"
    return "tool"


def _classify_group(group: BaseExceptionGroup[BaseException]) -> FailureClass:
    """A group is of its members' class where they all have the same."""
    classes: set[FailureClass] = {classify_error(member) for member in group.exceptions}
    return classes.pop() if len(classes) == 1 else "tool"


def _type_name(error: BaseException) -> str:
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return plain_text(name)


def _message(error: BaseException) -> str:
    """`str(error)`, by way of the one function of the standard library that survives a `__str__` which raises."""
    bare = traceback.TracebackException(type(error), error, None, lookup_lines=False, compact=True)
    return str(bare)


def _causes(error: BaseException) -> tuple[str, ...]:
    """Return "type: message" of cause or context and of a group's members, outermost first."""
    lines: list[str] = []
    seen = {id(error)}
    pending = deque(_next_errors(error))
    while pending and len(lines) < CAUSES_MAX:
        cause = pending.popleft()
        if id(cause) not in seen:
            seen.add(id(cause))
            lines.append(cut_text(f"{_type_name(cause)}: {plain_text(_message(cause))}", CAUSE_BYTES_MAX))
            pending.extend(_next_errors(cause))
    return tuple(lines)


def _next_errors(error: BaseException) -> Iterator[BaseException]:
    if error.__cause__ is not None:
        yield error.__cause__
    elif error.__context__ is not None and not error.__suppress_context__:
        yield error.__context__
    if isinstance(error, BaseExceptionGroup):
        yield from cast("BaseExceptionGroup[BaseException]", error).exceptions


def _trace(error: BaseException) -> tuple[str, ...]:
    frames: deque[Any] = deque(traceback.walk_tb(error.__traceback__), maxlen=TRACE_LINES_MAX)
    return tuple(
        plain_text(f"{_file_name(frame.f_code.co_filename)}:{line} {frame.f_code.co_name}") for frame, line in frames
    )


def _file_name(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]
