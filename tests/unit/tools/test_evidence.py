"""What is taken out of exceptions: of the usual clients, by the shapes they have, and of those that mean harm."""

import asyncio
import email.message
import errno
import http.client
import io
import json
import socket
import ssl
import subprocess
import sys
import types
import urllib.error
from http import HTTPStatus

import httpx2
import openai
import pytest

from perdure.tools.evidence import CHAIN_MAX, NODES_MAX, STDERR_CHARS_MAX, TEXT_CHARS_MAX, evidence_of
from perdure.tools.recording import record_error

NOW = 1_791_048_600_000_000


def caught(fn, *args):
    """Return what `fn` raises."""
    with pytest.raises(BaseException) as info:  # noqa: PT011 - all kinds are wanted
        fn(*args)
    return info.value


def fail_from(error, cause):
    """Raise `error` from `cause`."""
    raise error from cause


def foreign(module, name, base=Exception, **fields):
    """Return an exception of a class `module.name`, with fields as its constructor would have set them."""
    kind = type(name, (base,), {"__module__": module, "__str__": lambda self: self.__dict__.get("text", "")})
    error = kind()
    error.__dict__.update(fields)
    return error


def openai_error(kind, status, body, headers=()):
    """Return an error as the client of OpenAI raises it."""
    request = httpx2.Request("POST", "https://api.test/v1")
    response = httpx2.Response(status, headers=dict(headers), json=body, request=request)
    inner = body.get("error", body)
    return kind(f"Error code: {status} - {body}", response=response, body=inner)


def evidence(error):
    """Return the evidence that an exception carries."""
    return evidence_of(error, str(error))


class ResponseOfRequests:
    """As requests keeps an answer."""

    def __init__(self, status, content, headers):
        self.status_code = status
        self._content = content
        self.headers = type("CaseInsensitiveDict", (), {})()
        self.headers._store = {name.lower(): (name, value) for name, value in headers.items()}

    @property
    def text(self):
        """Nobody asks for it."""
        raise AssertionError("read")


# ---------------------------------------------------------------- clients


def test_an_error_of_openai_carries_status_headers_and_body():
    """The real client's: the whole body, as it was received."""
    body = {"error": {"message": "slow", "type": "tokens", "param": None, "code": "rate_limit_exceeded"}}
    found = evidence(openai_error(openai.RateLimitError, 429, body, {"Retry-After": "7"}))
    assert ("http", 429, "7") == (found.kind, found.status, found.headers["retry-after"])
    assert body == json.loads(found.body)
    assert "openai.RateLimitError" == found.type.replace("_exceptions.", "")


def test_what_is_recorded_of_an_error_of_openai():
    """Class, row, provider, status, wait."""
    body = {"error": {"message": "slow", "type": "tokens", "param": None, "code": "rate_limit_exceeded"}}
    record = record_error(openai_error(openai.RateLimitError, 429, body, {"Retry-After": "7"}), NOW)
    found = (record.failure_class, record.rule, record.provider, record.status, record.wait_s, record.is_unknown)
    assert ("throttled", "throttled.rate", "openai", 429, 7.0, False) == found


def test_a_quota_that_comes_back_is_recorded_with_its_moment():
    """Counted from `now`; without a clock there is none."""
    message = "Rate limit reached on requests per day (RPD): Limit 200. Please try again in 7m12s."
    error = openai_error(openai.RateLimitError, 429, {"error": {"message": message, "code": "rate_limit_exceeded"}})
    assert ("quota", NOW + 432_000_000) == (record_error(error, NOW).failure_class, record_error(error, NOW).until)
    assert (432.0, 0) == (record_error(error).wait_s, record_error(error).until)


def test_a_lost_connection_of_openai_is_told_from_what_lies_below():
    """Its own text is "Connection error."; a certificate is no blip."""
    request = httpx2.Request("POST", "https://api.test/v1")
    blip = caught(fail_from, openai.APIConnectionError(request=request), httpx2.ConnectError("refused"))
    assert "network" == record_error(blip).failure_class
    below = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: expired")
    forged = caught(fail_from, openai.APIConnectionError(request=request), below)
    assert ("auth", "tls.certificate") == (record_error(forged).failure_class, record_error(forged).rule)
    assert "network" == record_error(openai.APITimeoutError(request=request)).failure_class


