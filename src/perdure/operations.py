"""Commands: what changes a task, said once for the CLI and every later face. Queries are in `views`.

A command on a task that somebody works on leaves a message in its inbox; on any other it claims the task, writes and
lets go. Nothing here prints.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from perdure.engine.loading import read_entry
from perdure.engine.programs import load_program
from perdure.engine.report import ReportRow
from perdure.engine.runtime import Runtime
from perdure.errors import ActionUnknown, GoalUnknown, TaskBusy, TaskFinished, UsageError
from perdure.logs.copying import Copier
from perdure.logs.scroll import LogFiles, folder_of
from perdure.model.entry import TaskStarted
from perdure.model.outcome import Outcome
from perdure.model.status import TaskSummary
from perdure.ports import Clock, Message, Store
from perdure.views.showing import show

if TYPE_CHECKING:
    from perdure.engine.replay.playing import Replayed
    from perdure.engine.replay.record import Record
    from perdure.engine.replay.rejudging import Rejudgement

_SLUG_MAX: Final = 40
_PROGRAM: Final = re.compile(r"(?:[\w./~-]+\.py(?::\w+)?|[A-Za-z_][\w.]*:[A-Za-z_]\w*)\Z")


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What `run` is asked for, whoever drives it."""

    name: str = ""  # empty: derived, so that the same order finds its task again
    goal: str = ""
    workspace: str = ""
    new: bool = False


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """The name that an order goes by, and the newest task of that name, if there is one."""

    name: str
    summary: TaskSummary | None


def refuse_program(goal: str) -> None:
    """Raise UsageError where a goal looks like a program, with the line to type."""
    if _PROGRAM.match(goal):
        target = goal if ":" in goal else f"{goal}:NAME"
        raise UsageError(f"{goal!r} looks like a program, not like a goal; type: perdure run --program {target}")


def place_goal(goal: str, model: str) -> str:
    """Return the goal with the folder it names made absolute, so that it means the same wherever it is resumed.

    Raises UsageError for a model that this version has not, GoalUnknown for a goal that the model does not know.
    """
    from perdure.agent.loop import MODELS
    from perdure.agent.offline.goals import GOAL_FORMS, parse_goal

    if not model:
        raise UsageError(f"say what shall think: --model {MODELS[0]} (or `model` in the configuration)")
    if model not in MODELS:
        raise UsageError(f"model {model!r} comes with a later version; this one has: {', '.join(MODELS)}")
    parsed = parse_goal(goal)
    if parsed is None:
        raise GoalUnknown(goal, GOAL_FORMS)
    head, _, tail = goal.rpartition(parsed.folder)
    folder = os.path.abspath(os.path.expanduser(parsed.folder))
    placed = parse_goal(head + folder + tail)
    return goal if placed is None or placed.folder != folder else head + folder + tail


def name_of(order: Order, subject: str, *parts: str) -> str:
    """Return the order's name, or a slug of `subject` and four letters drawn from all that tells orders apart."""
    if order.name:
        return order.name
    words = re.findall(r"[^\W_]+", subject.lower())
    slug = ""
    for word in words:
        longer = f"{slug}-{word}".strip("-")
        if len(longer.encode()) > _SLUG_MAX:
            break
        slug = longer
    told_apart = "\0".join((subject, *parts)).encode("utf-8", "surrogatepass")
    return f"{slug or 'task'}-{hashlib.sha256(told_apart).hexdigest()[:4]}"


async def recall(store: Store, name: str) -> Known:
    """Look whether the store has a task called exactly `name`."""
    return Known(name=name, summary=next((one for one in await store.tasks() if one.name == name), None))


async def start_goal(runtime: Runtime, order: Order, model: str) -> Any:  # noqa: ANN401 - the task's result
    """Let the ready-made agent work on a goal: start, go on, or return what is recorded. Raises as `Runtime.run`."""
    from perdure.agent import load_agent

    os.makedirs(order.workspace, exist_ok=True)
    return await runtime.run(load_agent(model), order.name, goal=order.goal, new=order.new, workspace=order.workspace)


