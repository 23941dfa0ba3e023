"""One GET, guarded and bounded: what address is asked, how far redirects lead, how much is read, how long it takes.

The guard stands in the transport, below the redirects: each host is resolved, all its addresses are judged, and the
connection goes to an address that was judged, whatever the name resolves to a moment later. Used by the tools of the
web; it reads no setting and knows no page.
"""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import socket
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from perdure.errors import AddressRefused, ContentRefused
from perdure.limits import (
    PAGE_ADDRESSES_MAX,
    PAGE_BYTES_MAX,
    PAGE_CONNECT_S,
    PAGE_ERROR_BYTES_MAX,
    PAGE_READ_S,
    PAGE_REDIRECTS_MAX,
    PAGE_S,
)
from perdure.tools.web.addresses import is_public, read_address

if TYPE_CHECKING:
    import ssl

    import httpx2

_FAILED: Final = 400  # status from which on an answer is an error
_UNKNOWN_NAME: Final = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})
_PACKED: Final = frozenset({"gzip", "x-gzip", "deflate"})
_GZIP: Final = b"\x1f\x8b"  # how it begins
_RAW_DEFLATE: Final = -zlib.MAX_WBITS
_HEADERS: Final = {
    "User-Agent": "perdure (an agent that reads pages for its user)",
    "Accept-Encoding": "gzip, deflate",  # what `_Unpacking` can unpack within bounds
    "Accept-Language": "en, *;q=0.5",
}


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What came back."""

    url: str  # after redirects
    content_type: str  # lower case, without parameters; "" where none was told
    charset: str  # as told in the header, "" where it was not
    body: bytes
    is_cut: bool  # there was more


async def fetch(
    url: str,
    *,
    accept: str,
    refusal: Callable[[str], str],
    allow_private: bool = False,
    bytes_max: int = PAGE_BYTES_MAX,
) -> Answer:
    """Return what `url` answers, unpacked, at most `bytes_max` of it. `refusal(content type)` says why not to read it.

    Raises AddressRefused, ContentRefused, TimeoutError, and what httpx2 raises: HTTPStatusError with what the server
    said, errors of the connection.
    """
    async with asyncio.timeout(PAGE_S), _client(accept, allow_private=allow_private) as client:
        response = await _follow(client, url)
        try:
            if response.status_code >= _FAILED:
                raise await _status_error(response)
            content_type, charset = _read_type(response.headers)
            if reason := refusal(content_type):
                raise ContentRefused(str(response.url), reason)
            body, is_cut = await _read_body(response, bytes_max)
            return Answer(url=str(response.url), content_type=content_type, charset=charset, body=body, is_cut=is_cut)
        finally:
            await response.aclose()


def _client(accept: str, *, allow_private: bool) -> httpx2.AsyncClient:
    import httpx2

    return httpx2.AsyncClient(
        transport=_transport(allow_private),
        headers={**_HEADERS, "Accept": accept},
        timeout=httpx2.Timeout(PAGE_READ_S, connect=PAGE_CONNECT_S),
        follow_redirects=False,  # the client would read, and unpack, what stands beside a redirect: all of it
        trust_env=False,  # no passwords out of a netrc, no proxy that would resolve names by itself
    )


async def _follow(client: httpx2.AsyncClient, url: str) -> httpx2.Response:
    """Return the first answer that is no redirect, its body unread."""
    request = client.build_request("GET", url)
    _check(request.url, url)
    for _ in range(PAGE_REDIRECTS_MAX + 1):
        response = await client.send(request, stream=True)
        if response.next_request is None:
            return response
        request = response.next_request
        await response.aclose()
    raise AddressRefused(url, f"it leads on and on, over {PAGE_REDIRECTS_MAX} redirects; give another address")


def _check(url: httpx2.URL, given: str) -> None:
    """Raise AddressRefused for what is no address of the web."""
    if url.scheme not in {"http", "https"} or not url.host:
        raise AddressRefused(given, "only addresses that begin with http:// or https:// are read; give one of them")
    if url.userinfo:
        raise AddressRefused(url.copy_with(userinfo=b"").host, "passwords do not go into addresses; leave it out")


# --- whom it connects to --------------------------------------------------------------------------------------------
@functools.cache
def _tls() -> ssl.SSLContext:
    import httpx2

    return httpx2.create_ssl_context()


def _transport(allow_private: bool) -> httpx2.AsyncBaseTransport:  # noqa: FBT001 - the one thing that it is made of
    import httpx2

    class Guarded(httpx2.AsyncBaseTransport):
        """Connects to addresses that were judged. Each request has a connection of its own, as TLS is per name."""

        def __init__(self) -> None:
            self._inner = httpx2.AsyncHTTPTransport(
                verify=_tls(), limits=httpx2.Limits(max_keepalive_connections=0), retries=0
            )

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            _check(request.url, str(request.url))
            last: httpx2.TransportError | None = None
            for address in (await _resolve(request.url, allow_private=allow_private))[:PAGE_ADDRESSES_MAX]:
                try:
                    return await self._inner.handle_async_request(_pinned(request, address))
                except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                    last = error  # nothing was sent: the next address of the same host
            raise last or httpx2.ConnectError(f"{request.url.host} has no address", request=request)

        async def aclose(self) -> None:
            await self._inner.aclose()

    return Guarded()


def _pinned(request: httpx2.Request, address: str) -> httpx2.Request:
    """Return the request as sent to `address`; the server, and the check of its certificate, see the name."""
    import httpx2

    name = request.url.raw_host.decode("ascii")
    return httpx2.Request(
        method=request.method,
        url=request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": name},
    )


async def _resolve(url: httpx2.URL, *, allow_private: bool) -> list[str]:
    """Return the addresses of the host. Raises AddressRefused where one of them is not public."""
    found = await _look_up(url)
    for address in found:
        judged = read_address(address)
        if not allow_private and not (judged is not None and is_public(judged)):
            raise AddressRefused(
                str(url),
                f"its host leads to {address}, an address of this machine or a private network; "
                "set allow_private_network where that is meant",
            )
    return found


async def _look_up(url: httpx2.URL) -> list[str]:
    host = url.raw_host.decode("ascii")
    literal = read_address(host)
    if literal is not None:
        return [str(literal)]
    loop = asyncio.get_running_loop()
    try:
        rows = await loop.getaddrinfo(host, url.port or (443 if url.scheme == "https" else 80), type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno in _UNKNOWN_NAME:
            raise AddressRefused(str(url), f"nobody knows a host called {host!r}; look the address up") from error
        raise
    except UnicodeError as error:  # the codec of names: a part that is empty or too long
        raise AddressRefused(str(url), f"{host!r} is no name of a host ({error})") from error
    return list(dict.fromkeys(_without_scope(str(row[4][0])) for row in rows))


def _without_scope(address: str) -> str:
    return str(ipaddress.ip_address(address.partition("%")[0]))


# --- what it reads --------------------------------------------------------------------------------------------------
def _read_type(headers: Mapping[str, str]) -> tuple[str, str]:
    """Return content type and charset."""
    whole = headers.get("content-type", "")
    content_type, _, parameters = whole.partition(";")
    named = (part.strip().partition("=") for part in parameters.split(";"))
    charset = next((value.strip(" \"'") for name, _, value in named if name.strip().lower() == "charset"), "")
    return content_type.strip().lower(), charset


async def _status_error(response: httpx2.Response) -> httpx2.HTTPStatusError:
    """Return the error of an answer with such a status, with as much of what the server says as is of use."""
    import httpx2

    try:
        body, _ = await _read_body(response, PAGE_ERROR_BYTES_MAX)
    except (ContentRefused, httpx2.HTTPError):
        body = b""  # the status is what counts
    kept = [(name, value) for name, value in response.headers.multi_items() if name not in _OF_TRANSFER]
    told = httpx2.Response(response.status_code, headers=kept, content=body, request=response.request)
    return httpx2.HTTPStatusError(
        f"{response.url} answers {response.status_code} {response.reason_phrase}",
        request=response.request,
        response=told,
    )


_OF_TRANSFER: Final = frozenset({"content-encoding", "content-length", "transfer-encoding"})


async def _read_body(response: httpx2.Response, bytes_max: int) -> tuple[bytes, bool]:
    """Return the unpacked body, at most `bytes_max` of it, and whether there was more."""
    unpacking = _unpacking_of(response)
    found = bytearray()
    try:
        async for piece in response.aiter_raw():
            found += (
                piece[: bytes_max + 1 - len(found)]
                if unpacking is None
                else unpacking.feed(piece, bytes_max + 1 - len(found))
            )
            if len(found) > bytes_max:
                return bytes(found[:bytes_max]), True
    except zlib.error as error:
        raise ContentRefused(str(response.url), f"it is not packed as it says ({error})") from error
    if unpacking is not None and not unpacking.is_whole:
        raise ContentRefused(str(response.url), "it is packed, and its end is missing; ask again")
    return bytes(found), False


def _unpacking_of(response: httpx2.Response) -> _Unpacking | None:
    """Return what unpacks the body. Raises ContentRefused for what cannot be unpacked within bounds."""
    encodings = [one.strip() for one in response.headers.get("content-encoding", "").lower().split(",") if one.strip()]
    encodings = [one for one in encodings if one != "identity"]
    if not encodings:
        return None
    if len(encodings) > 1 or encodings[0] not in _PACKED:
        raise ContentRefused(str(response.url), f"it is packed as {', '.join(encodings)}, which was not asked for")
    return _Unpacking(encodings[0])


class _Unpacking:
    """Unpacks gzip and deflate piece by piece; never makes more than it is asked for, whatever is in the pieces."""

    def __init__(self, encoding: str) -> None:
        self._bits = zlib.MAX_WBITS if encoding == "deflate" else 16 + zlib.MAX_WBITS
        self._stream = zlib.decompressobj(self._bits)
        self._is_begun = False
        self.is_whole = True  # nothing is no packed body, and no cut one either

    def feed(self, piece: bytes, room: int) -> bytes:
        """Return at most `room` bytes of what `piece` unpacks to. Raises zlib.error."""
        found = b""
        while piece and len(found) < room:
            found += self._unpack(piece, room - len(found))
            self.is_whole = self._stream.eof
            piece = self._stream.unused_data
            if not piece.startswith(_GZIP):  # the end, and what some put behind it
                break
            self._stream = zlib.decompressobj(self._bits)  # gzip may be several files in a row
        return found

    def _unpack(self, piece: bytes, room: int) -> bytes:
        try:
            found = self._stream.decompress(piece, room)
        except zlib.error:
            if self._is_begun or self._bits != zlib.MAX_WBITS:
                raise
            self._bits = _RAW_DEFLATE  # what half of the web means by deflate
            self._stream = zlib.decompressobj(self._bits)
            found = self._stream.decompress(piece, room)
        self._is_begun = True
        return found
