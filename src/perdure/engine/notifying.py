"""Hooks that reach people: a webhook and a command, told when a task is parked, needs a person, failed or succeeded.

A notice is delivered beside the tasks, by threads of its own, within a bounded time, once: what hangs is ended, what
fails is logged, and no task stops or waits for either. The end of a runtime waits for the last notices, and not
longer than one may take. Not for progress; that is told to any `Hook`. Given to `perdure.open(hooks=…)`; the command
makes them of the settings `notify_url` and `notify_command`.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import http.client
import os
import shlex
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import IO, Any, Final
from urllib.parse import urlsplit

import msgspec

from perdure import __version__
from perdure.codec.known import process
from perdure.codec.redact import cut_redacted
from perdure.engine.boundary import Boundary
from perdure.engine.session import log
from perdure.errors import UsageError
from perdure.limits import NOTICE_HANGING_MAX, NOTICE_S, NOTICES_WAITING_MAX, TICK_S
from perdure.model.ids import plain_text

_SAYS: Final = {
    "needs_human": "needs a person",
    "parked": "is parked",
    "failed": "has failed",
    "succeeded": "has succeeded",
}
_WHY_BYTES_MAX: Final = 300
_GRACE_S: Final = 0.5  # for a thread to say what it has come to, behind the time that it gives what it calls


class Notice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What people are told, as JSON in the body or on stdin; empty fields are left out."""

    task: str  # id
    name: str
    status: str  # needs_human, parked, failed or succeeded
    text: str  # all of it in one sentence
    reason: str = ""
    until: str = ""  # parked: when it goes on, UTC
    next_command: str = ""  # the line to type


class _Courier(abc.ABC):
    """Queues notices and delivers one after the other in a thread, which ends when there are no more."""

    place: str  # where to, without what is secret in it

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._waiting: deque[Notice] = deque()
        self._lock = threading.Lock()  # over the three around it
        self._is_working = False
        self._end: float | None = None  # monotonic: by then the last notice is delivered or given up
        self._hanging: list[threading.Thread] = []

    def __call__(self, task: str, event: str, fields: Mapping[str, Any]) -> None:
        """Take one event of the runtime; never waits."""
        notice = notice_of(task, event, fields)
        if notice is None:
            return
        with self._lock:
            if len(self._waiting) >= NOTICES_WAITING_MAX:
                self._say_lost(notice, f"{NOTICES_WAITING_MAX} others wait already")
                return
            self._waiting.append(notice)
            if not self._is_working:
                threading.Thread(target=self._work, name="perdure-notice", daemon=True).start()
                self._is_working = True

    async def delivered(self) -> None:
        """Return when every notice is delivered or given up: within the time that one may take."""
        end = time.monotonic() + self._timeout_s
        with self._lock:
            self._end = end
        while self._is_working and time.monotonic() < end + 2 * _GRACE_S:  # noqa: ASYNC110 - the others are threads
            await asyncio.sleep(TICK_S)
        with self._lock:
            self._end = None

    @abc.abstractmethod
    def send(self, notice: Notice, timeout_s: float) -> str:
        """Deliver one notice; return "", or why it is lost. What is raised is a reason as well."""

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_working = False
                    return
                notice = self._waiting.popleft()
                left = self._timeout_s if self._end is None else min(self._timeout_s, self._end - time.monotonic())
            why = self._deliver(notice, left) if left > 0 else "the process ends, and those before it took too long"
            if why:
                self._say_lost(notice, why)

    def _deliver(self, notice: Notice, timeout_s: float) -> str:
        """Let another thread deliver it: a name that is not found, or a server that trickles, knows no time-out."""
        self._hanging = [thread for thread in self._hanging if thread.is_alive()]
        if len(self._hanging) >= NOTICE_HANGING_MAX:
            return f"{len(self._hanging)} earlier ones hang still"
        came_to: list[str] = []

        def attempt() -> None:
            why = ""
            with Boundary() as caught:
                why = self.send(notice, timeout_s)
            came_to.append(f"{type(caught.error).__name__}: {caught.error}" if caught.error is not None else why)

        sender = threading.Thread(target=attempt, name="perdure-notice-sender", daemon=True)
        sender.start()
        sender.join(timeout_s + _GRACE_S)
        if sender.is_alive():
            self._hanging.append(sender)
        return came_to[0] if came_to else f"no end within {timeout_s:.1f} s"

    def _say_lost(self, notice: Notice, why: str) -> None:
        told = cut_redacted(why, _WHY_BYTES_MAX)
        log.warning("notice_lost hook=%s task=%s status=%s: %s", self.place, notice.name, notice.status, told)


