"""Takes the evidence out of a live exception, for the classifier. Imports no client library and decides nothing.

Exceptions are known by what they carry: a status and a response, a return code and what was written to stderr, an
error of MCP, an errno. None of their code is run: fields are looked up statically, so a property that raises, blocks or
prints is passed over, and a body that was not read yet stays unread. What is copied has bounds. Called by `recording`.
"""

from __future__ import annotations

import inspect
import socket
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, cast

import msgspec

from perdure.core.classify import Evidence
from perdure.core.classify.elsewhere import CLIENTS, NETWORK_ERRNOS, STORAGE_ERRNOS

CHAIN_MAX: Final = 8  # causes that are looked at
NODES_MAX: Final = 400  # values of a body that are copied
TEXT_CHARS_MAX: Final = 64_000  # of one text of a body
HEADERS_MAX: Final = 100
DEPTH_MAX: Final = 12  # of a body; no provider's error is as deep
STDERR_CHARS_MAX: Final = 4_000  # its end: there stands why the process gave up

_STATUS_NAMES: Final = ("status_code", "http_status", "statusCode", "status", "code")
# What sockets and TLS say when their own time ran out. They raise the same TimeoutError as asyncio, which says nothing.
_NETWORK_TIMEOUTS: Final = (
    "timed out",
    "The read operation timed out",
    "The write operation timed out",
    "The handshake operation timed out",
)

# The means of the language's own containers, whatever a class derived from them puts over those.
_DICT_ITEMS: Final = cast("Callable[[object], Iterable[tuple[object, object]]]", dict.items)
_DICT_GET: Final = cast("Callable[[object, str], object]", dict.get)
_LIST_COPY: Final = cast("Callable[[object], list[object]]", list.copy)
_TUPLE_PART: Final = cast("Callable[[object, slice], tuple[object, ...]]", tuple.__getitem__)


def evidence_of(error: BaseException, message: str) -> Evidence:
    """Return the evidence that `error` carries, or one of the errors it was raised from. `message` is its text."""
    above: list[str] = []  # what those say that were raised from `found`
    for found in chain(error):
        text = message if found is error else _text_of(found)
        evidence = _process(found, text) or _mcp(found, text) or _http(found, text) or _socket(found, text)
        if evidence is not None:
            return _with_texts(evidence, above)
        above.append(text)
    return Evidence(type=type_name(error), message=message, errno=_errno(error))


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield `error` and what it was raised from.

    The error that a client library was handling when it raised its own is a cause too. With other exceptions it is not:
    a mistake in the lines that handle a lost connection is a mistake.
    """
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen and len(seen) < CHAIN_MAX:
        seen.add(id(found))
        yield found
        found = _cause_of(found)


def type_name(error: BaseException) -> str:
    """Return the qualified name of the exception's class."""
    return _class_name(type(error)).removeprefix("builtins.")


def field(owner: object, name: str) -> Any:  # noqa: ANN401 - the fields of any object
    """Return a field of `owner` as it stands in its instance, slots or class, or None. Runs none of its code."""
    value: object = inspect.getattr_static(owner, name, None)
    kind = type(value)
    if issubclass(kind, types.MemberDescriptorType):
        try:
            return cast("types.MemberDescriptorType", value).__get__(owner, type(owner))
        except AttributeError:
            return None
    return None if issubclass(kind, property | types.FunctionType | types.GetSetDescriptorType) else value


def own(owner: object, name: str, kind: type = BaseException) -> object:
    """Return a field that `kind` of the language itself gives `owner`, whatever its class puts over it."""
    return vars(kind)[name].__get__(owner, type(owner))


def number(value: object) -> int | None:
    """Return a whole number as a plain int: an enumeration's too, a truth value not."""
    kind = type(value)
    return int.__int__(cast("int", value)) if issubclass(kind, int) and not issubclass(kind, bool) else None


def _with_texts(evidence: Evidence, above: list[str]) -> Evidence:
    """An answer whose body was not kept: who has read it says it in the error that was raised from the client's."""
    if evidence.kind != "http" or evidence.body or not above:
        return evidence
    return msgspec.structs.replace(evidence, message="\n".join([*above, evidence.message])[:TEXT_CHARS_MAX])


# --- the kinds ------------------------------------------------------------------------------------------------------
def _process(error: BaseException, message: str) -> Evidence | None:
    codes = (number(field(error, name)) for name in ("returncode", "exit_code", "exit_status", "retcode"))
    code = next((code for code in codes if code is not None), None)
    written = _plain_text(field(error, "stderr"))
    if code is None or (written is None and field(error, "cmd") is None):
        return None
    text = written if written and written.strip() else ""
    return Evidence(kind="process", exit_code=code, type=type_name(error), message=text[-STDERR_CHARS_MAX:] or message)


