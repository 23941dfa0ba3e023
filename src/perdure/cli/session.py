"""A runtime as the command holds it: progress, first and last line, Ctrl-C. Used by run and resume."""

from __future__ import annotations

import asyncio
import atexit
import math
import shlex
import signal
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Final, Protocol, Self

import msgspec

from perdure.cli import exits
from perdure.cli.leaving import hurried, leave_at_ctrl_c, leave_now
from perdure.cli.progress import Progress
from perdure.cli.terminal import complain, say, say_json, status
from perdure.config import Config
from perdure.engine.opening import open_runtime, rules_of
from perdure.engine.runtime import Runtime
from perdure.errors import PerdureError, TaskParked, TaskStopped
from perdure.limits import STOP_GRACE_S
from perdure.logs.plain import moment, to_plain
from perdure.model.status import TaskSummary
from perdure.ports import Hook
from perdure.views.showing import word_for

_ID_SHOWN: Final = 8
_ASKED_NOW: Final = 2
_LATE_S: Final = 2.0  # so long the end of a command may take without a word
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Shown(Protocol):
    """What the session reads of a verb's options."""

    @property
    def as_json(self) -> bool: ...  # noqa: D102
    @property
    def quiet(self) -> bool: ...  # noqa: D102
    @property
    def wait(self) -> bool: ...  # noqa: D102
    @property
    def now(self) -> bool: ...  # noqa: D102


class Session:
    """`async with Session(config, options) as session:`; signals are obeyed inside."""

    runtime: Runtime  # from the entry on

    def __init__(self, config: Config, options: Shown) -> None:
        self._config = config
        self._as_json = options.as_json
        self._waits, self._skips_waits = options.wait, options.now
        self._progress = Progress(self._say_start, quiet=options.quiet)
        self._tell = complain if options.as_json else say
        self._stack = AsyncExitStack()
        self._name = ""  # of the task at hand
        self._asked = 0
        self.is_asking = False  # nothing runs: a person is asked at the terminal
        self.stopping = asyncio.Event()  # a person or the system wants the command to end

    async def __aenter__(self) -> Self:
        place = self._config.text("store")
        rules = rules_of(self._config)
        rules = msgspec.structs.replace(
            rules,
            unattended=self._config.is_on("unattended"),
            wait_inline_s=math.inf if self._waits else rules.wait_inline_s,
            skips_waits=self._skips_waits,
        )
        notifiers = self._notifiers()
        opening = open_runtime(place, hooks=(self._progress, *notifiers), rules=rules)
        self.runtime = await self._stack.enter_async_context(opening)
        loop = asyncio.get_running_loop()
        if notifiers:
            self._stack.callback(loop.call_later, _LATE_S, complain, "waiting for the last notices to be delivered")
        self._stack.callback(self._obey_to_the_end)  # done when the handlers are off, before the runtime closes
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._stop, number)
            self._stack.callback(loop.remove_signal_handler, number)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def say_found(self, summary: TaskSummary, *, has_budget: bool = False) -> None:
        """Say that the order's task is there already, and what that means."""
        name = word_for(summary)
        match summary.status:
            case "succeeded":
                self._tell(f"task {name} has succeeded before; this is its result (--new starts another)")
            case "failed" | "cancelled":
                pass  # the error that follows says so
            case _:
                self._tell(f"task {name} is there already and unfinished; going on with it")
                if has_budget:
                    self._tell(f"it keeps the budget that it has; to change it: perdure resume {name} --budget …")

    async def work_on(self, name: str, work: Callable[[Runtime], Awaitable[Any]]) -> None:
        """Let `work` run the task `name` to its end and print the last line.

        Raises what `work` raises, having printed with --json where the task stands.
        """
        self._name, self._progress.task = name, ""
        try:
            result = await work(self.runtime)
        except TaskStopped as stopped:
            if self._as_json:
                say_json(await self._standing(stopped))
            raise
        finally:
            status.clear()
        if self._as_json:
            say_json({**await self._standing(None), "result": _plain(result)})
        else:
            say(result if isinstance(result, str) else _json_text(result))

    async def say_error(self, name: str, error: Exception) -> None:
        """Say why task `name`, one of many, did not succeed; what `work_on` has printed already is not said again."""
        self._name, self._progress.task = name, ""
        standing = await self._standing(None)
        exits.report_of(str(standing.get("name", name)), error)
        if self._as_json and not isinstance(error, TaskStopped):
            say_json({**standing, "message": str(error)})

    def _notifiers(self) -> tuple[Hook, ...]:
        """Return the hooks that reach people, as set; without them nothing of it is imported."""
        url, command = self._config.text("notify_url"), self._config.text("notify_command")
        if not url and not command:
            return ()
        from perdure.engine.notifying import hooks_for

        return hooks_for(url, command)

    def _say_start(self, task: str) -> None:
        command = f"perdure resume {task if self._name.startswith('-') else shlex.quote(self._name)}"
        self._tell(f"task {self._name} (id {task[:_ID_SHOWN]}); to go on after any interruption: {command}")

    def _stop(self, number: int) -> None:
        self._asked += 1
        if self._asked == 1 and self.is_asking:
            complain("\nleft for later")
        elif self._asked == 1:
            again = "; Ctrl-C again: now" if number == signal.SIGINT else ""
            complain(f"pausing at the end of the running action{again}")
        elif self._asked == _ASKED_NOW:
            complain("stopping now; Ctrl-C again leaves at once")
        else:
            leave_now()
        self.stopping.set()
        self.runtime.request_stop("pause", later=True)
        if number == signal.SIGTERM and self._asked == 1:
            asyncio.get_running_loop().call_later(STOP_GRACE_S, self._stop_now)

    def _obey_to_the_end(self) -> None:
        """Whoever has asked to stop may ask again until the process is gone."""
        if self._asked:
            leave_at_ctrl_c()
            atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # Python's own end would die by it

    def _stop_now(self) -> None:
        """Whoever has sent SIGTERM will send SIGKILL soon: what runs is cancelled, and no thread waited for."""
        complain(f"stopping now: the action has not ended within {STOP_GRACE_S:g} s of SIGTERM")
        hurried.set()
        self.runtime.request_stop("pause", later=True)

    async def _standing(self, stopped: TaskStopped | None) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        try:
            summary = await self.runtime.store.find(self._progress.task or self._name)
            fields = {"task": summary.task, "name": summary.name, "status": summary.status, "why": summary.reason}
        except PerdureError as error:
            fields = {"name": self._name, "why": str(error)}
        if stopped is not None:
            fields |= {"message": str(stopped), "next_command": stopped.next_command}
        if isinstance(stopped, TaskParked):
            fields["until"] = moment(stopped.until)
        return {key: value for key, value in fields.items() if value}


def _plain(value: object) -> Any:  # noqa: ANN401 - plain JSON
    from perdure.codec import leaves

    writer = leaves.LeafWriter()
    return to_plain(leaves.encode(value, writer), writer.blobs)


def _json_text(value: object) -> str:
    import json

    return json.dumps(_plain(value), indent=2, ensure_ascii=False)
