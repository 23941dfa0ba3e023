"""The classifier: documented errors, rows that no page documents, wrappings, waits and moments, answers."""

import json
import string
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.classify import Evidence, EvidenceKind, classify, classify_reply, elsewhere, rows
from perdure.core.classify.waits import QUOTA_WAIT_S_MAX, WAIT_S_MAX, duration_s, next_month, next_pacific_midnight
from perdure.model.failure import FailureClass

FIXTURE = Path(__file__).parents[2] / "fixtures" / "errors.jsonl"
ERRORS = [json.loads(line) for line in FIXTURE.read_text("utf-8").splitlines()]
ERRORS_MIN = 80
NOW = 1_791_048_600_000_000  # 2026-10-03 17:30 UTC
SECOND = 1_000_000


def us(*moment):
    """Return a moment in UTC microseconds."""
    return int(datetime(*moment, tzinfo=UTC).timestamp()) * SECOND


def judged(kind="http", now=NOW, **fields):
    """Return (class, wait, moment) of that evidence."""
    verdict = classify(Evidence(kind=kind, **fields), now)
    return verdict.failure_class, verdict.wait_s, verdict.until


def class_of(kind="http", **fields):
    """Return the class of that evidence."""
    return classify(Evidence(kind=kind, **fields), NOW).failure_class


def error(message="", **fields):
    """Return a body as most providers send it."""
    return {"error": {"message": message, **fields}}


# ---------------------------------------------------------------- the fixture


def test_documented_errors_have_their_class_and_wait():
    """Every row of errors.jsonl has the class, the wait and, where it names one, the moment that it expects."""
    wrong = []
    for row in ERRORS:
        verdict = classify(Evidence(**row["evidence"]), row["now"])
        found = {"failure_class": verdict.failure_class, "wait_s": verdict.wait_s, "until": verdict.until}
        if row["expect"] != {name: found[name] for name in row["expect"]}:
            wrong.append((row["name"], row["expect"], verdict))
    print(f"{len(ERRORS)} documented errors, {len(wrong)} of them wrong")
    assert [] == wrong
    assert len(ERRORS) >= ERRORS_MIN


def test_each_documented_error_names_its_page():
    """A row has a name of its own and the public page that it is made from."""
    assert len(ERRORS) == len({row["name"] for row in ERRORS})
    assert [] == [row["name"] for row in ERRORS if not row["source"].startswith("https://")]
    assert {"name", "source", "evidence", "now", "expect"} == set().union(*ERRORS)


# ---------------------------------------------------------------- each row of the tables

EXAMPLES = {
    "quota.exceeded": {"body": error(code="ServiceQuotaExceededException"), "status": 400},
    "quota.long_wait": {"body": error("Please retry in 9h54m.", status="RESOURCE_EXHAUSTED"), "status": 429},
    "http.413": {"status": 413},
    "text.auth": {"status": 400, "body": error("The provided API key is expired.")},
    "http.should_not_retry": {"status": 500, "headers": {"x-should-retry": "false"}},
    "http.403": {"status": 403},
    "http.409": {"status": 409, "provider": "openai"},
    "text.down": {"kind": "event", "body": error("The service is currently unavailable.")},
    "text.network": {"kind": "event", "body": error("connection reset by peer")},
    "client.certificate": {"kind": "socket", "type": "ssl.SSLCertVerificationError"},
    "client.auth": {"kind": "socket", "type": "google.auth.exceptions.DefaultCredentialsError"},
    "client.output": {"kind": "socket", "type": "openai.LengthFinishReasonError"},
    "client.filter": {"kind": "socket", "type": "openai.ContentFilterFinishReasonError"},
    "process.context": {"kind": "process", "message": "Error: prompt is too long"},
    "process.auth": {"kind": "process", "message": "fatal: Authentication failed for 'https://x.test/'"},
    "process.rate": {"kind": "process", "message": "Error: rate limit exceeded, slow down"},
    "process.down": {"kind": "process", "message": "the server is overloaded"},
    "mcp.header": {"kind": "mcp", "body": {"code": -32001, "message": "Header mismatch: Mcp-Method"}},
    "mcp.context": {"kind": "mcp", "body": {"code": -32000, "message": "input is too long"}},
    "mcp.quota": {"kind": "mcp", "body": {"code": -32000, "message": "insufficient credits"}},
    "mcp.auth": {"kind": "mcp", "body": {"code": -32000, "message": "invalid API key"}},
    "mcp.rate": {"kind": "mcp", "body": {"code": -32000, "message": "too many requests"}},
    "mcp.down": {"kind": "mcp", "body": {"code": -32603, "message": "bad gateway"}},
    "mcp.network": {"kind": "mcp", "body": {"code": -32000, "message": "connect ECONNREFUSED 127.0.0.1:9"}},
    "process.check": {"kind": "process", "message": "Expected status code 200 but got status code 401"},
}
TABLES = (rows.HTTP, elsewhere.TLS, elsewhere.TYPES, elsewhere.PROCESS, elsewhere.MCP, elsewhere.MCP_WORDS)


