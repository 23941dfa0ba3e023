"""The processes that a task has started: found, held still, ended. Linux; elsewhere ProcessesUnsupported.

Each carries marks in its environment: the task's id and the action's. The kernel keeps what a process began with, and
whoever it starts inherits it; so the marks are the record. There is no list that a kill could come before, and none
that outlives its processes: who is started is known, by any later process, as long as it runs. Children that were
started with another environment are found below their parents, while these live.

A process is its pid and the time of its start. Signals go through a descriptor of the process, opened before that is
compared: never to another one that got the pid since. What carries another task's mark, and this process and those
above it, are left alone.

Called by the engine around captures and before files go back. Blocks; called from a thread.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterable
from typing import Final

import msgspec

from perdure.errors import ProcessesRemain, ProcessesUnsupported
from perdure.limits import PROCESSES_KILL_S, PROCESSES_LOOK_S, PROCESSES_LOOKS_MAX
from perdure.ports import Clock

TASK_MARK: Final = "PERDURE_TASK"
ACTION_MARK: Final = "PERDURE_ACTION"

_OVER: Final = frozenset("ZXx")  # states of what has ended and is only waited for
_STILL: Final = frozenset("Tt")
_WAITING: Final = "D"
_TOLD_OFTEN: Final = 3
_LOOKS_BEFORE_KILL: Final = 5


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """A living process of a task."""

    pid: int
    started: int  # in clock ticks since the machine was started; with the pid, which one it is
    command: str  # its arguments, with spaces between them
    action: str  # the id of the action that started it, or its parent


class _Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What /proc says of one process."""

    pid: int
    parent: int
    started: int
    state: str
    marks: tuple[str, str]  # task, action; empty where there are none


def is_supported() -> bool:
    """Whether this system says who carries marks."""
    return sys.platform == "linux" and os.path.exists("/proc/self/environ")


def marks(task: str, action: str) -> dict[str, str]:
    """Return what is added to the environment of a process that an action starts."""
    return {TASK_MARK: task, ACTION_MARK: action}


def wait_for_marks(pid: int) -> None:
    """Wait until the system says what a process that was started a moment ago began with, for 50 ms at most.

    A program is there before its environment is: for some microseconds it reads as empty, and it would not be found.
    """
    for _ in range(50):
        if not is_supported() or _read(pid, "environ") or _look(pid) is None:
            return
        time.sleep(0.001)


def find(task: str, action: str = "") -> tuple[Process, ...]:
    """Return the living processes of a task (of one action), by pid. Raises ProcessesUnsupported."""
    return tuple(
        Process(pid=seen.pid, started=seen.started, command=_command(seen.pid), action=seen.marks[1])
        for seen in _of_task(task, action)
    )


@contextlib.contextmanager
def frozen(task: str) -> Generator[tuple[Process, ...]]:
    """Hold the task's processes still while the block runs; they go on when it is left, however it is left.

    Raises ProcessesRemain where one cannot be held, ProcessesUnsupported.
    """
    try:
        _hold(task)
        yield find(task)
    finally:
        for seen in _of_task(task):
            _signal(seen, signal.SIGCONT)


def end(task: str, grace_s: float, clock: Clock, action: str = "") -> tuple[Process, ...]:
    """End the task's processes (those of one action): asked to by SIGTERM, killed after `grace_s` seconds.

    Returns those that were there.

    Raises ProcessesRemain where some go on, because their rights are others or the kernel does not let go of them;
    ProcessesUnsupported.
    """
    found: dict[tuple[int, int], Process] = {}
    asked_until = clock.monotonic() + grace_s
    while left := find(task, action):
        new = [process for process in left if (process.pid, process.started) not in found]
        found.update({(process.pid, process.started): process for process in new})
        if clock.monotonic() >= asked_until:
            _kill((task, action), clock, found)
            break
        for process in new:
            for signum in (signal.SIGTERM, signal.SIGCONT):  # one that is held still would not hear
                _signal(process, signum)
        _wait(left, min(PROCESSES_LOOK_S, max(0.0, asked_until - clock.monotonic())))
    return tuple(sorted(found.values(), key=lambda process: process.pid))


def _kill(whose: tuple[str, str], clock: Clock, found: dict[tuple[int, int], Process]) -> None:
    """Kill what is left of a task and action, held still before, so that none can start others meanwhile."""
    until = clock.monotonic() + PROCESSES_KILL_S
    while left := find(*whose):
        if clock.monotonic() >= until:
            raise ProcessesRemain(whose[0], tuple(process.pid for process in left), "not even SIGKILL ended them")
        with contextlib.suppress(ProcessesRemain):  # who forks faster than one looks is killed as well
            _hold(*whose, looks_max=_LOOKS_BEFORE_KILL)
        for process in (left := find(*whose)):
            found.setdefault((process.pid, process.started), process)
            _signal(process, signal.SIGKILL)
        _wait(left, PROCESSES_LOOK_S)


