"""Programs that fork in the middle of a task. Run by test_leases.py as `python -m tests.fire.forking MODE PLACE`."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import perdure
from perdure.errors import ForkedRuntime
from tests.fire.acting import tick_on

PARENT = os.getpid()


@perdure.tool(effect="pure")
async def read(number: int) -> int:
    """Say where it is called, if that is in a child."""
    if os.getpid() != PARENT:
        os.write(1, b"called in the child\n")
    return number


async def ask_in_child(place: str) -> None:
    """Try everything in a forked child, say what it answers, and go on in the parent."""
    async with perdure.open(place, log_dir="") as runtime, runtime.task("job") as task:
        await task.using(key="first").act(read, 1)
        _in_child(
            lambda: task.using(key="second").act(read, 2),
            lambda: task.checkpoint("mark"),
            lambda: task.note("hello"),
            lambda: runtime.run(tick_on, "other", args={"count": 1}),
            lambda: runtime.result(task.id),
        )
        await task.using(key="third").act(read, 3)


async def die_before_child(place: str) -> None:
    """Leave a child behind, and die."""
    async with perdure.open(place, log_dir="") as runtime, runtime.task("job") as task:
        await task.using(key="first").act(read, 1)
        if os.fork() == 0:
            signal.alarm(20)
            signal.pause()
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)


async def follow(place: str) -> None:
    """Go on with the task, at once."""
    async with perdure.open(place, log_dir="") as runtime, runtime.task("job") as task:
        await task.using(key="second").act(read, 2)


def _in_child(*questions: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    child = os.fork()
    if child == 0:
        try:
            for question in questions:
                os.write(1, f"{asyncio.run(_answer(question()))}\n".encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)


async def _answer(call: Coroutine[Any, Any, Any]) -> str:
    try:
        await call
    except ForkedRuntime as error:
        return f"{type(error).__name__} {error.opened_by == os.getppid()} {error.used_by == os.getpid()}"
    except perdure.PerdureError as error:
        return repr(error)
    return "nothing"


if __name__ == "__main__":
    asyncio.run({"ask": ask_in_child, "die": die_before_child, "follow": follow}[sys.argv[1]](sys.argv[2]))