@pytest.mark.parametrize(("rule", "fields"), EXAMPLES.items(), ids=EXAMPLES.keys())
def test_a_row_fires(rule, fields):
    """What no public page documents is reached too."""
    assert rule == classify(Evidence(**{"kind": "http", **fields}), NOW).rule


def test_no_row_is_dead():
    """Each row of each table is the first that fits some error of the fixture or of the examples."""
    fired = {classify(Evidence(**row["evidence"]), row["now"]).rule for row in ERRORS} | EXAMPLES.keys()
    named = {row.rule for table in TABLES for row in table if "{" not in row.rule}
    assert set() == named - fired


@pytest.mark.parametrize("status", range(300, 600))
def test_every_status_has_a_row(status):
    """A status alone is never unknown, and the row is named after it."""
    verdict = classify(Evidence(kind="http", status=status), NOW)
    assert (False, f"http.{status}") == (verdict.is_unknown, verdict.rule)


# ---------------------------------------------------------------- unknown ones


def test_an_unknown_error_is_capacity_once_and_says_so():
    """Of a provider, a server or MCP; recovery makes a request of it the next time."""
    unknown = [
        Evidence(kind="event", provider="openai", body=error("?", type="brand_new")),
        Evidence(kind="http", status=999),
        Evidence(kind="mcp", body={"code": -32077, "message": "?"}),
        Evidence(kind="mcp", body={"code": -32603, "message": "Internal error"}),  # a bug of the server, or a blip
        Evidence(kind="socket", type="aiohttp.Odd"),
    ]
    assert [("capacity", True)] * 5 == [(v.failure_class, v.is_unknown) for v in (classify(e, NOW) for e in unknown)]


@pytest.mark.parametrize("message", ["bad city", "{'error': 'x'}", "rate limit exceeded", "no api key", "status: 404"])
def test_a_plain_exception_is_the_tools_own(message):
    """Words alone, without a sign of a provider, HTTP, a process or MCP, say nothing."""
    verdict = classify(Evidence(type="ValueError", message=message), NOW)
    assert ("tool", False) == (verdict.failure_class, verdict.is_unknown)


@pytest.mark.parametrize(
    ("code", "failure_class"),
    [
        ("team_spend_limit_exceeded", "quota"),
        ("prepaid_credits_depleted", "quota"),
        ("user_balance_too_low", "quota"),
        ("token_rate_limit_reached", "throttled"),
        ("ProvisionedThroughputExceededException", "throttled"),
        ("RequestThrottledException", "throttled"),
        ("gpu_capacity_exceeded", "capacity"),
        ("engine_overloaded_error", "capacity"),
        ("EXPIRED_ACCESS_TOKEN", "auth"),
        ("ExpiredTokenException", "auth"),
        ("API_KEY_SERVICE_BLOCKED", "auth"),
        ("max_context_length_exceeded", "context"),
        ("context_window_exceeded_error", "context"),
        ("RequestEntityTooLarge", "context"),
        ("cyber_policy_violation", "refusal"),
        ("input_moderation_blocked", "refusal"),
        ("InvalidImageFormat", "request"),
    ],
)
def test_a_code_that_nobody_has_listed_finds_its_family(code, failure_class):
    """Whether it stands in `code`, `type`, `status` or a `reason`, and however it is spelled."""
    for name in ("code", "type", "status", "reason"):
        assert failure_class == class_of(status=400, body=error("?", **{name: code}))


