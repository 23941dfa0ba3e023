"""Tools of MCP servers in a task: what a killed server, and a killed process, leave behind, and what follows.

The desk's ledger says what really happened in the world.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

import perdure
from perdure.tools.mcp import mcp_tools
from tests.crash.forked import live
from tests.mcp.servers import ends, hold, kill_held, ledger, named
from tests.worlds import IMPATIENT, Play, World


def calling(folder: Path, name: str, *, killing: bool = False):
    """Return a program that calls one tool of the desk; `killing`: the desk is killed while the call is held in it."""

    async def program(task):
        servers = await mcp_tools(str(folder / "mcp.json"), {})
        killer = asyncio.create_task(kill_held(folder)) if killing and (folder / "hold").exists() else None
        try:
            tool = next(tool for tool in servers.tools if tool.name == name)
            return await task.using(key="k").act(tool, {"name": "it"})
        finally:
            if killer is not None:
                await killer
            await servers.close()

    return Play(program)


def lived(folder: Path, play: Play) -> object:
    """Run the task in one life of a runtime of its own, by the real clock."""

    async def life() -> object:
        async with perdure.open(str(folder / "tasks.db"), rules=IMPATIENT) as runtime:
            return await runtime.run(play, "job")

    return asyncio.run(life())


def test_a_read_only_call_whose_server_is_killed_is_made_again(tmp_path):
    """By recovery, at a new process of the server, in the same life."""
    named(tmp_path)
    hold(tmp_path)
    assert "look it: done" == lived(tmp_path, calling(tmp_path, "desk__look", killing=True))
    lines = ledger(tmp_path)
    assert [["look", "it"]] * 2 == [line[:2] for line in lines]
    assert lines[0][3] != lines[1][3]


def test_an_idempotent_call_whose_server_is_killed_is_sent_again_under_its_key(tmp_path):
    """The server sees the same key twice, and could drop the second."""
    named(tmp_path)
    hold(tmp_path)
    assert "stamp it: done" == lived(tmp_path, calling(tmp_path, "desk__stamp", killing=True))
    lines = ledger(tmp_path)
    assert 2 == len(lines)
    assert "-" != lines[0][2] == lines[1][2]


def test_an_irreversible_call_whose_server_is_killed_is_in_doubt_and_never_sent_again(tmp_path):
    """Not in this life, and not in the next: a person says whether it happened."""
    named(tmp_path)
    hold(tmp_path)
    for killing in (True, False):
        with pytest.raises(perdure.NeedsHuman):
            lived(tmp_path, calling(tmp_path, "desk__send", killing=killing))
    assert [["send", "it"]] == [line[:2] for line in ledger(tmp_path)]


@pytest.mark.parametrize(
    ("tool", "point", "count"),
    [
        ("desk__look", "after_effect:1", 2),
        ("desk__stamp", "after_effect:1", 2),
        ("desk__send", "after_effect:1", 1),
        ("desk__send", "after_outcome:1", 1),
    ],
)
def test_a_process_that_is_killed_in_mid_call_goes_on_by_the_effect(tmp_path, tool, point, count):
    """Its server ends with it; the next process reads again, sends again under the key, or asks a person."""
    named(tmp_path)

    async def run(folder):
        async with perdure.open(str(folder / "tasks.db")) as runtime:
            try:
                await runtime.run(calling(folder, tool), "job")
            except perdure.NeedsHuman:
                (folder / "asked").touch()

    assert 9 == live(run, tmp_path, point)
    assert 0 == live(run, tmp_path, "")
    lines = ledger(tmp_path)
    assert count == len(lines)
    assert all(ends(int(line[3])) for line in lines)
    assert 1 == len({line[2] for line in lines})
    assert (tool == "desk__send" and point == "after_effect:1") == (tmp_path / "asked").exists()


def test_no_secret_of_a_servers_file_is_in_the_journal(tmp_path):
    """Neither of one that works nor of one whose tool says it back."""
    token = "t0ken-0123456789"
    file = named(tmp_path, env={"DESK_TOKEN": "${TOKEN}"})

    async def program(task):
        servers = await mcp_tools(file, {"TOKEN": token, **os.environ})
        tools = {tool.name: tool for tool in servers.tools}
        try:
            await task.using(key="a").act(tools["desk__look"], {"name": "it"})
            outcome = await task.using(key="b").act_outcome(tools["desk__refuse"], {"name": "cake"})
            return outcome.error.message
        finally:
            await servers.close()

    world = World()
    assert "no cake today: ***" in world.live(Play(program))
    assert token not in repr(world.journal()) + repr(world.memory.blobs)
    assert "***" in repr(world.journal())
