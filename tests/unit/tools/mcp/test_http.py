"""MCP servers that are reached over HTTP, against a real one of the official SDK in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import time

import pytest

from perdure.errors import ServerLost, ServerUnavailable
from perdure.tools.mcp import mcp_tools
from tests.mcp.servers import DESK, hold, kill_held, ledger


@contextlib.contextmanager
def standing(folder, port, kind="streamable-http"):
    """The desk on a port, ended by its id."""
    command = [sys.executable, DESK, str(folder), str(port), kind]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        while True:
            assert process.poll() is None
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.02)
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def port():
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


@contextlib.asynccontextmanager
async def opened(folder, port, path="/mcp", **settings):
    """The servers of a file that names the desk by its URL."""
    file = folder / "mcp.json"
    row = {"url": f"http://127.0.0.1:{port}{path}", **settings}
    file.write_text(json.dumps({"mcpServers": {"desk": row}}))
    servers = await mcp_tools(str(file), {})
    try:
        yield servers
    finally:
        await servers.close()


def send(servers, name):
    """Call the tool that may not be called twice."""
    tool = next(tool for tool in servers.tools if tool.name == "desk__send")
    return tool({"name": name})


@pytest.mark.parametrize(
    ("kind", "path", "settings"), [("streamable-http", "/mcp", {}), ("sse", "/sse", {"type": "sse"})]
)
def test_a_server_behind_a_url_is_called(tmp_path, port, kind, path, settings):
    """Its tools are the same; it is not ours to end."""

    async def main():
        async with opened(tmp_path, port, path, **settings) as servers:
            assert () == servers.problems
            return await send(servers, "it")

    with standing(tmp_path, port, kind) as process:
        assert "send it: done" == asyncio.run(main())
        assert process.poll() is None


def test_a_server_that_is_not_there_is_a_problem(tmp_path, port):
    """Nothing was sent."""

    async def main():
        async with opened(tmp_path, port) as servers:
            return servers.problems

    (problem,) = asyncio.run(main())
    assert "MCP server 'desk' is not there, nothing was sent" in problem


def test_a_server_that_is_killed_in_mid_call_leaves_that_call_unknown_and_the_next_one_unsent(tmp_path, port):
    """In doubt is what went out; where not even a connection is made, nothing did. A new server is found by itself."""
    hold(tmp_path)

    async def main():
        async with contextlib.AsyncExitStack() as stack:
            with standing(tmp_path, port):
                servers = await stack.enter_async_context(opened(tmp_path, port))
                held = asyncio.create_task(send(servers, "first"))
                await kill_held(tmp_path)
                with pytest.raises(ServerLost):
                    await held
            with pytest.raises(ServerUnavailable):
                await send(servers, "second")
            with standing(tmp_path, port):
                return await send(servers, "third")

    assert "send third: done" == asyncio.run(main())
    assert ["first", "third"] == [line[1] for line in ledger(tmp_path)]


def test_a_server_that_went_away_between_two_calls_was_sent_nothing(tmp_path, port):
    """A call at a connection that no longer stands is not in doubt; after the restart the next one is answered."""

    async def main():
        async with contextlib.AsyncExitStack() as stack:
            with standing(tmp_path, port):
                servers = await stack.enter_async_context(opened(tmp_path, port))
                await send(servers, "first")
            with pytest.raises(ServerUnavailable):
                await send(servers, "second")
            with standing(tmp_path, port):
                await send(servers, "third")

    asyncio.run(main())
    assert ["first", "third"] == [line[1] for line in ledger(tmp_path)]
