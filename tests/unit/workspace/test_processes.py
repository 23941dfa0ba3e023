"""The processes of a task are found by their marks, held still, and ended; nobody else's are touched."""

import functools
import os
import secrets
import signal
import subprocess
import sys
import time

import pytest

from perdure.clock import SystemClock
from perdure.errors import ProcessesRemain, ProcessesUnsupported
from perdure.workspace import processes

pytestmark = pytest.mark.skipif(not processes.is_supported(), reason="this system does not say who carries marks")

WAIT = "import sys, time; print('up', flush=True); time.sleep(60)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {WAIT}"
# A daemon: the first child leaves at once, the grandchild has a session and a parent of its own.
DAEMON = f"import os\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0:\n  {WAIT}\n os._exit(0)"
BREEDER = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
until = time.monotonic() + 40
while time.monotonic() < until:  # lives on by leaving for a child of its own, again and again
    if os.fork():
        os._exit(0)
    os.setsid()
    time.sleep(0.001)
"""


class Ticking:
    """A clock that goes on by a second whenever it is read."""

    def __init__(self):
        self.time_s = 0.0

    def now(self):
        """Microseconds."""
        return int(self.time_s * 1e6)

    def monotonic(self):
        """Seconds."""
        self.time_s += 1.0
        return self.time_s


@pytest.fixture
def task():
    """The id of a task; what it has started is over afterwards."""
    name = secrets.token_hex(16)
    yield name
    processes.end(name, 0.0, SystemClock())


@pytest.fixture
def start():
    """Start Python code with an environment, and wait until it says that it is up."""
    started = []

    def begin(code, environment, *more):
        child = subprocess.Popen(
            [sys.executable, "-c", code, *more], env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True
        )
        started.append(child)
        assert child.stdout.readline() == "up\n"
        return child

    yield begin
    for child in started:
        child.kill()
        child.wait()
        child.stdout.close()


def pids(task):
    """The pids of a task's processes."""
    return [process.pid for process in processes.find(task)]


def state(pid):
    """The letter that the kernel has for what a process does; "" if there is none."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""


def test_a_process_is_found_by_its_marks(task, start):
    """Pid, time of start, command and action of what carries the task's mark; nothing of another task or without."""
    child = start(WAIT, processes.marks(task, "a1"), "said here")
    start(WAIT, processes.marks(secrets.token_hex(16), "a1"))
    start(WAIT, {})
    (found,) = processes.find(task)
    with open(f"/proc/{child.pid}/stat") as file:
        started = int(file.read().rpartition(")")[2].split()[19])
    assert (found.pid, found.started, found.action) == (child.pid, started, "a1")
    assert found.command.startswith(sys.executable)
    assert found.command.endswith("said here")


def test_daemons_and_children_without_marks_are_found(task, start):
    """A grandchild in a session of its own, whose parents are gone; a child whose environment was emptied."""
    start(DAEMON, processes.marks(task, "a1"))
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {WAIT!r}], env={{}})"
    child = start(code, processes.marks(task, "a2"))
    actions = [process.action for process in processes.find(task)]
    assert sorted(actions) == ["a1", "a2", "a2"]
    assert child.pid in pids(task)


def test_a_child_with_the_mark_of_another_task_is_the_others(task, start):
    """A task that an action of this one has started looks after its own processes."""
    other = processes.marks(secrets.token_hex(16), "b1")
    code = (
        f"import os, subprocess, sys; subprocess.run([sys.executable, '-c', {WAIT!r}], env={{**os.environ, **{other}}})"
    )
    child = start(code, processes.marks(task, "a1"))
    assert pids(task) == [child.pid]


def test_who_is_over_is_not_found(task, start):
    """One that has ended and is not yet waited for is none any more."""
    child = start(WAIT, processes.marks(task, "a1"))
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert state(child.pid) == "Z"
    assert pids(task) == []


def test_held_still_while_the_block_runs(task, start):
    """All are stopped inside, also a daemon, and go on afterwards, though an error leaves the block."""
    children = [start(WAIT, processes.marks(task, "a1")).pid, start(DAEMON, processes.marks(task, "a2")).pid]
    inside = {}

    def look():
        with processes.frozen(task) as held:
            inside.update({process.pid: state(process.pid) for process in held})
            raise InterruptedError

    with pytest.raises(InterruptedError):
        look()
    assert children[0] in inside
    assert (set(inside.values()), len(inside) >= 2) == ({"T"}, True)  # the daemon's parent may be on its way out
    assert "T" not in [state(pid) for pid in inside]


