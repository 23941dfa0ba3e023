"""Hooks that reach people: what they tell, and that whatever becomes of it, the task does not notice."""

import asyncio
import contextlib
import http.server
import json
import logging
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

import perdure
from perdure.engine.notifying import CommandHook, Webhook, hooks_for, notice_of
from perdure.limits import NOTICES_WAITING_MAX
from tests.worlds import World

QUICK_S = 0.8
BOUND_S = 2.5  # what a notice may cost at the end, on a loaded machine: its time, the graces, a process
TALE = """
import json, os, sys
told = {"stdin": json.load(sys.stdin), "environ": {k: v for k, v in os.environ.items() if k.startswith("PERDURE_TASK")}}
with open(sys.argv[1], "a") as file:
    file.write(json.dumps(told) + chr(10))
"""


@pytest.fixture(autouse=True)
def direct(monkeypatch):
    """No proxy of this machine is in between."""
    monkeypatch.setenv("no_proxy", "*")


class Answering(http.server.BaseHTTPRequestHandler):
    """Keeps what it is sent, and answers as its server says."""

    def do_POST(self):
        """Take a notice."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, self.headers["Content-Type"], json.loads(body)))
        self.server.answer(self)

    def do_GET(self):
        """Take what follows a redirection: it has nothing in it, and would count as taken."""
        self.server.got.append((self.path, "", None))
        ok(self)

    def log_message(self, *_):
        """Say nothing."""


def ok(request):
    """Answer that it was taken."""
    request.send_response(204)
    request.end_headers()


def broken(request):
    """Answer that it was not."""
    request.send_response(500)
    request.end_headers()


def elsewhere(request):
    """Answer that it is somewhere else."""
    request.send_response(302)
    request.send_header("Location", "/elsewhere")
    request.end_headers()


def never(request):
    """Answer nothing, until the test is over."""
    request.server.is_over.wait(60)


def trickling(request):
    """Answer byte by byte, each within any time-out, without an end."""
    with contextlib.suppress(OSError):
        while not request.server.is_over.wait(0.05):
            request.wfile.write(b"H")


@contextlib.contextmanager
def serving(answer):
    """A webhook's server that answers so."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    server.daemon_threads, server.got, server.answer, server.is_over = True, [], answer, threading.Event()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.is_over.set()
        server.shutdown()
        thread.join()
        server.server_close()


def url_of(server, path="/hook?token=secret"):
    """Where the server is."""
    return f"http://127.0.0.1:{server.server_port}{path}"


def record(path):
    """A command that writes down what it is told."""
    return [sys.executable, "-c", TALE, str(path)]


@perdure.program
async def done(task):
    """Succeed."""
    return "done"


@perdure.program(failures_max=1)
async def broke(task):
    """Reach its limit."""
    raise ValueError("something is wrong")


@perdure.program
async def asks(task):
    """Ask."""
    return await task.ask("which one?")


@perdure.program
async def gives_up(task):
    """Fail."""
    await task.fail("there is no way")


@perdure.program(failures_max=1)
async def odd(task):
    """Fail with any text."""
    raise ValueError("a\0b\x1b[2J ü \U0001f600 \ud800")


