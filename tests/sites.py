"""A web server on this machine for tests: real sockets, and each page says byte by byte how it answers.

A page is a coroutine function of the request and the writer, or bytes that are sent as they are. What was asked stands
in `requests`. Called by tests of the tools that reach out.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import msgspec


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One request."""

    method: str
    path: str  # without what stands behind `?`
    query: str
    headers: dict[str, str]  # names in lower case
    body: bytes


Page = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]] | bytes


class Site:
    """The server while it stands."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self.pages = dict(pages)
        self.requests: list[Asked] = []
        self.port = 0

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        """Where a page is."""
        return f"http://{host}:{self.port}{path}"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, and close."""
        with contextlib.closing(writer), contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            asked = await _read(reader)
            self.requests.append(asked)
            page = self.pages.get(asked.path, response(b"not here", status="404 Not Found"))
            if isinstance(page, bytes):
                writer.write(page)
                await writer.drain()
            else:
                await page(asked, writer)
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def site(pages: Mapping[str, Page]) -> AsyncIterator[Site]:
    """Serve `pages` by path on a port of 127.0.0.1 until the block ends."""
    stands = Site(pages)
    running: set[asyncio.Task[Any]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(stands.answer(reader, writer))
        running.add(task)
        task.add_done_callback(running.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    stands.port = server.sockets[0].getsockname()[1]
    try:
        yield stands
    finally:
        server.close()
        for task in list(running):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await asyncio.sleep(0)  # what was closed is freed in the loop's next round


def response(body: bytes, kind: str = "text/html; charset=utf-8", status: str = "200 OK", **headers: str) -> bytes:
    """A whole response; `content_encoding="gzip"` is a header, `content_length=` takes the place of the true one."""
    lines = {"content-length": str(len(body)), "connection": "close"}
    if kind:
        lines["content-type"] = kind
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


def redirect(target: str, status: str = "302 Found", body: bytes = b"", **headers: str) -> bytes:
    """A response that leads on to `target`."""
    return response(body, status=status, location=target, **headers)


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    path, _, query = target.partition("?")
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(method=method, path=path, query=query, headers=headers, body=body)