# ---------------------------------------------------------------- fields, status, words


def test_fields_come_before_the_status():
    """A code decides whatever the status says."""
    assert "auth" == class_of(status=500, body=error(code="invalid_api_key"))
    assert "quota" == class_of(status=503, body=error(code="credit_balance_exhausted"))
    assert "context" == class_of(status=500, body=error(code="context_length_exceeded"))
    assert "throttled" == class_of(status=503, body=error(code="slow_down"))


def test_the_status_comes_before_words():
    """Words sharpen a status that leaves more than one class open, and no other."""
    assert "auth" == class_of(status=401, body=error("insufficient credits"))
    assert "capacity" == class_of(status=502, body=error("invalid api key"))
    assert "auth" == class_of(status=400, body=error("invalid api key"))
    assert "quota" == class_of(status=403, body=error("Your credit balance is too low"))


def test_a_page_is_not_read_for_words():
    """A long text, or HTML, speaks of many things."""
    page = "<!doctype html><html><body>How to fix: prompt is too long. Invalid API key.</body></html>"
    assert "request" == class_of(status=404, body=page)
    assert "request" == class_of(status=404, body="prompt is too long " * 1000)


def test_what_was_sent_is_not_read():
    """A server that sends the refused input back does not put words into the error's mouth."""
    body = {
        "detail": [{"type": "missing", "loc": ["body"], "msg": "?", "input": {"message": "credit balance too low"}}]
    }
    assert "request" == class_of(status=422, body=body)


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda body: [body],
        lambda body: {"error": body},
        json.dumps,
        lambda body: json.dumps(body).encode(),
        lambda body: f"upstream said: {body!r} (attempt 2)",
        lambda body: {"error": {"message": json.dumps(body), "code": 429, "status": "Too Many Requests"}},
        lambda body: {"error": {"message": "Provider returned error", "metadata": {"raw": json.dumps(body)}}},
        lambda body: {"error": {"message": f"Error code: 429 - {body!r}"}},
        lambda body: {"detail": body},
        lambda body: f"calling {{tool}} [2]: {json.dumps(body)}",
    ],
)
def test_an_error_is_found_in_its_wrapping(wrapped):
    """Lists, errors in errors, JSON as text, as bytes, in a message, and the `repr` of a dict."""
    body = error("?", type="some_type", code="credit_balance_exhausted")
    assert "quota" == class_of(status=429, body=wrapped(body))


@pytest.mark.parametrize(
    ("kind", "failure_class"),
    [
        ("httpx.ReadTimeout", "network"),
        ("ConnectionResetError", "network"),
        ("socket.gaierror", "network"),
        ("ssl.SSLCertVerificationError", "auth"),
        ("aiohttp.client_exceptions.ClientConnectorCertificateError", "auth"),
        ("openai.AuthenticationError", "auth"),
        ("TimeoutError", "timeout"),
        ("subprocess.TimeoutExpired", "timeout"),
        ("KeyError", "tool"),
    ],
)
def test_the_name_of_an_exception_is_enough(kind, failure_class):
    """Where nothing else is known of it: those of clients and of the language."""
    assert failure_class == class_of(kind="exception", type=kind)