async def start_program(runtime: Runtime, order: Order, target: str, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401 - as above
    """Run a program that is named by its import path or file, rooted in the working directory."""
    return await runtime.run(
        load_program(target, os.getcwd()),
        order.name,
        goal=order.goal,
        args=dict(arguments),
        new=order.new,
        workspace=order.workspace,
    )


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """How a task is resumed."""

    again: bool = False  # a failed one is opened again
    accept: tuple[str, ...] = ()  # rows of the report that shall not stop it
    app: str = ""  # another program than the recorded one


async def resume(runtime: Runtime, name: str, way: Way) -> Any:  # noqa: ANN401 - the task's result
    """Go on with a task, whoever drives it. Raises UsageError for an inline one, else as `Runtime.resume`."""
    task = (await runtime.store.find(name)).task
    program = await _program_of(runtime.store, task, way.app)
    return await runtime.resume(task, program, again=way.again, accept=way.accept)


async def foresee(runtime: Runtime, name: str, app: str = "") -> tuple[ReportRow, ...]:
    """Return what a resume would find, changing nothing."""
    task = (await runtime.store.find(name)).task
    return await runtime.report(task, await _program_of(runtime.store, task, app))


async def stop(runtime: Runtime, name: str, what: Literal["pause", "cancel"], message_id: str) -> bool:
    """Pause or cancel a task: True when it is done, False when whoever works on it was asked to. Raises TaskFinished.

    The holder sees the message within a second and obeys at its next action.
    """
    summary = await runtime.store.find(name)
    if summary.is_finished:
        raise TaskFinished(summary.name, summary.status)
    try:
        await runtime.stop_task(summary.task, what)
    except TaskBusy:
        await runtime.store.post(summary.task, Message(id=message_id, what=what))
        return False
    return True


async def settle(runtime: Runtime, name: str, action: str, outcome: Outcome | None) -> str:
    """Say what became of an action (None: its outcome is kept as a fact); return its id. Any unique prefix will do.

    Raises ActionUnknown, TaskBusy.
    """
    shown = await show(runtime.store, name)
    fitting = [pending.action for pending in shown.pending if pending.action.startswith(action)]
    if len(fitting) != 1:
        raise ActionUnknown(shown.name, action)
    await runtime.settle(shown.task, fitting[0], outcome)
    return fitting[0]


async def rollback(runtime: Runtime, name: str, checkpoint: str) -> TaskSummary:
    """Put the document back to a checkpoint. Raises CheckpointUnknown, TaskBusy."""
    summary = await runtime.store.find(name)
    await runtime.rollback(summary.task, checkpoint)
    return await runtime.store.find(summary.task)


async def rebuild_log(store: Store, files: LogFiles, clock: Clock, name: str) -> str:
    """Make the log files of a task anew from its journal; return their folder.

    Raises TaskBusy while another process writes them, OSError, Damaged.
    """
    summary = await store.find(name)
    copier = Copier(store, files, clock)
    try:
        if not await copier.renew(summary.task, summary.name):
            raise TaskBusy(summary.name, "a process that writes its log files; they are up to date without this")
    finally:
        await copier.close()
    return folder_of(files.path, summary.task)


def refuse_store_inside(workspace: str, place: str) -> None:
    """Raise UsageError where the store would lie inside the workspace that it keeps copies of."""
    if "://" in place or not workspace:
        return
    inside, folder = os.path.realpath(place), os.path.realpath(workspace)
    if os.path.commonpath([inside, folder]) == folder:
        raise UsageError(f"the store {inside!r} lies inside the workspace {folder!r}; choose a folder beside it")


def default_workspace(place: str, name: str) -> str:
    """Return where a task's files go when nobody said: beside the store, under the task's name."""
    home = Path.cwd() / ".perdure" if "://" in place else Path(place).parent
    return str(home / "workspaces" / re.sub(r"[^\w.-]", "_", name))


async def recall_journal(store: Store, name: str, until: int | None = None) -> Record:
    """Read a task's journal into memory, for `replay` and `rejudge`. Raises TaskUnknown, Damaged."""
    from perdure.engine.replay.record import load_record

    return await load_record(store, (await store.find(name)).task, until)


def replay(record: Record, mode: Literal["strict", "tolerant"] = "strict", app: str = "") -> Replayed:
    """Run the recorded program (or `app`) again on its record; nothing is written, no tool is called.

    To be called outside of any event loop. Raises ProgramNotImportable, UsageError for a task that a script drives.
    """
    from perdure.engine.replay.playing import play

    return play(record, _program_for(record.start, app), mode)


def rejudge(record: Record) -> Rejudgement:
    """Return what today's recovery would decide otherwise about the failures on record."""
    from perdure.engine.replay.rejudging import rejudge as ask_again

    return ask_again(record)


async def _program_of(store: Store, task: str, app: str) -> Any:  # noqa: ANN401 - a Program, or what load_agent gives
    entry = await read_entry(store, task, 1)
    if not isinstance(entry.payload, TaskStarted):
        raise UsageError(f"entry 1 of task {task!r} is not its start; look with `perdure verify {task}`")
    return _program_for(entry.payload, app)


def _program_for(start: TaskStarted, app: str) -> Any:  # noqa: ANN401 - as above
    driver = start.driver
    match driver.kind:
        case "program":
            return load_program(driver.target, driver.folder, app=app or None)
        case "agent":
            from perdure.agent import load_agent

            return load_agent(driver.target)
        case "inline":
            raise UsageError(f"task {start.name!r} is driven by a script: run the script that started it again")
