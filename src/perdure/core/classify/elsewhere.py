"""The tables for errors that do not come over HTTP: sockets, TLS, files, processes, MCP; and for answers that are none.

Read like `rows.py`: the first row that fits counts. Called by `classify`; the page shows these tables too.
"""

from __future__ import annotations

import errno
from typing import Final

from perdure.core.classify import words
from perdure.core.classify.rows import Row
from perdure.model.failure import FailureClass

STORAGE_ERRNOS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})
NETWORK_ERRNOS: Final = frozenset(
    {
        errno.EADDRNOTAVAIL,
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

# A certificate that is not accepted is no blip: the other side is not who it should be, or a clock is wrong. Waiting
# does not mend it, and trying again must not become a habit; a person looks.
TLS: Final = (
    Row(
        rule="tls.certificate",
        failure_class="auth",
        text=words.CERTIFICATE,
        when="a certificate that is not accepted: expired, self-signed, of another host",
    ),
    Row(
        rule="tls.mismatch",
        failure_class="request",
        text=words.TLS_MISMATCH,
        when="no version or cipher of TLS in common, or no TLS at the other end",
    ),
)

# Whose exceptions are about a connection or an answer even where they carry no status.
CLIENTS: Final = (
    "aiohttp", "anthropic", "anyio", "azure.core", "botocore", "google.api_core", "google.auth", "google.genai", "grpc",
    "http.client", "httpcore", "httpcore2", "httpx", "httpx2", "litellm", "openai", "pydantic_ai", "requests", "socket",
    "ssl", "urllib.error", "urllib3", "websockets",
)  # fmt: skip
# The exceptions of the language that say as much as those of a client.
OWN_TYPES: Final = frozenset(
    {"ConnectionError", "ConnectionResetError", "ConnectionRefusedError", "ConnectionAbortedError", "BrokenPipeError",
     "asyncio.IncompleteReadError", "asyncio.exceptions.IncompleteReadError"}
)  # fmt: skip
LATE_TYPES: Final = frozenset({"TimeoutError", "asyncio.TimeoutError", "subprocess.TimeoutExpired"})

TYPES: Final = (
    Row(
        rule="client.certificate",
        failure_class="auth",
        codes=words.CERTIFICATE_TYPES,
        when="the client does not accept a certificate",
    ),
    Row(
        rule="client.url",
        failure_class="request",
        codes=words.URL_TYPES,
        when="an address, a header or a setting that the client refuses to send, too many redirects",
    ),
    Row(
        rule="client.auth",
        failure_class="auth",
        codes=words.AUTH_TYPES,
        when="the client has no credentials, or cannot renew them",
    ),
    Row(
        rule="client.output",
        failure_class="output",
        codes=words.OUTPUT_TYPES,
        when="an answer that the client cannot decode, or that was cut",
    ),
    Row(
        rule="client.filter",
        failure_class="refusal",
        codes=words.FILTER_TYPES,
        when="the client says that a filter stopped the answer",
    ),
    Row(
        rule="client.network",
        failure_class="network",
        codes=words.NETWORK_TYPES,
        when="connecting, name resolution, reading or writing failed or took too long",
    ),
)

# What a process writes is about anything, so only words that are said of oneself count.
PROCESS: Final = (
    Row(
        rule="process.check",
        failure_class="tool",
        text=words.CHECK,
        when="a check failed: an assertion, `expected … but got …`",
    ),
    *TLS,
    Row(rule="process.storage", failure_class="storage", text=words.DISK, when="the disk is full or broken"),
    Row(rule="process.context", failure_class="context", text=words.TOO_LONG, when="the input is too long"),
    Row(
        rule="process.resets_soon",
        failure_class="throttled",
        text=words.WILL_RESET,
        wait="short",
        when="a quota that comes back in less than an hour",
    ),
    Row(
        rule="process.resets",
        failure_class="quota",
        text=words.WILL_RESET,
        when="a quota that comes back later, or nobody knows when",
    ),
    Row(
        rule="process.quota",
        failure_class="quota",
        text=words.NO_MONEY,
        when="a credit, a balance or a spend limit is used up",
        back="named",
    ),
    Row(rule="process.auth", failure_class="auth", text=words.BAD_KEY, when="a key or a token is missing or not valid"),
    Row(rule="process.rate", failure_class="throttled", text=words.THROTTLED, when="a rate limit"),
    Row(rule="process.down", failure_class="capacity", text=words.DOWN, when="the other side is overloaded or down"),
    Row(rule="process.network", failure_class="network", text=words.OFFLINE, when="a connection failed"),
)

MCP: Final = (
    Row(
        rule="mcp.session",
        failure_class="network",
        text=words.SESSION,
        when="the session or the connection is gone",
    ),
    Row(
        rule="mcp.header",
        failure_class="request",
        text=r"header\w{0,12} \w{0,12}mismatch",
        when="headers that do not match",
    ),
)
MCP_WORDS: Final = (
    Row(rule="mcp.timeout", failure_class="network", text=r"timed out|request timeout", when="it took too long"),
    Row(rule="mcp.context", failure_class="context", text=words.TOO_LONG, when="the input is too long"),
    Row(
        rule="mcp.quota",
        failure_class="quota",
        text=words.NO_MONEY,
        when="a credit, a balance or a spend limit is used up",
        back="named",
    ),
    Row(rule="mcp.auth", failure_class="auth", text=words.BAD_KEY, when="a key or a token is missing or not valid"),
    Row(rule="mcp.rate", failure_class="throttled", text=words.THROTTLED, when="a rate limit"),
    Row(rule="mcp.down", failure_class="capacity", text=words.DOWN, when="the server is overloaded or down"),
    Row(rule="mcp.network", failure_class="network", text=words.OFFLINE, when="a connection failed"),
)
# Codes of JSON-RPC that say enough; what is wrong is the call.
MCP_CALL_CODES: Final = frozenset({-32700, -32600, -32601, -32602})
# Codes that say little: the words come first. -32603 and those that a server makes up itself (-32000) say nothing at
# all, a bug of the server as well as a blip: they are unknown.
MCP_CODES: Final[dict[int, FailureClass]] = {
    0: "tool",
    -32001: "network",
    -32002: "request",
    -32003: "request",
    -32004: "request",
    -32020: "request",
    -32021: "request",
    -32022: "request",
    -32042: "auth",
}

# Why a model stopped, in snake case. What is not here is a good ending.
REASONS: Final[tuple[tuple[str, FailureClass, tuple[str, ...]], ...]] = (
    ("reply.truncated", "output", ("max_tokens", "length", "max_output_tokens", "token_limit")),
    (
        "reply.malformed",
        "output",
        ("malformed_function_call", "unexpected_tool_call", "malformed_response", "malformed_model_output",
         "malformed_tool_use", "missing_thought_signature", "no_image"),
    ),
    (
        "reply.context",
        "context",
        ("model_context_window_exceeded", "model_length", "context_length_exceeded", "error_limit"),
    ),
    (
        "reply.refusal",
        "refusal",
        ("refusal", "content_filter", "content_filtered", "guardrail_intervened", "safety", "recitation", "language",
         "blocklist", "prohibited_content", "spii", "image_safety", "image_prohibited_content", "image_recitation",
         "image_other", "other", "model_armor", "jailbreak", "error_toxic"),
    ),
    ("reply.tool_calls", "stuck", ("too_many_tool_calls", "max_tool_calls")),
    ("reply.broken", "capacity", ("error", "insufficient_system_resource", "abort", "failed", "timeout")),
)  # fmt: skip
