"""A provider's model over real sockets: what is sent, heard, returned and raised; nothing is sent twice."""

import asyncio
import contextlib
import json

import pytest

from perdure.errors import ConversationInvalid
from perdure.llm.opening import open_model
from perdure.model.budget import Cost
from perdure.model.chat import ModelRequest
from perdure.tools.recording import record_error
from tests.agent.modelserver import Answer, ModelServer

SYSTEM = {"role": "system", "text": "You are terse."}
USER = {"role": "user", "text": "count the pages"}
READ = {
    "name": "read_file",
    "description": "Read a file.",
    "schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}
ANSWERS = {"type": "object", "properties": {"pages": {"type": "integer"}}, "required": ["pages"]}
CALLS = (("read_file", {"path": "a.md"}), ("read_file", {"path": "b.md"}))


@contextlib.asynccontextmanager
async def opened(server, name="openai:gpt-5-mini"):
    """A model that asks `server`; the paths of Anthropic and Google have their version in themselves."""
    url = server.base_url.removesuffix("/v1" if name.startswith(("anthropic:", "google:")) else "")
    keys = dict.fromkeys(
        ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "MOONSHOTAI_API_KEY"), "key-of-tests"
    )
    model = open_model(name, base_url=url, environ=keys)
    try:
        yield model
    finally:
        await model.aclose()


def asked(server, *messages, name="openai:gpt-5-mini", **options):
    """Ask once; return the reply and what was heard."""
    heard = []

    async def ask():
        async with opened(server, name) as model:
            return await model.reply(ModelRequest(messages=list(messages), **options), heard.append)

    return asyncio.run(ask()), heard


def failed(server, *messages, name="openai:gpt-5-mini", **options):
    """Ask once; return the record of what was raised."""

    async def ask():
        async with opened(server, name) as model:
            await model.reply(ModelRequest(messages=list(messages), **options), lambda _: None)

    with pytest.raises(BaseException) as info:  # noqa: PT011 - whatever the client raises
        asyncio.run(ask())
    return record_error(info.value)


def answered(reply, *results):
    """The reply as a message, its calls numbered and answered."""
    calls = [{**call, "id": f"1.{place}"} for place, call in enumerate(reply.calls)]
    return {
        "role": "assistant",
        "text": reply.text,
        "calls": calls,
        "results": {call["id"]: result for call, result in zip(calls, results, strict=True)},
        "kept": reply.kept,
    }


# ---------------------------------------------------------------- one request


def test_a_reply_is_heard_as_it_comes_and_returned_whole():
    """Text arrives in pieces; tokens are the provider's count, money is from the price list."""
    with ModelServer([Answer(text="There are three pages.", usage=(1_000, 100))]) as server:
        reply, heard = asked(server, SYSTEM, USER, temperature=0.5, output_max=77)
        body = server.requests()[0]["body"]
    assert ("There are three pages.", "stop", "gpt-5-mini", []) == (reply.text, reply.finish, reply.model, reply.calls)
    assert ["There ", "are ", "three ", "pages."] == heard
    assert Cost(tokens_in=1_000, tokens_out=100, money="0.00045 USD") == reply.cost
    assert (77, True) == (body["max_completion_tokens"], body["stream"])
    assert ["You are terse.", "count the pages"] == [message["content"] for message in body["messages"]]


def test_calls_come_back_answered_in_their_order_right_behind():
    """Two parallel calls, one failed: the next request is valid to a strict provider and has the provider's own ids."""
    with ModelServer([Answer(text="I look.", calls=CALLS), Answer(text="three")]) as server:
        first, _ = asked(server, SYSTEM, USER, offers=[READ])
        turn = answered(first, {"text": "one page"}, {"failed": {"type": "builtins.OSError", "message": "gone"}})
        # The results came in another order than the calls.
        turn["results"] = dict(reversed(turn["results"].items()))
        second, _ = asked(server, SYSTEM, USER, turn, {"role": "user", "text": "and now?"}, offers=[READ])
        assert [] == server.problems()
        sent = server.requests()[1]["body"]["messages"]
    assert ("calls", [dict(CALLS[0][1]), dict(CALLS[1][1])]) == (
        first.finish,
        [call["arguments"] for call in first.calls],
    )
    assert ["system", "user", "assistant", "tool", "tool", "user"] == [message["role"] for message in sent]
    assert ["one page", "OSError: gone"] == [sent[3]["content"], json.loads(sent[4]["content"])["error"]]
    assert [part["tool_call_id"] for part in first.kept["parts"][1:]] == [call["id"] for call in sent[2]["tool_calls"]]
    assert "three" == second.text


def test_a_conversation_of_another_provider_is_sent_without_what_that_one_kept():
    """What one provider kept is of no use to another: text, calls and results go, under ids of ours."""
    kept = {"system": "anthropic", "parts": [{"part_kind": "thinking", "content": "hm", "signature": "x"}]}
    call = {"id": "4.0", "name": "read_file", "arguments": {"path": "a"}}
    turn = {"role": "assistant", "text": "", "calls": [call], "results": {"4.0": {"text": "1"}}, "kept": kept}
    with ModelServer([Answer(text="one")]) as server:
        asked(server, USER, turn, offers=[READ])
        assert [] == server.problems()
        sent = server.requests()[0]["body"]["messages"]
    assert "call_4_0" == sent[1]["tool_calls"][0]["id"] == sent[2]["tool_call_id"]


