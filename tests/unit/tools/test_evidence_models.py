"""What is taken out of the exceptions of pydantic-ai, which stands between an agent and the clients of providers."""

import httpx2
import openai
import pytest
from pydantic_ai import exceptions as raised

from perdure.tools.recording import record_error

REQUEST = httpx2.Request("POST", "https://api.test/v1")
SERVER = {"type": "server_error", "message": "The server had an error"}
RATE = {"code": "rate_limit_exceeded", "message": "Rate limit reached"}
CUT = httpx2.RemoteProtocolError("peer closed connection without sending complete message body")


def record(error, cause=None):
    """The record of `error`, raised from `cause`."""
    with pytest.raises(type(error)) as info:
        raise error from cause
    return record_error(info.value)


@pytest.mark.parametrize(
    ("error", "failure_class"),
    [
        (raised.ModelHTTPError(529, "m", {"error": {"type": "overloaded_error", "message": "Overloaded"}}), "capacity"),
        (raised.ModelHTTPError(401, "m", {"error": {"message": "no"}}), "auth"),
        (raised.ModelAPIError("m", "boom", body=SERVER), "capacity"),
        (raised.ModelAPIError("m", "slow", body=RATE), "throttled"),
        (raised.ModelAPIError("m", "ended without a `finish_reason`"), "network"),
        (raised.ModelConnectionError("m", "Connection error."), "network"),
        (raised.ModelTimeoutError("m", "Request timed out."), "network"),
        (raised.ModelRequestTimeout("m", 3.0), "network"),
        (raised.UnexpectedModelBehavior("Invalid response"), "output"),
        (raised.IncompleteToolCall("cut off"), "output"),
        (raised.OutputTokenLimitExceeded("cut off"), "output"),
        (raised.ContentFilterError("filtered"), "refusal"),
        (raised.UserError("native output is not supported"), "request"),
        (openai.APIError("in a stream", REQUEST, body=SERVER), "capacity"),
    ],
)
def test_each_error_has_its_class(error, failure_class):
    """By its status, by its body where it came inside an answer, by its name where it has neither."""
    found = record(error)
    assert (failure_class, False) == (found.failure_class, found.is_unknown)


def test_a_cause_tells_what_was_lost():
    """A dropped stream is of the network, and the record names what lies below."""
    found = record(raised.ModelConnectionError("m", "peer closed"), CUT)
    assert "network" == found.failure_class
    assert "httpx2.RemoteProtocolError" in found.causes[0]


def test_a_wait_that_was_asked_for_is_kept():
    """Headers come as pydantic-ai hands them on: a plain dict in lower case."""
    found = record(raised.ModelHTTPError(429, "m", {"error": RATE}, headers={"retry-after": "7"}))
    assert ("throttled", 7.0) == (found.failure_class, found.wait_s)
