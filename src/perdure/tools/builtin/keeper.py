"""Stands between perdure and a program that a tool runs: sets its limits, watches it, lets nothing of it outlive it.

A script of its own process (`python -I -S keeper.py`) that knows the standard library only; `sandbox.py` starts it.
It is no sandbox: what a program may see and touch is bubblewrap's business.

    stdin    a line of JSON, the order: argv, cwd, env, input (text or null), limits, is_isolated; then it stays open:
             its end is the order to end, and so is the end of the process that started this one
    stdout   is the program's output, both of its streams in one
    stderr   at the end a line of JSON: exit_code (of the program, negative: by which signal), ended (why it was ended)

What leaves its parent is adopted here (Linux), so that daemons are found and ended too.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any, NoReturn

LOOK_S = 0.05  # between two looks at what the program does
LOOK_SHARE = 10  # where a look takes long, the pause is so many times longer
ROUNDS_MAX = 2_000  # of ending what is left
SETTLE_S = 0.005  # between two rounds
OUTPUT, REPORT = 1, 2
GROUPS = "/sys/fs/cgroup"
KIB = 1024
CANNOT_RUN = 127  # as shells say it

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 36, 38
_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219}  # number of the system call
_KEYCTL_JOIN_SESSION_KEYRING = 1
_OVER = frozenset("ZXx")

_asked_to_end = False


class Watched:
    """What /proc says of one process."""

    __slots__ = ("parent", "pid", "started", "state", "tasks")

    def __init__(self, pid: int, fields: list[str]) -> None:
        self.pid = pid
        self.state = fields[0]
        self.parent = int(fields[1])
        self.tasks = int(fields[17])
        self.started = int(fields[19])


def main() -> None:
    """Run one program to its end, and all that it has started."""
    parent = os.getppid()
    order = json.loads(sys.stdin.buffer.readline())
    wake = _hear_signals()
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    group = _make_group(order["limits"]["tasks"]) if os.getuid() == 0 else ""
    child = _start(order, group)
    is_held = bool(group) or os.getuid() != 0  # by the kernel, to its number of processes
    exit_code, why = _watch(child, parent, order["limits"], wake, LOOK_S if is_held else LOOK_S / 5)
    if exit_code is None and order["is_isolated"]:
        os.kill(child, signal.SIGKILL)  # bubblewrap's: the kernel ends all within the walls at once
    _end_all(child)
    if group:
        _remove(group)
    report = json.dumps({"exit_code": exit_code, "ended": why}) + "\n"
    os.write(REPORT, report.encode())


def _hear_signals() -> int:
    """Return the end of a pipe that says when a child is over; SIGTERM asks to end."""
    heard, told = os.pipe()
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _look_up)
    signal.signal(signal.SIGTERM, _ask_to_end)
    return heard


def _look_up(_signum: int, _frame: FrameType | None) -> None:
    """A signal that is handled is told by the pipe; one that is not would not be."""


def _ask_to_end(_signum: int, _frame: FrameType | None) -> None:
    global _asked_to_end  # noqa: PLW0603 - a signal handler has nothing else to say it by
    _asked_to_end = True


# --- starting -------------------------------------------------------------------------------------------------------
def _start(order: Mapping[str, Any], group: str) -> int:
    """Start the program in a session of its own, within its limits; return its pid."""
    keeper = os.getpid()
    others = _tasks_of_user()
    child = os.fork()
    if child == 0:
        _become(order, keeper, others, group)
    _go_first()
    return child


def _go_first() -> None:
    """Get a turn among thousands of forks: root may ask for that, and the kernel holds no other user to so many."""
    if sys.platform == "linux" and os.getuid() == 0:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        except OSError:  # a container may not
            return


def _become(order: Mapping[str, Any], keeper: int, others: int, group: str) -> NoReturn:
    try:
        if group:
            _write(f"{group}/cgroup.procs", "0")
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        _leave_keys_behind()
        if not order["is_isolated"]:  # bubblewrap sees to that itself
            _prctl(_PR_SET_NO_NEW_PRIVS, 1)
        if os.getppid() != keeper:
            os._exit(CANNOT_RUN)
        signal.set_wakeup_fd(-1)
        for signum in (signal.SIGCHLD, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(signum, signal.SIG_DFL)
        os.dup2(_input(order["input"]), 0)
        os.dup2(OUTPUT, REPORT)
        os.chdir(order["cwd"])
        _limit(order["limits"], 0 if order["is_isolated"] else others)
        os.execve(order["argv"][0], order["argv"], order["env"])  # noqa: S606 - that is what it is for
    except (OSError, ValueError) as error:
        os.write(OUTPUT, f"{order['argv'][0]}: {error}\n".encode())
    finally:
        os._exit(CANNOT_RUN)  # whatever was raised: there must not be two of this process


def _input(text: str | None) -> int:
    """Return a descriptor from which the program reads `text`."""
    if text is None:
        return os.open(os.devnull, os.O_RDONLY)
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("input")
    else:
        import tempfile

        file, name = tempfile.mkstemp()
        os.unlink(name)
    rest = memoryview(text.encode("utf-8", "surrogatepass"))
    while rest:
        rest = rest[os.write(file, rest) :]
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _limit(limits: Mapping[str, Any], others: int) -> None:
    """Set the limits that the kernel keeps for each process; the number of processes only where bubblewrap does not.

    `RLIMIT_NPROC` counts all that the user runs, so what runs already is added; the kernel does not hold root to it.
    """
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: int(limits["cpu_s"]),
        resource.RLIMIT_FSIZE: limits["file_bytes"],
        resource.RLIMIT_DATA: limits["memory_bytes"],
        resource.RLIMIT_NOFILE: limits["open_files"],
    }
    if others:
        wanted[resource.RLIMIT_NPROC] = others + limits["tasks"]
    for which, value in wanted.items():
        _, hard = resource.getrlimit(which)
        lowered = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (lowered, lowered))


def _tasks_of_user() -> int:
    """Return how many threads this user runs; 0 where the system does not say."""
    mine = os.getuid()
    return sum(seen.tasks for seen in _all() if _owner(seen.pid) == mine)


def _owner(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return -1


def _leave_keys_behind() -> None:
    """Begin a session keyring of its own: what the kernel keeps for this session (tickets, passwords) stays here."""
    call = _KEYCTL.get(os.uname().machine) if sys.platform == "linux" else None
    if call is not None:
        ctypes.CDLL(None).syscall(call, _KEYCTL_JOIN_SESSION_KEYRING, None)


def _prctl(option: int, value: int) -> None:
    """Ask the kernel of Linux; elsewhere nothing."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _make_group(tasks_max: int) -> str:
    """Make a control group of so many processes and threads at most; return its folder, "" where that cannot be.

    `RLIMIT_NPROC` does not hold root. Below the group of this process, or the nearest above it in which numbers can be
    given out, of the first or the second kind of control groups.
    """
    of_pids, of_all = "", ""
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if "pids" in controllers.split(","):
            of_pids = f"{GROUPS}/pids{path}"
        elif not controllers:
            of_all = f"{GROUPS}{path}"
    above = (of_pids or of_all).rstrip("/")
    while above.startswith(f"{GROUPS}/") or above == GROUPS:
        if os.path.isdir(above) and (of_pids or "pids" in _read(f"{above}/cgroup.subtree_control").split()):
            return _make_group_in(above, tasks_max)
        above = os.path.dirname(above)
    return ""


