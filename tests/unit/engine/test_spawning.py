"""What a tool starts by `perdure.spawn` belongs to its task, and is found whoever was killed since."""

import asyncio
import json
import os
import signal
import subprocess
import sys

import pytest

import perdure
from perdure.clock import SystemClock
from perdure.ids_source import SystemIds
from perdure.workspace import processes
from tests.worlds import Play, World

TELL = "import json, os; print(json.dumps([dict(os.environ), os.getcwd(), os.getsid(0) == os.getpid()]))"


def told(world, tool, *args, workspace=""):
    """Run a program of one act; return its result."""

    async def program(task):
        return await task.act(tool, *args, then=lambda state, result: None)

    async def life():
        async with world.runtime() as runtime:
            return await runtime.run(Play(program), "job", workspace=workspace)

    return asyncio.run(life())


@pytest.fixture
def world():
    """A world whose tasks have ids of their own, since processes are this machine's."""
    made = World()
    made.ids = SystemIds()
    return made


def ask(**options):
    """What a started process says of itself: environment, folder, whether its session is its own."""
    child = perdure.spawn([sys.executable, "-c", TELL], stdout=subprocess.PIPE, text=True, **options)
    with child:
        return json.loads(child.stdout.read())


@pytest.mark.parametrize("kind", ["thread", "quick", "coroutine"])
def test_it_carries_the_marks_of_its_call(world, tmp_path, kind):
    """The task's and the action's id beside the runtime's environment; the workspace, made for it, is its folder."""

    def plain() -> list:
        return ask()

    async def coroutine() -> list:
        return ask()

    fn = coroutine if kind == "coroutine" else plain
    tool = perdure.tool(effect="irreversible", name="ask", quick=kind == "quick")(fn)
    environment, folder, is_leader = told(world, tool, workspace=str(tmp_path / "made" / "here"))
    (action,) = [entry.payload.action for entry in world.journal() if type(entry.payload).__name__ == "ActionIntended"]
    assert (environment["PERDURE_TASK"], environment["PERDURE_ACTION"]) == (world.fold().task, action)
    assert environment["PATH"] == os.environ["PATH"]
    assert (folder, is_leader) == (os.path.realpath(tmp_path / "made" / "here"), True)


def test_options_are_popens_but_the_marks_stay(world, tmp_path):
    """Another folder and another environment are used; the marks are added, and the session stays its own."""
    options = {"cwd": tmp_path, "env": {"ONLY": "this", "PERDURE_TASK": "forged"}, "start_new_session": False}
    tool = perdure.tool(effect="irreversible", name="ask", quick=True)(lambda: ask(**options))
    environment, folder, is_leader = told(world, tool)
    assert {"ONLY", "PERDURE_TASK", "PERDURE_ACTION"} <= environment.keys()
    assert "PATH" not in environment
    assert (environment["ONLY"], environment["PERDURE_TASK"]) == ("this", world.fold().task)
    assert (folder, is_leader) == (os.path.realpath(tmp_path), True)


@pytest.mark.skipif(not processes.is_supported(), reason="this system does not say who carries marks")
def test_it_is_found_and_ended_with_its_task(world):
    """It outlives the call, and is the only process of the task."""
    children = []

    @perdure.tool(effect="irreversible", quick=True)
    def serve() -> int:
        children.append(perdure.spawn([sys.executable, "-c", "import time; time.sleep(60)"]))
        return children[0].pid

    pid = told(world, serve)
    task = world.fold().task
    assert [process.pid for process in processes.find(task)] == [pid]
    assert [process.pid for process in processes.end(task, 30.0, SystemClock())] == [pid]
    assert children[0].wait() == -signal.SIGTERM


def test_outside_of_a_tool_it_is_refused(world):
    """A program has no action to which a process could belong: neither it nor a script may spawn."""
    with pytest.raises(perdure.UsageError, match=r"subprocess\.Popen"):
        perdure.spawn(["true"])

    async def program(task):
        with pytest.raises(perdure.UsageError, match="tool"):
            perdure.spawn(["true"])
        return "refused"

    assert "refused" == world.live(Play(program))
