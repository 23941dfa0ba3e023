"""One MCP server: opened at its first use, watched, opened again when it was lost, closed. Declares no tools.

The client library keeps task groups open between entering and leaving, and both must happen in one asyncio task. So
each life of a server has a task of its own (`_Life`) that enters, waits, and leaves; callers only send. Whether a call
went out decides what its failure means, so a server that is known to be gone is opened anew before anything is sent.
Called by `servers`.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import os
import re
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TextIO, cast

from perdure.errors import ServerLost, ServerRefused, ServerUnavailable
from perdure.limits import MCP_CLOSE_S, MCP_OPEN_S, MCP_PAGES_MAX, MCP_STDERR_BYTES, MCP_TOOLS_MAX
from perdure.tools.mcp.config import ServerConfig, filled, secrets_of
from perdure.tools.mcp.failures import CLOSED, Told, meaning
from perdure.tools.mcp.rendering import render
from perdure.tools.recording import classify_error

if TYPE_CHECKING:
    import mcp_types
    from mcp import Client, MCPError

_log = logging.getLogger(__name__)

EFFECT_KEY: Final = "perdure/effectKey"  # in `_meta` of a call that may be sent again
_READ_BYTES: Final = 16 * 1024
_HTTP_READ_S: Final = 300.0  # between two pieces of a stream, as the client library has it
_HTTP_S: Final = 30.0


class Connection:
    """The way to one server in this process. All calls come from one event loop."""

    def __init__(self, config: ServerConfig, environ: Mapping[str, str]) -> None:
        self.config = config
        self._environ = environ
        self._life: _Life | None = None
        self._turn = asyncio.Lock()  # who opens

    async def tools(self) -> list[mcp_types.Tool]:
        """Return the tools that the server lists, opening it where it is not. Raises ServerUnavailable."""
        return list((await self._open()).listed.values())

    async def call(
        self, tool: str, arguments: Mapping[str, Any], effect_key: str = "", *, is_free: bool = False
    ) -> str:
        """Call `tool` and return its answer as text; `is_free` says that a second call would do no harm.

        Raises ServerUnavailable where nothing was sent, ServerRefused where the server says that it did not work,
        ServerLost where nobody knows. Cancelling tells the server so.
        """
        life = await self._open()
        if tool not in life.listed:
            raise ServerRefused(self.config.name, tool, "the server no longer has this tool", "request")
        result = await life.call(tool, arguments, effect_key, is_free=is_free)
        text = render(result)
        if result.is_error:
            raise ServerRefused(self.config.name, tool, life.masked(text) or "it failed and does not say why")
        return text

    async def close(self) -> None:
        """End the server; the process is gone when this returns, or was given up after a bounded time."""
        async with self._turn:
            if self._life is not None:
                await self._life.end()
                self._life = None

    async def _open(self) -> _Life:
        async with self._turn:
            before = self._life
            if before is not None and not before.is_over:
                await before.opened()
                return before
            if before is not None:
                await before.end()
            self._life = _Life(self.config, self._environ)
            await self._life.opened()
            if before is not None and before.listed and before.listed != self._life.listed:
                _log.warning("mcp_tools_changed", extra={"server": self.config.name})
            return self._life


class _Life:
    """One life of a server, from its start to its end."""

    def __init__(self, config: ServerConfig, environ: Mapping[str, str]) -> None:
        self.listed: dict[str, mcp_types.Tool] = {}
        self._config = config
        self._environ = environ
        self._secrets = secrets_of(config, environ)
        self._stderr = bytearray()  # the end of what it wrote
        self._calls = 0  # on their way
        self._client: Client | None = None
        self._ready = asyncio.Event()
        self._lost = asyncio.Event()  # it went away, or is to be left
        # No context: what opens the server may be a tool that runs, and the server outlives that.
        self._task = asyncio.create_task(self._live(), context=contextvars.Context())
        self._task.add_done_callback(lambda _: self._ready.set())

    @property
    def is_over(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._lost.is_set() or self._task.done()

    async def opened(self) -> None:
        """Wait until its tools are known. Raises ServerUnavailable."""
        await self._ready.wait()
        if self._client is None:
            raise ServerUnavailable(self._config.name, self._why())

    async def end(self) -> None:
        """Leave the server, and wait until that is done."""
        self._lost.set()
        if self._client is None:  # it is being opened, and looks at nothing else
            self._task.cancel()
        done, _ = await asyncio.wait([self._task], timeout=MCP_CLOSE_S)
        if not done:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=MCP_CLOSE_S)
            _log.warning("mcp_server_left", extra={"server": self._config.name})

    async def call(
        self, tool: str, arguments: Mapping[str, Any], effect_key: str, *, is_free: bool
    ) -> mcp_types.CallToolResult:
        """Send one call; what goes wrong is raised as what it means for the call."""
        from mcp import MCPError

        if self._client is None or self.is_over:
            raise ServerUnavailable(self._config.name, self._why())
        meta: Any = {EFFECT_KEY: effect_key} if effect_key else None
        self._calls += 1
        try:
            return await self._client.call_tool(tool, dict(arguments), meta=meta)
        except MCPError as error:
            raise await self._meaning(tool, error, is_free=is_free) from None  # what it says is not masked
        except (RuntimeError, ValueError, TimeoutError, OSError) as error:  # an answer against its own schema; a pipe
            reason = self.masked(f"its answer cannot be used: {error}")
            if is_free:
                raise ServerRefused(self._config.name, tool, reason, "output") from None
            raise ServerLost(self._config.name, tool, reason) from None
        finally:
            self._calls -= 1

    def masked(self, text: str) -> str:
        """Return `text` without the values of the variables that the file puts in."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    # --- its own task ---
    async def _live(self) -> None:
        from mcp import Client
        from mcp_types import Implementation

        who = Implementation(name="perdure", version="0")
        async with asyncio.timeout(MCP_OPEN_S) as deadline:
            async with Client(self._transport(), client_info=who, cache=None) as client:
                self.listed = await _list(client)
                deadline.reschedule(None)
                self._client = client
                self._ready.set()
                await self._lost.wait()

    @contextlib.asynccontextmanager
    async def _transport(self) -> AsyncGenerator[Any]:
        """Give the streams of the server, the reading one watched."""
        server = filled(self._config, self._environ)
        async with contextlib.AsyncExitStack() as stack:
            reading, writing = await (self._start if server.transport == "stdio" else _reach)(stack, server)
            yield _Watched(reading, self._lost), writing

    async def _start(self, stack: contextlib.AsyncExitStack, server: ServerConfig) -> Any:  # noqa: ANN401 - streams
        from mcp import StdioServerParameters
        from mcp.client.stdio import stdio_client

        parameters = StdioServerParameters(
            command=server.command, args=list(server.args), env=dict(server.env), cwd=server.cwd or None
        )
        with self._listening() as errors:
            logging.getLogger("mcp.client.stdio").addFilter(_is_for_people)
            return await stack.enter_async_context(stdio_client(parameters, errlog=errors))

    @contextlib.contextmanager
    def _listening(self) -> Generator[TextIO]:
        """Give a file to which the server writes its complaints; their end is kept, for people."""
        ours, theirs = os.pipe()
        os.set_blocking(ours, False)
        loop = asyncio.get_running_loop()

        def read() -> None:
            with contextlib.suppress(BlockingIOError):
                while piece := os.read(ours, _READ_BYTES):
                    self._stderr += piece
                    del self._stderr[:-MCP_STDERR_BYTES]
                self._task.remove_done_callback(stop)  # all who could write are gone
                stop(self._task)

        def stop(task: asyncio.Task[None]) -> None:
            loop.remove_reader(ours)
            if task.done():
                with contextlib.suppress(BlockingIOError):
                    self._stderr += os.read(ours, MCP_STDERR_BYTES)
            os.close(ours)

        loop.add_reader(ours, read)
        self._task.add_done_callback(stop)
        with os.fdopen(theirs, "w") as file:
            yield file

    # --- what it means ---
    async def _meaning(self, tool: str, error: MCPError, *, is_free: bool) -> Exception:
        """Return what an error of the client or the server means for a call."""
        said = str(error)
        if self.is_over or said == CLOSED:
            return await self._meaning_of_end(tool)
        told = Told(code=error.code, text=self.masked(said), failure_class=classify_error(error).failure_class)
        found = meaning(self._config, tool, told, is_free=is_free)
        if isinstance(found, ServerUnavailable):
            self._lost.set()
        return found

    async def _meaning_of_end(self, tool: str) -> Exception:
        """A server that is gone: where not even a connection was made, this call, if it was alone, never went out."""
        self._lost.set()
        if self._config.transport != "stdio" and self._calls == 1:
            await asyncio.wait([self._task], timeout=MCP_CLOSE_S)
            error = self._error()
            if error is not None and _is_unconnected(error):
                return ServerUnavailable(self._config.name, self.masked(_text_of(error)))
        return ServerLost(self._config.name, tool, self._complaint() or "it went away")

    def _why(self) -> str:
        """Say why there is no client."""
        error = self._error()
        if isinstance(error, TimeoutError):
            text = f"it did not list its tools within {MCP_OPEN_S:g} s"
        else:
            text = _text_of(error) if error is not None else "it was left"
        return ": ".join(filter(None, (self.masked(text), self._complaint())))

    def _error(self) -> BaseException | None:
        if not self._task.done() or self._task.cancelled():
            return None
        return self._task.exception()

    def _complaint(self) -> str:
        """Return the last line with a word in it that the server wrote to its stderr."""
        lines = self._stderr.decode("utf-8", "replace").splitlines()
        return self.masked(next((line.strip() for line in reversed(lines) if re.search(r"\w", line)), ""))


