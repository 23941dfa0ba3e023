"""What the processes do that the fire tests kill, stop, starve and cut off. Run as a program; judges nothing.

    python -m tests.fire.acting PLACE '{"world": FOLDER, "count": 20, …}'

Every line on stdout is an acknowledgement: "ack N" when act N has returned, "refused NAME text" when a run ended
with an error, "result …" when it ended well. The outside world is a file that knows nothing of perdure.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import perdure
from perdure.ports import Append
from perdure.stores.sqlite import commits, database, writer
from perdure.stores.sqlite.store import SqliteStore

ORDER: dict[str, Any] = {}  # what this process was told to do
DID: set[str] = set()  # what it does once only
ROUNDS_MAX = 40


def main() -> None:
    """Do what the command line says."""
    ORDER.update(json.loads(sys.argv[2]))
    if ORDER.get("synchronous"):
        _loosen(ORDER["synchronous"])
    if ORDER.get("stop_inside"):
        _stop_inside_write()
    if ORDER.get("die_taking_in"):
        _die_taking_in(ORDER["die_taking_in"])
    writer.STORE_BUSY_S = ORDER.get("busy_s", writer.STORE_BUSY_S)  # type: ignore[misc]  # so that tests take seconds
    asyncio.run(_work(sys.argv[1]))


async def _work(place: str) -> None:
    program = PROGRAMS[ORDER.get("program", "send")]
    try:
        async with perdure.open(place, lease_ttl_s=ORDER.get("ttl_s", 30.0), log_dir="") as runtime:
            for _ in range(ORDER.get("rounds", 1)):
                if await _run(runtime, program):
                    break
                await asyncio.sleep(ORDER.get("between_s", 0.0))
    except (perdure.PerdureError, OSError) as error:
        _say("refused", type(error).__name__, error)


async def _run(runtime: perdure.Runtime, program: Any) -> bool:
    """Run once; return whether that was the end."""
    try:
        if ORDER.get("resume"):
            result = await runtime.resume("job", program)
        else:
            name, args, workspace = (
                ORDER.get("name", "job"),
                {"count": ORDER.get("count", 20)},
                ORDER.get("workspace", ""),
            )
            result = await runtime.run(program, name, args=args, workspace=workspace)
    except perdure.PerdureError as error:
        _say("refused", type(error).__name__, error)
        return False
    _say("result", result)
    return True


def _say(*words: object) -> None:
    sys.stdout.write(" ".join(str(word).replace("\n", " ") for word in words) + "\n")
    sys.stdout.flush()


# --- the world ------------------------------------------------------------------------------------------------------
def _note(name: str, *words: object) -> None:
    """Write one line into a file of the world: there whatever becomes of this process."""
    file = os.open(os.path.join(ORDER["world"], name), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, (" ".join(map(str, words)) + "\n").encode())
    os.close(file)


@perdure.tool(effect="idempotent")
async def send(number: int, key: perdure.EffectKey) -> int:
    """Send one letter; the service drops a second one under the same key."""
    _note("sent", number, key)
    return number


@perdure.tool(effect="irreversible", timeout_s=20)
async def ring(number: int) -> int:
    """Ring a bell: nobody can tell afterwards whether it rang."""
    _note("rung", number)
    return number


@perdure.tool(effect="pure")
async def fetch(number: int) -> bytes:
    """Get something large that cannot be compressed."""
    return os.urandom(100_000)


@perdure.tool(effect="pure")
def look_back(number: int) -> str:
    """Read something, in a thread."""
    return f"letter {number}" * 400


@perdure.tool(effect="pure", quick=True)
def hang(seconds: float) -> str:
    """Hold up the event loop."""
    time.sleep(seconds)
    return "awake"


@perdure.tool(effect="pure")
async def tick(number: int, pause_s: float) -> int:
    """Take a moment."""
    await asyncio.sleep(pause_s)
    return number


@perdure.tool(effect="irreversible", timeout_s=6)
async def ring_slowly(number: int) -> int:
    """Begin to ring and never come back."""
    _note("rung", number)
    _say("ringing", number)
    await asyncio.sleep(600)
    return number


@perdure.tool(effect="workspace", paths=("{number}.txt",), quick=True)
def write_page(folder: str, number: int) -> int:
    """Write a file as programs do: nothing sees to it that it reaches the disk."""
    with open(os.path.join(folder, f"{number}.txt"), "w", encoding="utf-8") as file:
        file.write(f"page {number}\n" * 100)
    return number


# --- programs -------------------------------------------------------------------------------------------------------
@perdure.program(state={"sent": []})
async def send_all(task: perdure.Task, count: int) -> int:
    """Send letters, each acknowledged, and ring a bell in the middle."""
    async for number in task.each("letters", range(count)):
        await task.act(send, number, then=lambda state, sent: state["sent"].append(sent))
        if number == count // 2:
            await task.act(ring, number)
        _say("ack", number)
    return len(task.state["sent"])


@perdure.program(state={"sent": [], "seen": 0})
async def everything(task: perdure.Task, count: int) -> int:
    """Every kind of call and change, a few times."""
    await task.adopt(["send", "ring", "look back"])
    async for number in task.each("letters", range(count)):
        await task.act(send, number, then=lambda state, sent: state["sent"].append(sent))
        _say("ack", number)
    await task.checkpoint("sent")
    await task.using(key="bell").act(ring, 1)
    seen = await task.map("look", look_back, task.state["sent"].plain())
    async with task.edit() as state:
        state["seen"] = len(seen)
    await task.check("all seen", len(seen) == count)
    await task.fact("all letters are sent")
    await task.checkpoint("end")
    return len(task.state["sent"])


@perdure.program(state={"sent": []})
async def fill(task: perdure.Task, count: int) -> int:
    """Keep more and more."""
    async for number in task.each("letters", range(count)):
        await task.act(fetch, number)
        await task.act(send, number, then=lambda state, sent: state["sent"].append(sent))
        _say("ack", number)
    return len(task.state["sent"])


@perdure.program(state={"ticks": 0})
async def tick_on(task: perdure.Task, count: int) -> int:
    """Tick until told otherwise; each tick leaves a mark in the state."""
    while task.state["ticks"] < count:
        number = task.state["ticks"]
        await task.act(tick, number, ORDER.get("pause_s", 0.05), then=lambda state, at: state.update(ticks=at + 1))
        _say("ack", number)
    return int(task.state["ticks"])


@perdure.program(state={"hung": False})
async def hang_once(task: perdure.Task, count: int) -> str:
    """Hold up the loop for longer than any lease stands, then go on."""
    await task.act(tick, 0, 0.0, then=lambda state, _: state.update(hung=False))
    _say("ack", 0)
    await task.act(hang, float(count), then=lambda state, _: state.update(hung=True))
    _say("ack", 1)
    await task.using(key="bell").act(ring, 1)
    return "went on"


@perdure.program
async def ring_for_ever(task: perdure.Task, count: int) -> None:
    """Make one call that may not be made twice, and stay in it."""
    await task.using(key="bell").act(ring_slowly, count)


@perdure.program(state={"sent": []})
async def write_all(task: perdure.Task, count: int) -> int:
    """Write pages, each acknowledged when it is written."""
    async for number in task.each("pages", range(count)):
        await task.act(write_page, task.workspace, number, then=lambda state, done: state["sent"].append(done))
        _say("ack", number)
    return len(task.state["sent"])


PROGRAMS = {
    "write": write_all,
    "send": send_all,
    "tick": tick_on,
    "hang": hang_once,
    "ring": ring_for_ever,
    "everything": everything,
    "fill": fill,
}


# --- breaking it on purpose -------------------------------------------------------------------------------------------
def _loosen(synchronous: str) -> None:
    """Commit without waiting for the disk: only to show that the test of power cuts can fail."""
    set_durable: Callable[..., None] = database._set_durable

    def set_loosely(connection: Any, place: str) -> None:
        set_durable(connection, place)
        connection.execute(f"PRAGMA synchronous = {synchronous}")

    database._set_durable = set_loosely


def _stop_inside_write() -> None:
    """Stop this process inside a transaction that writes, with its locks held."""
    write = commits.Commits._write

    def stop_then_write(self: Any, *arguments: Any) -> None:
        if "ack" in DID and "stopped" not in DID:
            DID.add("stopped")
            _say("stopping inside")
            os.kill(os.getpid(), signal.SIGSTOP)
        DID.add("ack")
        write(self, *arguments)

    commits.Commits._write = stop_then_write


def _die_taking_in(moment: str) -> None:
    """Die in the append that takes a message out of the inbox: "before" it is written, or "after"."""
    append = SqliteStore.append

    def append_and_die(self: Any, task: str, entries: Append) -> Any:
        if entries.consumed and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        answer = append(self, task, entries)
        if entries.consumed:
            return _then_die(answer)
        return answer

    SqliteStore.append = append_and_die


async def _then_die(answer: Any) -> None:
    await answer
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main()
