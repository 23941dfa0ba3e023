"""Reads evidence: what codes, texts, waits and dates it holds, wherever in the body they stand. Judges none of them.

Bodies come in many wrappings: an error in an error, a list of one, JSON as text, JSON inside a message, the `repr` of a
dict at the end of an exception's text. All are walked, up to a bound, and the same few keys are taken from each level.
Called by `classify`.
"""

from __future__ import annotations

import ast
import itertools
import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, cast

import msgspec

from perdure.core.classify.evidence import Evidence
from perdure.core.classify.words import CHECK, CONTEXT_CODES, FILTER_CODES

NODES_MAX: Final = 400  # of a body that are looked at
TEXT_CHARS_MAX: Final = 64_000  # of a text that may hold JSON
SAID_CHARS_MAX: Final = 8_000  # of all messages together
PAGE_CHARS_MAX: Final = 2_000  # a longer text that is no JSON is a page, and pages speak of many things
STARTS_MAX: Final = 8  # places in a text where JSON may begin
NESTED_TEXTS_MAX: Final = 8  # texts inside a body that are decoded in turn
_LITERAL_CHARS_MAX: Final = 16_000
_NUMBER_CHARS_MAX: Final = 7  # of a code that is a number written as text
SUCCEEDED: Final = range(200, 300)  # statuses of HTTP
FAILED: Final = range(400, 600)
_REDIRECTED: Final = 300

_CODE_KEYS: Final = frozenset(
    [
        "code",
        "type",
        "__type",
        "status",
        "reason",
        "error",
        "error_code",
        "errorcode",
        "error_type",
        "error_name",
        "limit_source",
        "blockreason",
    ]
)
_TEXT_KEYS: Final = frozenset(
    [
        "message",
        "msg",
        "detail",
        "details",
        "error",
        "description",
        "error_description",
        "error_message",
        "errormessage",
        "raw",
        "title",
    ]
)
_QUOTA_KEYS: Final = frozenset(["quotaid", "quota_id", "quota_limit", "quotalimit", "quota_unit"])
_DELAY_KEYS: Final = frozenset(
    ["retrydelay", "retry_delay", "retry_after", "retry_after_seconds", "retryafter", "estimated_time"]
)
_RESET_KEYS: Final = frozenset(["resets_at", "reset_at", "resetsat", "resetat"])
_RESET_IN_KEYS: Final = frozenset(["resets_in_seconds", "reset_in_seconds", "reset_after_seconds", "resets_in"])
# What was sent and comes back, and what only links to pages, says nothing of the error.
_SKIPPED_KEYS: Final = frozenset(["input", "ctx", "loc", "param", "links", "request", "request_id", "url", "usage"])

