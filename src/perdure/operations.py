"""Commands: what changes a task, said once for the CLI and every later face. Queries are in `views`.

A command on a task that somebody works on leaves a message in its inbox; on any other it claims the task, writes and
lets go. Nothing here prints.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, cast

import msgspec

from perdure.codec import values
from perdure.codec.redact import redact, redact_text
from perdure.core.questions import some_of
from perdure.engine.asking import address
from perdure.engine.forking import ForkPlan, plan_fork
from perdure.engine.leases import Presence, claim
from perdure.engine.loading import load_fold, read_entry
from perdure.engine.programs import load_program
from perdure.engine.report import ReportRow
from perdure.engine.runtime import Runtime
from perdure.errors import (
    ActionUnknown,
    ProgramNotImportable,
    QuestionNotOpen,
    TaskBusy,
    TaskFinished,
    Unsupported,
    UsageError,
)
from perdure.logs.copying import Copier
from perdure.logs.scroll import LogFiles, folder_of, remove_set
from perdure.model.budget import Budget
from perdure.model.entry import Driver, TaskStarted, start_of
from perdure.model.outcome import Outcome
from perdure.model.status import TaskSummary
from perdure.ports import Clock, Copied, Ids, Message, Store, StoreStatus, Upkeep
from perdure.stores.checks import storable_message
from perdure.views.showing import show, word_for

if TYPE_CHECKING:
    from perdure.agent import Agent
    from perdure.engine.replay.playing import Replayed
    from perdure.engine.replay.record import Record
    from perdure.engine.replay.rejudging import Rejudgement

_SLUG_MAX: Final = 40
_LETTERS: Final = (4, 8)  # of the digest in a derived name
_ID_LETTERS_MIN: Final = 8
_PROGRAM: Final = re.compile(r"(?:[\w./~-]+\.py(?::\w+)?|[A-Za-z_][\w.]*:[A-Za-z_]\w*)\Z")


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What `run` is asked for, whoever drives it."""

    name: str = ""  # empty: derived, so that the same order finds its task again
    goal: str = ""
    workspace: str = ""  # empty: nothing is said of it
    new: bool = False
    budget: Budget | str | None = None  # what it may cost; empty: what it likes


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """The name that an order goes by, and the newest task of that name, if there is one."""

    name: str
    summary: TaskSummary | None

    def refuse_new(self) -> None:
        """Raise UsageError where another task cannot be started under the name, because its task is unfinished."""
        if self.summary is None or self.summary.is_finished:
            return
        word = word_for(self.summary)
        raise UsageError(
            f"task {self.name!r} is unfinished ({self.summary.status}); go on with it: perdure resume {word}, "
            f"or end it first: perdure cancel {word}"
        )


def refuse_program(goal: str) -> None:
    """Raise UsageError where a goal looks like a program, with the line to type."""
    if _PROGRAM.match(goal):
        target = goal if ":" in goal else f"{goal}:NAME"
        raise UsageError(f"{goal!r} looks like a program, not like a goal; type: perdure run --program {target}")


def names_of(order: Order, subject: str, *parts: str) -> tuple[str, ...]:
    """Return the order's name, or those that it can go by: a slug of `subject` and some letters of a digest.

    The digest is made from all that tells orders apart. The name with more letters is for the case that another order
    goes by the short one.
    """
    if order.name:
        return (order.name,)
    words = re.findall(r"[^\W_]+", redact_text(subject).lower())
    slug = ""
    for word in words:
        longer = f"{slug}-{word}".strip("-")
        if len(longer.encode()) > _SLUG_MAX:
            break
        slug = longer
    told_apart = "\0".join(map(redact_text, (subject, *parts))).encode("utf-8", "surrogatepass")
    letters = hashlib.sha256(told_apart).hexdigest()
    return tuple(f"{slug or 'task'}-{letters[:count]}" for count in _LETTERS)


async def recall(store: Store, names: Sequence[str], order: Order, ask_driver: Callable[[], Driver]) -> Known:
    """Look whether the store has the order's task, under the first of `names` that no other order goes by.

    Where all are taken it is the last one, and the runtime says what is different. A name that a person has chosen is
    the only one.
    """
    tasks = await store.tasks()
    for name in names:
        found = next((one for one in tasks if one.name == name), None)
        if found is None or name == names[-1] or await _is_of(store, found, order, ask_driver()):
            return Known(name=name, summary=found)
    raise UsageError("an order needs a name")