def _make_group_in(above: str, tasks_max: int) -> str:
    for name in os.listdir(above):  # what a keeper that was killed has left: empty ones can be removed, no others
        pid = name.removeprefix("perdure-")
        if pid != name and not os.path.exists(f"/proc/{pid}"):
            _remove(f"{above}/{name}")
    group = f"{above}/perdure-{os.getpid()}"
    try:
        os.mkdir(group)
        _write(f"{group}/pids.max", str(tasks_max))
    except OSError:  # read-only in most containers
        _remove(group)
        return ""
    return group


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def _remove(folder: str) -> None:
    try:
        os.rmdir(folder)
    except OSError:  # not there, or not empty
        return


# --- watching -------------------------------------------------------------------------------------------------------
def _watch(child: int, parent: int, limits: Mapping[str, Any], wake: int, look_s: float) -> tuple[int | None, str]:
    """Wait until the program is over; return its exit code, or why it has to be ended."""
    until = time.monotonic() + limits["wall_s"]
    while True:
        status = _reap(child)
        if status is not None:
            return os.waitstatus_to_exitcode(status), ""
        if _asked_to_end or os.getppid() != parent:
            return None, "asked"
        began = time.monotonic()
        if began >= until:
            return None, "time"
        why = _over(limits)
        if why:
            return None, why
        pause_s = max(look_s, LOOK_SHARE * (time.monotonic() - began))
        ready, _, _ = select.select([sys.stdin.fileno(), wake], (), (), min(pause_s, until - began))
        if sys.stdin.fileno() in ready:
            return None, "asked"
        if ready:
            os.read(wake, KIB)