@pytest.mark.parametrize(
    ("status", "message", "failure_class"),
    [
        (429, "Your team has either used all available credits or reached its monthly spending limit.", "quota"),
        (403, "Your newly created team doesn't have any credits yet.", "quota"),
        (403, "Out of call volume quota. Quota will be replenished in 08:20:00.", "quota"),
        (400, "This request would exceed your account's spend limit.", "quota"),
        (429, "You are using a Trial key, which is limited to 1000 API calls / month.", "quota"),
        (429, "You are using a Trial key, which is limited to 40 API calls / minute.", "throttled"),
        (429, "Rate limit of 150 per 86400s exceeded for UserByModelByDay. Please wait 52000 seconds.", "quota"),
        (400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens.", "context"),
        (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097.", "context"),
        (400, "Range of input length should be [1, 30720]", "context"),
        (400, "Prompt contains 40000 tokens, too large for model with 32768 maximum context length", "context"),
        (500, "Requested tokens (2285) exceed context window of 2048", "context"),
        (400, "key invalid", "auth"),
        (400, "This organization has been disabled.", "auth"),
        (498, "invalid api token", "auth"),
        (400, "invalid key in the object", "request"),
        (400, "max_tokens must be positive", "request"),
    ],
)
def test_words_of_many_servers_are_understood(status, message, failure_class):
    """Where a server has no code for what it says."""
    assert failure_class == class_of(status=status, body={"message": message})


@pytest.mark.parametrize("provider", ["", "openai", "azure", "anthropic", "google", "vertex", "somebody"])
def test_the_provider_need_not_be_known(provider):
    """The class of a body is told from the body."""
    assert "refusal" == class_of(provider=provider, status=400, body=error("filtered", code="content_filter"))
    body = error("?", code=429, status="RESOURCE_EXHAUSTED", details=[{"violations": [{"quotaId": "RequestsPerDay"}]}])
    assert "quota" == class_of(provider=provider, status=429, body=body)


@pytest.mark.parametrize(
    ("fields", "provider"),
    [
        ({"provider": "Azure OpenAI"}, "azure"),
        ({"provider": "gemini"}, "google"),
        ({"headers": {"apim-request-id": "1"}, "type": "openai.RateLimitError"}, "azure"),
        ({"headers": {"Anthropic-Organization-Id": "1"}}, "anthropic"),
        ({"type": "openai.RateLimitError"}, "openai"),
        ({"body": {"type": "error", "error": {"type": "api_error", "message": ""}}}, "anthropic"),
        ({"body": error(code=400, status="INVALID_ARGUMENT")}, "google"),
        ({"body": error(type="t", param=None, code="c")}, "openai"),
        ({"body": {"message": "x"}}, ""),
    ],
)
def test_the_provider_is_told_from_what_there_is(fields, provider):
    """By name, header, class of the exception, or shape of the body."""
    assert provider == classify(Evidence(kind="http", status=429, **fields), NOW).provider


def test_x_should_retry_sharpens_a_status_alone():
    """It does not undo what a code has said."""
    yes, no = {"x-should-retry": "true"}, {"x-should-retry": "false"}
    assert ["capacity", "request"] == [class_of(status=409, headers=given) for given in (yes, {})]
    assert ["quota", "throttled"] == [class_of(status=429, headers=given) for given in (no, {})]
    assert ["request", "capacity"] == [class_of(status=503, headers=given) for given in (no, {})]
    assert "throttled" == class_of(status=429, headers={**no, "retry-after": "3"})
    assert "quota" == class_of(status=429, headers=yes, body=error(code="insufficient_quota"))


# ---------------------------------------------------------------- waits and moments


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("6m0s", 360), ("1s", 1), ("20ms", 0.02), ("1m26.4s", 86.4), ("10h17m5.5s", 37025.5), ("2 minutes", 120),
        ("1 hour 3 min", 3780), ("1d", 86400), ("34.07s", 34.07), ("soon", 0), ("", 0), ("-3s", 0), ("6", 0),
    ],
)  # fmt: skip
def test_durations_are_read(text, seconds):
    """Those of headers, of protocol buffers and of prose; what is none is 0."""
    assert seconds == pytest.approx(duration_s(text))


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"Retry-After": "9"}, 9),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "Sat, 03 Oct 2026 17:30:30 GMT"}, 30),
        ({"retry-after": "Sat, 03 Oct 2026 17:29:30 GMT"}, 0),
        ({"retry-after": "nan"}, 0),
        ({"retry-after": "inf"}, 0),
        ({"retry-after": "-1", "x-ratelimit-reset-requests": "2s"}, 2),
        ({"retry-after": "1e300"}, WAIT_S_MAX),
        ({"retry-after": "9999999999"}, WAIT_S_MAX),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "6m0s"}, 360),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-remaining-requests": "0",
          "x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-remaining-tokens": "5"}, 1),
        ({"anthropic-ratelimit-tokens-reset": "2026-10-03T17:30:12Z", "anthropic-ratelimit-tokens-remaining": "0"}, 12),
        ({"anthropic-ratelimit-output-tokens-reset": "2026-10-03T19:30:07+02:00"}, 7),
        ({"x-ratelimit-reset": "1791048660"}, 60),
        ({"x-ratelimit-reset": "1791048660000"}, 60),
        ({"ratelimit-reset": "45"}, 45),
    ],
)  # fmt: skip
def test_headers_tell_the_wait(headers, wait_s):
    """Seconds, milliseconds, dates, durations, moments; never negative, never absurd."""
    assert ("throttled", wait_s, 0) == judged(status=429, headers=headers)