def test_one_that_begets_others_is_held(task, start):
    """A process that leaves for a child of its own, a thousand times a second, does not slip through."""
    start(BREEDER, processes.marks(task, "a1"))
    with processes.frozen(task):
        before = pids(task)
        assert before
        time.sleep(0.05)
        assert pids(task) == before
    time.sleep(0.05)
    assert pids(task) != before


def test_asked_to_end_first(task, start):
    """SIGTERM ends who hears it, long before the time is up, also one that is held still; it is told who it was."""
    ready = start(WAIT, processes.marks(task, "a1"))
    still = start(WAIT, processes.marks(task, "a2"))
    os.kill(still.pid, signal.SIGSTOP)
    before = time.monotonic()
    ended = processes.end(task, 30.0, SystemClock())
    assert time.monotonic() - before < 15
    assert [process.pid for process in ended] == sorted((ready.pid, still.pid))
    assert [ready.wait(), still.wait()] == [-signal.SIGTERM, -signal.SIGTERM]


def test_killed_when_the_time_is_up(task, start):
    """Who does not hear SIGTERM is killed: a deaf one, its daemon, and one that begets others all the time."""
    deaf = start(DEAF, processes.marks(task, "a1"))
    start(
        DAEMON.replace("import os", "import os, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"),
        processes.marks(task, "a1"),
    )
    start(BREEDER, processes.marks(task, "a2"))
    ended = processes.end(task, 3.0, Ticking())
    assert pids(task) == []
    assert deaf.wait() == -signal.SIGKILL
    assert deaf.pid in [process.pid for process in ended]
    assert [state(process.pid) for process in ended if state(process.pid) not in {"", "Z"}] == []


def test_others_are_left_alone(task, start):
    """Another task's process, one without marks, and one that has the pid of another go on."""
    other = start(WAIT, processes.marks(secrets.token_hex(16), "a1"))
    bare = start(WAIT, {})
    ours = start(WAIT, processes.marks(task, "a1"))
    (found,) = processes.find(task)
    processes._signal(
        processes.Process(pid=bare.pid, started=found.started - 1_000, command="", action=""), signal.SIGKILL
    )
    processes.end(task, 30.0, SystemClock())
    assert [other.poll(), bare.poll(), ours.wait()] == [None, None, -signal.SIGTERM]


def test_never_itself_nor_who_stands_above(task):
    """A process with the mark of the task ends the task's others, and neither itself nor its parent."""
    code = f"""
import subprocess, sys
from perdure.clock import SystemClock
from perdure.workspace import processes
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print([process.pid for process in processes.end({task!r}, 30.0, SystemClock())] == [child.pid], flush=True)
"""
    above = f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', {code!r}]).returncode)"
    environment = {**os.environ, **processes.marks(task, "a1")}
    found = subprocess.run([sys.executable, "-c", above], env=environment, capture_output=True, text=True, check=False)
    assert (found.stdout, found.stderr, found.returncode) == ("True\n", "", 0)


def test_who_cannot_be_ended_is_named(task, start, monkeypatch):
    """Where no signal reaches a process, ProcessesRemain names it, after a time."""
    child = start(WAIT, processes.marks(task, "a1"))

    def refused(_process_fd, _signum):
        raise PermissionError

    with monkeypatch.context() as patched:
        patched.setattr(processes.signal, "pidfd_send_signal", refused)
        with pytest.raises(ProcessesRemain) as caught:
            processes.end(task, 3.0, Ticking())
        assert caught.value.pids == (child.pid,)
        patched.setattr(processes, "_hold", functools.partial(processes._hold, looks_max=3))
        with pytest.raises(ProcessesRemain), processes.frozen(task):
            raise AssertionError("not held, and yet inside")


def test_elsewhere_it_is_said(monkeypatch):
    """On a system without /proc, each question raises ProcessesUnsupported."""
    monkeypatch.setattr(processes.sys, "platform", "darwin")
    assert not processes.is_supported()
    with pytest.raises(ProcessesUnsupported, match="darwin"):
        processes.find("t")
    with pytest.raises(ProcessesUnsupported), processes.frozen("t"):
        pass
    with pytest.raises(ProcessesUnsupported):
        processes.end("t", 1.0, SystemClock())
