"""MCP servers as tools, against a real server of the official SDK."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys

import pytest

from perdure.errors import ConfigInvalid, ServerLost, ServerRefused, ServerUnavailable
from perdure.tools.mcp import connection, mcp_tools
from perdure.tools.offering import fit, offer
from perdure.tools.recording import classify_error, record_error
from tests.mcp.servers import DESK, hold, is_alive, kill_held, ledger, named

MUTE = "import os, pathlib, sys; pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); sys.stdin.read()"


@contextlib.asynccontextmanager
async def opened(file, environ=None):
    """The servers of a file, closed again."""
    servers = await mcp_tools(file, environ or {})
    try:
        yield servers
    finally:
        await servers.close()


def using(file, work, environ=None):
    """Let `work(tools by name, servers)` be done with the servers of a file."""

    async def main():
        async with opened(file, environ) as servers:
            return await work({tool.name: tool for tool in servers.tools}, servers)

    return asyncio.run(main())


def test_the_tools_of_a_server_are_declared_with_its_words_and_hints(tmp_path):
    """Name, schema, description are the server's; read-only is pure, idempotent keyed, the rest irreversible."""

    async def look(tools, servers):
        assert () == servers.problems
        return tools

    tools = using(named(tmp_path, timeout_s=7), look)
    assert {
        "desk__look": "free/nothing",
        "desk__stamp": "keyed/impossible",
        "desk__send": "never/impossible",
        "desk__refuse": "never/impossible",
        "desk__picture": "free/nothing",
        "desk__count": "free/nothing",
    } == {name: str(tool.effect) for name, tool in tools.items()}
    one = tools["desk__look"]
    assert "Look at something.\nIt stays as it is." == one.fn.__doc__.replace("    ", "")
    assert {"name": {"title": "Name", "type": "string"}} == one.schema["properties"]
    assert (7.0, "mcp:desk", True) == (one.timeout_s, one.provider, one.source)
    assert not tools["desk__send"].source


def test_a_tool_is_called_and_its_answer_comes_as_text(tmp_path):
    """Whatever its parameters are called; what is no text is named, what is only structured comes as JSON."""

    async def call(tools, servers):
        return (
            await tools["desk__look"]({"name": "it"}),
            await tools["desk__picture"]({}),
            json.loads(await tools["desk__count"]({"key": "then", "then": 4})),
        )

    assert ("look it: done", "a dot:\n[image/png, 3 bytes, not shown]", {"then": 5}) == using(named(tmp_path), call)


def test_a_tool_is_offered_and_fitted_by_the_schema_of_its_server(tmp_path):
    """All of its words are offered, and what a model gives reaches the function whole."""

    async def look(tools, servers):
        offered = offer(tools["desk__look"])
        assert "Look at something. It stays as it is." == offered["description"]
        assert tools["desk__look"].schema == offered["schema"]
        return await tools["desk__count"](**fit(tools["desk__count"], {"key": "n", "then": 1}))

    assert {"n": 2} == json.loads(using(named(tmp_path), look))


def test_a_tool_that_no_server_has_is_refused_with_those_there_are(tmp_path):
    """And with the servers that are not there."""

    async def look(tools, servers):
        assert tools["desk__look"] is servers["desk__look"]
        with pytest.raises(ConfigInvalid, match=r"no tool 'desk__lok'; there are desk__look, .*has no tool 'x'"):
            servers["desk__lok"]

    using(named(tmp_path, effects={"x": "pure"}), look)


def test_the_effect_key_goes_with_a_call_that_may_be_sent_again(tmp_path):
    """In `_meta`, where a server that knows it can drop the second; with other calls nothing goes."""

    async def call(tools, servers):
        await tools["desk__stamp"]({"name": "it"}, key="the-key")
        await tools["desk__send"]({"name": "it"})

    using(named(tmp_path), call)
    assert [["stamp", "it", "the-key"], ["send", "it", "-"]] == [line[:3] for line in ledger(tmp_path)]


def test_one_process_serves_all_calls_and_is_gone_after_the_close(tmp_path):
    """Calls side by side too; closing twice does nothing."""

    async def call(tools, servers):
        await asyncio.gather(*(tools["desk__look"]({"name": str(at)}) for at in range(5)))
        await servers.close()

    using(named(tmp_path), call)
    lines = ledger(tmp_path)
    assert {"0", "1", "2", "3", "4"} == {line[1] for line in lines}
    pids = {int(line[3]) for line in lines}
    assert 1 == len(pids)
    assert not is_alive(pids.pop())


# ---------------------------------------------------------------- what goes wrong


def test_a_tool_that_fails_says_so_and_secrets_are_not_said_again(tmp_path):
    """Its own words, without the values that the file took from the environment."""

    async def call(tools, servers):
        with pytest.raises(ServerRefused) as caught:
            await tools["desk__refuse"]({"name": "cake"})
        return caught.value

    environ = {"TOKEN": "s3cret-token"}
    error = using(named(tmp_path, env={"DESK_TOKEN": "${TOKEN}"}), call, environ)
    assert "no cake today: ***" in str(error)
    assert "tool" == classify_error(error).failure_class


