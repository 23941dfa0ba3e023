"""Programs that the tests of the command run; copied into a folder of their own by the fixture `here`."""

import asyncio
import logging
import os
import sys
import threading
from pathlib import Path

import perdure


@perdure.tool(effect="pure")
async def nap(n: int, ms: int = 1) -> int:
    """Return n after `ms` milliseconds."""
    await asyncio.sleep(ms / 1000)
    return n


@perdure.tool(effect="irreversible")
async def fire(n: int) -> str:
    """Cannot be taken back, and takes for ever."""
    await asyncio.sleep(60)
    return f"fired {n}"


@perdure.tool(effect="pure", quick=True)
def broken(text: str) -> str:
    """Always fails."""
    raise ValueError(text)


@perdure.tool(effect="irreversible", quick=True)
def send(text: str) -> str:
    """Write a line to a file that nobody can take back."""
    with Path("sent.txt").open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")
    return text


@perdure.tool(effect="pure", timeout_s=0.1)
def hang() -> None:
    """Outlives its time by a minute, in a thread."""
    threading.Event().wait(60)


@perdure.tool(effect="irreversible", quick=True)
def serve(name: str) -> int:
    """Leave a server behind; in truth it sleeps."""
    return perdure.spawn([sys.executable, "-c", "import time; time.sleep(60)", name]).pid


@perdure.program
async def serving(task, name: str):
    """Start a server and end without it."""
    return await task.act(serve, name, then=lambda state, pid: None)


@perdure.tool(effect="workspace", quick=True)
def write(folder: str, name: str, text: str) -> None:
    """Make a file, a link for a text that begins with `->`, or take the file away again for an empty text."""
    path = Path(folder, name)
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    if text.startswith("->"):
        path.symlink_to(text[2:])
    elif text:
        path.write_bytes(text.encode("latin-1"))


@perdure.program
async def writing(task, texts: list):
    """Write (name, text) after another; a checkpoint after each but the last."""
    async for name, text in task.each("texts", texts):
        await task.act(write, task.workspace, name, text)
        if [name, text] != texts[-1]:
            await task.checkpoint("written")


@perdure.program(state={"done": []})
async def count(task, n: int = 5, ms: int = 1, extra: object = None):
    """Take n naps in a loop; a checkpoint in the middle and one at the end."""
    async for i in task.each("naps", list(range(n))):
        await task.act(nap, i, ms, then=lambda state, result: state["done"].append(result))
        if i == 1:
            await task.checkpoint("middle")
    await task.checkpoint("end")
    return {"sum": sum(task.state["done"]), "extra": extra}


@perdure.program
async def danger(task):
    """One act whose outcome is lost when it is killed."""
    return await task.act(fire, 1, then=lambda state, result: state.update(got=result))


@perdure.program(failures_max=2)
async def failing(task):
    """Fails with a text that would clear a terminal."""
    await task.note("\x1b[2Jnote")
    await task.act(broken, "\x1b[2Jbad")


@perdure.program
async def asking(task):
    """Return text as it is, in any script."""
    await task.checkpoint("ü")
    return "gemäß ≈ \U0001f600"


def is_there(name):
    """Whether a file stands in the working directory."""
    return Path(name).exists()


@perdure.program(failures_max=1)
async def mails(task):
    """Send a mail, and fail until a file says that all is put right; with another file the mail is forgotten."""
    if not is_there("forget"):
        await task.act(send, "hello")
    if not is_there("put right"):
        raise ValueError("something is wrong")
    return "sent"


@perdure.program
async def queries(task):
    """Ask a person."""
    await task.ask("which colour?")


@perdure.program
async def threads(task):
    """Call what cannot be stopped, and stop."""
    await task.act_outcome(hang)
    return "done"


class BusyError(Exception):
    """A service that wants to be left alone for an hour."""

    failure_class, retry_after_s = "throttled", 3600.0


@perdure.tool(effect="pure", provider="busy service")
async def busy() -> str:
    """Is busy once."""
    first = not Path("asked.txt").exists()
    Path("asked.txt").touch()
    if first:
        raise BusyError("come back in an hour")
    return "answer"


@perdure.program
async def patient(task):
    """Ask a busy service."""
    return await task.act(busy)


@perdure.tool(effect="pure", name="call_service")
async def call_service(key: str) -> None:
    """Fail as clients do that show what they were given."""
    print("calling with", key)
    sys.stdout.write(key[:9])
    sys.stdout.write(f"{key[9:]}\n")
    logging.getLogger("client").warning("401 for %s", key)
    raise PermissionError(f"401: invalid key {key}")


@perdure.program
async def calling(task, key: str = ""):
    """Call the service with the key of the environment; a bug of the program's when the goal says so."""
    if task.goal == "break":
        raise perdure.UsageError(f"no such key: {os.environ['SERVICE_API_KEY']}")
    await task.act(call_service, os.environ["SERVICE_API_KEY"])
