"""Runs a program for a tool: walled in by bubblewrap where that can be had, within limits and to its very end anywhere.

    tool ── thread of its own ── keeper.py (limits, watching, ending) ── bwrap ── the program

The keeper is a process, so that a killed perdure leaves nothing behind. Where bubblewrap cannot be used the program has
the user's own rights: that is said in its output, once in the log, and by `isolation_of` to whoever decides what such a
call may do to the world. Called by `shell.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import importlib.util
import json
import logging
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import IO, Any, Final, TypedDict

import msgspec

from perdure.errors import CommandOutOfTime, OutsideWorkspace, SandboxUnavailable, UsageError, WorkspaceInvalid
from perdure.limits import (
    COMMAND_CPU_S,
    COMMAND_FILE_BYTES,
    COMMAND_MEMORY_BYTES,
    COMMAND_OPEN_FILES,
    COMMAND_OUTPUT_BYTES,
    COMMAND_OUTPUT_READ_BYTES,
    COMMAND_S,
    COMMAND_TASKS_MAX,
    MIB,
)
from perdure.tools.builtin import bubblewrap

log: Final = logging.getLogger("perdure")

_READ_BYTES: Final = 64 * 1024
_KEPT_ENVIRONMENT: Final = ("LANG", "LANGUAGE", "LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_NUMERIC", "LC_TIME", "TZ")
_OF_NETWORK: Final = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_SYSTEM_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PRIVATE_TMP: Final = "/tmp"  # noqa: S108 - inside, where it is the program's own
_KILLED: Final = 137  # exit code of what was ended, as shells say it

_Takers = dict[int, Callable[[bytes], None]]  # by descriptor


class Ran(TypedDict):
    """How a program ended."""

    exit_code: int  # 128 + number of the signal, where one ended it
    output: str  # of both streams; the middle is left out where it is too long
    cut: int  # so many bytes were left out
    isolated: bool


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one program may use."""

    wall_s: float = COMMAND_S
    cpu_s: int = COMMAND_CPU_S
    tasks: int = COMMAND_TASKS_MAX
    memory_bytes: int = COMMAND_MEMORY_BYTES
    file_bytes: int = COMMAND_FILE_BYTES
    open_files: int = COMMAND_OPEN_FILES
    output_bytes: int = COMMAND_OUTPUT_BYTES
    output_read_bytes: int = COMMAND_OUTPUT_READ_BYTES


