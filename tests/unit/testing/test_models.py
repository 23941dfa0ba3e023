"""The scripted model: a list or a function, streams, breaks off, waits, and charges by the rule."""

import asyncio

import pytest

from perdure.errors import UsageError
from perdure.model.budget import Cost
from perdure.model.chat import ModelReply, ModelRequest
from perdure.testing import CutReply, ScriptedModel

REQUEST = ModelRequest(messages=[{"role": "user", "text": "go on"}], output_max=10)
CALL = {"id": "0", "name": "read_file", "arguments": {"path": "a"}}


def ask(model, request=REQUEST):
    """Ask once; return the reply and what was heard."""
    heard = []
    return asyncio.run(model.reply(request, heard.append)), heard


def test_a_list_answers_one_request_after_the_other_and_notes_them():
    """A text is a reply; the script's end is told, and not met with silence."""
    model = ScriptedModel(["first things", ModelReply(text="", calls=[CALL])])
    first, heard = ask(model)
    second, _ = ask(model)
    assert ("first things", ["first ", "things"], "stop") == (first.text, heard, first.finish)
    assert ([CALL], "calls", "scripted:test") == (second.calls, second.finish, second.model)
    with pytest.raises(UsageError, match="has 2 replies"):
        ask(model)
    assert [REQUEST] * 3 == model.requests


def test_a_function_answers_by_the_request():
    """It may fail, or break off after some of the text was heard."""
    heard = []
    script = {"go on": CutReply("half of", ConnectionError("cut")), "stop": ValueError("no")}
    model = ScriptedModel(lambda request: script[request.messages[-1]["text"]])
    with pytest.raises(ConnectionError, match="cut"):
        asyncio.run(model.reply(REQUEST, heard.append))
    assert ["half ", "of"] == heard
    with pytest.raises(ValueError, match="no"):
        ask(model, ModelRequest(messages=[{"role": "user", "text": "stop"}]))


def test_an_async_function_can_wait_for_something():
    """A slow model is one that waits for what the test lets happen; given up, it is left in the middle."""

    async def play():
        let, began = asyncio.Event(), asyncio.Event()

        async def slow(_):
            began.set()
            await let.wait()
            return "at last"

        model = ScriptedModel(slow)
        given_up = asyncio.create_task(model.reply(REQUEST, print))
        await began.wait()
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        let.set()
        return await model.reply(REQUEST, lambda _: None)

    assert "at last" == asyncio.run(play()).text


def test_it_is_charged_by_the_rule_unless_a_reply_says_its_cost():
    """The estimate is above what is charged; a cost that is written down counts as it is."""
    told = Cost(tokens_in=5, tokens_out=6, money="0.1 USD")
    model = ScriptedModel(["one two", ModelReply(text="x", cost=told)])
    estimate, charged = model.estimate(REQUEST), ask(model)[0].cost
    assert (estimate.tokens_in, 3) == (charged.tokens_in, charged.tokens_out)
    assert (10, told) == (estimate.tokens_out, ask(model)[0].cost)
    asyncio.run(model.aclose())
    assert model.is_closed
