"""What an error of JSON-RPC means for the call that came back with it."""

from __future__ import annotations

import pytest

from perdure.errors import ServerLost, ServerRefused, ServerUnavailable
from perdure.tools.mcp.config import ServerConfig
from perdure.tools.mcp.failures import Told, meaning
from perdure.tools.recording import classify_error

STDIO, HTTP = ServerConfig(name="desk", transport="stdio"), ServerConfig(name="desk", transport="http")


def judged(server, code, text="no", *, is_free=False):
    """Return the error that is raised for this one."""
    return meaning(server, "send", Told(code=code, text=text, failure_class="request"), is_free=is_free)


@pytest.mark.parametrize(
    ("server", "code", "expected"),
    [
        (STDIO, -32602, ServerRefused),  # invalid params
        (STDIO, -32601, ServerRefused),  # no such method
        (STDIO, -32600, ServerRefused),
        (STDIO, -32603, ServerLost),  # an internal error says as much as a status of 500: it may have happened
        (STDIO, -32000, ServerLost),
        (STDIO, 0, ServerLost),
        (HTTP, -32602, ServerRefused),
        (HTTP, -32700, ServerLost),  # the client could not read the answer; the server may have done it
        (HTTP, -32600, ServerLost),
    ],
)
def test_what_may_have_happened_is_unknown_and_what_was_wrong_is_refused(server, code, expected):
    """For a tool that may not be called twice."""
    error = judged(server, code)
    assert expected is type(error)
    assert ("network" if expected is ServerLost else "request") == classify_error(error).failure_class


@pytest.mark.parametrize("code", [-32603, -32000, -32700, -32602])
def test_a_call_that_may_be_made_again_is_refused_with_its_class(code):
    """Recovery makes it again, or does not, by the class alone."""
    assert ServerRefused is type(judged(HTTP, code, is_free=True))


def test_a_call_that_took_too_long_is_unknown_whatever_its_effect():
    """Its class is one that passes by waiting."""
    assert ServerLost is type(judged(STDIO, -32001, is_free=True))


def test_a_session_that_the_server_has_forgotten_was_sent_nothing():
    """It refuses all calls of that session, so the next one opens another."""
    error = judged(HTTP, -32600, "Session terminated")
    assert ServerUnavailable is type(error)
    assert "capacity" == classify_error(error).failure_class