def test_a_date_is_measured_against_the_servers_clock():
    """So a clock that is wrong on this side, or not known at all, does not matter."""
    headers = {"date": "Sat, 03 Oct 2026 17:30:00 GMT", "retry-after": "Sat, 03 Oct 2026 17:30:30 GMT"}
    assert ("capacity", 30, 0) == judged(status=503, headers=headers, now=us(1999, 1, 1))
    assert ("capacity", 30, 0) == judged(status=503, headers=headers, now=0)
    assert ("capacity", 0, 0) == judged(status=503, headers={"retry-after": headers["retry-after"]}, now=0)


def test_only_what_goes_away_by_waiting_has_a_wait():
    """A wrong key is not better in twenty seconds; money that is gone is not paid in within them."""
    headers = {"retry-after": "20"}
    assert ("auth", 0, 0) == judged(status=401, headers=headers)
    assert ("request", 0, 0) == judged(status=400, headers=headers)
    assert ("quota", 0, 0) == judged(status=429, headers=headers, body=error(code="insufficient_quota"))
    assert ("network", 20, 0) == judged(status=408, headers=headers)


def test_a_delay_in_the_body_is_found():
    """As Google tells it, nested or not, as text or in parts."""
    for delay in ("34.07s", {"seconds": 34, "nanos": 70_000_000}):
        for body in ({"error": {"details": [{"retryDelay": delay}]}}, {"retry_delay": delay}):
            assert ("throttled", pytest.approx(34.07), 0) == judged(status=429, body=body)


@pytest.mark.parametrize(
    ("now", "moment"),
    [
        ((2026, 10, 3, 17, 30), (2026, 10, 4, 7)),  # summer time
        ((2026, 10, 4, 6, 59), (2026, 10, 4, 7)),
        ((2026, 10, 4, 7), (2026, 10, 5, 7)),
        ((2026, 12, 2, 7, 59), (2026, 12, 2, 8)),  # winter time
        ((2026, 11, 1, 6), (2026, 11, 1, 7)),  # the night in which it ends
        ((2026, 11, 1, 7, 30), (2026, 11, 2, 8)),
        ((2026, 3, 8, 7), (2026, 3, 8, 8)),  # the night in which it begins
        ((2026, 3, 8, 9), (2026, 3, 9, 7)),
        ((2026, 12, 31, 9), (2027, 1, 1, 8)),
    ],
)
def test_midnight_in_california(now, moment):
    """Where the quotas of a day come back."""
    assert us(*moment) == next_pacific_midnight(us(*now))


def test_the_first_of_next_month():
    """Where the spend limit of a tier comes back."""
    assert us(2027, 1, 1) == next_month(us(2026, 12, 31, 23, 59, 59))
    assert us(2028, 3, 1) == next_month(us(2028, 2, 29))


