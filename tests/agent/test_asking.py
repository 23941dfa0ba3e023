"""A program that asks a model over real sockets, killed at every point: no finished reply is paid for twice."""

import asyncio
import json
import os
from collections import Counter
from pathlib import Path

import pytest

import perdure
from perdure.engine.loading import load_fold
from perdure.llm.opening import open_model
from perdure.model.chat import ModelRequest
from tests.agent.modelserver import Answer, ModelServer
from tests.crash import forked

TURNS = 3
EVERY = 3  # point; an action has four
GOAL = "count the pages of two files, thrice"
OFFER = {"name": "count", "description": "Count pages.", "schema": {"type": "object", "properties": {}}}
SCRIPT = [Answer(text=f"turn {turn}", calls=(("count", {}), ("count", {}))) for turn in range(TURNS)]
SCRIPT.append(Answer(text="six pages"))
URL = "MODEL_URL"  # in the environment of a life


@perdure.tool(effect="pure", paid=True)
async def think(messages: list) -> dict:
    """Ask the model for the next message."""
    model = open_model("openai:gpt-5-mini", base_url=os.environ[URL], environ={})
    try:
        request = ModelRequest(messages=messages, offers=[OFFER], output_max=100)
        reply = await model.reply(request, lambda text: perdure.emit("text_streamed", text=text))
    finally:
        await model.aclose()
    perdure.charge(reply.cost)
    return {"text": reply.text, "calls": reply.calls, "kept": reply.kept}


@perdure.tool(effect="pure", quick=True)
def count() -> str:
    """One page."""
    return "one page"


@perdure.program(state={"messages": []})
async def counting(task):
    """Think, count what is asked for, both at once, think again, until nothing is asked for."""
    async with task.edit() as state:
        if not state["messages"]:
            state["messages"].append({"role": "user", "text": GOAL})
    for turn in range(TURNS + 1):

        def keep(state, reply, turn=turn):
            calls = [{**call, "id": f"{turn}.{place}"} for place, call in enumerate(reply["calls"])]
            message = {"role": "assistant", "text": reply["text"], "calls": calls, "results": {}}
            state["messages"].append({**message, "kept": reply["kept"]})

        reply = await task.using(key=f"think {turn}").act(think, task.state["messages"], then=keep)
        if not reply["calls"]:
            return reply["text"]
        await asyncio.gather(*(_answer(task, turn, place) for place in range(len(reply["calls"]))))
    return None


async def _answer(task, turn, place):
    def keep(state, pages):
        state["messages"][1 + turn]["results"][f"{turn}.{place}"] = {"text": pages}

    await task.using(key=f"count {turn}.{place}").act(count, then=keep)


async def run(folder: Path) -> None:
    """One life."""
    async with perdure.open(f"sqlite:///{folder / 'store.db'}") as runtime:
        result = await runtime.run(counting, "job")
        task = (await runtime.store.find("job")).task
        ledger = (await load_fold(runtime.store, task)).ledger
        told = {"result": result, "tokens": ledger.tokens_in + ledger.tokens_out}
        (folder / "told.json").write_text(json.dumps(told))


def lives(folder, spec):
    """Live killed at `spec`, then to the end; return what was told, and whether it was killed."""
    folder.mkdir()
    killed = bool(forked.live(run, folder, spec)) if spec else False
    if killed or not spec:
        assert 0 == forked.live(run, folder, "")
    return json.loads((folder / "told.json").read_text()), killed


@pytest.mark.parametrize("first", [EVERY, *(pytest.param(first, marks=pytest.mark.slow) for first in range(1, EVERY))])
def test_killed_at_any_point_no_finished_reply_is_asked_for_again(tmp_path, monkeypatch, first):
    """The service sees each request once, and at most once more where the kill met it; each history is valid.

    A few of the points in each run of the tests, the others in `make crash`.
    """
    with ModelServer(SCRIPT) as server:
        monkeypatch.setenv(URL, server.base_url)
        open_model("openai:gpt-5-mini", base_url=server.base_url, environ={})  # libraries are loaded once, not per life
        undisturbed, _ = lives(tmp_path / "0", "")
        points = json.loads((tmp_path / "0" / "counts.json").read_text())["any"]
        once = server.served()
        before = len(server.requests())
        again = Counter()
        for point in range(first, points + 1, EVERY):
            told, killed = lives(tmp_path / str(point), f"any:{point}")
            assert (undisturbed["result"], True) == (told["result"], killed)
            requests = server.requests()[before:]
            before += len(requests)
            extra = Counter(row["key"] for row in requests) - once
            assert set(once) == {row["key"] for row in requests}
            assert extra.total() <= 1
            again[extra.total()] += 1
        assert [] == server.problems()
    print(f"{again.total()} of {points} points, {again[1]} of which met a request")
    assert (TURNS + 1, [1] * (TURNS + 1)) == (len(once), list(once.values()))
    assert again[0] > again[1]
    assert again[1] > 0 or first != EVERY  # the points of the run that every run of the tests makes do meet some


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_service_that_fails_at_first_is_asked_again_by_the_engine(tmp_path, monkeypatch, status):
    """One request each time, all on record; the result is the same, and what failed is not taken for an answer."""
    rough = [[Answer(status=status, headers={"Retry-After": "0"}), Answer(text="cut off", cut_after=2), SCRIPT[-1]]]
    with ModelServer(rough) as server:
        monkeypatch.setenv(URL, server.base_url)
        told, _ = lives(tmp_path / "0", "")
        assert "six pages" == told["result"]
        assert [status, 200, 200] == [row["status"] for row in server.requests()]
        assert [1, 0, 1] == [row["served"] for row in server.requests()]
