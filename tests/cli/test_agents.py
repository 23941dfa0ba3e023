"""`perdure run GOAL` on a model of a provider: as a person types it, killed, against a service on real sockets."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from tests.agent.modelserver import ModelServer
from tests.cli.conftest import ROOT
from tests.cli.thinking import note

GOAL = "Write a note that says hello"
RESULT = "done in turn 3"


@pytest.fixture
def service(here, monkeypatch):
    """The service, and the flags by which the agent finds it."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test-0123456789")
    with ModelServer(note) as server:
        yield server


def order(server, *more):
    """What is typed."""
    return ("run", GOAL, "--model", "openai:gpt-5-mini", "--base-url", server.base_url, "--name", "note", *more)


def test_a_goal_is_planned_worked_on_and_verified(perdure, service, here):
    """The result is on stdout, plan and calls are said as they come, the file is there, every history was valid."""
    code, out, err = perdure(*order(service, "--yes"))
    assert (0, RESULT) == (code, out.splitlines()[-1])
    assert "plan: write the note > look at it" in err
    assert "allowed by --continuous: execute_shell" in err
    assert 1 == err.count("nothing limits how long this works and what it costs; --budget '5 USD, wall=8h' would")
    assert "hello world" == (here / ".perdure/workspaces/note/note.txt").read_text()
    assert [] == service.problems()
    code, out, _ = perdure("show", "note", "--json")
    shown = json.loads(out)
    assert (shown["status"], shown["tokens_in"] > 0) == ("succeeded", True)
    actions = [json.loads(line) for line in perdure("log", "note", "--kind", "action_settled")[1].splitlines()]
    turns = {line["id"]: line["key"] for line in actions if line["action"] == "think"}
    asked = {line["key"]: turns[line["parent"]] for line in actions if "parent" in line}
    assert {"call 1.1": "turn 1", "call 1.2": "turn 1", "call 3.1": "turn 3", "call 3.2": "turn 3"} == asked
    code, out, err = perdure(*order(service, "--yes"))  # the same order again
    assert (0, RESULT, False) == (code, out.splitlines()[-1], "nothing limits" in err)
    assert len(service.requests()) == len({request["key"] for request in service.requests()})


def test_killed_at_any_moment_it_goes_on_and_pays_for_nothing_twice(spawn, service, here):
    """SIGKILL at crash points of the whole run: each finished request was sent once, the result is the same."""
    kills = 0
    for number in (3, 16, 24, 41):
        first = spawn(*order(service, "--yes", "--new"), PERDURE_TESTING="1", PERDURE_CRASH=f"any:{number}")
        first.communicate(timeout=60)
        assert first.returncode == -signal.SIGKILL
        kills += 1
        again = spawn("resume", "note")
        out, err = again.communicate(timeout=60)
        assert (0, RESULT) == (again.returncode, out.decode().splitlines()[-1]), err.decode()
    assert [] == service.problems()
    requests = service.requests()
    undisturbed = len({request["key"] for request in requests})
    assert len(requests) <= kills * (undisturbed + 1)  # of each run at most the one in flight came again
    assert kills == 4
    print(f"killed {kills} times; {len(requests)} requests, {undisturbed} different ones")


def test_what_is_not_allowed_waits_for_a_person_and_is_made_once(perdure, service, here):
    """Exit 3 with the line to type; `n` with a word is told to the model; a yes makes the very call that was shown."""
    code, _, err = perdure(*order(service))
    assert code == 3
    assert 'Allow execute_shell(command_line="ls")?' in err
    code, out, err = perdure("list")
    assert "execute_shell" in out
    assert 0 == perdure("tell", "note", "mind the step")[0]
    assert 0 == perdure("answer", "note", "y")[0]
    code, out, err = perdure("resume", "note")
    assert code == 3, err  # the command by which the second step is checked needs a yes of its own
    assert "test -f note.txt" in err
    assert 0 == perdure("answer", "note", "y")[0]
    code, out, err = perdure("resume", "note")
    assert 0 == code, err
    assert [] == service.problems()
    said = [request for request in service.requests() if "A person says: mind the step" in json.dumps(request["body"])]
    assert said


def test_a_plan_says_how_each_step_is_checked_and_what_was_found(perdure, service):
    """The check in words, the verdict with its entry, and by what it was found."""
    assert 3 == perdure(*order(service))[0]
    _, out, _ = perdure("plan", "note")
    first, seen, second, check = out.splitlines()
    assert ("  1  done  write the note", "  2  now   look at it") == (first, second)
    assert re.fullmatch(
        r" {11}'hello' stands in 'note.txt'; passed \(entry \d+\): what lies in the workspace shows it", seen
    )
    assert f"{'':11}this command ends with 0: test -f note.txt" == check
    for _ in range(2):
        perdure("answer", "note", "y")
        perdure("resume", "note")
    last = json.loads(perdure("plan", "note", "--json")[1])[1]
    assert ("passed", "the command ends with 0") == (last["verdict"], last["why"])
    goal = json.loads(perdure("log", "note", "--kind", "check_judged")[1].splitlines()[-1])
    assert "a model judged: the calls show it" == goal["fields"]["reason"]