@pytest.mark.parametrize(
    ("error", "failure_class"),
    [
        (httpx2.ConnectTimeout("slow"), "network"),
        (httpx2.ReadTimeout("slow"), "network"),
        (httpx2.RemoteProtocolError("peer closed connection"), "network"),
        (httpx2.UnsupportedProtocol("Request URL is missing an 'http://' or 'https://' protocol."), "request"),
        (http.client.IncompleteRead(b"half"), "network"),
        (http.client.RemoteDisconnected("Remote end closed connection without response"), "network"),
        (urllib.error.URLError(ConnectionRefusedError(errno.ECONNREFUSED, "refused")), "network"),
        (urllib.error.URLError(ssl.SSLCertVerificationError(1, "certificate verify failed")), "auth"),
        (foreign("requests.exceptions", "ReadTimeout", OSError), "network"),
        (foreign("aiohttp.client_exceptions", "ServerDisconnectedError"), "network"),
        (foreign("google.auth.exceptions", "RefreshError"), "auth"),
        (foreign("anthropic", "APIConnectionError"), "network"),
        (foreign("botocore.exceptions", "EndpointConnectionError"), "network"),
        (foreign("grpc.aio", "AioRpcError", text="<AioRpcError status = StatusCode.UNAVAILABLE>"), "capacity"),
        (foreign("grpc.aio", "AioRpcError", text="<AioRpcError status = StatusCode.UNAUTHENTICATED>"), "auth"),
    ],
)
def test_connections_of_clients_are_known_by_their_class(error, failure_class):
    """No status, no errno: the name of the class, or of what it is wrapped around, says it."""
    assert failure_class == record_error(error).failure_class


def test_an_error_of_anthropic_is_read():
    """Its body is the whole body."""
    body = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    response = types.SimpleNamespace(status_code=529, headers={"Retry-After": "3"})
    found = record_error(foreign("anthropic", "OverloadedError", status_code=529, body=body, response=response))
    assert ("capacity", "anthropic", 3.0) == (found.failure_class, found.provider, found.wait_s)


def test_an_error_of_google_is_read():
    """`code` is a status there, `details` the body."""
    violation = {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}
    details = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "", "details": [violation]}}
    error = foreign("google.genai.errors", "ClientError", code=429, status="RESOURCE_EXHAUSTED", details=details)
    record = record_error(error, NOW)
    assert ("quota", 429, "google") == (record.failure_class, record.status, record.provider)
    kind = type("ResourceExhausted", (Exception,), {"__module__": "google.api_core.exceptions"})
    kind.code = HTTPStatus.TOO_MANY_REQUESTS
    assert "throttled" == record_error(kind("429 Quota exceeded for requests_per_minute_per_project")).failure_class


def test_an_error_of_azure_is_read():
    """The error is an object, the headers those of requests."""
    told = types.SimpleNamespace(code="content_filter", message="filtered", details=[], innererror=None)
    response = ResponseOfRequests(400, b"", {"apim-request-id": "1"})
    error = foreign("azure.core.exceptions", "HttpResponseError", status_code=400, response=response, error=told)
    assert ("refusal", "azure") == (record_error(error).failure_class, record_error(error).provider)


def test_an_error_of_aws_is_read():
    """The response is a dict."""
    how = {"HTTPStatusCode": 400, "HTTPHeaders": {"x-amzn-requestid": "1"}}
    for response in ({"Error": {"Code": "ThrottlingException", "Message": "slow"}, "ResponseMetadata": how},
                     {"Error": {"Code": "throttlingException", "Message": "slow"}}):  # fmt: skip
        error = foreign("botocore.exceptions", "ClientError", response=response)
        assert ("throttled", "aws") == (record_error(error).failure_class, record_error(error).provider)


def test_an_error_of_requests_is_read():
    """Status, headers and received bytes of the response; its properties are left alone."""
    response = ResponseOfRequests(429, b'{"error": {"code": "insufficient_quota"}}', {"Retry-After": "3"})
    found = evidence(foreign("requests.exceptions", "HTTPError", OSError, response=response))
    assert (429, {"retry-after": "3"}) == (found.status, found.headers)
    assert "quota" == record_error(foreign("requests.exceptions", "HTTPError", response=response)).failure_class


def test_an_error_of_aiohttp_is_read():
    """Headers that are compiled, `status` on the error itself."""
    headers = type("CIMultiDictProxy", (), {"__module__": "multidict", "items": lambda self: [("Retry-After", "9")]})
    error = foreign("aiohttp.client_exceptions", "ClientResponseError", status=503, headers=headers(), message="down")
    assert ("capacity", 9.0) == (record_error(error).failure_class, record_error(error).wait_s)


def test_an_error_of_urllib_is_read_and_its_body_is_not():
    """The body may still be on the wire."""
    headers = email.message.Message()
    headers["Retry-After"] = "11"
    body = io.BytesIO(b"later")
    error = urllib.error.HTTPError("https://x.test", 503, "Service Unavailable", headers, body)
    record = record_error(error)
    assert ("capacity", 503, 11.0) == (record.failure_class, record.status, record.wait_s)
    assert b"later" == error.read()


