"""Providers that are not asked by chat completions: replies, calls, and what they want back with the next request."""

import json

import pytest

from tests.agent.dialects import SIGNATURE
from tests.agent.modelserver import Answer, ModelServer
from tests.agent.test_provider import ANSWERS, CALLS, READ, SYSTEM, USER, answered, asked, failed

ANTHROPIC, GOOGLE, RESPONSES = "anthropic:claude-haiku-4-5", "google:gemini-2.5-flash", "openai-responses:gpt-5-mini"
NAMES = (ANTHROPIC, GOOGLE, RESPONSES)
THOUGHT = Answer(text="I look.", thinking="two files, then", calls=CALLS, usage=(1_000, 100))


def played(name, results=({"text": "one page"}, {"text": "two pages"}), other=""):
    """Two turns: calls, their results, the end. Return the replies and what was sent the second time."""
    with ModelServer([THOUGHT, Answer(text="three", usage=(1, 1))]) as server:
        first, heard = asked(server, SYSTEM, USER, name=name, offers=[READ])
        second, _ = asked(server, SYSTEM, USER, answered(first, *results), USER, name=other or name, offers=[READ])
        assert [1, 1] == [request["served"] for request in server.requests()]
        return first, heard, second, server.requests()[1]["body"]


@pytest.mark.parametrize("name", NAMES)
def test_two_turns_with_calls(name):
    """Text is heard and thinking is not; calls, tokens, money and the second reply are there."""
    first, heard, second, _ = played(name)
    assert ("I look.", "calls", ["I look."]) == (first.text, first.finish, heard)
    assert [dict(arguments) for _, arguments in CALLS] == [call["arguments"] for call in first.calls]
    assert (1_000, 100, True) == (first.cost.tokens_in, first.cost.tokens_out, first.cost.money.endswith(" USD"))
    assert ("three", "stop") == (second.text, second.finish)


def test_anthropic_gets_thinking_back_signed_and_results_first():
    """Thinking, text and calls as they were; both results in the next message, in front of what is said."""
    *_, body = played(ANTHROPIC, ({"text": "one page"}, {"failed": {"type": "OSError", "message": "gone"}}))
    thinking, text, *calls = body["messages"][1]["content"]
    assert ("two files, then", SIGNATURE, "I look.") == (thinking["thinking"], thinking["signature"], text["text"])
    assert [arguments for _, arguments in CALLS] == [call["input"] for call in calls]
    after = body["messages"][2]["content"]
    assert ["tool_result", "tool_result", "text"] == [part["type"] for part in after]
    assert [call["id"] for call in calls] == [part["tool_use_id"] for part in after[:2]]
    assert [False, True] == [part["is_error"] for part in after[:2]]
    assert "cache_control" in json.dumps(body)


def test_google_gets_its_signatures_back():
    """Each call goes back with the signature that it came with."""
    *_, body = played(GOOGLE)
    model = body["contents"][1]
    assert "model" == model["role"]
    signed = [part for part in model["parts"] if "functionCall" in part]
    assert [SIGNATURE, SIGNATURE] == [part["thoughtSignature"] for part in signed]
    assert 2 == sum("functionResponse" in part for part in body["contents"][2]["parts"])


def test_openai_gets_its_reasoning_back_encrypted():
    """Reasoning stands in front of the calls that followed from it; each call has its output.

    Nothing is stored over there: a task may be resumed when it would be gone.
    """
    *_, body = played(RESPONSES)
    assert (False, ["reasoning.encrypted_content"]) == (body["store"], body["include"])
    kinds = [item.get("type", item.get("role")) for item in body["input"]]
    assert kinds.index("reasoning") < kinds.index("function_call")
    assert SIGNATURE == body["input"][kinds.index("reasoning")]["encrypted_content"]
    called = [item["call_id"] for item in body["input"] if item.get("type") == "function_call"]
    assert called == [item["call_id"] for item in body["input"] if item.get("type") == "function_call_output"]
    assert 2 == len(called)


@pytest.mark.parametrize("other", NAMES)
@pytest.mark.parametrize("name", NAMES)
def test_a_conversation_goes_on_with_another_provider(name, other):
    """Nothing that one has signed is handed to another, and the calls are answered all the same."""
    *_, second, body = played(name, other=other)
    assert "three" == second.text
    assert (name == other) == (SIGNATURE in json.dumps(body))


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_reaches_the_provider(name):
    """Native where it can be, else in words: the field's name is in the request."""
    with ModelServer([Answer(text='{"pages": 3}')]) as server:
        reply, _ = asked(server, USER, name=name, schema=ANSWERS)
        assert '"pages"' in json.dumps(server.requests()[0]["body"])
    assert {"pages": 3} == json.loads(reply.text)


@pytest.mark.parametrize("name", [ANTHROPIC, GOOGLE])
def test_a_reply_that_was_cut_off_says_so(name):
    """The provider's word for the limit becomes ours."""
    with ModelServer([Answer(text="half a sen", finish="length")]) as server:
        assert "length" == asked(server, USER, name=name)[0].finish


@pytest.mark.parametrize(("name", "pieces"), [(ANTHROPIC, 3), (RESPONSES, 4)])
def test_a_cut_stream_is_a_failure_of_the_network(name, pieces):
    """What was heard of it is no answer."""
    with ModelServer([Answer(text="one two three", cut_after=pieces)]) as server:
        assert "network" == failed(server, USER, name=name).failure_class


def test_what_is_kept_is_small():
    """Text and arguments stand in the message once; only what the provider signed is kept beside them."""
    first, *_ = played(ANTHROPIC)
    kept = json.dumps(first.kept)
    assert [] == [text for text in ("I look.", "a.md", "b.md") if text in kept]
    assert SIGNATURE in kept
