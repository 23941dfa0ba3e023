"""Answers of a model's service that are no replies, or odd ones, over real sockets: what is made of them."""

import asyncio
import re
import socket

import pytest

from perdure import limits
from perdure.errors import ConfigInvalid, ReplyEndless
from perdure.llm.opening import open_model
from perdure.model.chat import ModelRequest
from perdure.tools.recording import record_error
from tests.agent.modelserver import Answer, ModelServer

USER = {"role": "user", "text": "count the pages"}
HTML = {"Content-Type": "text/html"}
STREAM = {"Content-Type": "text/event-stream"}
HALF = "half a pair \ud800"
LOADING = '{"error": {"message": "the model is loading", "type": "unavailable_error", "code": 503}}'


def asked(answer, *messages, name="openai:gpt-5-mini"):
    """Ask a service that always gives `answer`; return the reply, and the body of what was sent."""

    async def ask(server):
        url = server.base_url.removesuffix("/v1" if name.startswith("anthropic:") else "")
        model = open_model(name, base_url=url, environ={"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"})
        try:
            return await model.reply(ModelRequest(messages=list(messages or [USER])), lambda _: None)
        finally:
            await model.aclose()

    with ModelServer([answer]) as server:
        reply = asyncio.run(ask(server))
        assert [] == server.problems()
        return reply, server.requests()[0]["body"]


def refused(answer, **options):
    """Ask a service that always gives `answer`; return the record of what was raised."""
    with pytest.raises(Exception) as info:  # noqa: PT011 - whatever the client raises
        asked(answer, **options)
    return record_error(info.value)


@pytest.mark.parametrize(
    ("answer", "failure_class", "told"),
    [
        (Answer(body="<html><title>Log in</title>…</html>", headers=HTML), "network", "a web page called 'Log in'"),
        (Answer(body="<html>closed today", headers=HTML), "network", "is --base-url right"),
        (Answer(body="", headers=STREAM), "network", "nothing at all"),
        (Answer(body=LOADING), "capacity", "the model is loading"),
        (Answer(body='{"choices": []}'), "request", "one piece instead of a stream"),
        (Answer(body="hello\n\n", headers=STREAM), "output", "no stream of a reply: hello"),
        (Answer(body="data: [1]\n\ndata: null\n\n", headers=STREAM), "output", "cannot read"),
        (Answer(status=301, body="", headers={"Location": "https://elsewhere/v1"}), "auth", "https://elsewhere/v1"),
    ],
    ids=["page", "untitled", "nothing", "error", "whole", "text", "shape", "moved"],
)
def test_what_is_no_reply_is_named(answer, failure_class, told):
    """The error says what the service has sent instead, and is of the class that what to do about it hangs on."""
    error = refused(answer)
    assert ("perdure.errors.models.ServiceOdd", failure_class) == (error.type, error.failure_class)
    assert told in error.message


def test_a_page_of_another_provider_is_named_too():
    """All client libraries are looked over the shoulder."""
    assert "a web page" in refused(Answer(body="<html>", headers=HTML), name="anthropic:claude-haiku-4-5").message


def test_an_error_of_the_provider_stays_as_it_is():
    """What has a status of an error is told by the client library, with its status."""
    error = refused(Answer(status=401, body="<html>no", headers=HTML))
    assert (401, "auth") == (error.status, error.failure_class)


@pytest.mark.parametrize("name", ["openai:gpt-5-mini", "anthropic:claude-haiku-4-5"])
def test_a_model_that_is_not_there_is_asked_of_a_person(name):
    """Its name or the address is wrong, or it was given up: no change of the conversation would help."""
    error = refused(Answer(status=404, error={"message": "no model 'x'", "type": "not_found_error"}), name=name)
    assert ("perdure.errors.models.ModelGone", "auth") == (error.type, error.failure_class)
    assert ("no model 'x'" in error.message, "is its name right" in error.message) == (True, True)


def test_a_reply_that_does_not_end_is_read_no_further(monkeypatch):
    """A bound on what a service can make this process keep."""
    monkeypatch.setattr("perdure.llm.service.REPLY_BYTES_MAX", 20_000)
    assert limits.REPLY_BYTES_MAX > 20_000
    with pytest.raises(ReplyEndless, match="20,000"):
        asked(Answer(text="on and on " * 5_000))
    assert "output" == refused(Answer(text="on and on " * 5_000)).failure_class