def test_an_error_of_ones_own_with_a_status_is_read():
    """`status_code` says HTTP; a field with a name as common as `code` does not."""
    assert "auth" == record_error(foreign("mine", "ApiError", status_code=401)).failure_class
    assert "tool" == record_error(foreign("mine", "ParseError", code=404)).failure_class
    assert "request" == record_error(foreign("mine", "ApiError", code=404, headers={})).failure_class


def test_a_body_that_the_client_did_not_keep_is_found_in_the_error_that_was_raised_from_it():
    """A tool reads what urllib leaves unread, and says it in an error of its own. The wait stands in the headers."""
    headers = email.message.Message()
    headers["Retry-After"] = "7"
    told = '{"error": {"code": "context_length_exceeded", "message": "too long"}}'
    for text, status, verdict in (
        (f"HTTP 400: {told}", 400, ("context", "context.length", 0.0)),
        ("HTTP 429: {'error': {'code': 'rate_limit_exceeded'}}", 429, ("throttled", "throttled.rate", 7.0)),
        ("no answer for page 7", 400, ("request", "http.400", 0.0)),
    ):
        client = urllib.error.HTTPError("http://api.test", status, "No", headers, io.BytesIO(b""))
        record = record_error(caught(fail_from, RuntimeError(text), client), NOW)
        assert (record.failure_class, record.rule, record.wait_s) == verdict
        assert record.status == status


def test_a_body_that_the_client_has_kept_outweighs_what_is_said_above_it():
    """The words of whoever hands an error on are no answer of the provider."""
    client = foreign("httpx", "HTTPStatusError", status_code=400, body={"error": {"code": "invalid_value"}})
    record = record_error(caught(fail_from, RuntimeError("the context_length_exceeded page is wrong"), client), NOW)
    assert record.failure_class == "request"


# ---------------------------------------------------------------- processes, MCP, files


def test_a_process_tells_by_what_it_wrote_to_stderr():
    """The real thing: exit code 1, and the reason on stderr only."""
    script = "import sys; sys.stderr.write('Error: credit balance too low\\n'); sys.exit(1)"
    error = caught(lambda: subprocess.run([sys.executable, "-c", script], check=True, capture_output=True))
    found = evidence(error)
    assert ("process", 1, "Error: credit balance too low\n") == (found.kind, found.exit_code, found.message)
    assert ("quota", "process.quota") == (record_error(error).failure_class, record_error(error).rule)


def test_a_process_that_says_nothing_is_the_tools_failure():
    """Whatever its exit code."""
    error = subprocess.CalledProcessError(127, ["nope"])
    assert ("tool", "process.exit") == (record_error(error).failure_class, record_error(error).rule)
    long = subprocess.CalledProcessError(1, ["x"], stderr="rate limit exceeded\n" + "x" * STDERR_CHARS_MAX)
    assert "tool" == record_error(long).failure_class


def test_a_process_that_ran_out_of_time_is_late():
    """It was killed in the middle."""
    assert "timeout" == record_error(subprocess.TimeoutExpired(["x"], 5)).failure_class
    assert "timeout" == record_error(caught(fail_from, RuntimeError("x"), TimeoutError())).failure_class


def test_an_error_of_mcp_is_read():
    """By the code of JSON-RPC."""
    told = types.SimpleNamespace(code=-32601, message="Method not found", data=None)
    error = foreign("mcp.shared.exceptions", "McpError", error=told)
    assert ("request", "mcp.call") == (record_error(error).failure_class, record_error(error).rule)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_disk_that_is_full_or_broken_is_storage(number):
    """No other tool and no other argument helps."""
    assert "storage" == record_error(OSError(number, "disk")).failure_class
    assert "storage" == record_error(caught(fail_from, RuntimeError("not written"), OSError(number, "x"))).failure_class


# ---------------------------------------------------------------- causes


def test_the_cause_is_asked_where_the_error_itself_says_nothing():
    """Only what it was raised from; what was being handled when a mistake was made is no cause."""
    lost = ConnectionResetError(errno.ECONNRESET, "reset")
    assert "network" == record_error(caught(fail_from, RuntimeError("no weather"), lost)).failure_class
    mistake = KeyError("city")
    mistake.__context__ = lost
    assert "tool" == record_error(mistake).failure_class
    hidden = openai.APIConnectionError(request=httpx2.Request("GET", "https://x.test"))
    hidden.__context__ = ssl.SSLCertVerificationError(1, "certificate verify failed")
    assert "auth" == record_error(hidden).failure_class


def test_a_chain_of_causes_is_followed_so_far():
    """A cycle ends, and so does a chain without end."""
    first, second = ValueError("1"), ValueError("2")
    first.__cause__, second.__cause__ = second, first
    assert "tool" == record_error(first).failure_class
    error = ConnectionError()
    for _ in range(CHAIN_MAX):
        error = caught(fail_from, ValueError(), error)
    assert "tool" == record_error(error).failure_class
    assert "network" == record_error(error.__cause__).failure_class


