"""An existing Pydantic AI agent inside a program, killed where it is told to be.

    python -m tests.crash.lasting FOLDER BASE_URL SHAPE    one case a line on stdin: ["any:7"]

Of two shapes: `alone`, one run of one agent; `crowd`, a run beside another whose agent asks a third, then a stream.

Every life is a fork. The agent is one as its owner has made it, but for the program around it; it asks a service on
real sockets and sends letters to one that honours keys. Started by `test_lasting.py`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

import perdure
from perdure.integrations.pydantic_ai import durable, effect_key
from perdure.views.verifying import verify
from tests.agent.modelserver import Answer, Asked
from tests.crash import forked, ledger

AT = {"url": "", "goal": "", "shape": ""}
LIVES_MAX = 4
EFFECTS = {"look": "pure", "send": "idempotent"}


def says(asked: Asked) -> Answer:
    """Two calls at once, one that is to be tried again, a letter, and the end; a crowd says less."""
    if "crowd" in asked.goal:
        return _says_in_a_crowd(asked)
    match asked.turn:
        case 0:
            return Answer(calls=(("look", {"place": "here"}), ("look", {"place": "there"})))
        case 1:
            return Answer(calls=(("look", {"place": "nowhere"}), ("send", {"text": "hello"})))
        case 2:
            return Answer(calls=(("send", {"text": "again"}), ("send", {"text": "again"})))
        case _:
            return Answer(text=f"{asked.turn} turns")


def _says_in_a_crowd(asked: Asked) -> Answer:
    if asked.turn:
        return Answer(text=f"end of {asked.goal.split()[-1]}")
    if asked.goal.endswith("by others"):
        return Answer(calls=(("delegate", {"what": "this"}), ("delegate", {"what": "that"})))
    return Answer(calls=(("look", {"place": "here"}), ("send", {"text": asked.goal.split()[-1]})))


def agent() -> Agent[None, str]:
    """Return the agent as its owner has made it."""
    made = Agent(OpenAIChatModel("gpt-5-mini", provider=OpenAIProvider(base_url=AT["url"], api_key="sk-test")))

    @made.tool_plain(retries=2)
    def look(place: str) -> str:
        ledger.called("look", place)
        if place == "nowhere":
            raise ModelRetry("there is no such place")
        return f"seen {place}"

    @made.tool_plain
    def send(text: str) -> str:
        ledger.called("send", text)
        return ledger.send(text, effect_key())

    return made


def delegating(other: Agent[None, str]) -> Agent[None, str]:
    """Return an agent whose tool asks another one."""
    made = Agent(OpenAIChatModel("gpt-5-mini", provider=OpenAIProvider(base_url=AT["url"], api_key="sk-test")))

    @made.tool
    async def delegate(context: RunContext[None], what: str) -> str:
        return (await other.run(f"{AT['goal']} for {what}", usage=context.usage)).output

    return made


@perdure.program()
async def crowd(task: perdure.Task) -> str:
    """Let two agents work at once, one of them by way of a third, and then listen to one."""
    writer = agent()
    top = delegating(writer)
    async with (
        durable(task, top, effects={"delegate": "program"}),
        durable(task, writer, effects=EFFECTS, name="writer"),
    ):
        both = await asyncio.gather(top.run(f"{task.goal} by others"), writer.run(f"{task.goal} at once"))
        async with writer.run_stream(f"{task.goal} aloud") as answer:
            said = "".join([piece async for piece in answer.stream_text(delta=True)])
    return ", ".join([*(one.output for one in both), said])


@perdure.program()
async def work(task: perdure.Task) -> str:
    """Let the agent work."""
    async with durable(task, agent(), effects=EFFECTS) as lasting:
        answer = await lasting.run(task.goal)
    return str(answer.output)


def play(folder: Path, case: list[str]) -> dict[str, Any]:
    """Play one case: a life for each kill, then lives until it ends."""
    folder.mkdir(parents=True)
    AT["goal"] = f"Send letters ({AT['shape']}, case {folder.parent.name} {folder.name})"
    os.environ[ledger.FOLDER] = str(folder / "world")
    ledger.prepare(folder / "world")
    kills = [forked.live(_run, folder, spec) for spec in case]
    for _ in range(LIVES_MAX):
        if forked.live(_run, folder, "") == 0:
            break
    return {
        "case": case,
        "goal": AT["goal"],
        "kills": kills,
        "counts": json.loads((folder / "counts.json").read_text()),
        "letters": sorted(line[1] for line in ledger.lines(folder / "world", "letters")),
        **asyncio.run(_look(folder)),
    }


async def _run(folder: Path) -> None:
    async with perdure.open(folder / "perdure.db", log_dir="") as runtime:
        await runtime.run(crowd if AT["shape"] == "crowd" else work, "t", goal=AT["goal"])


async def _look(folder: Path) -> dict[str, Any]:
    async with perdure.open(folder / "perdure.db", log_dir="") as runtime:
        summary = await runtime.store.find("t")
        findings = [str(finding) for finding in (await verify(runtime.store, "t")).findings]
        return {"status": summary.status, "result": await runtime.result(summary.task), "findings": findings}


if __name__ == "__main__":
    AT["url"], AT["shape"] = sys.argv[2:4]
    for number, line in enumerate(sys.stdin):
        print(json.dumps(play(Path(sys.argv[1]) / f"{number:04}", json.loads(line))), flush=True)
