"""A graph of LangGraph whose nodes run programs, with a checkpointer on disk, killed where it is told to be.

    python -m tests.crash.graphs FOLDER    one case a line on stdin: ["any:7"]

Two rounds of two branches each come by the same node; the name of each task is LangGraph's own for that visit. Every
life is a fork, and goes on with the graph as its owner would. Started by `test_graphs.py`.
"""

from __future__ import annotations

import json
import operator
import os
import pickle
import sys
import threading
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt

import perdure
from tests.crash import forked, ledger

LIVES_MAX = 6
ROUNDS = 2
FIRMS = ("north", "south")
THREAD = {"configurable": {"thread_id": "one"}}


class Saver(InMemorySaver):
    """LangGraph's saver for tests, kept in a file: what it has acknowledged is there after a kill."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._lock = threading.RLock()
        if path.exists():
            storage, writes, blobs = pickle.loads(path.read_bytes())
            for thread, spaces in storage.items():
                self.storage[thread].update(spaces)
            self.writes.update(writes)
            self.blobs.update(blobs)

    def put(self, *given: Any) -> Any:
        """Save a checkpoint."""
        with self._lock:
            done = super().put(*given)
            self._save()
            return done

    def put_writes(self, *given: Any) -> None:
        """Save what a node has written."""
        with self._lock:
            super().put_writes(*given)
            self._save()

    def _save(self) -> None:
        storage = {
            thread: {space: dict(found) for space, found in all_.items()} for thread, all_ in self.storage.items()
        }
        writes = {key: dict(found) for key, found in self.writes.items()}
        beside = self._path.with_suffix(".new")
        beside.write_bytes(pickle.dumps((storage, writes, dict(self.blobs))))
        beside.replace(self._path)


class State(TypedDict, total=False):
    """What the nodes share."""

    firm: str
    wanted: str
    letters: Annotated[list[str], operator.add]
    rounds: Annotated[int, operator.add]


@perdure.tool(effect="pure")
async def offer(firm: str) -> str:
    """Ask a firm for an offer."""
    ledger.called("offer", firm)
    return f"{firm} offers"


@perdure.tool(effect="idempotent")
async def send(letter: str, key: perdure.EffectKey) -> str:
    """Send a letter."""
    return ledger.send(letter, key)


@perdure.program(state={"letters": []})
async def correspondence(task: perdure.Task, firm: str, wanted: str) -> list[str]:
    """Two letters to one firm."""
    async for what in task.each("letters", ["first", "last"]):
        text = await task.act(offer, f"{firm} {what} {wanted}")
        await task.act(send, text, then=lambda state, letter: state["letters"].append(letter))
    return task.state["letters"].plain()  # type: ignore[no-any-return]


def graph(folder: Path) -> Any:
    """Return the graph as its owner has made it."""

    def ask(_state: State) -> State:
        return {"wanted": interrupt("what do we want?")}

    def begin(_state: State) -> State:
        return {"rounds": 1}

    def branches(state: State) -> Any:
        if state["rounds"] > ROUNDS:
            return END
        return [Send("correspond", {"firm": firm, "wanted": state["wanted"]}) for firm in FIRMS]

    async def correspond(state: State, config: RunnableConfig) -> State:
        visit = config["metadata"]["langgraph_checkpoint_ns"]
        args = {"firm": state["firm"], "wanted": state["wanted"]}
        async with perdure.open(folder / "perdure.db", log_dir="") as runtime:
            return {"letters": await runtime.run(correspondence, visit, args=args)}

    made = StateGraph(State).add_node("ask", ask).add_node("begin", begin).add_node("correspond", correspond)
    made.add_edge(START, "ask").add_edge("ask", "begin").add_edge("correspond", "begin")
    made.add_conditional_edges("begin", branches, ["correspond", END])
    return made.compile(checkpointer=Saver(folder / "graph.pickle"))


def play(folder: Path, case: list[str]) -> dict[str, Any]:
    """Play one case: a life for each kill, then lives until the graph has come to its end."""
    folder.mkdir(parents=True)
    os.environ[ledger.FOLDER] = str(folder / "world")
    ledger.prepare(folder / "world")
    forked.live(_go_on, folder, "")  # the question
    kills = [forked.live(_go_on, folder, spec) for spec in case]
    points = 0
    for _ in range(LIVES_MAX):
        forked.live(_go_on, folder, "")
        points = points or json.loads((folder / "counts.json").read_text()).get("any", 0)
        if (folder / "result.json").exists():
            break
    return {
        "case": case,
        "kills": kills,
        "points": points,
        "result": json.loads((folder / "result.json").read_text()),
        "letters": sorted(line[1] for line in ledger.lines(folder / "world", "letters")),
    }


async def _go_on(folder: Path) -> None:
    made = graph(folder)
    stands = await made.aget_state(THREAD)
    given: Any = None if stands.created_at else {"rounds": 0}
    if stands.interrupts:
        given = Command(resume="paper")
    found = await made.ainvoke(given, THREAD, durability="sync")
    if "__interrupt__" not in found:
        (folder / "result.json").write_text(json.dumps(found))


if __name__ == "__main__":
    for number, line in enumerate(sys.stdin):
        print(json.dumps(play(Path(sys.argv[1]) / f"{number:04}", json.loads(line))), flush=True)
