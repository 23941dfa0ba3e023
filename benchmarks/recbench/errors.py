"""Errors as providers and networks make them: real shapes, each with the number of the fault in it.

OpenAI's are made of its own classes. Anthropic's and Google's SDKs are not needed to run this, so theirs are stand-ins
with the same attributes and bodies. Called by the world; the classifier must tell them apart without being told.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

import httpx2
import openai

MODELS: Final = ("gpt-large", "claude-large", "gemini-large")  # of the strategies, in their order
PROVIDERS: Final = ("openai", "anthropic", "google")
_URLS: Final = (
    "https://api.openai.com/v1/chat/completions",
    "https://api.anthropic.com/v1/messages",
    "https://generativelanguage.googleapis.com/v1beta/models/gemini-large:generateContent",
)


class APIStatusError(Exception):
    """As Anthropic's SDK raises it: status, decoded body, response."""

    def __init__(self, message: str, response: httpx2.Response, body: dict[str, Any]) -> None:
        super().__init__(message)
        self.message = message
        self.response = response
        self.status_code = response.status_code
        self.request_id = response.headers.get("request-id")
        self.body = body


class GoogleAPIError(Exception):
    """As Google's SDK raises it: code, status, the whole body as details."""

    def __init__(self, code: int, body: dict[str, Any], response: httpx2.Response) -> None:
        error = body["error"]
        super().__init__(f"{code} {error['status']}. {body}")
        self.code = code
        self.status = error["status"]
        self.message = error["message"]
        self.details = body
        self.response = response


class ToolHTTPError(Exception):
    """An HTTP client's error for a status that is none of success."""

    def __init__(self, status: int, url: str, text: str) -> None:
        request = httpx2.Request("POST", url)
        self.request = request
        self.response = httpx2.Response(status, text=text, request=request)
        super().__init__(f"HTTP {status} for url '{url}': {text}")


def of_model(provider: int, what: str, number: int, wait_s: float = 0.0) -> Exception:
    """Return what the client of `provider` raises.

    `what`: throttled, capacity, reset, read, quota, context, refusal.
    """
    marker = f"req_{number:05d}"
    if what == "reset":
        return ConnectionResetError(104, f"Connection reset by peer ({marker})")
    request = httpx2.Request("POST", _URLS[provider])
    if what == "read":
        timed_out: Exception = httpx2.ReadTimeout(f"The read operation timed out ({marker})", request=request)
        return openai.APITimeoutError(request) if provider == 0 else timed_out
    return (_openai, _anthropic, _google)[provider](what, marker, request, wait_s)


def of_tool(what: str, tool: str, number: int) -> Exception:
    """Return what a tool's client raises for `what`: capacity, reset, read, request, tool."""
    marker = f"fault {number:05d}"
    url = f"https://service.example/{tool}"
    if what == "capacity":
        return ToolHTTPError(503, url, f"Service Unavailable ({marker})")
    if what == "request":
        return ToolHTTPError(404, url, f"no such thing as that (always {tool})")
    if what == "reset":
        return ConnectionResetError(104, f"Connection reset by peer ({marker})")
    if what == "read":
        return httpx2.ReadTimeout(f"The read operation timed out ({marker})", request=httpx2.Request("POST", url))
    return ValueError(f"{tool} does not know what it was given")


def _response(request: httpx2.Request, status: int, body: Any, headers: dict[str, str]) -> httpx2.Response:
    headers = {"content-type": "application/json", **headers}
    return httpx2.Response(status, headers=headers, content=json.dumps(body).encode(), request=request)


def _openai(what: str, marker: str, request: httpx2.Request, wait_s: float) -> Exception:
    status, kind, code, message = {
        "throttled": (
            429,
            "requests",
            "rate_limit_exceeded",
            "Rate limit reached for requests per min (RPM)",
        ),
        "quota": (429, "requests", "rate_limit_exceeded", "Rate limit reached for requests per day (RPD)"),
        "capacity": (503, "server_error", "server_is_overloaded", "The server is currently overloaded"),
        "context": (
            400,
            "invalid_request_error",
            "context_length_exceeded",
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 131072 tokens.",
        ),
        "refusal": (
            400,
            "invalid_request_error",
            "content_policy_violation",
            "Your request was rejected by our safety system",
        ),
    }[what]
    headers = {"x-request-id": marker}
    if wait_s and what == "quota":
        minutes, seconds = divmod(math.ceil(wait_s), 60)
        headers["x-ratelimit-reset-requests"] = f"{minutes // 60}h{minutes % 60}m{seconds}s"
        message += f". Please try again in {minutes // 60}h{minutes % 60}m{seconds}s."
    elif wait_s:
        headers["retry-after"] = f"{wait_s:g}"
    error = {"message": message, "type": kind, "param": None, "code": code}
    response = _response(request, status, {"error": error}, headers)
    kinds = {429: openai.RateLimitError, 503: openai.InternalServerError, 400: openai.BadRequestError}
    text = f"Error code: {status} - {{'error': {error}}}"
    return kinds[status](text, response=response, body=error)


def _anthropic(what: str, marker: str, request: httpx2.Request, wait_s: float) -> Exception:
    status, kind, message = {
        "throttled": (429, "rate_limit_error", "This request would exceed your organization's rate limit"),
        "quota": (429, "rate_limit_error", "enforced_spend_limit_reached: the daily spend limit was reached"),
        "capacity": (529, "overloaded_error", "Overloaded"),
        "context": (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        "refusal": (400, "invalid_request_error", "Output blocked by content filtering policy"),
    }[what]
    headers = {"request-id": marker}
    if wait_s:
        headers["retry-after"] = f"{wait_s:g}"
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": marker}
    return APIStatusError(f"Error code: {status} - {body}", _response(request, status, body, headers), body)


def _google(what: str, marker: str, request: httpx2.Request, wait_s: float) -> Exception:
    status, kind, message, quota = {
        "throttled": (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota", "GenerateRequestsPerMinute"),
        "quota": (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota", "GenerateRequestsPerDay"),
        "capacity": (503, "UNAVAILABLE", "The model is overloaded. Please try again later.", ""),
        "context": (
            400,
            "INVALID_ARGUMENT",
            "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).",
            "",
        ),
        "refusal": (400, "INVALID_ARGUMENT", "The prompt was blocked: PROHIBITED_CONTENT (safety)", ""),
    }[what]
    error: dict[str, Any] = {"code": status, "message": message, "status": kind}
    if quota:
        violation = {"quotaMetric": "generate_requests", "quotaId": f"{quota}PerProjectPerModel", "quotaValue": "50"}
        failure = {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}
        retry = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{wait_s or 30:g}s"}
        error["details"] = [failure, retry]
    return GoogleAPIError(
        status, {"error": error}, _response(request, status, {"error": error}, {"x-request-id": marker})
    )