def test_a_group_has_the_verdict_of_its_members():
    """Where they are of one class; the longest wait of them."""

    def busy(wait):
        return foreign("mine", "Busy", status_code=503, headers={"retry-after": wait})

    record = record_error(ExceptionGroup("", [busy("3"), busy("9")]))
    assert ("capacity", 503, 9.0) == (record.failure_class, record.status, record.wait_s)
    assert "tool" == record_error(ExceptionGroup("", [busy("3"), ValueError()])).failure_class


def test_a_class_that_is_named_wins_and_may_say_how_long():
    """`failure_class` and `retry_after_s`; what is no number is not taken."""
    record = record_error(foreign("mine", "E", failure_class="throttled", retry_after_s=4, status_code=401))
    assert ("throttled", 4.0, "named", 401) == (record.failure_class, record.wait_s, record.rule, record.status)
    for odd in ("4", float("nan"), -3, True, None):
        assert 0.0 == record_error(foreign("mine", "E", failure_class="quota", retry_after_s=odd)).wait_s
    assert NOW + 60_000_000 == record_error(foreign("mine", "E", failure_class="quota", retry_after_s=60), NOW).until


# ---------------------------------------------------------------- what means harm


def trap(*_):
    """Fail whoever asks."""
    raise RuntimeError("asked")


class Trapped(Exception):
    """Every field that anybody might ask for, and those of the language itself, raise."""

    __class__ = property(trap)
    __dict__ = property(trap)
    __cause__ = property(trap)
    __context__ = property(trap)
    __traceback__ = property(trap)
    __suppress_context__ = property(trap)
    args = property(trap)
    response = status_code = code = status = headers = body = property(trap)
    failure_class = error = returncode = stderr = reason = retry_after_s = property(trap)
    __str__ = __repr__ = __eq__ = __hash__ = __getattribute__ = __getattr__ = trap


class TrappedMeta(type):
    """A class of which nothing may be asked either."""

    __module__ = property(trap)
    __mro__ = property(trap)
    __instancecheck__ = __subclasscheck__ = __eq__ = __hash__ = trap


class TrappedText(str):
    """A text whose methods raise."""

    __slots__ = ()
    lower = strip = encode = __getitem__ = __len__ = __iter__ = __eq__ = __hash__ = __str__ = __format__ = trap


class TrappedDict(dict):
    """A dict whose methods raise."""

    items = keys = values = get = __getitem__ = __iter__ = __len__ = __contains__ = trap


def test_no_code_of_an_exception_is_run():
    """Of its class, its fields, its text: the record is made all the same."""
    record = record_error(Trapped())
    assert (f"{__name__}.Trapped", "<exception str() failed>", "tool") == (
        record.type, record.message, record.failure_class)  # fmt: skip
    kind = TrappedMeta("Odd", (Exception,), {})
    assert "tool" == record_error(kind("x")).failure_class


def test_no_code_of_what_an_exception_carries_is_run():
    """Texts, dicts, responses and headers that raise."""
    error = foreign(
        "mine",
        "ApiError",
        status_code=503,
        headers=TrappedDict({"Retry-After": TrappedText("8")}),
        body=TrappedDict({"error": TrappedDict({"code": TrappedText("insufficient_quota")})}),
    )
    assert ("quota", "quota.credit") == (record_error(error).failure_class, record_error(error).rule)
    assert "capacity" == record_error(foreign("mine", "E", status_code=503, response=Trapped())).failure_class
    named = foreign("mine", "E", failure_class=TrappedText("quota"))
    assert "tool" == record_error(named).failure_class


def test_what_is_copied_has_bounds():
    """A body that contains itself, that is deep, wide or long."""
    loop = {}
    loop["error"] = loop
    wide = {str(number): {"message": "x" * 100} for number in range(10_000)}
    for body in (loop, wide, "x" * 10_000_000, b"x" * 10_000_000, [[]] * 100_000):
        found = evidence(foreign("mine", "E", status_code=503, body=body))
        assert len(json.dumps(found.body)) <= max(TEXT_CHARS_MAX + 2, NODES_MAX * 150)
        assert "capacity" == record_error(foreign("mine", "E", status_code=503, body=body)).failure_class


def test_cancellation_is_cancellation():
    """Whatever lies below it."""
    assert "cancelled" == record_error(caught(fail_from, asyncio.CancelledError(), ConnectionError())).failure_class


def test_a_refused_connection_is_a_network_failure():
    """The real thing: nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        error = caught(socket.create_connection, free.getsockname(), 1)
    assert ("network", "os.network") == (record_error(error).failure_class, record_error(error).rule)