def _hold(task: str, action: str = "", *, looks_max: int = PROCESSES_LOOKS_MAX) -> None:
    """Stop the task's processes until a look finds none that runs."""
    moving: list[_Seen] = []
    told: Counter[tuple[int, int]] = Counter()
    for _ in range(looks_max):
        moving = [seen for seen in _of_task(task, action) if seen.state not in _STILL]
        # One that waits inside the kernel has the signal waiting for it: it does nothing of its own before it obeys.
        # It may wait for long: who has called vfork is let go by a child that is held still.
        if all(seen.state == _WAITING and told[seen.pid, seen.started] >= _TOLD_OFTEN for seen in moving):
            return
        told.update((seen.pid, seen.started) for seen in moving)
        for seen in moving:
            _signal(seen, signal.SIGSTOP)
        select.select((), (), (), PROCESSES_LOOK_S / 10)
    raise ProcessesRemain(task, tuple(seen.pid for seen in moving), "they could not be held still")


def _signal(process: Process | _Seen, signum: signal.Signals) -> None:
    """Send a signal, unless the process is over; one that may not be reached stays, and is found again."""
    with contextlib.suppress(ProcessLookupError, PermissionError), _opened(process) as process_fd:
        signal.pidfd_send_signal(process_fd, signum)


def _wait(processes: Iterable[Process], timeout_s: float) -> None:
    """Wait until one of them is over, or the time is."""
    with contextlib.ExitStack() as opened:
        poll = select.poll()
        try:
            for process in processes:
                poll.register(opened.enter_context(_opened(process)), select.POLLIN)
        except ProcessLookupError:
            return
        poll.poll(timeout_s * 1000)


@contextlib.contextmanager
def _opened(process: Process | _Seen) -> Generator[int]:
    """A descriptor of this very process. Raises ProcessLookupError where it is over."""
    process_fd = os.pidfd_open(process.pid)
    try:
        now = _look(process.pid)
        if now is None or now.started != process.started:
            raise ProcessLookupError
        yield process_fd
    finally:
        os.close(process_fd)


def _of_task(task: str, of_action: str = "") -> list[_Seen]:
    """Return the processes of `task` (of one action) by pid: marked ones, and what is below them without a mark."""
    if not is_supported():
        raise ProcessesUnsupported(sys.platform)
    seen = _all()
    ours = _with_those_above(os.getpid(), seen)
    action = {pid: one.marks[1] for pid, one in seen.items() if one.marks[0] == task and pid not in ours}
    below: dict[int, list[int]] = {}
    for one in seen.values():
        if not one.marks[0] and one.pid not in ours:
            below.setdefault(one.parent, []).append(one.pid)
    pending = list(action)
    while pending:
        parent = pending.pop()
        for child in below.get(parent, ()):
            action[child] = action[parent]
            pending.append(child)
    wanted = [pid for pid in sorted(action) if of_action in {"", action[pid]}]
    return [msgspec.structs.replace(seen[pid], marks=(task, action[pid])) for pid in wanted]


def _all() -> dict[int, _Seen]:
    """Return every living process, those too that began while the others were looked at.

    One that leaves for a child of its own can be over before its turn comes, and the child not yet in the list. So the
    list is read again until nothing in it is new.
    """
    seen: dict[int, _Seen | None] = {}
    for _ in range(PROCESSES_LOOKS_MAX):
        new = [pid for name in os.listdir("/proc") if name.isdecimal() and (pid := int(name)) not in seen]
        if not new:
            break
        seen.update({pid: _look(pid) for pid in new})
    return {pid: found for pid, found in seen.items() if found is not None}


def _with_those_above(pid: int, seen: dict[int, _Seen]) -> set[int]:
    above = {pid}
    while pid in seen and seen[pid].parent not in above:
        pid = seen[pid].parent
        above.add(pid)
    return above


def _look(pid: int) -> _Seen | None:
    """Return what a process is; None if it is over."""
    fields = _read(pid, "stat").rpartition(b")")[2].split()  # the name before it may hold anything
    if not fields or fields[0].decode() in _OVER:
        return None
    environment = _read(pid, "environ").split(b"\0")
    return _Seen(
        pid=pid,
        parent=int(fields[1]),
        started=int(fields[19]),
        state=fields[0].decode(),
        marks=(_value_of(TASK_MARK, environment), _value_of(ACTION_MARK, environment)),
    )


def _value_of(name: str, environment: list[bytes]) -> str:
    start = f"{name}=".encode()
    return next((_text(line.removeprefix(start)) for line in environment if line.startswith(start)), "")


def _command(pid: int) -> str:
    return _text(_read(pid, "cmdline").rstrip(b"\0").replace(b"\0", b" "))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _read(pid: int, name: str) -> bytes:
    """Return a file of /proc; empty where the process is over, or another user's."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""
