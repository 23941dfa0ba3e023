"""A program that asks a model over HTTP and has five strategies, killed where it is told to be.

    python -m tests.crash.changing FOLDER PORT    one case a line on stdin: ["during_rollback:3", "any:7"]

Every life is a fork of this process: armed as the case says, the last one not at all. What came of a case is printed
as one line of JSON. The program is one as any user would write it: its prompt is built from `task.strategy.prompt` and
`task.brief()`, its transcript is in the state. Started by `test_changing.py`.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import perdure
from perdure.engine.loading import entries
from perdure.model import entry as e
from perdure.views.verifying import verify
from tests.crash import forked, services

AT: dict[str, Any] = {"port": 0, "key": ""}  # where the services are, and the case's key there
QUESTION = "How high is the tower?"
DIRECT, OUTLINE = "DIRECT: answer with HEIGHT and a number.", "OUTLINE: first say what is to be found out."
SEARCH_FIRST, RECKON_FIRST = ("st_search", "st_reckon"), ("st_reckon", "st_search")
STRATEGIES = (
    perdure.Strategy("direct", prompt=DIRECT, tools=SEARCH_FIRST, source="web", model="small"),
    perdure.Strategy("outline", prompt=OUTLINE, tools=SEARCH_FIRST, source="web", model="small"),
    perdure.Strategy("reckon", prompt=DIRECT, tools=RECKON_FIRST, source="web", model="small"),
    perdure.Strategy("library", prompt=DIRECT, tools=SEARCH_FIRST, source="books", model="small"),
    perdure.Strategy("large", prompt=DIRECT, tools=SEARCH_FIRST, source="books", model="large", temperature=0.5),
)
LIVES_MAX = 4
TURNS_MAX = 12


@perdure.tool(effect="pure", source=True, name="st_search")
def search(source: str, given: str) -> str:
    """Ask one backend of the search service, in a thread."""
    return str(services.ask(AT["port"], AT["key"], f"/{source}/search", {"query": given})["hits"][0])


@perdure.tool(effect="pure", name="st_reckon")
def reckon(given: str) -> float:
    """Add or divide two numbers."""
    left, what, right = given.split()
    return float(left) + float(right) if what == "+" else float(left) / float(right)


@perdure.tool(effect="pure", paid=True, provider="model", name="st_chat")
def chat(model: str, temperature: float | None, tools: list[str], system: str, transcript: list[Any]) -> dict[str, Any]:
    """Ask the model for its next message, in a thread."""
    offered = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in tools]
    body = {"model": model, "temperature": temperature, "tools": offered,
            "messages": [{"role": "system", "content": system}, *transcript]}  # fmt: skip
    answer = services.ask(AT["port"], AT["key"], "/v1/chat/completions", body)
    return dict(answer["choices"][0]["message"])


@perdure.program(state={"pages": [], "transcript": []}, strategies=STRATEGIES, failures_max=3)
async def report(task: perdure.Task) -> str:
    """Look something up, then converse with the model until its answer holds."""
    strategy = task.strategy
    await task.checkpoint("asked")
    if not task.state["pages"]:
        await task.act(search, strategy.source, QUESTION, then=lambda state, page: state["pages"].append(page))
    await task.checkpoint("looked up")
    system = f"{strategy.prompt}\n\n{task.brief()}"
    for _ in range(TURNS_MAX):
        last = task.state["transcript"][-1].plain() if task.state["transcript"] else {"role": "user"}
        if last["role"] == "assistant" and "tool_calls" in last:
            await call(task, last["tool_calls"][0])
        elif last["role"] == "assistant":
            await judge(task, last["content"])
            return str(last["content"])
        else:
            say = (strategy.model, strategy.temperature, list(strategy.tools), system, task.state["transcript"])
            await task.act(chat, *say, then=lambda state, message: state["transcript"].append(message))
    raise RuntimeError(f"no answer after {TURNS_MAX} turns")


async def call(task: perdure.Task, asked: dict[str, Any]) -> None:
    """Call the tool that the model has asked for."""
    given = json.loads(asked["function"]["arguments"])["given"]

    def note(state: Any, result: object) -> None:
        message = {"role": "tool", "tool_call_id": asked["id"], "content": f"{asked['id']} gave {result}"}
        state["transcript"].append(message)

    if asked["function"]["name"] == search.name:
        await task.act(search, task.strategy.source, given, then=note)
    else:
        await task.act(reckon, given, then=note)


async def judge(task: perdure.Task, answer: str) -> None:
    """Check an answer; one that is refused leaves the transcript, so that the model is asked for another."""
    _, _, height = answer.partition("HEIGHT ")
    try:
        await task.check("it names a height", bool(height))
    except perdure.CheckFailed:
        async with task.edit() as state:
            state["transcript"].pop()
        raise
    await task.check("towers are that high", float(height) > 100, failure_class="suspicious")


# --- lives ----------------------------------------------------------------------------------------------------------
def live(folder: Path, spec: str) -> int:
    """One life of the task in a fork, armed with `spec`; return the signal that ended it, 0 where none did."""
    return forked.live(_run, folder, spec)


async def _run(folder: Path) -> None:
    async with perdure.open(folder / "perdure.db", log_dir="") as runtime:
        await runtime.run(report, "t", goal=QUESTION)


async def _look(folder: Path) -> dict[str, Any]:
    async with perdure.open(folder / "perdure.db", log_dir="") as runtime:
        summary = await runtime.store.find("t")
        journal = [entry.payload async for entry in entries(runtime.store, summary.task)]
        verdict = await verify(runtime.store, "t")
        return {
            "status": summary.status,
            "result": await runtime.result(summary.task),
            "rows": [one.row for one in journal if isinstance(one, e.DecisionTaken)],
            "to": [one.checkpoint for one in journal if isinstance(one, e.RolledBackEntry)],
            "strategies": [one.strategy.name for one in journal if isinstance(one, e.StrategyChosen)],
            "lessons": [one.text for one in journal if isinstance(one, e.LessonLearned)],
            "findings": [str(finding) for finding in verdict.findings],
        }


def play(folder: Path, case: list[str]) -> dict[str, Any]:
    """Play one case: a life for each kill, then lives until it ends."""
    folder.mkdir(parents=True)
    AT["key"] = str(folder)
    kills = [live(folder, spec) for spec in case]
    for _ in range(LIVES_MAX):
        if live(folder, "") == 0:
            break
    counts = json.loads((folder / "counts.json").read_text())
    log = services.ask(AT["port"], AT["key"], "/log")
    return {"case": case, "kills": kills, "counts": counts, "log": log, **asyncio.run(_look(folder))}


def main() -> None:
    """Play the cases that come on stdin."""
    root, AT["port"] = Path(sys.argv[1]), int(sys.argv[2])
    for number, line in enumerate(sys.stdin):
        print(json.dumps(play(root / f"case{number}", json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