def _mcp(error: BaseException, message: str) -> Evidence | None:
    told = field(error, "error")
    code = number(field(told, "code")) if told is not None else None
    if code is None or not any("mcp" in name.lower() for name in _class_names(error)):
        return None
    body = {"code": code, "message": _plain(field(told, "message")), "data": _plain(field(told, "data"))}
    return Evidence(kind="mcp", type=type_name(error), message=message, body=body)


def _http(error: BaseException, message: str) -> Evidence | None:
    response = field(error, "response")
    is_client = _client_type(error) is not None
    if issubclass(type(response), dict):
        return _of_aws(error, response, message)
    status = _status_of(error, is_known=is_client or response is not None) or _status_of(response, is_known=True)
    if not status:
        return _event(error, message) if is_client else None
    headers = (
        _headers(field(response, "headers")) or _headers(field(error, "headers")) or _headers(field(error, "hdrs"))
    )
    return Evidence(
        kind="http",
        status=status,
        headers=headers,
        body=_body_of(error, response),
        type=_client_type(error) or type_name(error),
        message=message,
    )


def _event(error: BaseException, message: str) -> Evidence | None:
    """An error that came inside an answer which had begun well: it has a body, and no status of its own."""
    body = _plain(field(error, "body"))
    if not isinstance(body, dict) or not body:
        return None
    kind = _client_type(error) or type_name(error)
    return Evidence(kind="event", type=kind, message=message, body=cast("object", body))


def _socket(error: BaseException, message: str) -> Evidence | None:
    """An error of a connection; the messages of what is below it are added, since a client's own often says nothing."""
    client = _client_type(error)
    kind, code = type(error), _errno(error)
    is_os = issubclass(kind, OSError) and code in NETWORK_ERRNOS | STORAGE_ERRNOS
    is_late = issubclass(kind, TimeoutError) and message in _NETWORK_TIMEOUTS
    is_lost = issubclass(kind, ConnectionError | socket.gaierror | socket.herror)
    if client is None and not (is_os or is_late or is_lost):
        return None
    below = [_text_of(cause) for cause in chain(error) if cause is not error]
    name = client or ("builtins.ConnectionError" if is_lost and not is_os else type_name(error))
    return Evidence(kind="socket", type=name, message="\n".join([message, *below]), errno=code)


def _of_aws(error: BaseException, response: object, message: str) -> Evidence | None:
    """A response of botocore is a dict of two parts: the error, and how it came."""
    told, how = _got(response, "Error"), _got(response, "ResponseMetadata")
    if not issubclass(type(told), dict):
        return None
    return Evidence(
        kind="http",
        provider="aws",
        status=number(_got(how, "HTTPStatusCode")) or 0,
        headers=_headers(_got(how, "HTTPHeaders")),
        body={"error": _plain(told)},
        type=type_name(error),
        message=message,
    )


# --- parts ----------------------------------------------------------------------------------------------------------
def _cause_of(error: BaseException) -> BaseException | None:
    """Return what `error` was raised from, or is wrapped around."""
    cause = own(error, "__cause__")
    if cause is not None:
        return cast("BaseException", cause)
    if _client_type(error) is None:
        return None
    for inner in (field(error, "reason"), *_args(error)[:1]):  # urllib and requests keep what they met in their own
        if issubclass(type(inner), BaseException):
            return cast("BaseException", inner)
    return None if own(error, "__suppress_context__") else cast("BaseException | None", own(error, "__context__"))


def _client_type(error: BaseException) -> str | None:
    """Return the name of the nearest class of `error` that belongs to a client library."""
    for name in _class_names(error):
        if any(name.startswith(f"{client}.") for client in CLIENTS):
            return name
    return None


def _class_names(error: BaseException) -> list[str]:
    return [_class_name(kind) for kind in cast("tuple[type, ...]", own(type(error), "__mro__", type))]


def _class_name(kind: type) -> str:
    module = own(kind, "__module__", type)
    return f"{module if type(module) is str else '?'}.{own(kind, '__qualname__', type)}"


def _args(error: BaseException) -> tuple[object, ...]:
    return cast("tuple[object, ...]", own(error, "args"))


def _errno(error: BaseException) -> int:
    return (number(own(error, "errno", OSError)) or 0) if issubclass(type(error), OSError) else 0