def test_arguments_that_the_server_does_not_take_are_a_refused_call(tmp_path):
    """Nothing was done, also by a tool that may not be called twice."""

    async def call(tools, servers):
        with pytest.raises(ServerRefused) as caught:
            await tools["desk__send"]({"nme": "it"})
        return caught.value

    error = using(named(tmp_path), call)
    assert classify_error(error).failure_class in {"tool", "request"}
    assert [] == ledger(tmp_path)


def test_a_server_that_is_killed_in_mid_call_leaves_the_call_unknown(tmp_path):
    """A fault of the network, which leaves an effect in doubt; the next call is answered by a new process."""
    hold(tmp_path)

    async def call(tools, servers):
        held = asyncio.create_task(tools["desk__send"]({"name": "first"}))
        pid = await kill_held(tmp_path)
        with pytest.raises(ServerLost) as caught:
            await held
        assert "send second: done" == await tools["desk__send"]({"name": "second"})
        return caught.value, pid

    error, pid = using(named(tmp_path), call)
    assert "network" == classify_error(error).failure_class
    assert f"desk {pid} is open" in str(error)
    assert [["send", "first"], ["send", "second"]] == [line[:2] for line in ledger(tmp_path)]
    assert str(pid) == ledger(tmp_path)[0][3] != ledger(tmp_path)[1][3]


def test_a_server_that_died_between_two_calls_is_opened_before_anything_is_sent(tmp_path):
    """So the call is not in doubt: it goes to the new process, once."""

    async def call(tools, servers):
        await tools["desk__send"]({"name": "first"})
        os.kill(int(ledger(tmp_path)[0][3]), signal.SIGKILL)
        life = servers._connections[0]._life
        await life._lost.wait()
        await tools["desk__send"]({"name": "second"})

    using(named(tmp_path), call)
    assert [["send", "first"], ["send", "second"]] == [line[:2] for line in ledger(tmp_path)]


def test_a_call_that_is_given_up_is_taken_back_at_the_server(tmp_path):
    """The server goes on serving."""
    hold(tmp_path)

    async def call(tools, servers):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await tools["desk__look"]({"name": "held"})
        return await tools["desk__look"]({"name": "next"})

    assert "look next: done" == using(named(tmp_path), call)
    assert 1 == len({line[3] for line in ledger(tmp_path)})


@pytest.mark.parametrize(
    ("row", "word"),
    [
        ({"command": "/no/such/command"}, "No such file"),
        (
            {"args": ["-c", "import sys; sys.exit('out of order: ' + 'x' * 5000 + sys.argv[1])", "${TOKEN}"]},
            r"x\*\*\*$",
        ),
        ({"args": ["-c", "print('hello')"]}, "nothing was sent"),
    ],
)
def test_a_server_that_cannot_be_opened_is_a_problem_and_not_the_end(tmp_path, row, word):
    """The others are there; why is said in the server's own last words, without secrets."""
    file = tmp_path / "mcp.json"
    good = {"command": sys.executable, "args": [DESK, str(tmp_path)]}
    rows = {"bad": {"command": sys.executable, **row}, "good": good}
    file.write_text(json.dumps({"mcpServers": rows}))

    async def look(tools, servers):
        assert "good__look" in tools
        return servers.problems

    (problem,) = using(str(file), look, {"TOKEN": "s3cret-token"})
    assert "MCP server 'bad' is not there, nothing was sent" in problem
    assert "s3cret" not in problem
    assert re.search(word, problem)


def test_a_server_that_never_answers_is_left(tmp_path, monkeypatch):
    """After a bounded time, and its process is ended."""
    monkeypatch.setattr(connection, "MCP_OPEN_S", 1.0)
    file = named(tmp_path, args=["-c", MUTE, str(tmp_path / "pid")])

    async def look(tools, servers):
        return servers.problems

    (problem,) = using(file, look)
    assert "did not list its tools within 1 s" in problem
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_opening_that_is_given_up_leaves_no_process(tmp_path):
    """Whoever asked was cancelled; the server is ended."""
    file = named(tmp_path, args=["-c", MUTE, str(tmp_path / "pid")])

    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await mcp_tools(file, {})

    asyncio.run(main())
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_a_lost_server_that_cannot_be_opened_again_has_been_sent_nothing(tmp_path):
    """Not in doubt: the call failed, and may be made again later."""
    file = named(tmp_path)

    async def call(tools, servers):
        await tools["desk__send"]({"name": "first"})
        os.kill(int(ledger(tmp_path)[0][3]), signal.SIGKILL)
        await servers._connections[0]._life._lost.wait()
        servers._connections[0].config = _without_script(servers._connections[0].config)
        with pytest.raises(ServerUnavailable) as caught:
            await tools["desk__send"]({"name": "second"})
        return caught.value

    assert "capacity" == classify_error(using(file, call)).failure_class
    assert 1 == len(ledger(tmp_path))