_STARTS: Final = re.compile(r"[{\[]")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][\w.:#/ -]{0,119}")
_WORD_EDGE: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_STATUS_IN_TEXT: Final = re.compile(
    r"\b(?:error code|http error|http(?:/\d(?:\.\d)?)?|status[ _]code|got status|api error|returned (?:an )?error"
    r"|(?:client|server) error|(?:unexpected|last|http|response|received|with) status(?: of)?|responded with)"
    r"\W{0,3}([45]\d\d)\b",
    re.IGNORECASE,
)
# As the messages of requests and aiohttp begin.
_STATUS_OF_CLIENT: Final = re.compile(r"\s*([45]\d\d)(?: (?:client|server) error: |, message=)", re.IGNORECASE)
_CHECK: Final = re.compile(CHECK, re.IGNORECASE)
_STATUS_AT_START: Final = re.compile(r"\W{0,3}([45]\d\d) [A-Z]")
_QUOTA_IN_TEXT: Final = re.compile(r"quota_?id[\"']?\s*[:=]\s*[\"']([\w-]+)", re.IGNORECASE)
# As gRPC and AWS write it into a message.
_CODE_IN_TEXT: Final = re.compile(
    r"\bStatusCode\.([A-Z_]{2,40})\b|\bAn error occurred \((\w{2,80})\) when calling the "
)
_PAGE: Final = re.compile(r"\s*<(?:!doctype|html|head|body)\b", re.IGNORECASE)

_CODE_HEADERS: Final = ("x-amzn-errortype", "x-ms-error-code")
_HEADER_PROVIDERS: Final = (
    ("anthropic-", "anthropic"),
    ("apim-request-id", "azure"),
    ("x-ms-", "azure"),
    ("azureml-", "azure"),
    ("openai-", "openai"),
    ("x-goog-", "google"),
    ("x-amzn-", "aws"),
)
_TYPE_PROVIDERS: Final = (
    ("openai.", "openai"),
    ("anthropic.", "anthropic"),
    ("google.", "google"),
    ("azure.", "azure"),
    ("botocore.", "aws"),
)
_ALIASES: Final = {
    "azure_openai": "azure", "azureopenai": "azure", "gemini": "google", "vertex": "google", "vertexai": "google",
    "vertex_ai": "google", "google_genai": "google", "claude": "anthropic", "bedrock": "aws",
}  # fmt: skip


class Facts(msgspec.Struct, kw_only=True):
    """What was found in one piece of evidence."""

    evidence: Evidence
    status: int = 0
    provider: str = ""
    codes: tuple[str, ...] = ()  # in snake case, as they stand from the outside in
    numbers: tuple[int, ...] = ()  # codes that are numbers
    quotas: tuple[str, ...] = ()  # ids of quotas that are used up
    text: str = ""  # all messages, a line each
    headers: Mapping[str, str] = {}
    delays: tuple[object, ...] = ()  # as they stand: "34.07s", 5, {"seconds": 26}
    resets: tuple[object, ...] = ()  # as they stand: a date or seconds since 1970
    resets_in: tuple[object, ...] = ()  # as they stand: seconds from now on
    has_error_body: bool = False  # a body, or an end of a message, in a shape in which providers tell errors
    is_flagged: bool = False  # a moderation result is in the body


def read(evidence: Evidence) -> Facts:
    """Return the facts of `evidence`."""
    headers = {name.lower(): value for name, value in evidence.headers.items()}
    facts = Facts(evidence=evidence, headers=headers)
    bodies = [decoded(evidence.body), decoded(evidence.message)]
    _Walk(facts).take(bodies)
    if evidence.message and not isinstance(bodies[1], Mapping | list):
        _say(facts, evidence.message)
    said = _said_status(evidence)
    facts.numbers += (said,) if said else ()
    facts.status = _status(evidence, facts.numbers)
    facts.quotas += tuple(_QUOTA_IN_TEXT.findall(facts.text))
    said_codes = tuple(named(grpc or aws) for grpc, aws in _CODE_IN_TEXT.findall(facts.text))
    facts.codes += said_codes
    facts.codes += tuple(named(headers[name]) for name in _CODE_HEADERS if name in headers)
    facts.codes += _code_of_type(evidence.type)
    facts.provider = _provider(evidence, facts, bodies)
    facts.has_error_body = facts.has_error_body or bool(said) or bool(said_codes)
    return facts


def _said_status(evidence: Evidence) -> int:
    """Return the status that a message tells; a number at its start counts where an answer is known to be meant."""
    message = evidence.message[:SAID_CHARS_MAX]
    found = _STATUS_IN_TEXT.search(message) or _STATUS_OF_CLIENT.match(message)
    if found is not None and evidence.kind in {"exception", "process"} and _CHECK.search(message):
        return 0
    if found is None and evidence.kind != "exception":
        found = _STATUS_AT_START.match(message)
    return int(found[1]) if found else 0


def _code_of_type(qualified: str) -> tuple[str, ...]:
    """Some clients tell by the class alone that a context was too long or a filter was hit: its name is a code."""
    name = named(qualified.rpartition(".")[2]).removesuffix("_error")
    return (name,) if re.fullmatch(f"{CONTEXT_CODES}|{FILTER_CODES}", name) else ()


def decoded(value: object) -> object:
    """Return the JSON (or the `repr` of a dict or list) that stands in a text, else the value as it is."""
    if isinstance(value, bytes):
        value = value[:TEXT_CHARS_MAX].decode("utf-8", "replace")
    if not isinstance(value, str) or len(value) > TEXT_CHARS_MAX:
        return value
    for start in itertools.islice(_STARTS.finditer(value), STARTS_MAX):
        found = _decoded_from(value, start.start())
        if isinstance(found, Mapping) or (isinstance(found, list) and found and isinstance(found[0], Mapping)):
            return cast("object", found)
    return value


def named(code: str) -> str:
    """Return a code as rows spell it: `ThrottlingException`, `com.amazon#Throttling:` → `throttling`."""
    last = code.rpartition("#")[2].partition(":")[0]
    words = re.sub(r"\W+", "_", _WORD_EDGE.sub("_", last)).strip("_").lower()
    return words.removesuffix("_exception")


def _decoded_from(text: str, start: int) -> object:
    try:
        return cast("object", json.JSONDecoder().raw_decode(text, start)[0])
    except (ValueError, RecursionError):
        pass
    end = text.rfind("}" if text[start] == "{" else "]") + 1
    if not 0 < end - start <= _LITERAL_CHARS_MAX:
        return None
    try:
        return cast("object", ast.literal_eval(text[start:end]))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


class _Walk:
    """One walk over the bodies of one error, from the outside in."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.pending: deque[object] = deque()
        self.nested = 0

    def take(self, bodies: Iterable[object]) -> None:
        """Take the facts out of `bodies`."""
        for body in bodies:
            if isinstance(body, str):
                self._text(body, is_whole=True)
            else:
                self.pending.append(body)
        for _ in range(NODES_MAX):
            if not self.pending:
                break
            node = self.pending.popleft()
            if isinstance(node, list | tuple):
                self.pending.extend(cast("list[object]", node)[:NODES_MAX])
            elif isinstance(node, Mapping):
                self._mapping(cast("Mapping[object, object]", node))

    def _mapping(self, node: Mapping[object, object]) -> None:
        self.facts.has_error_body = self.facts.has_error_body or _is_error(node)
        for name, value in list(node.items())[:NODES_MAX]:
            key = str(name).lower()
            if key in _SKIPPED_KEYS:
                continue
            if key == "headers" and isinstance(value, Mapping):
                self._headers(cast("Mapping[object, object]", value))
            elif isinstance(value, Mapping | list | tuple):
                part = cast("object", value)
                self._said_aside(key, part)
                self.pending.append(part)
            else:
                self._leaf(key, value)

    def _headers(self, told: Mapping[object, object]) -> None:
        """Headers that a gateway hands on inside the body."""
        inner = {str(name).lower(): str(value) for name, value in told.items()}
        self.facts.headers = {**inner, **self.facts.headers}

    def _said_aside(self, key: str, value: object) -> None:
        if key in _DELAY_KEYS:
            self.facts.delays += (value,)
        self.facts.is_flagged = self.facts.is_flagged or (key == "reasons" and bool(value))

    def _leaf(self, key: str, value: object) -> None:
        if key in _DELAY_KEYS and value is not None:
            self.facts.delays += (value,)
        if key in _RESET_KEYS and value is not None:
            self.facts.resets += (value,)
        if key in _RESET_IN_KEYS and value is not None:
            self.facts.resets_in += (value,)
        if key in _CODE_KEYS:
            self._code(value)
        if not isinstance(value, str):
            return
        if key in _QUOTA_KEYS:
            self.facts.quotas += (value,)
        if key in _TEXT_KEYS:
            self._text(value)

    def _code(self, value: object) -> None:
        if isinstance(value, str) and value.lstrip("-").isdecimal() and len(value) <= _NUMBER_CHARS_MAX:
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            self.facts.numbers += (value,)
        elif isinstance(value, str) and _IDENTIFIER.fullmatch(value):
            self.facts.codes += (named(value),)

    def _text(self, text: str, *, is_whole: bool = False) -> None:
        inner = decoded(text) if self.nested < NESTED_TEXTS_MAX else text
        if inner is not text and not isinstance(inner, str):
            self.nested += 1
            self.pending.append(inner)
        elif not is_whole or (len(text) <= PAGE_CHARS_MAX and not _PAGE.match(text)):
            _say(self.facts, text)


def _say(facts: Facts, text: str) -> None:
    if text not in facts.text:
        facts.text = f"{facts.text}\n{text}".strip()[:SAID_CHARS_MAX]


def _is_error(node: Mapping[object, object]) -> bool:
    inner = node.get("error")
    if node.get("type") == "error" or node.get("object") == "error":
        return True
    if not isinstance(inner, Mapping):
        return False
    return bool({"code", "type", "status", "message"} & set(cast("Mapping[object, object]", inner)))


def _status(evidence: Evidence, numbers: Iterable[int]) -> int:
    """Return the status of HTTP; where that is a success or missing, the one that the error names."""
    if evidence.status >= _REDIRECTED or evidence.kind == "mcp":
        return evidence.status
    return next((number for number in numbers if number in FAILED), evidence.status)


def _provider(evidence: Evidence, facts: Facts, bodies: Iterable[object]) -> str:
    given = evidence.provider.lower().replace("-", "_").replace(" ", "_")
    if given:
        return _ALIASES.get(given, given)
    for prefix, provider in _HEADER_PROVIDERS:
        if any(name.startswith(prefix) for name in facts.headers):
            return provider
    for prefix, provider in _TYPE_PROVIDERS:
        if evidence.type.startswith(prefix):
            return provider
    return next((name for body in bodies for name in _body_provider(body)), "")


def _body_provider(body: object) -> Iterator[str]:
    """Yield whose shape of an error this is."""
    if isinstance(body, list) and body:
        body = cast("list[object]", body)[0]
    if not isinstance(body, Mapping):
        return
    outer = cast("Mapping[str, object]", body)
    inner = outer.get("error")
    if not isinstance(inner, Mapping):
        return
    error = cast("Mapping[str, object]", inner)
    if "innererror" in error or "inner_error" in error or "content_filter_result" in error:
        yield "azure"
    elif outer.get("type") == "error":
        yield "anthropic"
    elif isinstance(error.get("status"), str) and isinstance(error.get("code"), int):
        yield "google"
    elif {"message", "type", "param", "code"} <= set(error):
        yield "openai"