def _status_of(owner: object, *, is_known: bool) -> int:
    """Return a status of HTTP; from a field with a name as common as `code` only where HTTP is sure to be meant."""
    names = _STATUS_NAMES if is_known or _has_answer(owner) else _STATUS_NAMES[:1]
    values = (number(field(owner, name)) for name in names) if owner is not None else ()
    return next((value for value in values if value is not None and 100 <= value <= 999), 0)  # noqa: PLR2004


def _has_answer(owner: object) -> bool:
    return any(field(owner, name) is not None for name in ("headers", "hdrs", "body", "request", "response_json"))


def _body_of(error: BaseException, response: object) -> object:
    """Return the body: as it was received where that is at hand, else as the client has decoded it."""
    for owner, name in (
        (response, "_content"),
        (error, "body"),
        (error, "response_json"),
        (error, "details"),
        (error, "error"),
        (response, "_body"),
    ):
        value = field(owner, name) if owner is not None else None
        body = _plain(value) if value is not None else None
        if body:
            return body
    return None


def _headers(given: object) -> dict[str, str]:
    pairs = ((_plain_text(name), _plain_text(value)) for name, value in _header_pairs(given))
    return {name.lower(): value for name, value in pairs if name is not None and value is not None}


def _header_pairs(given: object) -> list[tuple[object, object]]:
    """Return the names and values of headers, from the classes in which the usual clients keep them."""
    if issubclass(type(given), dict):
        return _items(given, HEADERS_MAX)
    for name in ("_list", "_headers", "_store", "_container"):  # httpx; http.client; requests; urllib3
        kept = field(given, name)
        if issubclass(type(kept), dict):
            entries = ((key, _parts(entry)) for key, entry in _items(kept, HEADERS_MAX))
            return [(key, parts[-1]) for key, parts in entries if parts]
        if issubclass(type(kept), list):
            rows = (_parts(row) for row in _parts(kept)[:HEADERS_MAX])
            return [(row[0], row[-1]) for row in rows if len(row) > 1]
    if _class_name(type(given)).startswith("multidict."):  # compiled: its fields cannot be looked up
        return list(cast("Mapping[object, object]", given).items())[:HEADERS_MAX]
    return []


def _items(value: object, count_max: int) -> list[tuple[object, object]]:
    """Return what is in a dict, by the dict's own means; what is none has nothing in it."""
    return list(_DICT_ITEMS(value))[:count_max] if issubclass(type(value), dict) else []


def _got(value: object, name: str) -> object:
    return _DICT_GET(value, name) if issubclass(type(value), dict) else None


def _parts(value: object) -> list[object]:
    """Return what is in a list or tuple, by its own means."""
    kind = type(value)
    if issubclass(kind, list):
        return _LIST_COPY(value)
    return list(_TUPLE_PART(value, slice(NODES_MAX))) if issubclass(kind, tuple) else []


def _text_of(error: BaseException) -> str:
    """Return the text of a cause from its arguments: those that are text, without asking it for one."""
    parts = [_plain_text(part) for part in _args(error)[:NODES_MAX]]
    return " ".join(part for part in parts if part)[:TEXT_CHARS_MAX]


def _plain_text(value: object) -> str | None:
    if issubclass(type(value), str):
        return str.__str__(cast("str", value))[:TEXT_CHARS_MAX]
    if issubclass(type(value), bytes | bytearray):
        return bytes(memoryview(cast("bytes", value))[:TEXT_CHARS_MAX]).decode("utf-8", "replace")
    return None


def _plain(value: object) -> object:
    """Return a copy of a body in plain values: what is no value of JSON is taken by its fields, or left out."""
    return _copied(value, [NODES_MAX], 0)


def _copied(value: object, left: list[int], depth: int) -> object:
    left[0] -= 1
    if left[0] < 0 or depth > DEPTH_MAX:
        return None
    kind = type(value)
    if value is None or kind in {bool, int, float}:
        return value
    text = _plain_text(value)
    if text is not None:
        return text
    if issubclass(kind, int):
        return number(value)
    if issubclass(kind, list | tuple):
        return [_copied(item, left, depth + 1) for item in _parts(value)[:NODES_MAX]]
    fields = _items(value, NODES_MAX) if issubclass(kind, dict) else _fields_of(value)
    named = ((_plain_text(name), inner) for name, inner in fields)
    return {name: _copied(inner, left, depth + 1) for name, inner in named if name is not None}


def _fields_of(value: object) -> list[tuple[object, object]]:
    """Return the fields that an object of a client's keeps of an error."""
    names = ("code", "message", "type", "status", "reason", "details", "innererror", "error", "data")
    found = ((name, field(value, name)) for name in names)
    return [(name, inner) for name, inner in found if inner is not None]