class _Watched:
    """A stream of what a server says that tells when it is left: the client does so as soon as it ends."""

    def __init__(self, stream: Any, ended: asyncio.Event) -> None:  # noqa: ANN401 - the client's `ReadStream`
        self._stream = stream
        self._ended = ended

    @property
    def last_context(self) -> Any:  # noqa: ANN401 - some streams carry the sender's context
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:  # noqa: ANN401 - a message of the client's
        return await self._stream.receive()

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:  # noqa: ANN401 - as above
        return await self._stream.__anext__()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        await self._stream.__aexit__(kind, error, trace)


async def _reach(stack: contextlib.AsyncExitStack, server: ServerConfig) -> Any:  # noqa: ANN401 - a pair of streams
    import httpx2
    from mcp.client.sse import sse_client
    from mcp.client.streamable_http import streamable_http_client

    read_s = max(_HTTP_READ_S, server.timeout_s)
    streams: AbstractAsyncContextManager[Any]
    if server.transport == "sse":
        streams = sse_client(server.url, dict(server.headers), timeout=_HTTP_S, sse_read_timeout=read_s)
    else:
        http = httpx2.AsyncClient(headers=dict(server.headers), timeout=httpx2.Timeout(_HTTP_S, read=read_s))
        streams = streamable_http_client(server.url, http_client=await stack.enter_async_context(http))
    return await stack.enter_async_context(streams)