def test_a_moment_that_is_named_counts():
    """In the message or as a field; one that is past counts as none."""
    assert us(2026, 11, 1) == judged(status=402, body=error("You will regain access on 2026-11-01 at 00:00 UTC."))[2]
    assert us(2026, 10, 3, 18) == judged(status=402, body=error(resets_at="2026-10-03T18:00:00Z"))[2]
    assert us(2026, 10, 3, 18) == judged(status=402, body=error(resets_at=us(2026, 10, 3, 18) // SECOND))[2]
    assert us(2026, 10, 3, 18) == judged("process", message=f"usage limit reached|{us(2026, 10, 3, 18) // SECOND}")[2]
    assert 0 == judged(status=402, body=error("You will regain access on 2026-09-01 at 00:00 UTC."))[2]


# ---------------------------------------------------------------- the reported cases


@pytest.mark.parametrize(
    ("fields", "failure_class"),
    [
        ({"status": 401}, "auth"),
        ({"status": 403}, "auth"),
        (
            {"status": 400, "body": error("API key expired", status="INVALID_ARGUMENT", reason="API_KEY_INVALID")},
            "auth",
        ),
        ({"status": 402}, "quota"),
        ({"kind": "process", "exit_code": 1, "message": "balance too low"}, "quota"),
        ({"status": 404, "body": error("model x does not exist", code="model_not_found")}, "request"),
        ({"status": 429}, "throttled"),
        ({"status": 500}, "capacity"),
        ({"status": 529}, "capacity"),
        ({"kind": "socket", "errno": 104, "type": "ConnectionResetError"}, "network"),
        ({"kind": "socket", "type": "ssl.SSLEOFError", "message": "EOF occurred in violation of protocol"}, "network"),
        ({"kind": "socket", "type": "ssl.SSLCertVerificationError", "message": "certificate verify failed"}, "auth"),
        ({"kind": "reply", "status": 200, "body": ""}, "output"),
        ({"kind": "reply", "status": 200, "body": {}}, "output"),
        ({"status": 200, "body": ""}, "output"),
        ({"kind": "reply", "status": 401, "body": {}}, "auth"),
    ],
)
def test_a_dead_key_is_not_retried_for_days(fields, failure_class):
    """The true reason is told in each form in which it came."""
    assert failure_class == class_of(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"status": 400, "body": error("prompt is too long: 1500000 tokens > 200000 maximum")},
        {"status": 400, "body": error("?", code="context_length_exceeded")},
        {"status": 400, "body": error("The input token count (1500000) exceeds the maximum number of tokens allowed")},
        {"status": 404, "body": error("The model may not exist. prompt is too long: 1500000 tokens > 200000 maximum")},
        {"kind": "reply", "status": 200, "body": "prompt is too long"},
        {
            "kind": "reply",
            "body": {"choices": [{"finish_reason": "stop", "message": {"content": "Prompt is too long"}}]},
        },
        {"status": 413},
        {"kind": "exception", "type": "litellm.ContextWindowExceededError", "message": "Error code: 400 - too much"},
    ],
)
def test_a_context_that_is_too_long_is_told_in_any_form(fields):
    """A code, another text, a normal answer, or a model that may not exist."""
    assert "context" == class_of(**fields)


# ---------------------------------------------------------------- answers


@pytest.mark.parametrize(
    "reply",
    [
        {"type": "message", "content": [{"type": "text", "text": "Hello"}], "stop_reason": "end_turn"},
        {"type": "message", "content": [{"type": "tool_use", "id": "t", "name": "n"}], "stop_reason": "tool_use"},
        {"type": "message", "content": [{"type": "text", "text": "x"}], "stop_reason": "a reason of next year"},
        {"choices": [{"finish_reason": "stop", "message": {"content": "Hello"}}]},
        {"choices": [{"finish_reason": "tool_calls", "message": {"content": None, "tool_calls": [{"id": "1"}]}}]},
        {
            "choices": [
                {"finish_reason": "length", "message": {}},
                {"finish_reason": "stop", "message": {"content": "x"}},
            ]
        },
        {"object": "chat.completion.chunk", "choices": [], "usage": {}},
        {"candidates": [{"content": {"parts": [{"text": "Hello"}]}, "finishReason": "STOP"}]},
        {"object": "response", "status": "completed", "output": [{"type": "message", "content": []}], "error": None},
        {"output": {"message": {"content": [{"text": "Hello"}]}}, "stopReason": "end_turn"},
        {"message": {"content": "Hello"}, "done": True, "done_reason": "stop"},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hel"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message", "content": [{"type": "text", "text": "The message 'prompt is too long' means that …"}]},
        {"weather": "fine"},
        {"object": "response", "status": "in_progress", "output": []},
    ],
)
def test_a_good_answer_is_none(reply):
    """Nothing is found wrong with it, also where it is of an unknown shape."""
    assert None is classify_reply(reply)