def refuse_workspace(folder: str) -> None:
    """Raise UsageError where `folder` can be no folder: a file is in the way, or it cannot be named here."""
    above = Path(folder)
    try:
        while not os.path.lexists(above) and above != above.parent:
            above = above.parent
        if not above.is_dir():
            raise UsageError(f"the workspace {folder!r} can be no folder: {str(above)!r} is a file; choose another")
        os.fsencode(folder)
        folder.encode()
    except ValueError as error:  # a NUL, or bytes that are no text
        raise UsageError(f"the workspace {folder!r} cannot be named: {error}") from error


async def find_exactly(store: Store, name: str) -> TaskSummary:
    """Return the task of that name or id, or whose id begins with so many letters that it was copied, not guessed.

    For commands that cannot be taken back. Raises UsageError naming the task that was perhaps meant, TaskUnknown,
    TaskAmbiguous.
    """
    found = await store.find(name)
    if name in {found.name, found.task} or (len(name) >= _ID_LETTERS_MIN and found.task.startswith(name)):
        return found
    raise UsageError(
        f"{name!r} is only the beginning of task {found.name!r} (id {found.task[:_ID_LETTERS_MIN]}); if you mean that "
        f"one, give its whole name, or {_ID_LETTERS_MIN} letters of its id"
    )


