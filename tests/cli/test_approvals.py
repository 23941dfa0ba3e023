"""Approvals as people give them, over real processes that are killed, a service on real sockets, and no terminal."""

import json
import signal

import pytest

from tests.agent.modelserver import Answer, Asked, ModelServer


def tidies(asked: Asked) -> Answer:
    """Take two files away at once, then be done; whoever judges is content."""
    if "You judge whether" in asked.system:
        return Answer(text=json.dumps({"passed": True, "reason": "the calls show it"}))
    if asked.turn == 0:
        return Answer(calls=(("delete_file", {"filename": "old.txt"}), ("delete_file", {"filename": "new.txt"})))
    return Answer(calls=(("finish", {"result": " | ".join(asked.results) or "done"}),))


@pytest.fixture
def service(here, monkeypatch):
    """The service, and a workspace with two files."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test-0123456789")
    (here / "ws").mkdir()
    for name in ("old.txt", "new.txt"):
        (here / "ws" / name).write_text(name, "utf-8")
    with ModelServer(tidies) as server:
        yield server


def test_answers_in_reverse_order_reach_their_calls_over_two_kills(perdure, spawn, service, here):
    """Killed with both questions open, and again behind the first answer: the right file goes, the other stays."""
    given = ("--model", "openai:gpt-5-mini", "--base-url", service.base_url, "--prompt-strategy", "one_shot")
    code, _, err = perdure("run", "Tidy up", *given, "--workspace", "ws", "--name", "t")
    assert (3, True) == (code, "[1] Allow delete_file(filename=" in err and "--question 1" in err)
    kill = {"PERDURE_TESTING": "1", "PERDURE_CRASH": "any:1"}
    for text, question in (("keep it", "2"), ("y", "1")):
        first = spawn("resume", "t", **kill)
        first.communicate(timeout=60)
        assert -signal.SIGKILL == first.returncode
        code, out, err = perdure("answer", "t", text, "--question", question)
        meaning = "the call is allowed;" if text == "y" else "the call is not made, and the model reads your words;"
        assert (0, True) == (code, meaning in out), err
        assert {"old.txt", "new.txt"} == {path.name for path in (here / "ws").iterdir()}
    code, _, err = perdure("answer", "t", "y", "--question", "2")
    assert (2, True) == (code, "answered already" in err)
    code, out, err = perdure("resume", "--all", "--due")
    assert (0, ["new.txt"]) == (code, [path.name for path in (here / "ws").iterdir()]), err
    assert "They say: keep it" in out
    assert [] == service.problems()
    assert len(service.requests()) == len({request["key"] for request in service.requests()})
    assert 0 == perdure("verify", "t")[0]


def test_one_answer_may_say_yes_to_several_calls_that_wait(perdure, service, here):
    """`y -2`, with or without quotes: nothing is asked any more, so a timer goes on with the task."""
    given = ("--model", "openai:gpt-5-mini", "--base-url", service.base_url, "--prompt-strategy", "one_shot")
    for name, words in (("t", ("y -2",)), ("u", ("Y", "-2"))):
        for file in ("old.txt", "new.txt"):
            (here / "ws" / file).touch()
        assert 3 == perdure("run", "Tidy up", *given, "--workspace", "ws", "--name", name)[0]
        code, out, err = perdure("answer", name, *words, "--question", "1")
        assert 0 == code, err
        assert "the call is allowed, and the next 1; next: perdure resume" in out
        assert ("old.txt" in out, "new.txt" in out, f"next: perdure resume {name}" in out) == (True, True, True)
        code, _, err = perdure("answer", name, "y")
        assert (2, True) == (code, "all that it has asked is answered" in err and f"perdure resume {name}" in err)
        code, _, err = perdure("resume", "--all", "--due")
        assert (0, []) == (code, list((here / "ws").iterdir())), err