class Isolation(msgspec.Struct, frozen=True, kw_only=True):
    """What a program started with some settings is kept from."""

    is_isolated: bool  # it sees the workspace, and of the machine what is read-only
    has_network: bool
    reason: str = ""  # why it is not isolated

    @property
    def is_confined(self) -> bool:
        """Whether it can change nothing but the workspace."""
        return self.is_isolated and not self.has_network


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be run."""

    argv: Sequence[str]
    workspace: str  # the task's folder: made if it is not there
    folder: str = ""  # of the workspace, in which it starts
    text: str | None = None  # what it reads
    environment: Mapping[str, str] = {}  # beside what every program has
    limits: Limits = Limits()


def isolation_of(settings: Mapping[str, Any]) -> Isolation:
    """Return how programs are kept apart under these settings of the agent (`AgentSettings` as plain values)."""
    network = bool(settings.get("network"))
    if settings.get("sandbox") == "off":
        return Isolation(is_isolated=False, has_network=True, reason="the setting `sandbox` is off")
    found = bubblewrap.find()
    return Isolation(is_isolated=bool(found.program), has_network=network or not found.program, reason=found.reason)


def place_within(path: str, workspace: str) -> str:
    """Return `path` relative to the workspace, "" for that itself, for a program that finds its way by names.

    Raises OutsideWorkspace where it, or a link on the way, leads out. What files a tool reads itself is `inside.py`'s.
    """
    root = os.path.realpath(workspace)
    whole = os.path.realpath(os.path.join(root, path))
    if whole != root and not whole.startswith(root.rstrip(os.sep) + os.sep):
        raise OutsideWorkspace(path, workspace)
    return "" if whole == root else os.path.relpath(whole, root)


async def run(order: Order, settings: Mapping[str, Any]) -> Ran:
    """Run a program to its end, and end all that it has started.

    Raises CommandOutOfTime, SandboxUnavailable (the settings ask for a sandbox, and there is none), WorkspaceInvalid.
    When it is cancelled, everything is ended before it raises.
    """
    if os.name != "posix":
        raise SandboxUnavailable("programs are watched and ended on Linux and macOS only")
    isolation = isolation_of(settings)
    if not isolation.is_isolated:
        _warn_or_refuse(isolation, settings)
    running = _Running(order, isolation)
    loop = asyncio.get_running_loop()
    thread = ThreadPoolExecutor(1, thread_name_prefix="perdure-command")
    try:
        ended = loop.run_in_executor(thread, partial(contextvars.copy_context().run, running.run))
        return await _to_its_end(ended, running)
    finally:
        thread.shutdown(wait=False)
        running.close()


async def _to_its_end(ended: asyncio.Future[Ran], running: _Running) -> Ran:
    """Wait for a thread, which cannot be stopped; a cancellation ends the program, and waits for that."""
    cancelled: asyncio.CancelledError | None = None
    while not ended.done():
        try:
            await asyncio.wait([ended])
        except asyncio.CancelledError as error:
            cancelled = error
            running.end()
    if cancelled is not None:
        ended.exception()  # whatever it was: who asked for the end is told that it has come
        raise cancelled
    return ended.result()


def _warn_or_refuse(isolation: Isolation, settings: Mapping[str, Any]) -> None:
    if settings.get("sandbox") == "required":
        raise SandboxUnavailable(f"the setting `sandbox` is 'required', and {isolation.reason}")
    _warn_once(isolation.reason)


@functools.cache
def _warn_once(reason: str) -> None:
    log.warning("programs of the agent are not isolated: %s", reason, extra={"event": "sandbox_missing"})


class _Running:
    """One program on its way. `run` is called in a thread; `end` from anywhere, also before that."""

    def __init__(self, order: Order, isolation: Isolation) -> None:
        self._order = order
        self._isolation = isolation
        self._output = _Output(order.limits)
        self._heard, self._told = os.pipe()
        self._is_ending = False

    def end(self) -> None:
        """Ask for the end of it all; `run` returns soon after. Not called once it is closed."""
        if not self._is_ending:
            self._is_ending = True
            os.write(self._told, b"!")

    def close(self) -> None:
        """Let go of what it was asked by, once `run` has returned."""
        os.close(self._heard)
        os.close(self._told)

    def run(self) -> Ran:
        """Start it, read what it says, wait until nothing of it is left."""
        order, workspace = self._order, os.path.abspath(self._order.workspace)
        if os.path.realpath(workspace) == os.sep:
            raise WorkspaceInvalid(workspace, "programs would have the whole system to write to; name a folder in it")
        os.makedirs(workspace, exist_ok=True)
        folder = os.path.join(workspace, order.folder) if order.folder else workspace
        private = "" if self._isolation.is_isolated else tempfile.mkdtemp(prefix="perdure-")
        try:
            with self._start(workspace, folder, private or _PRIVATE_TMP) as process:
                report = self._follow(process)
        finally:
            if private:
                shutil.rmtree(private, ignore_errors=True)
        return self._judge(report)

    def _start(self, workspace: str, folder: str, tmp: str) -> subprocess.Popen[bytes]:
        order, isolation = self._order, self._isolation
        environment = {**_environment(tmp, has_network=isolation.has_network), **order.environment}
        argv = list(order.argv)
        if isolation.is_isolated:
            argv = bubblewrap.wrap(
                argv,
                workspace=workspace,
                cwd=folder,
                env=environment,
                network=isolation.has_network,
                tasks_max=order.limits.tasks,
            )
        told = {
            "argv": argv,
            "cwd": workspace if isolation.is_isolated else folder,
            "env": environment,
            "input": order.text,
            "limits": msgspec.to_builtins(order.limits),
            "is_isolated": isolation.is_isolated,
        }
        process = _spawn([sys.executable, "-I", "-S", _keeper()])
        with contextlib.suppress(BrokenPipeError):  # one that has failed already says why at its end
            stdin = _pipe(process.stdin)
            stdin.write(json.dumps(told).encode() + b"\n")
            stdin.flush()
        return process

    def _follow(self, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        """Read until the keeper is over; return its report. What it is asked for meanwhile it hears by its stdin."""
        report, stdin = bytearray(), _pipe(process.stdin)
        takers: _Takers = {
            _pipe(process.stdout).fileno(): self._output.take,
            _pipe(process.stderr).fileno(): report.extend,
        }
        with selectors.DefaultSelector() as eyes:
            for fd in (self._heard, *takers):
                eyes.register(fd, selectors.EVENT_READ)
            while takers:
                _hear(eyes, takers)
                if self._is_ending or self._output.is_too_much:
                    stdin.close()
        process.wait()
        return _read_report(bytes(report), process.returncode)

    def _judge(self, report: Mapping[str, Any]) -> Ran:
        limits = self._order.limits
        why = "output" if self._output.is_too_much else report["ended"]
        if why == "time":
            raise CommandOutOfTime(limits.wall_s, self._output.text()[-_READ_BYTES:])
        code = report["exit_code"]
        exit_code = _KILLED if code is None else 128 - code if code < 0 else code
        head = "" if self._isolation.is_isolated else f"[not isolated: {self._isolation.reason}]\n"
        return Ran(
            exit_code=exit_code,
            output=head + self._output.text() + _ending(why, limits),
            cut=self._output.cut_bytes,
            isolated=self._isolation.is_isolated,
        )


def _hear(eyes: selectors.BaseSelector, takers: _Takers) -> None:
    """Give each what there is for it; who has heard the end is taken out, and so is the order to end."""
    for key, _ in eyes.select():
        piece = os.read(key.fd, _READ_BYTES)
        if piece and key.fd in takers:
            takers[key.fd](piece)
            continue
        eyes.unregister(key.fd)
        takers.pop(key.fd, None)


class _Output:
    """What a program has said: the beginning and the end, however much it was."""

    def __init__(self, limits: Limits) -> None:
        self._half = limits.output_bytes // 2
        self._most = limits.output_read_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self._size = 0

    def take(self, piece: bytes) -> None:
        """Take the next piece."""
        self._size += len(piece)
        room = self._half - len(self._head)
        self._head += piece[:room] if room > 0 else b""
        self._tail += piece[max(room, 0) :]
        if len(self._tail) > 2 * self._half + _READ_BYTES:  # not at each piece: that would copy it all each time
            del self._tail[: -self._half]

    @property
    def is_too_much(self) -> bool:
        """Whether it has said more than anybody reads."""
        return self._size > self._most

    @property
    def cut_bytes(self) -> int:
        """So many are left out."""
        return max(0, self._size - len(self._head) - self._half)

    def text(self) -> str:
        """All of it, or beginning and end with a line between that says what is left out."""
        tail = self._tail[-self._half :] if self.cut_bytes else self._tail
        if not self.cut_bytes:
            return (self._head + tail).decode("utf-8", "replace")
        between = f"\n[… {self.cut_bytes} bytes left out …]\n"
        return self._head.decode("utf-8", "replace") + between + tail.decode("utf-8", "replace")


def _ending(why: str, limits: Limits) -> str:
    """Return the line that says why a program was ended."""
    reasons = {
        "tasks": f"more than {limits.tasks} processes and threads at once",
        "memory": f"more than {limits.memory_bytes // MIB} MiB of memory",
        "output": f"more than {limits.output_read_bytes // MIB} MiB of output",
        "asked": "the agent was told to stop",
    }
    return f"\n[ended: {reasons[why]}]" if why in reasons else ""


def _environment(tmp: str, *, has_network: bool) -> dict[str, str]:
    """Return the environment of a program: nothing of this process's own but language and time zone.

    With the network also the proxies, unless a password stands in one.
    """
    kept = (*_KEPT_ENVIRONMENT, *(_OF_NETWORK if has_network else ()))
    found = {name: os.environ[name] for name in kept if os.environ.get(name) and "@" not in os.environ[name]}
    return {
        "LANG": "C.UTF-8",
        **found,
        "PATH": f"{os.path.dirname(sys.executable)}:{_SYSTEM_PATH}",
        "HOME": tmp,
        "TMPDIR": tmp,
        "USER": "agent",
        "TERM": "dumb",
        "PAGER": "cat",
        "PYTHONUNBUFFERED": "1",  # what it has said is read even if it is ended
    }


def _keeper() -> str:
    """Return the file of the keeper. It is not imported: a program of its own, for systems that have `resource`."""
    found = importlib.util.find_spec("perdure.tools.builtin.keeper")
    if found is None or found.origin is None:
        raise UsageError("perdure is not installed as files, and programs are kept by one of them: install it anew")
    return found.origin


def _spawn(argv: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a process that belongs to the running tool's task; called outside of one, to nobody."""
    from perdure.engine.spawning import spawn

    # The keeper needs nothing of an environment, and a file in the workspace must not change what it is.
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    options: dict[str, Any] = {**pipes, "env": {}, "cwd": os.sep}
    try:
        started: subprocess.Popen[bytes] = spawn(argv, **options)
    except UsageError:
        started = subprocess.Popen[bytes](argv, start_new_session=True, **options)
    return started


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise UsageError("a keeper without pipes was started")
    return pipe


def _read_report(said: bytes, code: int) -> dict[str, Any]:
    """Return what the keeper has said in its last line. Raises UsageError where it failed itself."""
    try:
        found: dict[str, Any] = json.loads(said.rstrip(b"\n").rpartition(b"\n")[2])
    except ValueError:
        text = said.decode("utf-8", "replace")
        raise UsageError(f"the keeper of a program ended with {code} and no report: {text[-1000:]}") from None
    return found