def play(world, program, *hooks, **options):
    """Run a task with hooks; return (what it came to, seconds until then, seconds until the runtime was closed)."""

    async def main():
        began = time.monotonic()
        async with world.runtime(hooks=hooks, **options) as runtime:
            try:
                result = await runtime.run(program, "job")
            except perdure.TaskStopped as stopped:
                result = type(stopped).__name__
            took = time.monotonic() - began
        return result, took, time.monotonic() - began

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("program", "status", "reason", "command"),
    [
        (done, "succeeded", None, None),
        (broke, "needs_human", "limit: 1 failures, the last: ", "perdure show job --handover"),
        (asks, "needs_human", "question: which one?", "perdure answer job TEXT"),
        (gives_up, "failed", "there is no way", "perdure show job --handover"),
    ],
)
def test_people_are_told_once_what_happened_and_what_to_type(program, status, reason, command, tmp_path):
    """Webhook and command get the same notice, the command in its environment as well."""
    world = World()
    told = tmp_path / "told"
    with serving(ok) as server:
        play(world, program, Webhook(url_of(server)), CommandHook(record(told)))
    ((path, kind, notice),) = server.got
    assert ("/hook?token=secret", "application/json") == (path, kind)
    assert ("job", status) == (notice["name"], notice["status"])
    assert (reason is None) == ("reason" not in notice)
    assert reason is None or notice["reason"].startswith(reason)
    assert command == notice.get("next_command")
    assert notice["task"] == world.fold().task
    (line,) = told.read_text().splitlines()
    said = json.loads(line)
    assert notice == said["stdin"]
    wanted = {"ID": "task", "NAME": "name", "STATUS": "status", "REASON": "reason", "NEXT": "next_command"}
    expected = {f"PERDURE_TASK_{key}": notice.get(field, "") for key, field in wanted.items()}
    assert expected == {key: said["environ"][key] for key in expected}
    assert said["environ"]["PERDURE_TASK_TEXT"] == notice["text"]


def test_a_parked_task_says_until_when():
    """With the moment in the notice and in its sentence."""
    until = 1_900_000_000_000_000
    fields = {
        "status": "parked",
        "name": "job",
        "reason": "quota",
        "until": until,
        "next_command": "perdure resume job",
    }
    notice = notice_of("0" * 32, "stopped", fields)
    assert ("2030-03-17T17:46:40Z", "parked") == (notice.until, notice.status)
    assert "task 'job' is parked until 2030-03-17T17:46:40Z: quota; next: perdure resume job" == notice.text


@perdure.program
async def is_told_to_wait(task):
    """Be sent away for a day."""
    error = ConnectionError("come back tomorrow")
    error.failure_class, error.retry_after_s = "throttled", 86_400
    raise error


def test_a_task_that_parks_says_so():
    """By the engine: status, moment and the line that goes on."""
    world = World()
    with serving(ok) as server:
        result, _, _ = play(world, is_told_to_wait, Webhook(url_of(server)))
    assert "TaskParked" == result
    ((_, _, notice),) = server.got
    until = datetime.fromtimestamp(world.fold().ledger.until / 1_000_000, UTC)
    assert ("parked", "perdure resume job") == (notice["status"], notice["next_command"])
    assert until.strftime("%Y-%m-%dT%H:%M:%SZ") == notice["until"]
    assert "come back tomorrow" in notice["reason"]


@pytest.mark.parametrize("event", ["action_settled", "note", "stopped"])
def test_what_is_no_matter_for_people_is_not_told(event):
    """Progress is not, nor what a person has done: paused, cancelled."""
    assert None is notice_of("0" * 32, event, {"status": "paused", "name": "job", "reason": "by person"})


@pytest.mark.parametrize("answer", [never, broken, elsewhere, trickling], ids=lambda fn: fn.__name__)
def test_a_webhook_that_fails_changes_nothing(answer, caplog):
    """The task has the same result at the same time; the runtime ends in a bounded time; it is logged once."""
    undisturbed, _, _ = play(World(), done)
    with serving(answer) as server, caplog.at_level(logging.WARNING, "perdure"):
        result, took, closed = play(World(), done, Webhook(url_of(server), timeout_s=QUICK_S))
        said = [one.getMessage() for one in caplog.records]
    assert undisturbed == result
    assert took < QUICK_S
    assert closed < took + BOUND_S
    (line,) = said
    assert line.startswith(f"notice_lost hook=http://127.0.0.1:{server.server_port} task=job status=succeeded: ")
    assert "secret" not in line
    assert 1 == len(server.got)


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["sleep", "60"], "it did not end within 0.8 s, and was killed"),
        (["no-such-command-anywhere"], "FileNotFoundError"),
        ([sys.executable, "-c", "import sys; sys.exit('no mail today')"], "exit code 1: no mail today"),
    ],
    ids=["hangs", "does not exist", "fails"],
)
def test_a_command_that_fails_changes_nothing(argv, why, caplog):
    """The task has the same result at the same time; the runtime ends in a bounded time; it is logged once."""
    timeout_s = QUICK_S if argv[0] == "sleep" else 20.0
    with caplog.at_level(logging.WARNING, "perdure"):
        result, took, closed = play(World(), done, CommandHook(argv, timeout_s=timeout_s))
    assert "done" == result
    assert took < QUICK_S
    assert closed < took + BOUND_S
    (line,) = [one.getMessage() for one in caplog.records]
    assert why in line


