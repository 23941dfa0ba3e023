"""A clerk who asks a model, pays once, and asks again; what it did is in files of the world. Run by `test_takeover.py`.

The payment waits in the outside world until the file `go` is there, so that a test can take the task over meanwhile.
"""

import json
import os
import time
from pathlib import Path

import perdure

WORLD = Path(os.environ.get("CLERK_WORLD", "world"))


def note(name: str, line: object) -> None:
    """Write one line into a file of the world: there whatever becomes of this process."""
    with (WORLD / name).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def lines(name: str) -> list:
    """What was written there."""
    path = WORLD / name
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def wait_for_go() -> None:
    """Be under way until the world lets it go."""
    note("began", os.getpid())
    while not (WORLD / "go").exists():
        time.sleep(0.02)


@perdure.tool(effect="pure", name="clerk_model")
async def ask_model(prompt: str) -> str:
    """Stand for a model, and keep what it was asked."""
    note("prompts", prompt)
    return "fine"


@perdure.tool(effect="verifiable", probe=lambda: bool(lines("paid")), timeout_s=60, name="clerk_verifiable")
def pay_and_look() -> str:
    """Pay; whoever looks can tell whether it happened."""
    wait_for_go()
    note("paid", "look")
    return "paid"


@perdure.tool(effect="irreversible", timeout_s=60, name="clerk_irreversible")
def pay_blindly() -> str:
    """Pay; nobody can tell."""
    wait_for_go()
    note("paid", "blind")
    return "paid"


@perdure.tool(effect="idempotent", timeout_s=60, name="clerk_idempotent")
def pay_by_key(key: perdure.EffectKey) -> str:
    """Pay; the bank drops a second one under the same key."""
    wait_for_go()
    if key not in lines("paid"):
        note("paid", key)
    return "paid"


TOOLS = {"verifiable": pay_and_look, "irreversible": pay_blindly, "idempotent": pay_by_key}


@perdure.program(state={"amount": 10, "paid": []})
async def clerk(task: perdure.Task, kind: str) -> str:
    """Ask, pay, ask again."""
    await task.act(ask_model, f"{task.state['amount']}\n{task.brief()}")
    await task.checkpoint("asked")
    await task.using(key="pay").act(TOOLS[kind], then=lambda state, got: state["paid"].append(got))
    await task.act(ask_model, f"{task.state['amount']}\n{task.brief()}")
    return f"paid {len(task.state['paid'])} of {task.state['amount']}"