def test_a_server_of_the_old_kind_lists_its_tools_in_pages_and_fails_in_its_own_way(tmp_path):
    """An error of the server itself leaves open whether an effect happened; the server is still there."""
    old = [DESK.replace("desk.py", "old.py"), str(tmp_path)]
    file = named(tmp_path, args=old, env={"DESK_TOKEN": "${TOKEN}"})

    async def call(tools, servers):
        assert ["desk__work", "desk__read"] == list(tools)
        with pytest.raises(ServerLost, match="cannot read property") as caught:
            await tools["desk__work"]({})
        assert "read" == await tools["desk__read"]({})
        return caught.value

    error = using(file, call, {"TOKEN": "s3cret-token"})
    assert "network" == classify_error(error).failure_class
    assert "s3cret" not in repr(record_error(error))
    assert [["work"]] == ledger(tmp_path)


def test_without_the_library_the_extra_is_named(tmp_path, monkeypatch):
    """Before anything is opened."""
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(ConfigInvalid, match=r"perdure\[mcp\]"):
        asyncio.run(mcp_tools(named(tmp_path), {}))


# ---------------------------------------------------------------- the operator's word, and what changed


def test_the_operator_has_the_last_word_on_effects(tmp_path):
    """By tool, or for all that are not named; a word about a tool that is not there is a problem."""

    async def look(tools, servers):
        return {name: str(tool.effect) for name, tool in tools.items()}, servers.problems

    effects = {"send": "idempotent", "look": "pure", "sned": "pure", "*": "irreversible"}
    found, problems = using(named(tmp_path, effects=effects), look)
    assert ("keyed/impossible", "free/nothing", "never/impossible", "never/impossible") == tuple(
        found[f"desk__{name}"] for name in ("send", "look", "stamp", "count")
    )
    assert ["'sned'" in problem for problem in problems] == [True]


def test_what_changed_since_it_was_offered_is_said(tmp_path):
    """Gone, other arguments, other words; offers of others are passed over."""

    async def look(tools, servers):
        same = {name: offer(tool) for name, tool in tools.items()}
        look, send, stamp = (same[f"desk__{name}"] for name in ("look", "send", "stamp"))
        other = {"type": "object", "properties": {}}
        recorded = [
            look,
            {**send, "schema": other},
            {**stamp, "description": "x"},
            {"name": "desk__gone", "description": "", "schema": other},
            {"name": "read_file", "description": "", "schema": other},
        ]
        assert () == servers.changed([look, send])
        return servers.changed(recorded)

    takes, says, gone = using(named(tmp_path), look)
    assert "'desk__send' takes other arguments" in takes
    assert "'desk__stamp' describes itself otherwise" in says
    assert "'desk__gone' was offered before, and its server no longer has it" in gone


def test_a_name_is_made_of_server_and_tool_alone():
    """The same in each process; what providers do not take is replaced, and no two are the same."""
    from perdure.tools.mcp.servers import _name

    assert "desk__look" == _name("desk", "look")
    odd = {_name(*pair) for pair in (("my desk", "look/at"), ("my_desk", "look_at"), ("my-desk", "look.at"),
                                     ("a__b", "c"), ("a", "b__c"), ("x" * 80, "y"), ("x" * 80, "z"))}  # fmt: skip
    assert 7 == len(odd)
    assert all(len(name) <= 64 and name.replace("_", "").replace("-", "").isalnum() for name in odd)


def test_a_file_that_cannot_be_used_opens_nothing(tmp_path):
    """A variable that is missing, for one."""
    file = named(tmp_path, env={"DESK_TOKEN": "${NO_SUCH}"})
    with pytest.raises(ConfigInvalid, match="NO_SUCH"):
        asyncio.run(mcp_tools(file, {}))


def _without_script(config):
    import msgspec

    return msgspec.structs.replace(config, args=("-c", "import sys; sys.exit('broken')"))


def test_a_server_that_prints_its_log_where_messages_go_is_no_failure_and_no_traceback(tmp_path, caplog):
    """What it prints may hold a secret, and the client would tell all of it."""
    chatty = "print('password hunter22', flush=True); import runpy, sys; sys.argv = sys.argv[1:]; "
    run = chatty + "runpy.run_path(sys.argv[0], run_name='__main__')"
    file = named(tmp_path, args=["-c", run, DESK, str(tmp_path)])

    async def call(tools, servers):
        assert () == servers.problems
        return await tools["desk__look"]({"name": "it"})

    assert "it" in using(file, call)
    assert [] == [record for record in caplog.records if record.exc_info or "hunter22" in record.getMessage()]
