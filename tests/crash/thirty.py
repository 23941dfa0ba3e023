"""A goal of thirty actions, three calls a turn, for the ready-made agent; killed where it is told to be.

    python -m tests.crash.thirty FOLDER BASE_URL    one case a line on stdin: ["after_effect:3", "any:7"]

Every life is a fork of this process. The agent goes through the real client to a service on real sockets (`says` is
what that says); letters go to a service that honours keys, in files outside. What came of a case is printed as a line
of JSON. Started by `test_agent.py`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import perdure
from perdure.agent import Agent, AgentSettings
from perdure.engine.loading import entries
from perdure.model import entry as e
from perdure.views.verifying import verify
from tests.agent.modelserver import Answer, Asked
from tests.crash import forked, ledger

AT = {"url": "", "goal": ""}  # where the model is, and the case's goal, by which its requests are told apart
TURNS = 10
LIVES_MAX = 4
GOAL = "Send ten letters, and keep a list of them"


@perdure.tool(effect="idempotent", name="th_send")
def send(text: str, key: perdure.EffectKey) -> str:
    """Send a letter."""
    ledger.called("send", text)
    return ledger.send(text, key)


@perdure.tool(effect="pure", name="th_look")
async def look(place: str) -> str:
    """Look at a place."""
    ledger.called("look", place)
    await asyncio.sleep(0)
    return f"nothing new at {place}"


def says(asked: Asked) -> Answer:
    """Return what the model says: in each of ten turns three calls at once, then that it is done."""
    if asked.system.startswith("You judge"):
        return Answer(text=json.dumps({"passed": True, "reason": "ten letters were sent"}))
    turn = asked.turn
    if turn >= TURNS:
        return Answer(calls=(("finish", {"result": f"{turn} letters"}),))
    line = {"filename": "list.txt", "contents": f"letter {turn}\n"}
    calls = (("th_send", {"text": f"letter {turn}"}), ("th_look", {"place": f"desk {turn}"}), ("append_to_file", line))
    return Answer(text=f"Letter {turn}.", calls=calls)


def agent() -> Agent:
    """Return the agent, as each process makes it."""
    names = ("th_send", "th_look", "append_to_file")
    settings = AgentSettings(
        model="openai:gpt-5-mini", base_url=AT["url"], prompt_strategy="one_shot", continuous=True, tools=names
    )
    return Agent(settings=settings, tools=(send, look))


def play(folder: Path, case: list[str]) -> dict[str, Any]:
    """Play one case: a life for each kill, then lives until it ends."""
    folder.mkdir(parents=True)
    AT["goal"] = f"{GOAL} (case {folder.parent.name} {folder.name})"
    os.environ["OPENAI_API_KEY"] = "sk-of-a-test-0123456789"
    os.environ[ledger.FOLDER] = str(folder / "world")
    ledger.prepare(folder / "world")
    kills = [forked.live(_run, folder, spec) for spec in case]
    for _ in range(LIVES_MAX):
        if forked.live(_run, folder, "") == 0:
            break
    counts = json.loads((folder / "counts.json").read_text())
    letters = [line[1:] for line in ledger.lines(folder / "world", "letters")]
    written = (folder / "workspace" / "list.txt").read_bytes()
    return {
        "case": case,
        "kills": kills,
        "counts": counts,
        "letters": sorted(letters),
        "list": hashlib.sha256(written).hexdigest(),
        "name": f"{folder.parent.name} {folder.name}",
        **asyncio.run(_look(folder)),
    }


async def _run(folder: Path) -> None:
    async with perdure.open(folder / "perdure.db", log_dir="") as runtime:
        one = agent()
        await runtime.run(one, "t", goal=AT["goal"], args=one.arguments(), workspace=str(folder / "workspace"))


async def _look(folder: Path) -> dict[str, Any]:
    async with perdure.open(folder / "perdure.db", log_dir="") as runtime:
        summary = await runtime.store.find("t")
        journal = [entry.payload async for entry in entries(runtime.store, summary.task)]
        verdict = await verify(runtime.store, "t")
        thoughts = {one.action for one in journal if isinstance(one, e.ActionIntended) and one.tool == "think"}
        return {
            "status": summary.status,
            "result": await runtime.result(summary.task),
            "findings": [str(finding) for finding in verdict.findings],
            "thoughts": sum(isinstance(one, e.ActionIntended) and one.tool == "think" for one in journal),
            "answered": sum(isinstance(one, e.ActionSettled) and one.action in thoughts for one in journal),
        }


def main() -> None:
    """Play the cases on stdin."""
    folder, AT["url"] = Path(sys.argv[1]), sys.argv[2]
    for number, line in enumerate(sys.stdin):
        print(json.dumps(play(folder / f"{number:04}", json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