def _reap(child: int) -> int | None:
    """Take leave of everyone who is over; return the status of the program itself if it is among them."""
    found: int | None = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == child:
            found = status


def _over(limits: Mapping[str, Any]) -> str:
    """Return which limit of all processes together is passed; "" for none."""
    ours = list(_below())
    if sum(seen.tasks for seen in ours) > limits["tasks"]:
        return "tasks"
    own, shared = 0, 0
    for seen in ours:
        anonymous, shm = _memory(seen.pid)
        own, shared = own + anonymous, max(shared, shm)
    return "memory" if own + shared > limits["memory_bytes"] else ""


def _memory(pid: int) -> tuple[int, int]:
    """Return the bytes of memory that are a process's own, and those that it may share with others."""
    sizes = {"RssAnon:": 0, "RssShmem:": 0}
    for line in _read(f"/proc/{pid}/status").splitlines():
        name, _, rest = line.partition("\t")
        if name in sizes:
            sizes[name] = int(rest.split()[0]) * KIB
    return sizes["RssAnon:"], sizes["RssShmem:"]


def _below() -> Iterator[Watched]:
    """All that live and descend from this process, parents before their children."""
    children: dict[int, list[Watched]] = {}
    for seen in _all():
        children.setdefault(seen.parent, []).append(seen)
    pending = [os.getpid()]
    while pending:
        found = children.get(pending.pop(0), [])
        pending += [seen.pid for seen in found]
        yield from (seen for seen in found if seen.state not in _OVER)


def _all() -> Iterator[Watched]:
    try:
        names = os.listdir("/proc")
    except OSError:  # not Linux
        return
    for name in names:
        seen = _look(int(name)) if name.isdecimal() else None
        if seen is not None:
            yield seen


def _look(pid: int) -> Watched | None:
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()  # the name before it may hold anything
    return Watched(pid, fields) if fields else None


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


# --- ending ---------------------------------------------------------------------------------------------------------
def _end_all(child: int) -> None:
    """Kill whatever is left, told to hold still first, so that none starts others faster than they are found."""
    told: set[tuple[int, int]] = set()
    for _ in range(ROUNDS_MAX):
        moving = [seen for seen in _below() if (seen.pid, seen.started) not in told]
        if not moving:
            break
        for seen in moving:
            _signal(seen, signal.SIGSTOP)
        told |= {(seen.pid, seen.started) for seen in moving}
        select.select((), (), (), SETTLE_S)
    for _ in range(ROUNDS_MAX):
        _reap(child)
        left = list(_below())
        for seen in left:
            _signal(seen, signal.SIGKILL)
        if not left:
            break
        select.select((), (), (), SETTLE_S)
    if not os.path.isdir("/proc/self"):
        _end_group(child)


def _end_group(child: int) -> None:
    """Where nobody says who descends from whom, its group is ended."""
    try:
        os.killpg(child, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _signal(seen: Watched, signum: signal.Signals) -> None:
    """Send a signal to this very process, never to another one that got its number since."""
    try:
        process = os.pidfd_open(seen.pid)
    except (OSError, AttributeError):
        return
    try:
        now = _look(seen.pid)
        if now is not None and now.started == seen.started:
            signal.pidfd_send_signal(process, signum)
    except (ProcessLookupError, PermissionError):
        return
    finally:
        os.close(process)


if __name__ == "__main__":
    main()