def test_equal_ids_of_a_provider_are_told_apart():
    """A provider that numbers its calls from 0 in every reply gets a history in which each id is used once."""
    kept = {"system": "openai", "parts": [{"part_kind": "tool-call", "tool_name": "read_file", "tool_call_id": "c0"}]}
    turns = [
        {
            "role": "assistant",
            "text": "",
            "calls": [{"id": f"{turn}.0", "name": "read_file", "arguments": {"path": str(turn)}}],
            "results": {f"{turn}.0": {"text": str(turn)}},
            "kept": kept,
        }
        for turn in (1, 2, 3)
    ]
    with ModelServer([Answer(text="done")]) as server:
        asked(server, USER, *turns, offers=[READ])
        assert [] == server.problems()
        sent = server.requests()[0]["body"]["messages"]
    assert ["c0", "call_2_0", "call_3_0"] == [each["tool_call_id"] for each in sent if each["role"] == "tool"]


def test_arguments_that_are_no_object_are_a_problem_of_the_call():
    """The call is there with its problem, and goes back as a call that is valid."""
    texts = ('{"path": ', '["a"]', '{"path": NaN}', '{"path": "a\nb"}', "")
    with ModelServer([Answer(calls=tuple(("read_file", text) for text in texts)), Answer(text="ok")]) as server:
        reply, _ = asked(server, USER, offers=[READ])
        asked(server, USER, answered(reply, *[{"text": "no"}] * 5), offers=[READ])
        assert [] == server.problems()
    assert ["problem" in call for call in reply.calls] == [True, True, True, False, False]
    assert [{}, {}, {}, {"path": "a\nb"}, {}] == [call["arguments"] for call in reply.calls]
    assert "'read_file' are no JSON object" in reply.calls[0]["problem"]


def test_a_schema_is_native_where_it_can_be_and_else_in_the_prompt():
    """OpenAI is given the schema as such; a model that cannot is told in words; a fence round the JSON goes."""
    with ModelServer([Answer(text='```json\n{"pages": 3}\n```')]) as server:
        native, _ = asked(server, SYSTEM, USER, schema=ANSWERS)
        told, _ = asked(server, SYSTEM, USER, schema=ANSWERS, name="moonshotai:kimi-k2")
        first, second = [request["body"] for request in server.requests()]
    assert {"pages"} == set(first["response_format"]["json_schema"]["schema"]["properties"])
    assert "json_schema" not in json.dumps(second.get("response_format", ""))
    assert '"pages"' in "".join(each["content"] for each in second["messages"] if each["role"] == "system")
    assert '{"pages": 3}' == native.text == told.text


@pytest.mark.parametrize(
    ("answer", "finish", "text"),
    [
        (Answer(text="cut off he", finish="length"), "length", "cut off he"),
        (Answer(finish="content_filter"), "refusal", ""),
        (Answer(refusal="I will not."), "refusal", "I will not."),
        (Answer(), "stop", ""),
        (Answer(text="odd", finish="eos_token"), "stop", "odd"),
        (Answer(text="see", calls=CALLS, finish="stop"), "calls", "see"),
    ],
)
def test_a_reply_says_why_it_ended(answer, finish, text):
    """Cut off, filtered, refused, empty: these are replies, which were paid for."""
    with ModelServer([answer]) as server:
        reply, _ = asked(server, USER, offers=[READ])
    assert (finish, text) == (reply.finish, reply.text)
    assert reply.cost.tokens_in > 0


@pytest.mark.parametrize(("name", "sent"), [("openai:gpt-5-mini", None), ("openai:gpt-4.1", 0.5), ("llama-3", 0.5)])
def test_a_temperature_goes_to_models_that_take_one(name, sent):
    """Models that reason refuse it: it is left out for them, without a warning."""
    with ModelServer([Answer(text="ok")]) as server:
        asked(server, USER, name=name, temperature=0.5)
        assert sent == server.requests()[0]["body"].get("temperature")


# ---------------------------------------------------------------- what it costs


def test_an_estimate_is_above_what_is_charged_and_sends_nothing():
    """The most that it may cost: tokens by the rule, the longest reply, at the price list's price."""
    turn = {"role": "assistant", "text": "so " * 500, "calls": [], "results": {}}
    request = ModelRequest(messages=[SYSTEM, USER, turn, USER], offers=[READ], output_max=50)

    async def both(server):
        async with opened(server) as model:
            estimate = model.estimate(request)
            assert [] == server.requests()
            return estimate, (await model.reply(request, lambda _: None)).cost, model

    with ModelServer([Answer(text="three"), Answer(text="three")]) as server:
        estimate, cost, model = asyncio.run(both(server))
    assert estimate.tokens_in >= cost.tokens_in > 300
    assert 50 == estimate.tokens_out
    assert float(estimate.money.split()[0]) >= float(cost.money.split()[0]) > 0
    assert 400_000 == model.context_tokens


