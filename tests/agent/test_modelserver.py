"""The scripted service: what it answers, judges and notes; a service that is wrong would prove nothing."""

import http.client
import json

import pytest

from tests.agent.history import problems_of
from tests.agent.modelserver import Answer, Asked, ModelServer

USER = {"role": "user", "content": "count to two"}
CALLS = [
    {"id": "a", "type": "function", "function": {"name": "read", "arguments": "{}"}},
    {"id": "b", "type": "function", "function": {"name": "read", "arguments": "{}"}},
]
ASSISTANT = {"role": "assistant", "content": None, "tool_calls": CALLS}
ANSWER_A, ANSWER_B = ({"role": "tool", "tool_call_id": name, "content": name} for name in "ab")


def echo(asked: Asked) -> Answer:
    """Answer with what was last said, and fail at first."""
    return Answer(status=503) if asked.seen == 0 else Answer(text=f"{asked.turn} {asked.last}")


def post(server, body, path="/v1/chat/completions", key=""):
    """Return status, and the body as text."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    connection.request("POST", path, json.dumps(body), headers)
    response = connection.getresponse()
    try:
        return response.status, response.read().decode()
    finally:
        connection.close()


def ask(*messages, **more):
    """A request with these messages."""
    return {"model": "m", "messages": list(messages), **more}


def test_a_turn_has_its_answer_and_every_request_is_noted():
    """A list answers by turn; the log tells number, turn, key and that the answer was sent to its end."""
    said = {"role": "assistant", "content": "one"}
    with ModelServer([Answer(text="one"), Answer(text="two", usage=(7, 3))]) as server:
        first = post(server, ask(USER))
        second = json.loads(post(server, ask(USER, said, USER))[1])
        again = post(server, ask(USER))
        rows = server.requests()
    assert first == again
    assert ("two", 7) == (second["choices"][0]["message"]["content"], second["usage"]["prompt_tokens"])
    assert [(1, 0, 0, 1), (2, 1, 0, 1), (3, 0, 1, 1)] == [
        (row["number"], row["turn"], row["seen"], row["served"]) for row in rows
    ]
    assert rows[0]["key"] == rows[2]["key"] != rows[1]["key"]
    assert {rows[0]["key"]: 2, rows[1]["key"]: 1} == server.served()


def test_a_script_is_a_function_of_the_request_and_survives_a_restart():
    """A function may fail at first; a server that was killed goes on on its port, with its count."""
    with ModelServer(echo) as server:
        assert 503 == post(server, ask(USER))[0]
        port = server.port
        server.stop()
        server.start()
        status, body = post(server, ask(USER))
        assert (port, 200) == (server.port, status)
    assert "0 count to two" == json.loads(body)["choices"][0]["message"]["content"]


def test_a_stream_brings_text_and_calls_in_pieces():
    """Pieces of a stream make up the text and the arguments of both calls."""
    answer = Answer(text="let me see", calls=(("read", {"n": 1}), ("read", {"n": 22})))
    with ModelServer([answer]) as server:
        _, body = post(server, ask(USER, stream=True, stream_options={"include_usage": True}))
    *chunks, done = [line.removeprefix("data: ") for line in body.splitlines() if line]
    pieces = [json.loads(chunk) for chunk in chunks]
    deltas = [piece["choices"][0]["delta"] for piece in pieces if piece["choices"]]
    arguments = {0: "", 1: ""}
    for call in (call for delta in deltas for call in delta.get("tool_calls", ())):
        arguments[call["index"]] += call["function"]["arguments"]
    assert ("[DONE]", "let me see") == (done, "".join(delta.get("content", "") for delta in deltas))
    assert ['{"n": 1}', '{"n": 22}'] == list(arguments.values())
    assert "usage" in pieces[-1]


def test_a_cut_stream_is_seen_as_cut():
    """The connection is reset in the middle, and the log does not call it served."""
    with ModelServer([Answer(text="one two three four", cut_after=3)]) as server:
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            post(server, ask(USER, stream=True))
        assert [0] == [row["served"] for row in server.requests()]


def test_what_is_not_valid_is_refused():
    """A wrong key is 401, a wrong history 400 and noted, another path 404."""
    with ModelServer([Answer(text="one")], key="right") as server:
        statuses = [
            post(server, ask(USER), key="wrong")[0],
            post(server, ask(USER, ASSISTANT, ANSWER_A), key="right")[0],
            post(server, {}, path="/v1/elsewhere", key="right")[0],
            post(server, ask(USER), key="right")[0],
        ]
        assert [(2, "the last calls are not answered: ['b']")] == server.problems()
    assert [401, 400, 404, 200] == statuses


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([USER], ""),
        ([USER, ASSISTANT, ANSWER_A, ANSWER_B], ""),
        ([USER, ASSISTANT, ANSWER_A, ANSWER_B, USER], ""),
        ([USER, ASSISTANT, ANSWER_A, USER], "must be followed by answers to ['b']"),
        ([USER, ASSISTANT, ANSWER_B, ANSWER_A], "'b' is answered before 'a'"),
        ([USER, ASSISTANT, ANSWER_A, ANSWER_A, ANSWER_B], "'a', which waits for none"),
        ([USER, ANSWER_A], "'a', which waits for none"),
        ([USER, ASSISTANT, ANSWER_A, ANSWER_B, ASSISTANT, ANSWER_A, ANSWER_B], "'a' is used twice"),
        ([USER, {"role": "assistant", "content": "so"}], "the last message is the assistant's"),
        ([{"role": "user", "content": ""}], "no content"),
        ([{"role": "robot", "content": "x"}], "is no role"),
        ([], "at least one message"),
    ],
)
def test_a_history_is_judged_strictly(messages, problem):
    """Every call is answered once, right behind it, in order; roles and contents are sane."""
    found = problems_of(ask(*messages))
    assert bool(problem) == bool(found)
    assert not problem or any(problem in each for each in found)
