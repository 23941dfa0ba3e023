"""What is recorded of an exception, whatever the exception does."""

import asyncio
import errno
import socket
import ssl

import pytest

from perdure.limits import ERROR_MESSAGE_BYTES_MAX
from perdure.model.failure import ErrorRecord
from perdure.tools.recording import record_error


def caught(fn, *args):
    """Return what `fn` raises."""
    with pytest.raises(BaseException) as info:  # noqa: PT011 - all kinds are wanted
        fn(*args)
    return info.value


class NeedsMore(Exception):
    """Cannot be made again without its keyword, and holds what cannot be stored."""

    def __init__(self, *, code):
        self.code = code
        self.lock = object()
        super().__init__(f"code {code}")


class Silent(Exception):
    """Raises when asked for its text."""

    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


class Throttled(Exception):
    """Knows its class of failure."""

    failure_class = "throttled"


class Misnamed(Exception):
    """Names a class that does not exist."""

    failure_class = "whatever"


class Trapped(Exception):
    """Raises when asked for its class."""

    @property
    def failure_class(self):
        """Raise."""
        raise RuntimeError("asked")


def fail(error):
    """Raise it."""
    raise error


def fail_from(error, cause):
    """Raise `error` from `cause`."""
    try:
        fail(cause)
    except type(cause) as caught_error:
        raise error from caught_error


def fail_within(error, context):
    """Raise `error` while `context` is being handled."""
    try:
        fail(context)
    except type(context):
        raise error  # noqa: B904 - the implicit context is wanted


def test_a_record_is_readable_without_the_class():
    """Qualified type, message, and nothing of the object itself."""
    record = record_error(NeedsMore(code=7))
    assert ErrorRecord(type=f"{__name__}.NeedsMore", message="code 7") == record
    assert "ValueError" == record_error(ValueError("x")).type


def test_a_text_that_raises_does_not_mask_the_error():
    """The type is still told."""
    record = record_error(Silent())
    assert (f"{__name__}.Silent", "<exception str() failed>") == (record.type, record.message)


def test_a_huge_message_is_cut_and_says_so():
    """20 MB of message become one limit's worth."""
    message = record_error(ValueError("x" * 20_000_000)).message
    assert len(message.encode()) <= ERROR_MESSAGE_BYTES_MAX
    assert message.endswith("[cut, 20000000 bytes]")


def test_halves_of_surrogate_pairs_are_escaped():
    """A message can always be encoded."""
    assert r"a\udc80b" == record_error(ValueError("a\udc80b")).message


def test_causes_are_listed_outermost_first():
    """`from` wins over what was being handled; `from None` ends the list."""
    middle = caught(fail_from, KeyError("middle"), OSError("root"))
    assert ("KeyError: 'middle'", "OSError: root") == record_error(caught(fail_within, ValueError(), middle)).causes
    hidden = caught(fail_within, ValueError(), KeyError("hidden"))
    hidden.__suppress_context__ = True
    assert () == record_error(hidden).causes


def test_members_of_a_group_are_listed():
    """Nested groups too."""
    inner = ExceptionGroup("inner", [KeyError("b")])
    record = record_error(ExceptionGroup("outer", [ValueError("a"), inner]))
    assert "outer (2 sub-exceptions)" == record.message
    assert ("ValueError: a", "ExceptionGroup: inner (1 sub-exception)", "KeyError: 'b'") == record.causes


def test_a_cycle_of_causes_ends():
    """Each exception is listed once."""
    first, second, third = ValueError("1"), ValueError("2"), ValueError("3")
    first.__cause__, second.__cause__, third.__cause__ = second, third, second
    assert ("ValueError: 2", "ValueError: 3") == record_error(first).causes


def test_a_long_chain_is_cut():
    """At most twenty causes, each of limited length."""
    error = ValueError("x" * 5000)
    for _ in range(50):
        error = caught(fail_from, ValueError("x" * 5000), error)
    causes = record_error(error).causes
    assert 20 == len(causes)
    assert all(len(cause.encode()) <= 1024 for cause in causes)


def test_the_trace_names_files_without_folders():
    """Innermost last, at most thirty lines."""

    def dig(depth):
        return dig(depth - 1) if depth else fail(ValueError())

    trace = record_error(caught(dig, 50)).trace
    assert 30 == len(trace)
    assert trace[-1].startswith("test_recording.py:")
    assert ["fail", "dig"] == [trace[-1].split()[-1], trace[-2].split()[-1]]


@pytest.mark.parametrize(
    ("error", "failure_class"),
    [
        (TimeoutError(), "timeout"),
        (TimeoutError("the query took too long"), "timeout"),
        (TimeoutError("timed out"), "network"),
        (TimeoutError(errno.ETIMEDOUT, "Connection timed out"), "network"),
        (ssl.SSLError("The read operation timed out"), "network"),
        (ConnectionResetError(errno.ECONNRESET, "reset"), "network"),
        (ConnectionError(), "network"),
        (socket.gaierror(-2, "Name or service not known"), "network"),
        (OSError(errno.EHOSTUNREACH, "no route"), "network"),
        (OSError(errno.ENOSPC, "full"), "storage"),
        (FileNotFoundError(errno.ENOENT, "gone"), "tool"),
        (asyncio.CancelledError(), "cancelled"),
        (MemoryError(), "tool"),
        (ValueError(), "tool"),
        (Throttled(), "throttled"),
        (Misnamed(), "tool"),
        (Trapped(), "tool"),
        (ExceptionGroup("", [ConnectionError(), socket.gaierror()]), "network"),
        (ExceptionGroup("", [ConnectionError(), ValueError()]), "tool"),
    ],
)
def test_the_class_of_failure_follows_from_the_type(error, failure_class):
    """A valid `failure_class` on the exception wins; what is not known is the tool's."""
    assert failure_class == record_error(error).failure_class


def test_a_socket_that_runs_out_of_time_is_a_network_failure():
    """The real thing: nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        client.settimeout(0.001)
        error = caught(client.recv, 1)
    assert "network" == record_error(error).failure_class


def test_the_time_out_of_asyncio_is_no_network_failure():
    """Its TimeoutError says nothing, and that is how it is told."""

    async def wait():
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    assert "timeout" == record_error(caught(asyncio.run, wait())).failure_class