def _is_for_people(record: logging.LogRecord) -> bool:
    """Leave out what the client says, with a traceback, of each line of a server's that is no message.

    Many a server prints its own log there. That is no failure of anybody's, and the line may hold what is masked here.
    """
    if record.exc_info is None:
        return True
    _log.info("mcp_line_unread")
    return False


def _is_unconnected(error: BaseException) -> bool:
    """Whether nothing but connecting failed."""
    import httpx2

    return all(isinstance(one, httpx2.ConnectError | httpx2.ConnectTimeout) for one in _members(error))


async def _list(client: Client) -> dict[str, mcp_types.Tool]:
    """Return the tools of a server by name, page by page."""
    found: dict[str, mcp_types.Tool] = {}
    cursor: str | None = None
    for _ in range(MCP_PAGES_MAX):
        page = await client.list_tools(cursor=cursor)
        found |= {tool.name: tool for tool in page.tools}
        cursor = page.next_cursor
        if cursor is None or len(found) > MCP_TOOLS_MAX:
            break
    return dict(list(found.items())[:MCP_TOOLS_MAX])


def _text_of(error: BaseException) -> str:
    """Return what the first error inside of groups says."""
    first = _members(error)[0]
    return str(first) or type(first).__name__


def _members(error: BaseException) -> list[BaseException]:
    """Return the errors inside of groups, or the one that is none."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    group = cast("BaseExceptionGroup[BaseException]", error)
    return [member for inner in group.exceptions for member in _members(inner)]