def test_a_resume_that_sends_no_request_loads_no_client_library(perdure, service, here):
    """One that only meets the question again; the next request opens the model, and the task ends as ever."""
    assert 3 == perdure(*order(service))[0]
    line = "import sys; from perdure.cli import main; code = main(['resume', 'note']); "
    line += "print(code, sorted({'pydantic_ai', 'openai', 'genai_prices'} & sys.modules.keys()))"
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.run([sys.executable, "-c", line], cwd=here, env=environ, capture_output=True, check=False)
    assert b"3 []" == process.stdout.splitlines()[-1], process.stderr
    for _ in range(2):
        perdure("answer", "note", "y")
        code, out, err = perdure("resume", "note")
    assert (0, RESULT) == (code, out.splitlines()[-1]), err
    assert [] == service.problems()


def test_unattended_what_would_ask_fails_with_the_package(perdure, service):
    """Exit 1; nobody is waited for."""
    code, _, err = perdure(*order(service, "--unattended"))
    assert code == 1
    assert "execute_shell" in err
    code, out, _ = perdure("show", "note", "--handover")
    assert re.search(r"execute_shell", out)


def test_a_budget_stops_it_and_is_raised(perdure, service):
    """The call that would go over is not sent; the line that is printed raises the budget and the task ends."""
    code, _, err = perdure(*order(service, "--yes", "--budget", "tokens=9000"))
    assert code == 3
    sent = len(service.requests())
    line = re.search(r"perdure resume note --budget '?([^'\n]+)'?", err)
    assert line, err
    code, out, err = perdure("resume", "note", "--budget", "tokens=900000")
    assert (0, RESULT) == (code, out.splitlines()[-1]), err
    assert len(service.requests()) > sent


def test_what_cannot_work_is_said_before_anything_is_written(perdure, service, here, monkeypatch):
    """A missing key, a tool that is none, a prompt strategy that is none, a file that is not there: exit 2."""
    cases = [
        (order(service, "--prompt-strategy", "guess"), "one_shot"),
        (order(service, "--tools", "nosuch.py"), "there is no file"),
        (order(service, "--mcp", "nosuch.json"), "nosuch.json"),
        (order(service, "--mcp", "programs.py"), "programs.py"),
        (order(service, "--base-url", "http://me:a-secret-word@127.0.0.1:9/v1"), "password"),
    ]
    for arguments, word in cases:
        code, _, err = perdure(*arguments)
        assert (2, True) == (code, word in err), err
    monkeypatch.delenv("OPENAI_API_KEY")
    code, _, err = perdure("run", GOAL, "--model", "openai:gpt-5-mini")
    assert (2, True) == (code, "OPENAI_API_KEY" in err), err
    assert "note" not in perdure("list", "--all")[1]
    assert [] == service.requests()


def test_what_cannot_be_opened_costs_nothing_that_was_done(perdure, service, here, monkeypatch):
    """A wrong flag is exit 2, and the task untouched; a key that is gone asks a person, under a timer too."""
    monkeypatch.setenv("OPENAI_BASE_URL", service.base_url)
    assert 3 == perdure("run", GOAL, "--model", "openai:gpt-5-mini", "--name", "note")[0]
    assert 0 == perdure("answer", "note", "y -9")[0]
    before = perdure("log", "note")[1]
    code, _, err = perdure("resume", "note", "--fast-model", "nobody:x")
    assert (2, True, True) == (code, "model 'nobody:x' cannot be opened" in err, before == perdure("log", "note")[1])
    with monkeypatch.context() as without:
        for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
            without.delenv(name)
        code, _, err = perdure("resume", "--all", "--due")
        assert (3, True, False) == (code, "set OPENAI_API_KEY" in err, "rolled back" in err), err
    code, out, err = perdure("resume", "note")
    assert (0, RESULT) == (code, out.splitlines()[-1]), err


def test_what_was_allowed_once_can_be_taken_back(perdure, service):
    """`--ask` takes `--yes` back, a limit of 0 the limit; what is not said stays as it was."""
    code, _, err = perdure(*order(service, "--yes", "--continuous-limit", "1"))
    assert (3, True) == (code, "1 calls are made, as --continuous-limit allows" in err)
    for flags in (("--ask", "-l", "0"), ()):
        code, _, err = perdure("resume", "note", *flags)
        assert (3, True, False) == (code, "question: Allow execute_shell" in err, "continuous" in err), err
    code, out, err = perdure("resume", "note", "-y")
    assert (0, RESULT) == (code, out.splitlines()[-1]), err