@pytest.mark.parametrize(
    ("reply", "failure_class"),
    [
        ({}, "output"),
        ({"choices": []}, "output"),
        ({"choices": [{"finish_reason": "stop", "message": {"content": ""}}]}, "output"),
        ({"type": "message", "content": [], "stop_reason": "end_turn"}, "output"),
        ({"candidates": [{"content": {}, "finishReason": "STOP"}]}, "output"),
        ({"finish_reason": "length"}, "output"),
        ({"candidates": [{"finish_reason": "FinishReason.SAFETY"}]}, "refusal"),
        ({"prompt_feedback": {"block_reason": "SAFETY"}}, "refusal"),
        ({"message": {"content": ""}, "done": True, "done_reason": "stop"}, "output"),
        ({"message": {"content": "Hel"}, "done": True, "done_reason": "length"}, "output"),
        ({"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}, "output"),
        ({"stopReason": "max_tokens", "output": {}}, "output"),
        ({"stopReason": "guardrail_intervened"}, "refusal"),
        ({"stopReason": "contentFiltered"}, "refusal"),
        ({"output": [{"content": [{"type": "refusal", "refusal": "No."}]}], "status": "completed"}, "refusal"),
        ({"incomplete_details": {"reason": "content_filter"}, "status": "incomplete"}, "refusal"),
        ({"choices": [{"finish_reason": "error", "error": {"code": 502, "message": "gone"}}]}, "capacity"),
        ({"type": "error", "error": {"type": "overloaded_error", "message": ""}}, "capacity"),
        ({"type": "error", "error": {"type": "invalid_request_error", "message": ""}}, "request"),
        ({"event_type": "error", "error": {"code": "rate_limit_exceeded", "message": ""}}, "throttled"),
        ({"internalServerException": {"message": "again"}}, "capacity"),
        ({"result": "Credit balance is too low"}, "quota"),
        *[({"candidates": [{"finishReason": reason}]}, "refusal")
          for reason in ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE")],
    ],
)  # fmt: skip
def test_an_answer_that_is_none_is_told(reply, failure_class):
    """Cut, empty, refused, broken off, or an error with status 200."""
    assert failure_class == classify_reply(reply).failure_class
    for kind in ("reply", "http", "event"):
        assert failure_class == class_of(kind=kind, status=200, body=reply)


def test_an_error_with_status_200_has_the_wait_of_its_headers():
    """It came with the answer."""
    body = error("slow", code="rate_limit_exceeded")
    assert ("throttled", 9, 0) == judged("reply", status=200, headers={"retry-after": "9"}, body=body)


# ---------------------------------------------------------------- the words of tools


@pytest.mark.parametrize(
    "message",
    [
        "Expected status code 200 but got status code 401",
        "--- FAIL: TestLimit\n    limit_test.go:12: expected 429 Too Many Requests, got 200 OK",
        "AssertionError: assert None is {'error': {'code': 429, 'status': 'RESOURCE_EXHAUSTED'}}",
        "src/a.py:429: error: Incompatible types",
        "cp: cannot create regular file '/etc/x': Permission denied",
        "error[E0429]: imports are only available within a list",
        "Error: Cannot find module './rate-limit'",
        "prog: error: the following arguments are required: --api-key",
    ],
)
def test_what_a_failed_check_quotes_is_no_error_of_a_provider(message):
    """A test that expected a 401 has failed by itself: nobody parks the task for a key."""
    assert "tool" == class_of("process", exit_code=1, message=message)


@pytest.mark.parametrize(
    ("message", "failure_class"),
    [
        ("Client error '401 Unauthorized' for url 'https://x.test/'", "auth"),
        ("Server error '502 Bad Gateway' for url 'https://x.test/'", "capacity"),
        ("429 Client Error: Too Many Requests for url: https://x.test/", "throttled"),
        ("503, message='Service Unavailable', url='https://x.test/'", "capacity"),
        ("Request failed with status code 429", "throttled"),
        ("exceeded retry limit, last status: 429 Too Many Requests", "throttled"),
        ("An error occurred (ExpiredToken) when calling the ListBuckets operation: ?", "auth"),
        ("litellm.ContextWindowExceededError: prompt of 210000 tokens", "context"),
        ("openai.APIConnectionError: ?", "network"),
    ],
)
@pytest.mark.parametrize("kind", ["exception", "process"])
def test_the_message_of_a_client_is_known_in_another_exception(kind, message, failure_class):
    """Programs wrap the errors of their clients in their own, and processes write them to stderr."""
    assert failure_class == class_of(kind, message=message, exit_code=1 if kind == "process" else None)


@pytest.mark.parametrize(
    ("message", "moment"),
    [
        ("You've hit your limit \u00b7 resets 6pm (UTC)", us(2026, 10, 3, 18)),
        ("You've hit your limit \u00b7 resets 5:10pm (UTC)", us(2026, 10, 4, 17, 10)),
        ("You've hit your limit \u00b7 resets Jan 2, 9am (America/New_York)", us(2027, 1, 2, 14)),
        ("You've hit your limit \u00b7 resets 12am (UTC)", us(2026, 10, 4)),
        ("You've hit your limit \u00b7 resets 3pm (Mars/Base)", 0),
        ("You've hit your limit \u00b7 resets Feb 31 at 9pm (UTC)", 0),
        ("You've hit your usage limit. Try again in 2 hours 5 minutes.", NOW + 7500 * SECOND),
        ("You've hit your usage limit. Try again in 20s.", 0),
    ],
)
def test_the_clock_of_a_command_line_is_read(message, moment):
    """A limit of a subscription names the hour and the zone; a wait of seconds is that of another limit."""
    verdict = classify(Evidence(kind="process", exit_code=1, message=message), NOW)
    assert ("quota", moment) == (verdict.failure_class, verdict.until)


# ---------------------------------------------------------------- whatever comes

LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=30),
    st.sampled_from(["insufficient_quota", "PerDay", "34.07s", "1e999s", "{'error': {", '[{"error"', "retry in 9s"]),
)  # fmt: skip
NAMES = st.sampled_from(
    ["error", "code", "type", "status", "message", "details", "retryDelay", "quotaId", "resets_at", "x", "choices",
     "finish_reason", "response", 7, None]
)  # fmt: skip
BODIES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=5))
HEADERS = st.dictionaries(
    st.sampled_from(["retry-after", "retry-after-ms", "x-ratelimit-reset", "x-ratelimit-reset-tokens", "date",
                     "anthropic-ratelimit-tokens-reset", "x-should-retry"]),
    st.text(string.printable, max_size=20) | st.floats().map(str) | st.integers().map(str),
)  # fmt: skip


