"""The conversation within the model's window: condensed in pieces, pairs whole, pins kept, the same after a restart."""

from __future__ import annotations

import pytest

import perdure
from perdure.agent.context import BYTES_PER_TOKEN, LOW, size_of
from perdure.codec import values
from perdure.model import entry as e
from perdure.model.chat import ModelReply, ModelRequest
from perdure.testing import Death
from tests.agent.scenes import APPROVED, Scene, form_of, says
from tests.worlds import DEAD

WINDOW = 3_000  # tokens
TURNS = 60


@perdure.tool(effect="pure", name="cx_page")
def page(number: int) -> str:
    """Return a page."""
    return f"page {number}: " + "lorem ipsum " * 40


def speaks(request: ModelRequest) -> ModelReply:
    """Read page after page; which is next stands in what was read last, condensed or not."""
    if form_of(request):
        return APPROVED
    numbers = [int(part.split(":")[0]) for part in str(request.messages).split("page ")[1:] if part[0].isdigit()]
    done = max(numbers, default=0)
    return says("read on", ("cx_page", {"number": done + 1})) if done < TURNS else says("read")


def paging(**settings: object) -> Scene:
    """Return an agent that reads many pages."""
    return Scene(speaks, tools=[page], context_max=WINDOW, **settings)


def test_a_long_conversation_stays_within_the_window() -> None:
    """No request is larger; who it is and the brief stay; every call in it has its result; the journal has all."""
    scene = paging()
    assert scene.live(goal="read all pages") == "read"
    turns = [request for request in scene.model.requests if not form_of(request)]
    assert len(turns) == TURNS + 1
    assert max(size_of(turn.messages) for turn in turns) <= WINDOW * BYTES_PER_TOKEN
    assert {(turn.messages[0]["role"], "read all pages" in turn.messages[1]["text"]) for turn in turns} == {
        ("system", True)
    }
    for turn in turns:
        assert 1 >= sum("What went before, in short" in message["text"] for message in turn.messages)
        assert all(call["id"] in one["results"] for one in turn.messages for call in one.get("calls", ()))
    read = [entry.payload for entry in scene.world.journal() if isinstance(entry.payload, e.ActionSettled)]
    assert sum(bytes(one.result).startswith(b'"page ') for one in read) == TURNS


def test_the_next_request_after_any_restart_is_that_of_an_undisturbed_run() -> None:
    """Killed once at each hundredth point, the agent sends the very same requests, in the same order."""
    undisturbed = paging()
    undisturbed.live()
    wanted = list(dict.fromkeys(digest(request) for request in undisturbed.model.requests))
    killed = 0
    for number in range(5, 600, 55):
        scene = paging()
        if scene.live(death=Death("any", number)) != DEAD:
            break
        killed += 1
        assert scene.live() == "read"
        assert wanted == list(dict.fromkeys(digest(request) for request in scene.model.requests))
    assert killed > 3
    print(f"killed {killed} times in a conversation that was condensed")


def test_a_prompt_that_is_too_long_is_condensed_and_never_sent_again_as_it_was() -> None:
    """The provider says that the context is too long: the next request is another, and shorter."""
    sent: list[ModelRequest] = []

    class TooLong(ValueError):
        failure_class = "context"

    def strict(request: ModelRequest) -> ModelReply:
        sent.append(request)
        if not form_of(request) and size_of(request.messages) > 6_000:
            raise TooLong("this model's maximum context length is 1500 tokens")
        return speaks(request)

    scene = Scene(strict, tools=[page])
    assert scene.live() == "read"
    too_long = [request for request in sent if not form_of(request) and size_of(request.messages) > 6_000]
    assert 0 < len(too_long) < 30
    assert len({digest(request) for request in too_long}) == len(too_long)


def test_the_model_is_warned_each_time_that_the_budget_comes_to_an_end() -> None:
    """Once when most of it is used, and once more where it was raised and most of that is used."""
    scene = Scene(speaks, tools=[page])
    agent, goal = scene.agent, "read all pages"

    def warnings() -> int:
        return sum(message["text"] == LOW for message in scene.memory["messages"])

    first, raised = "actions=12, soft=50%", "actions=24, soft=75%"
    with pytest.raises(perdure.NeedsHuman, match="budget"):
        scene.world.do(lambda runtime: runtime.run(agent, "job", goal=goal, args=agent.arguments(), budget=first))
    assert 1 == warnings()
    with pytest.raises(perdure.NeedsHuman, match="budget"):
        scene.world.do(lambda runtime: runtime.resume("job", agent, budget=raised))
    assert 2 == warnings()


def digest(request: ModelRequest) -> str:
    """Tell requests apart."""
    return values.digest([request.messages, request.offers, request.schema]).hex()


@perdure.tool(effect="pure", name="cx_take")
def take(text: str) -> str:
    """Take a text, however long."""
    return text


def test_a_message_that_is_too_long_by_itself_is_shown_by_head_and_tail() -> None:
    """What a model has said or been given fits by the next request; calls keep their results, the journal has all."""
    long = "from here " + "on and on " * 30_000 + "to there"

    def speaks(request: ModelRequest) -> ModelReply:
        if form_of(request):
            return APPROVED
        return says(long, ("cx_take", {"text": long})) if len(scene.forms) == 1 else says("done")

    scene = Scene(speaks, tools=[take], context_max=WINDOW)
    assert scene.live() == "done"
    request = scene.model.requests[1]
    assert size_of(request.messages) <= WINDOW * BYTES_PER_TOKEN
    reply = request.messages[-1]
    texts = [reply["text"], reply["calls"][0]["arguments"]["text"], reply["results"][reply["calls"][0]["id"]]["text"]]
    assert all(text.startswith("from here ") and text.endswith("to there") and len(text) < 9_000 for text in texts)


def test_a_window_that_is_smaller_than_what_is_offered_lets_the_newest_through() -> None:
    """Such a window can be met by nothing: the request is as small as can be, and goes out."""

    def speaks(request: ModelRequest) -> ModelReply:
        if form_of(request):
            return APPROVED
        return says("short", ("cx_page", {"number": 1})) if len(scene.forms) == 1 else says("done")

    scene = Scene(speaks, tools=[page], context_max=1)
    assert scene.live() == "done"
    assert "page 1: " in str(scene.model.requests[1].messages[-1]["results"])