class Webhook(_Courier):
    """A hook that POSTs a `Notice` as JSON to `url`: `perdure.open(hooks=[perdure.Webhook("https://…")])`.

    An answer of 2xx within `timeout_s` seconds is a delivery; a redirection is not followed. Nothing is sent twice.
    """

    def __init__(self, url: str, *, timeout_s: float = NOTICE_S) -> None:
        super().__init__(timeout_s)
        self.place = _place_of(url)
        if len(url) > len(self.place) + 1:  # more than a slash behind the host: often a secret
            process.know("webhook", url)
        self._url = url
        self._opener = urllib.request.build_opener(_NoRedirect())

    def send(self, notice: Notice, timeout_s: float) -> str:
        """Make the request."""
        headers = {"Content-Type": "application/json", "User-Agent": f"perdure/{__version__}"}
        request = urllib.request.Request(self._url, msgspec.json.encode(notice), headers, method="POST")  # noqa: S310 - http or https: checked when it was given
        try:
            with self._opener.open(request, timeout=timeout_s):
                return ""
        except urllib.error.HTTPError as refused:
            with refused:
                return f"HTTP {refused.code} {refused.reason}"


class CommandHook(_Courier):
    """A hook that runs a command for each `Notice`: `perdure.open(hooks=[perdure.CommandHook(["notify-send", "!"])])`.

    `argv` is run without a shell. The notice is on its stdin as JSON, and in its environment: PERDURE_TASK_ID, _NAME,
    _STATUS, _REASON, _TEXT, _UNTIL and _NEXT. After `timeout_s` seconds it is killed with all that it has started.
    """

    def __init__(self, argv: Sequence[str], *, timeout_s: float = NOTICE_S) -> None:
        super().__init__(timeout_s)
        if isinstance(argv, str) or not argv:
            raise UsageError(f"a command is a list of words, such as ['notify-send', 'perdure'], not {argv!r}")
        self._argv = tuple(argv)
        self.place = self._argv[0]

    def send(self, notice: Notice, timeout_s: float) -> str:
        """Run the command."""
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(  # noqa: S603 - what is run is the user's own setting, and no shell reads it
                self._argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=said,
                env={**os.environ, **_environment_of(notice)},
                start_new_session=True,
            )
            try:
                process.communicate(msgspec.json.encode(notice) + b"\n", timeout=timeout_s)
            except subprocess.TimeoutExpired:
                _kill(process)
                return f"it did not end within {timeout_s:.1f} s, and was killed"
            return f"exit code {process.returncode}{_last_of(said)}" if process.returncode else ""


def notice_of(task: str, event: str, fields: Mapping[str, Any]) -> Notice | None:
    """Return what people are told of an event, None where it is none of theirs."""
    status = "succeeded" if event == "succeeded" else str(fields.get("status", "")) if event == "stopped" else ""
    if status not in _SAYS:
        return None
    name, reason = plain_text(str(fields.get("name") or task)), plain_text(str(fields.get("reason", "")))
    until = fields.get("until", 0)
    when = datetime.fromtimestamp(until / 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if until else ""
    command = plain_text(str(fields.get("next_command", "")))
    parts = (f" until {when}" if when else "", f": {reason}" if reason else "", f"; next: {command}" if command else "")
    return Notice(
        task=task,
        name=name,
        status=status,
        text=f"task {name!r} {_SAYS[status]}{''.join(parts)}",
        reason=reason,
        until=when,
        next_command=command,
    )


def hooks_for(url: str, command: str) -> tuple[Webhook | CommandHook, ...]:
    """Return the hooks of the settings `notify_url` and `notify_command`; an empty one is none. Raises UsageError."""
    hooks: list[Webhook | CommandHook] = [Webhook(url)] if url else []
    try:
        argv = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"notify_command {command!r} cannot be split into words: {error}") from error
    return (*hooks, CommandHook(argv)) if argv else tuple(hooks)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirected POST would arrive as a GET without its body, and count as delivered."""

    def redirect_request(
        self,
        req: urllib.request.Request,  # noqa: ARG002
        fp: IO[bytes],  # noqa: ARG002
        code: int,  # noqa: ARG002
        msg: str,  # noqa: ARG002
        headers: http.client.HTTPMessage,  # noqa: ARG002
        newurl: str,  # noqa: ARG002
    ) -> None:
        """Follow nothing: the answer is an error."""
        return


def _place_of(url: str) -> str:
    """Return scheme and host: what comes behind them is often a secret. Raises UsageError for what is no such URL."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.scheme not in {"http", "https"} or not host or parts.username or not url.isprintable() or " " in url:
        raise UsageError(f"a webhook needs a URL like https://host/path, without a user in it, not {url!r}")
    return f"{parts.scheme}://{parts.netloc}"


def _environment_of(notice: Notice) -> dict[str, str]:
    values = {
        "ID": notice.task,
        "NAME": notice.name,
        "STATUS": notice.status,
        "TEXT": notice.text,
        "REASON": notice.reason,
        "UNTIL": notice.until,
        "NEXT": notice.next_command,
    }
    return {f"PERDURE_TASK_{key}": value.replace("\0", "") for key, value in values.items()}


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _last_of(said: IO[bytes]) -> str:
    """Return the last line that a command has written to stderr."""
    size = said.seek(0, os.SEEK_END)
    said.seek(max(0, size - _WHY_BYTES_MAX))
    lines = said.read().decode(errors="backslashreplace").splitlines()
    return f": {lines[-1]}" if lines else ""