TOLD = st.sampled_from(
    ["resets Feb 31 at 99pm (UTC)", "resets 5pm (../../etc/passwd)", "resets 0am (Mars/Base)", "reset after 1e9h",
     "resets Dec 31 at 12am (Asia/Kolkata)", "An error occurred (X) when calling the Y", "try again in 99999999999d"]
)  # fmt: skip


@given(
    kind=st.sampled_from(get_args(EvidenceKind)),
    status=st.sampled_from([0, 200, 400, 402, 429, 503, -1, 10**9]),
    headers=HEADERS,
    body=BODIES,
    message=st.text(max_size=60) | TOLD.map("You've hit your usage limit. {}".format),
    now=st.sampled_from([0, NOW]),
)
def test_nothing_breaks_it(kind, status, headers, body, message, now):
    """Any evidence has a class that exists, a wait that can be waited for, and no moment that is past."""
    evidence = Evidence(kind=kind, status=status, headers=headers, body=body, message=message)
    verdict = classify(evidence, now)
    assert verdict.failure_class in get_args(FailureClass)
    assert 0 <= verdict.wait_s <= (QUOTA_WAIT_S_MAX if verdict.failure_class == "quota" else WAIT_S_MAX)
    assert 0 == verdict.until or verdict.until > now
    assert "" != verdict.rule


def test_a_body_of_any_size_is_read_in_bounds():
    """Deep, wide and long bodies end the walk, not the process."""
    deep = {"error": {}}
    for _ in range(5000):
        deep = {"error": deep}
    wide = [{"error": {"message": "x" * 1000}} for _ in range(100_000)]
    far = [[{}] * 300, [{}] * 300, error(code="insufficient_quota")]
    assert "quota" == class_of(status=503, body=far[2:])
    for body in (deep, wide, [far[:2], [far[2]]], "[" * 60_000, "{'a': " * 10_000, '{"error":' * 10_000):
        assert "capacity" == class_of(status=503, body=body)
