"""`perdure replay` on an agent that has heard people, was answered, taken back and has changed its prompt strategy."""

import json
import re
import signal

import pytest

from tests.agent.modelserver import Answer, Asked, ModelServer

GOAL = "Write a note that says hello"
CHECKED = {"kind": "text_contains", "path": "note.txt", "text": "hello"}


def persuaded(asked: Asked) -> Answer:
    """Claim in vain under one_shot, ask a person, then plan and write."""
    if "You plan the work" in asked.system:
        steps = [{"title": "write the note", "check": CHECKED}, {"title": "look at it"}]
        return Answer(text=json.dumps({"steps": steps, "goal_check": {"criterion": "it is there"}}))
    said = json.dumps(asked.body)
    if "You judge whether" in asked.system:
        is_there = "hello world" in said
        return Answer(text=json.dumps({"passed": is_there, "reason": "the calls show it" if is_there else "nothing"}))
    if "Work without a plan" in asked.system:
        return Answer(text=f"I say that it is done, after {asked.turn} replies.")
    match asked.turn:
        case 0:
            return Answer(calls=(("ask_user", {"question": "Which word?"}), ("list_folder", {"folder": "."})))
        case 1:
            writes = ("write_to_file", {"filename": "note.txt", "contents": "hello world"})
            return Answer(text="I write it.", calls=(writes, ("checkpoint", {"name": "half"})))
        case 2:
            return Answer(calls=(("execute_shell", {"command_line": "ls"}),))
        case _:
            return Answer(text="It is done.", calls=(("step_done", {"result": "done"}),))


@pytest.fixture
def service(here, monkeypatch):
    """The service, and the key by which the agent may ask it."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test-0123456789")
    with ModelServer(persuaded) as server:
        yield server


def killed(spawn, point, *order):
    """Let a command die at a crash point."""
    process = spawn(*order, PERDURE_TESTING="1", PERDURE_CRASH=f"any:{point}")
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL


def replayed(perdure):
    """Replay the task and return what is compared; nothing may differ."""
    code, out, err = perdure("replay", "note")
    assert (0, "") == (code, err), out
    return [int(number) for number in re.findall(r"(\d+) (?:entries|actions)", out)]


def test_a_run_with_people_a_rollback_and_a_change_of_strategy_is_replayed(perdure, spawn, service, here):
    """Equal at every stage, and nothing is asked of the model for it; the run is killed twice on its way."""
    order = ("run", GOAL, "--model", "openai:gpt-5-mini", "--base-url", service.base_url, "--name", "note")
    killed(spawn, 11, *order, "--prompt-strategy", "one_shot")
    replayed(perdure)
    code, _, err = perdure("resume", "note")
    assert code == 3, err
    assert "Which word?" in err
    replayed(perdure)
    assert 0 == perdure("tell", "note", "mind the step")[0]
    assert 0 == perdure("answer", "note", "hello")[0]
    killed(spawn, 14, "resume", "note")
    code, _, err = perdure("resume", "note")
    assert (3, True) == (code, "execute_shell" in err), err
    assert 0 == perdure("tell", "note", "and be quick")[0]
    replayed(perdure)
    assert 0 == perdure("rollback", "note", "--to", "half")[0]
    replayed(perdure)
    code, _, err = perdure("resume", "note")
    assert (3, True) == (code, "execute_shell" in err), err
    assert 0 == perdure("answer", "note", "y")[0]
    code, _, err = perdure("resume", "note", "--yes")
    assert 0 == code, err
    asked = len(service.requests())
    entries, actions = replayed(perdure)
    assert entries > actions > 10
    assert asked == len(service.requests())
    assert [] == service.problems()
    decisions = perdure("replay", "note", "--recovery")[1]
    assert re.fullmatch(r"(\d+) decisions of task note asked for anew: \1 are the same\n", decisions)
    assert 0 == perdure("verify", "note")[0]
