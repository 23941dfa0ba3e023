"""What a service has answered, as it came: for the case that it is no reply. And the most that is read of one.

Client libraries make nothing, or an error about their own code, of a web page, a redirect, or an answer in one piece.
Here its beginning is kept while it passes, so that a person is told what it was. Called by `provider.py`.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import AsyncIterator, Generator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, cast

import httpx2
from pydantic_ai.exceptions import (
    AgentRunError,
    ContentFilterError,
    ModelConnectionError,
    ModelHTTPError,
    ModelNotFoundError,
)

from perdure.errors import ModelGone, ReplyEndless, ServiceOdd
from perdure.limits import REPLY_BYTES_MAX
from perdure.model.ids import plain_text

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from perdure.model.failure import FailureClass

_HEAD_BYTES: Final = 2_000  # that are kept of an answer
_CAUSES_MAX: Final = 16  # that are followed to the first one
_SHOWN_CHARS: Final = 200  # that a person is shown of it
_REDIRECTS: Final = range(300, 400)
_STREAMS: Final = (b"data", b"event", b"id", b"retry", b":")  # how one begins
_TITLE: Final = re.compile(r"<title[^>]*>([^<]+)", re.IGNORECASE)
# What is raised in the lines that read a stream, by client libraries and by pydantic-ai, where it is not what they take
# it for. `AgentRunError`: what they have a word for.
_MISREAD: Final = (
    AgentRunError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


class _Came:
    """One answer, as far as it has come."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.status = 0
        self.content_type = ""
        self.location = ""
        self.head = b""
        self.size_bytes = 0

    @property
    def text(self) -> str:
        return " ".join(self.head.decode("utf-8", "replace").split())


_under_way: ContextVar[_Came | None] = ContextVar("perdure_answer", default=None)


def watch(model: Model) -> None:
    """Let the answers to `model` be seen here; called when its clients are open. Where it cannot be done, it is not."""
    # The one place that all of pydantic-ai's providers keep their client in; not public, but a class attribute.
    client = getattr(getattr(model, "provider", None), "_own_http_client", None)
    if isinstance(client, httpx2.AsyncClient) and _watch not in client.event_hooks.get("response", ()):
        hooks = client.event_hooks
        client.event_hooks = {**hooks, "response": [*hooks.get("response", ()), _watch]}


@contextlib.contextmanager
def explained(model: str, address: str) -> Generator[None]:
    """Turn what is raised over an answer that is no reply of `model` into ServiceOdd, which says what it was.

    Errors that a provider reports are left as they are, but that it has no such model: ModelGone. An error of the way
    there is told with `address` and its reason. Raises ReplyEndless from within a stream that is too long.
    """
    came = _Came(model)
    mark = _under_way.set(came)
    try:
        yield
    except ModelNotFoundError as error:
        raise ModelGone(model, plain_text(str(error)[:_SHOWN_CHARS])) from error
    except (ContentFilterError, ModelHTTPError):
        raise
    except ModelConnectionError as error:  # "Connection error." is all that some say
        reason = plain_text(_root_of(error))
        is_begun = error.phase in {"read", "write"}
        what = f"the connection to {address} broke off: {reason}"
        error.message = what if is_begun else f"no connection to {address}: {reason}; is it right, and is it up?"
        error.args = (error.message,)
        raise
    except _MISREAD as error:
        reason, failure_class = _reason(came, error)
        if not reason:
            raise
        raise ServiceOdd(model, reason, failure_class=failure_class, body=_object(came)) from error
    finally:
        _under_way.reset(mark)


def _root_of(error: BaseException) -> str:
    """Return what the first of all errors says that led to this one."""
    found = error
    for _ in range(_CAUSES_MAX):
        below = found.__cause__ or found.__context__
        if below is None:
            break
        found = below
    return str(found) or type(found).__name__


def _reason(came: _Came, error: Exception) -> tuple[str, FailureClass | None]:
    """Return what is odd about an answer, "" where the error says it better; and its class, where we know that."""
    shown = plain_text(came.text[:_SHOWN_CHARS])
    if came.status in _REDIRECTS:
        where = f" to {came.location}" if came.location else ""
        return f"status {came.status}, which leads on{where}; give the address behind it as --base-url", "auth"
    if "html" in came.content_type or came.head.lstrip()[:1] == b"<":
        title = _TITLE.search(came.text)
        named = f" called {plain_text(title[1].strip()[:_SHOWN_CHARS])!r}" if title else ""
        return f"a web page{named}; is --base-url right, and does it end as the service wants it (/v1)?", "network"
    if came.head.lstrip()[:1] == b"{":
        return f"one piece instead of a stream: {shown}", None if _object(came) else "request"
    if came.status and not came.size_bytes:
        return "nothing at all", "network"
    if came.size_bytes and not came.head.lstrip().startswith(_STREAMS):
        return f"no stream of a reply: {shown}", "output"
    if isinstance(error, AgentRunError) or not came.status:
        return "", None
    return f"what its client library cannot read ({type(error).__name__}: {error}): {shown}", "output"


def _object(came: _Came) -> dict[str, Any] | None:
    """Return the error that stands in an answer in one piece: by it the failure is classed."""
    try:
        body: object = json.loads(came.head)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", body) if isinstance(body, dict) and "error" in body else None


async def _watch(response: httpx2.Response) -> None:
    """Look at an answer on its way to the client library."""
    came = _under_way.get()
    if came is not None:
        came.status = response.status_code
        came.content_type = response.headers.get("content-type", "").lower()
        came.location = response.headers.get("location", "")
        response.stream = _Watched(cast("httpx2.AsyncByteStream", response.stream), came)


class _Watched(httpx2.AsyncByteStream):
    """The body of an answer; its beginning is kept, and it does not go on for ever."""

    def __init__(self, inner: httpx2.AsyncByteStream, came: _Came) -> None:
        self._inner = inner
        self._came = came

    async def __aiter__(self) -> AsyncIterator[bytes]:
        came = self._came
        async for piece in self._inner:
            came.size_bytes += len(piece)
            if len(came.head) < _HEAD_BYTES:
                came.head += piece[: _HEAD_BYTES - len(came.head)]
            if came.size_bytes > REPLY_BYTES_MAX:
                raise ReplyEndless(came.model, REPLY_BYTES_MAX)
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()
