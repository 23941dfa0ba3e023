"""run and resume ask on the terminal what a task waits for; what is left there is exit 3, as without a terminal."""

import contextlib
import json
import os
import signal
import subprocess

import pytest

from tests.agent.modelserver import ModelServer
from tests.cli.conftest import COMMAND, ROOT
from tests.cli.test_approvals import tidies
from tests.cli.test_talking import add_program

pytestmark = pytest.mark.skipif(not hasattr(os, "openpty"), reason="there are no terminals here")


@pytest.fixture
def typing(here):
    """Run the command with a person at its terminal, who types `lines`; returns (exit code, stdout, stderr)."""

    def call(*arguments, lines, stops=False):
        person, terminal = os.openpty()
        try:
            process = subprocess.Popen(
                [*COMMAND, *arguments], cwd=here, env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
                stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
            with process, contextlib.ExitStack() as ending:
                ending.callback(process.kill)  # one that waits for a line that nobody types would be waited for
                os.write(person, "".join(f"{line}\n" for line in lines).encode())
                if stops:
                    said = b""
                    while b"leaves it for later" not in said:
                        said += os.read(process.stderr.fileno(), 1024)
                    process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=30)
        finally:
            os.close(person)
            os.close(terminal)
        return process.returncode, out.decode(), err.decode()

    return call


def test_questions_are_answered_at_the_terminal_and_the_task_goes_on(typing, perdure, here):
    """One after the other, in one command; the record is as if they had been answered by `perdure answer`."""
    add_program(here)
    code, out, err = typing("run", "--program", "programs.py:chooser", "--name", "t", lines=["red", "XL"])
    assert (0, True) == (code, "[1] which colour?" in err and "[2] which size?" in err)
    assert '{\n  "colour": "red",\n  "size": "XL"\n}\n' in out
    kinds = [json.loads(line)["kind"] for line in perdure("log", "t")[1].splitlines()]
    assert (2, 2) == (kinds.count("question_asked"), kinds.count("question_answered"))


def test_an_empty_line_leaves_a_question_for_later(typing, perdure, here):
    """The others are answered, and the last line says what is still open; `resume` asks it again."""
    add_program(here)
    code, _, err = typing("run", "--program", "programs.py:chooser", "--name", "t", lines=["", "XL"])
    assert (3, True) == (code, err.endswith("question: which colour?; next: perdure answer t TEXT\n"))
    assert ["colour"] == [one["key"] for one in json.loads(perdure("show", "t", "--json")[1])["questions"]]
    code, out, _ = typing("resume", "t", lines=["red"])
    assert (0, True) == (code, '"size": "XL"' in out)


@pytest.mark.parametrize("end", ["\x04", "stop"])
def test_the_end_of_the_input_and_ctrl_c_leave_the_rest(typing, perdure, here, end):
    """The command ends with exit 3, and the task can be answered."""
    add_program(here)
    lines = [end] if end != "stop" else []
    code, _, err = typing("run", "--program", "programs.py:chooser", "--name", "t", lines=lines, stops=end == "stop")
    assert (end == "stop", False) == ("left for later" in err, "running action" in err)
    assert (3, 2) == (code, len(json.loads(perdure("show", "t", "--json")[1])["questions"]))
    assert 0 == perdure("answer", "t", "red", "--question", "1")[0]


@pytest.mark.parametrize("flag", ["--unattended", "--json"])
def test_nobody_is_asked_where_nobody_is_to_be(typing, here, flag):
    """Unattended it fails, and what a program reads is no place to ask."""
    add_program(here)
    code, _, err = typing("run", "--program", "programs.py:chooser", "--name", "t", flag, lines=["red", "XL"])
    assert (1 if flag == "--unattended" else 3, False) == (code, "answer (an empty line" in err)


def test_all_due_tasks_are_resumed_without_asking(typing, perdure, here):
    """What waits for a person goes on waiting: `--all` is for a timer."""
    add_program(here)
    perdure("run", "--program", "programs.py:chooser", "--name", "t")
    code, _, err = typing("resume", "--all", lines=["red", "XL"])
    assert (3, False) == (code, "answer (an empty line" in err)


def test_what_the_agent_may_do_is_recorded_from_the_settings(here):
    """Without a word the usual lists; those that are given otherwise, on resume as well; a bad pattern is refused."""
    from perdure.cli.agents import changes_of, chosen
    from perdure.cli.running import ResumeOptions, RunOptions
    from perdure.config import ALLOWED, DENIED, load_config

    def settings():
        options, config = (
            RunOptions(goal="summarise the documents in .", model="offline"),
            load_config({"model": "offline"}),
        )
        return chosen(options, config, changes_of(options, config)).agent.settings

    assert (ALLOWED, DENIED) == (settings().allow, settings().deny)
    (here / ".perdure").mkdir()
    file = here / ".perdure" / "config.toml"
    file.write_text("[permissions]\nallow = ['web_search(*)']\n", "utf-8")
    assert (("web_search(*)",), DENIED) == (settings().allow, settings().deny)
    assert {"allow": ("web_search(*)",)} == changes_of(ResumeOptions(), load_config())
    file.write_text("allow = []\n", "utf-8")
    assert ((), DENIED) == (settings().allow, settings().deny)


def test_a_bad_pattern_starts_nothing(perdure, here):
    """Exit 2, naming file and pattern."""
    (here / ".perdure").mkdir()
    (here / ".perdure" / "config.toml").write_text("deny = ['execute_shell']\n", "utf-8")
    code, _, err = perdure("run", "say hello", "--model", "openai:x")
    assert (2, True) == (code, "config.toml: deny: permission 'execute_shell' is no pattern" in err)
    assert "no tasks" in perdure("list", "--all")[1]


def test_calls_that_an_answer_allows_as_well_are_not_asked(typing, here, monkeypatch):
    """`y -2` to the first of two calls of the agent covers the second, and the task goes on."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test-0123456789")
    (here / "ws").mkdir()
    for name in ("old.txt", "new.txt"):
        (here / "ws" / name).touch()
    with ModelServer(tidies) as server:
        given = ("--model", "openai:x", "--base-url", server.base_url, "--prompt-strategy", "one_shot")
        code, _, err = typing("run", "Tidy up", *given, "--workspace", "ws", "--name", "t", lines=["y -2"])
    assert (0, 1, []) == (code, err.count("answer (an empty line"), list((here / "ws").iterdir())), err