def test_a_command_that_hangs_is_ended_with_its_children(tmp_path):
    """Nothing of it is left behind."""
    pids = tmp_path / "pids"
    script = f"sleep 60 & echo $! > {pids}; echo $$ >> {pids}; wait"
    play(World(), done, CommandHook(["sh", "-c", script], timeout_s=1.0))
    child, shell = map(int, pids.read_text().split())
    end = time.monotonic() + 5
    while time.monotonic() < end and (is_living(child) or is_living(shell)):
        threading.Event().wait(0.01)
    assert (False, False) == (is_living(child), is_living(shell))


def is_living(pid):
    """Whether a process runs: one that has ended and is not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_hook_that_hangs_holds_up_no_other_task():
    """Ten tasks in a row, each with a notice that nobody takes, are done before the first time-out."""
    with serving(never) as server:
        hook = Webhook(url_of(server), timeout_s=2.0)

        async def main():
            async with World().runtime(hooks=[hook]) as runtime:
                began = time.monotonic()
                for number in range(10):
                    assert "done" == await runtime.run(done, f"job {number}")
                took = time.monotonic() - began
            return took, time.monotonic() - began

        took, closed = asyncio.run(main())
    assert took < 2.0
    assert closed < took + 2.0 + BOUND_S
    assert not hook._waiting


def test_notices_that_nobody_takes_do_not_pile_up(caplog):
    """Those beyond the limit are lost, each with a line in the log."""
    with serving(never) as server, caplog.at_level(logging.WARNING, "perdure"):
        hook = Webhook(url_of(server), timeout_s=5.0)
        for number in range(NOTICES_WAITING_MAX + 5):
            hook("0" * 32, "succeeded", {"name": f"job {number}"})
        lost = [one.getMessage() for one in caplog.records]
    assert len(lost) in {4, 5}  # the first may have left the queue
    assert all("64 others wait already" in line for line in lost)


def test_a_hook_serves_one_runtime_after_another():
    """The end of a runtime does not end it."""
    with serving(ok) as server:
        hook = Webhook(url_of(server))
        play(World(), done, hook)
        play(World(), broke, hook)
    assert ["succeeded", "needs_human"] == [notice["status"] for _, _, notice in server.got]


def test_any_text_reaches_a_command(tmp_path):
    """Control characters, NULs, other scripts: none of them keeps a notice from being delivered."""
    told = tmp_path / "told"
    play(World(), odd, CommandHook(record(told)))
    said = json.loads(told.read_text())
    assert "a\0b\x1b[2J ü \U0001f600 \\ud800" == said["stdin"]["reason"].rpartition("ValueError: ")[2]
    assert "ab\x1b[2J ü \U0001f600 \\ud800" == said["environ"]["PERDURE_TASK_REASON"].rpartition("ValueError: ")[2]


@pytest.mark.parametrize(
    "url", ["", "ftp://host/x", "host/x", "http://", "http://u:p@host/", "http://host:port/", "http://host/a b\n"]
)
def test_what_is_no_webhook_is_refused(url):
    """At once, with what it should look like, not when somebody should be told."""
    with pytest.raises(perdure.UsageError, match="https://host/path"):
        Webhook(url)


def test_settings_become_hooks():
    """Words are split as a shell does; quotes that do not close are refused."""
    assert () == hooks_for("", "")
    webhook, command = hooks_for("https://host/x", "mail -s 'a task' me")
    assert ("https://host", "mail") == (webhook.place, command.place)
    assert ("mail", "-s", "a task", "me") == command._argv
    with pytest.raises(perdure.UsageError, match="notify_command"):
        hooks_for("", "mail 'me")
    for argv in ([], "mail me"):
        with pytest.raises(perdure.UsageError, match="list of words"):
            CommandHook(argv)
