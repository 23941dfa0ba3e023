"""The settings that reach people: obeyed by run and resume, and no task notices what becomes of them."""

import json
import socket
import time

import pytest

TALE = """
import json, sys
notice = json.load(sys.stdin)
with open("notices.jsonl", "a") as file:
    file.write(json.dumps(notice) + chr(10))
"""
RESULT = {"sum": 10, "extra": None}
SOON_S = 8.0  # a start of the command on a loaded machine; a notice that nobody takes is given 10 s


@pytest.fixture(autouse=True)
def direct(monkeypatch):
    """No proxy of this machine is in between."""
    monkeypatch.setenv("no_proxy", "*")


def told(here):
    """What people were told so far."""
    return [json.loads(line) for line in (here / "notices.jsonl").read_text("utf-8").splitlines()]


def test_the_settings_are_obeyed_by_run_and_resume(perdure, here):
    """A command from the project's file is told of the limit, and of the success after the resume."""
    (here / "tale.py").write_text(TALE, "utf-8")
    (here / ".perdure").mkdir()
    (here / ".perdure" / "config.toml").write_text("notify_command = \"python3 'tale.py'\"", "utf-8")
    assert 3 == perdure("run", "--program", "programs.py:mails", "--name", "m")[0]
    (here / "put right").touch()
    assert 0 == perdure("resume", "m")[0]
    first, second = told(here)
    assert ("needs_human", "m", "perdure show m --handover") == (first["status"], first["name"], first["next_command"])
    assert ("succeeded", "task 'm' has succeeded") == (second["status"], second["text"])


def test_a_webhook_that_never_answers_keeps_nobody_waiting_for_the_result(spawn, here):
    """The result is printed at once, as without it; the process then says what it waits for."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/hook"
        began = time.monotonic()
        process = spawn("run", "--program", "programs.py:count", "--name", "c", "--json", PERDURE_NOTIFY_URL=url)
        line = process.stdout.readline()
        took = time.monotonic() - began
        said = next(line for line in process.stderr if b"waiting" in line)
        connection, _ = server.accept()
        with connection:
            assert connection.recv(5).startswith(b"POST ")
    assert ("succeeded", RESULT) == (json.loads(line)["status"], json.loads(line)["result"])
    assert took < SOON_S
    assert b"waiting for the last notices to be delivered\n" == said


@pytest.mark.parametrize("command", ["no-such-command-anywhere", "false"])
def test_a_command_that_fails_is_one_line_on_stderr(spawn, here, command):
    """Exit code and result are as ever."""
    arguments = ("run", "--program", "programs.py:count", "--name", "c", "--json", "--quiet")
    process = spawn(*arguments, PERDURE_NOTIFY_COMMAND=command)
    out, err = process.communicate(timeout=60)
    assert (0, RESULT) == (process.returncode, json.loads(out)["result"])
    assert [f"notice_lost hook={command} task=c status=succeeded"] == [
        line.partition(":")[0] for line in err.decode().splitlines() if "notice" in line
    ]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [("URL", "ftp://host/x", "https://host/path"), ("COMMAND", "mail 'me", "notify_command")],
)
def test_a_wrong_setting_is_refused_before_anything_is_done(perdure, here, monkeypatch, name, value, said):
    """Exit 2, no task: not found out when somebody should be told."""
    monkeypatch.setenv(f"PERDURE_NOTIFY_{name}", value)
    code, _, err = perdure("run", "--program", "programs.py:count", "--name", "c")
    assert (2, True) == (code, said in err)
    assert not (here / ".perdure").exists()


def test_a_secret_address_is_not_shown(perdure, here, monkeypatch):
    """`doctor --config` says that it is set."""
    monkeypatch.setenv("PERDURE_NOTIFY_URL", "https://host/token-of-mine")
    for arguments in (("doctor", "--config"), ("doctor", "--config", "--json")):
        out = perdure(*arguments)[1]
        assert ("(set)" in out, "token-of-mine" in out) == (True, False)


@pytest.mark.parametrize(
    ("command", "verdict", "said"),
    [
        ("", "ok", "nobody is told"),
        ("false", "ok", "told: https://host, false"),
        ("no-such-command-anywhere", "warn", "no command 'no-such-command-anywhere'"),
        ("mail 'me", "stop", "notify_command"),
    ],
)
def test_doctor_says_who_is_told(perdure, here, monkeypatch, command, verdict, said):
    """Before somebody should be told, and without telling the whole address."""
    if command:
        monkeypatch.setenv("PERDURE_NOTIFY_COMMAND", command)
        monkeypatch.setenv("PERDURE_NOTIFY_URL", "https://host/token-of-mine")
    code, out, _ = perdure("doctor", "--json")
    (found,) = [check for check in json.loads(out) if check["name"] == "notices"]
    assert (verdict, True, False) == (found["verdict"], said in found["text"], "token-of-mine" in out)
    assert (code == 1) == (verdict == "stop")