def test_half_a_surrogate_pair_comes_back_as_text():
    """In text, in the name of a tool, in arguments: all of it can be sent again and stored."""
    reply, _ = asked(Answer(text=HALF, calls=((f"read{HALF}", "{}"), ("read", {"path": HALF}))))
    assert "half a pair \\ud800" == reply.text
    assert ["readhalf a pair \\ud800", "read"] == [call["name"] for call in reply.calls]
    assert [None, True] == [call.get("problem") and "surrogates" in call["problem"] for call in reply.calls]
    str(reply).encode()


def test_half_a_surrogate_pair_is_sent_as_text():
    """Wherever in a conversation it stands, however it got there: the request goes out."""
    turn = {
        "role": "assistant",
        "text": HALF,
        "calls": [
            {"id": "1.0", "name": HALF, "arguments": {HALF: [HALF]}},
            {"id": "1.1", "name": "read", "arguments": {}},
        ],
        "results": {"1.0": {"text": HALF}, "1.1": {"failed": {"type": "E", "message": HALF}}},
        "kept": {"system": "openai", "parts": [{"part_kind": "thinking", "content": HALF}]},
    }
    reply, body = asked(Answer(text="ok"), {"role": "system", "text": HALF}, {"role": "user", "text": HALF}, turn)
    assert "ok" == reply.text
    assert 7 == str(body).count("half a pair ")


@pytest.mark.parametrize("depth", [120, 1_000, 100_000])
def test_arguments_that_are_nested_too_deeply_are_no_arguments(depth):
    """The call is kept, with what is wrong with it; nothing falls over."""
    reply, _ = asked(Answer(calls=(("read", '{"path":' * depth + "1" + "}" * depth), ("read", {"path": "a"}))))
    assert [{}, {"path": "a"}] == [call["arguments"] for call in reply.calls]
    assert "no JSON object" in reply.calls[0]["problem"]
    assert len(reply.calls[0]["problem"]) < 500


@pytest.mark.filterwarnings("ignore::pydantic_ai._warnings.UsageExtractionFailedWarning")
@pytest.mark.parametrize("usage", [(-100, 10), (2**63, 5), (10**30, 10**30), (100, -1)])
def test_a_count_that_can_be_none_is_charged_by_our_own_rule(usage):
    """The reply is paid for and kept; what it has cost is estimated, as where nothing is counted."""
    reply, _ = asked(Answer(text="There are three pages.", usage=usage))
    assert "There are three pages." == reply.text
    assert 0 < reply.cost.tokens_in < 100
    assert 0 < reply.cost.tokens_out < 100
    assert reply.cost.money


def test_where_nobody_answers_and_why_is_told():
    """A bare "Connection error." helps nobody: which address, and what the system says of it, no password."""
    with socket.socket() as taken:  # bound and not listening: whoever connects is refused
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        model = open_model("openai:m", base_url=f"http://me:hunter22@127.0.0.1:{port}/v1", environ={})
        with pytest.raises(RuntimeError, match=rf"no connection to http://127.0.0.1:{port}/v1/: .*Connect") as info:
            asyncio.run(model.reply(ModelRequest(messages=[USER]), lambda _: None))
    assert "hunter22" not in str(info.value)
    assert "network" == record_error(info.value).failure_class


def test_a_connection_that_breaks_off_is_told_as_one():
    """It is no question whether the address is right."""
    error = refused(Answer(text="one two three", cut_after=2))
    assert "network" == error.failure_class
    assert re.search(r"the connection to http://127.0.0.1:\d+/v1/ broke off: ", error.message)


@pytest.mark.parametrize(
    "url",
    ["example", "http://", "ftp://x/v1", "http://[::1/v1", "http://x:99999/v1", "file:///v1", "http://me:pw@:1/v1"],
)
def test_what_is_no_address_is_refused_before_anything_begins(url):
    """A task would try for hours to reach it."""
    with pytest.raises(ConfigInvalid, match=r"is no address .*write http://HOST:PORT/v1") as info:
        open_model("openai:m", base_url=url, environ={})
    assert "pw" not in str(info.value)