def test_a_service_that_counts_nothing_is_charged_by_the_rule():
    """Tokens are never 0 for a reply that came; money is "" where the price list does not know the model."""
    with ModelServer([Answer(text="three", usage=(0, 0))]) as server:
        reply, _ = asked(server, USER, name="qwen3:8b")
    assert reply.cost.tokens_in >= 5
    assert (2, "") == (reply.cost.tokens_out, reply.cost.money)


# ---------------------------------------------------------------- failures

CONTEXT = {"message": "This model's maximum context length is 10 tokens.", "code": "context_length_exceeded"}
QUOTA = {"message": "You exceeded your current quota.", "type": "insufficient_quota", "code": "insufficient_quota"}


@pytest.mark.parametrize(
    ("answer", "failure_class"),
    [
        (Answer(status=429, headers={"Retry-After": "7"}), "throttled"),
        (Answer(status=429, error=QUOTA), "quota"),
        (Answer(status=500), "capacity"),
        (Answer(status=503), "capacity"),
        (Answer(status=401), "auth"),
        (Answer(status=400, error=CONTEXT), "context"),
        (Answer(text="one two three four", cut_after=3), "network"),
        (Answer(text="one two three four", finish="-"), "network"),
        (Answer(text="one two three four", cut_after=3, error={"message": "oh", "type": "server_error"}), "capacity"),
        (Answer(text="one two", cut_after=2, error={"message": "slow", "code": "rate_limit_exceeded"}), "throttled"),
    ],
)
def test_a_failure_has_its_class_and_nothing_is_sent_again(answer, failure_class):
    """One request, one failure, of the class that recovery goes by; a stream that just ends is no answer."""
    with ModelServer([answer]) as server:
        record = failed(server, USER)
        assert 1 == len(server.requests())
    assert failure_class == record.failure_class
    assert (7.0 if answer.headers else 0.0) == record.wait_s


@pytest.mark.parametrize(
    "name",
    [
        "openai:gpt-5-mini",
        "openai-responses:gpt-5-mini",
        "anthropic:claude-haiku-4-5",
        "google:gemini-2.5-flash",
        "ollama:qwen3",
        "any-other-name",
    ],
)
@pytest.mark.parametrize("status", [429, 500, 503])
def test_no_client_library_sends_a_request_again(name, status):
    """Whatever a library would do by itself, the service sees one request."""
    with ModelServer([Answer(status=status)]) as server:
        record = failed(server, USER, name=name)
        assert 1 == len(server.requests())
    assert ("throttled" if status == 429 else "capacity") == record.failure_class


def test_nobody_there_is_a_failure_of_the_network():
    """A refused connection is told as such."""
    with ModelServer([Answer()]) as server:
        server.stop()
        record = failed(server, USER)
    assert ("network", False) == (record.failure_class, record.is_unknown)


def test_a_model_has_one_client_and_closing_it_closes_the_connection():
    """Requests go over one connection; after `aclose` the model may be asked again, over another."""

    async def ask(server):
        request = ModelRequest(messages=[USER])
        async with opened(server) as model:
            for _ in range(3):
                await model.reply(request, lambda _: None)
            await model.aclose()
            await model.reply(request, lambda _: None)

    with ModelServer([Answer(text="ok")], keeps_bodies=False) as server:
        asyncio.run(ask(server))
        rows = server.requests()
    first, second, third, fourth = [row["connection"] for row in rows]
    assert (first, first) == (second, third)
    assert fourth != first
    assert [] == [row for row in rows if "body" in row or row["bytes"] < 50]


def test_a_reply_can_be_given_up():
    """Cancelling ends the request at once, and the model can be asked again."""

    async def give_up(server):
        async with opened(server) as model:
            request = ModelRequest(messages=[USER])
            began = asyncio.Event()
            task = asyncio.create_task(model.reply(request, lambda _: began.set()))
            await began.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return await model.reply(request, lambda _: None)

    slow, quick = Answer(text="one two three", piece_delay_s=0.5), Answer(text="quick")
    with ModelServer([[slow, quick]]) as server:
        assert "quick" == asyncio.run(give_up(server)).text


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "there is none"),
        ([USER, {"role": "assistant", "text": "so"}], "nothing is asked"),
        (
            [USER, {"role": "assistant", "text": "", "calls": [{"id": "1.0", "name": "read", "arguments": {}}]}, USER],
            "call '1.0' of 'read' has no result",
        ),
    ],
)
def test_a_conversation_that_no_provider_takes_is_not_sent(messages, reason):
    """It is refused here, by name, before anything is paid for."""
    with ModelServer([Answer(text="x")]) as server:
        with pytest.raises(ConversationInvalid, match=reason):
            asked(server, *messages)
        assert [] == server.requests()