async def start_goal(runtime: Runtime, order: Order, agent: Agent, args: Mapping[str, Any]) -> Any:  # noqa: ANN401 - the task's result
    """Let the ready-made agent work on a goal: start, go on, or return what is recorded. Raises as `Runtime.run`."""
    try:
        os.makedirs(order.workspace, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the workspace {order.workspace!r} cannot be made: {error.strerror}") from error
    return await runtime.run(agent, order.name, args=dict(args), **_wanted(order))


async def start_program(runtime: Runtime, order: Order, target: str, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401 - as above
    """Run a program that is named by its import path or file, rooted in the working directory."""
    return await runtime.run(load_program(target, os.getcwd()), order.name, args=dict(arguments), **_wanted(order))


def _wanted(order: Order) -> dict[str, Any]:
    return {"goal": order.goal, "new": order.new, "workspace": order.workspace, "budget": order.budget or None}


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """How a task is resumed."""

    again: bool = False  # a failed one is opened again
    accept: tuple[str, ...] = ()  # rows of the report that shall not stop it
    app: str = ""  # another program than the recorded one
    budget: str = ""  # what it may cost from now on; empty: as before
    changes: Mapping[str, Any] = {}  # of the settings of a ready-made agent
    places: Mapping[str, str] = {}  # files that this process has keys from, by variable
    by_timer: bool = False  # nobody has named the task, or reads what is said: what is missing is asked for


async def resume(runtime: Runtime, name: str, way: Way) -> Any:  # noqa: ANN401 - the task's result
    """Go on with a task. Raises UsageError: an inline one, or what its agent refuses; else as `Runtime.resume`."""
    found = await runtime.store.find(name)
    if way.budget and found.driver == "inline":
        await runtime.set_budget(found.task, way.budget)  # the script itself has to be run again, as the error says
    program = await _program_of(runtime.store, found.task, way.app, way.changes)
    if found.driver.startswith("agent"):
        from perdure.agent.starting import ready

        program = await ready(runtime.store, found, program, way)
    return await runtime.resume(found.task, program, again=way.again, accept=way.accept, budget=way.budget or None)


async def foresee(runtime: Runtime, name: str, app: str = "") -> tuple[ReportRow, ...]:
    """Return what a resume would find, changing nothing."""
    task = (await runtime.store.find(name)).task
    return await runtime.report(task, await _program_of(runtime.store, task, app))


async def stop(runtime: Runtime, name: str, what: Literal["pause", "cancel"], message_id: str) -> bool:
    """Pause or cancel a task: True when it is done, False when whoever works on it was asked to. Raises TaskFinished.

    The holder sees the message within a second and obeys at its next action. A task to be cancelled is found as in
    `find_exactly`.
    """
    store = runtime.store
    summary = await (find_exactly(store, name) if what == "cancel" else store.find(name))
    if summary.is_finished:
        raise TaskFinished(summary.name, summary.status)
    try:
        await runtime.stop_task(summary.task, what)
    except TaskBusy:
        await runtime.store.post(summary.task, Message(id=message_id, what=what))
        return False
    return True


async def tell(runtime: Runtime, name: str, text: str, message_id: str) -> bool:
    """Tell a task something: True when it is on record, False when it waits in the inbox of whoever works on it.

    The holder takes it in within a second, exactly once. Raises UsageError for an empty text, TaskFinished.
    """
    message, summary = _message(message_id, "tell", text), await _find_unfinished(runtime.store, name)
    return await _hand_in(runtime, summary.task, message)


class Answered(NamedTuple):
    """What an answer has come to."""

    question: str  # what was answered
    is_written: bool  # it is on record; else it waits in the inbox of whoever works on the task
    meaning: str = ""  # what it means for a call of an agent that it was asked about


async def answer(runtime: Runtime, name: str, text: str, message_id: str, question: str = "") -> Answered:
    """Answer what a task waits for.

    `question`: its key or number, where more than one is open. An answer to an agent that allows further calls answers
    for those that wait. Raises QuestionUnclear, QuestionNotOpen; NothingAsked where no word can help, with the line
    that can; UsageError for an empty text, TaskFinished.
    """
    from perdure.agent.permits import meaning_of, spread

    message, summary = _message(message_id, "answer", text), await _find_unfinished(runtime.store, name)
    fold = await load_fold(runtime.store, summary.task)
    key, *answered = address(fold, question)
    words = spread(message.text, key, fold).items()
    first, *others = (msgspec.structs.replace(message, key=one, text=word) for one, word in words)
    is_written = await _hand_in(runtime, summary.task, first)
    for number, other in enumerate(others, 1):
        with contextlib.suppress(QuestionNotOpen):  # somebody has answered that one meanwhile
            await _hand_in(runtime, summary.task, msgspec.structs.replace(other, id=f"{message_id}.{number}"))
            answered.append(fold.document.asking[other.key])
    return Answered(some_of(answered), is_written, meaning_of(message.text, key, fold))


async def _hand_in(runtime: Runtime, task: str, message: Message) -> bool:
    """Write what a person says: True when it is on record, False when it waits for whoever works on the task."""
    try:
        await runtime.say(task, message)
    except TaskBusy:
        await runtime.leave(task, message)
        return False
    return True


async def settle(runtime: Runtime, name: str, action: str, outcome: Outcome | None) -> str:
    """Say what became of an action (None: its outcome is kept as a fact); return its id. Any unique prefix will do.

    The task as in `find_exactly`. Raises ActionUnknown, TaskBusy.
    """
    shown = await show(runtime.store, (await find_exactly(runtime.store, name)).task)
    fitting = [pending.action for pending in shown.pending if pending.action.startswith(action)]
    if not action or len(fitting) != 1:  # empty: as from a variable that is not set
        raise ActionUnknown(shown.name, action)
    await runtime.settle(shown.task, fitting[0], outcome)
    return fitting[0]


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """What a person changes in a state."""

    assign: tuple[tuple[str, Any], ...] = ()  # (place, value)
    remove: tuple[str, ...] = ()
    app: str = ""  # another program than the recorded one: its `state_type=` says what may stand where


async def edit_state(runtime: Runtime, name: str, edit: Edit) -> tuple[TaskSummary, bool]:
    """Change the state of a task that was taken over, by the types of its program where that can be imported."""
    summary = await _find_unfinished(runtime.store, name)
    program = await _program_at_hand(runtime.store, summary.task, edit.app)
    return summary, await runtime.edit_state(summary.task, edit.assign, edit.remove, program=program)


class Back(msgspec.Struct, frozen=True, kw_only=True):
    """How a task is rolled back."""

    carry: bool = False  # effects that cannot be taken back stay, and the new branch is told of each
    force: bool = False  # they stay, and it is not
    app: str = ""  # another program than the recorded one: its module has the tools


async def rollback(runtime: Runtime, name: str, checkpoint: str, way: Back) -> TaskSummary:
    """Put a task back to a checkpoint: state, effects, files; the task as in `find_exactly`.

    Its program is imported, and with it the tools that take effects back. Raises as `Runtime.rollback`.
    """
    summary = await find_exactly(runtime.store, name)
    program = await _program_at_hand(runtime.store, summary.task, way.app)
    await runtime.rollback(summary.task, checkpoint, carry=way.carry, force=way.force, program=program)
    return await runtime.store.find(summary.task)


async def abandon_rollback(runtime: Runtime, name: str) -> TaskSummary:
    """Give up a rollback that was interrupted before its first undo; the task as in `find_exactly`."""
    summary = await find_exactly(runtime.store, name)
    await runtime.abandon_rollback(summary.task)
    return await runtime.store.find(summary.task)


async def foresee_fork(store: Store, name: str, at: str, into: str, fork: str) -> ForkPlan:
    """Return what a fork would be, changing nothing. Raises as `Runtime.fork`."""
    return await plan_fork(store, name, at, into, fork)


async def delete(store: Store, files: LogFiles | None, clock: Clock, ids: Ids, name: str) -> int:
    """Remove a task with its journal, snapshots, messages, log files and what blobs nothing else names; for good.

    Its lease is claimed first. Returns how many blobs went. Raises TaskBusy while a living process holds it.
    """
    summary = await store.find(name)
    presence = Presence(store, ids)
    try:
        lease, _ = await claim(store, summary.task, presence, clock)
        try:
            await store.delete(summary.task)
        except BaseException:
            await store.release(summary.task, lease.epoch)
            raise
    finally:
        presence.end()
    if files is not None:
        remove_set(files.path, summary.task)
    return await store.sweep()


async def back_up(store: Store, file: str, copied: Copied | None = None) -> None:
    """Copy the store into the new file `file`, beside those who write.

    Raises Unsupported, UsageError where the file exists, StoreFull, StoreUnreadable.
    """
    await _upkeep_of(store, "be copied into a file").backup(file, copied)


async def store_status(store: Store) -> StoreStatus:
    """Return how big the store is. Raises Unsupported."""
    return await _upkeep_of(store, "say how big it is").status()


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
    return os.path.abspath(home / _slot(name))


def _message(message_id: str, what: str, text: str) -> Message:
    if not text.strip():
        raise UsageError("say something: the text is empty")
    return storable_message(Message(id=message_id, what=what, text=redact_text(text)))


async def _find_unfinished(store: Store, name: str) -> TaskSummary:
    summary = await store.find(name)
    if summary.is_finished:
        raise TaskFinished(summary.name, summary.status)
    return summary


def _slot(name: str) -> str:
    return os.path.join("workspaces", re.sub(r"[^\w.-]", "_", name))


async def _is_of(store: Store, found: TaskSummary, order: Order, driver: Driver) -> bool:
    """Whether `found`, which has a derived name, was started by the same order."""
    started = start_of((await read_entry(store, found.task, 1)).payload)
    if started is None:
        return False
    recorded = started.driver
    if order.workspace:
        is_same_place = found.workspace == order.workspace
    else:
        is_same_place = not found.workspace or found.workspace.endswith(os.sep + _slot(found.name))
    is_same = found.goal == redact_text(order.goal) and is_same_place
    if driver.kind == "agent":  # what it thinks with and what it may do can change on the way
        return is_same and recorded.kind == "agent"
    return is_same and _told(recorded) == _told(driver)


def _told(driver: Driver) -> tuple[str, str, str, bytes]:
    """Return what tells drivers apart; the order of their arguments does not."""
    raw = bytes(driver.arguments)
    arguments = values.canonical(redact(values.decode(raw))) if raw else b""
    return driver.kind, driver.target, driver.folder, arguments


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


def _upkeep_of(store: Store, what: str) -> Upkeep:
    if "upkeep" not in store.capabilities:
        raise Unsupported(store.place, what)
    return cast("Upkeep", store)


async def _program_at_hand(store: Store, task: str, app: str) -> Any:  # noqa: ANN401 - as `_program_of`
    """Return the task's program where it has one: its tools take effects back, its types say what a state may hold.

    A program that cannot be imported (or a script) is no reason to refuse what can be done without it: None.
    """
    start = start_of((await read_entry(store, task, 1)).payload)
    if start is None or start.driver.kind != "program":
        return None
    try:
        return _program_for(start, app)
    except ProgramNotImportable:
        if app:
            raise
        return None  # a tool that is then missing is refused by name, with the remedy


async def _program_of(store: Store, task: str, app: str, changes: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401 - a Program, or what load_agent gives
    start = start_of((await read_entry(store, task, 1)).payload)
    if start is None:
        raise UsageError(f"entry 1 of task {task!r} is not its start; look with `perdure verify {task}`")
    return _program_for(start, app, changes)


def _program_for(start: TaskStarted, app: str, changes: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401 - as above
    driver = start.driver
    match driver.kind:
        case "program":
            return load_program(driver.target, driver.folder, app=app or None)
        case "agent":
            from perdure.agent import load_agent

            given: Any = values.decode(bytes(driver.arguments)) if bytes(driver.arguments) else {}
            return load_agent(driver.target, given, changes)
        case "inline":
            raise UsageError(f"task {start.name!r} is driven by a script: run the script that started it again")
