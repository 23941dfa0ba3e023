"""What a person does to a task: go on with it, speak to it, stop it, change it, put it back.

On a task that somebody works on a word is left in its inbox; any other is claimed, written to and let go.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from perdure.codec.redact import redact_text
from perdure.core.questions import some_of
from perdure.engine.asking import address
from perdure.engine.forking import ForkPlan, plan_fork
from perdure.engine.loading import load_fold
from perdure.engine.report import ReportRow
from perdure.engine.runtime import Runtime
from perdure.errors import ActionUnknown, QuestionNotOpen, TaskBusy, TaskFinished, UsageError
from perdure.model.outcome import Outcome
from perdure.model.status import TaskSummary
from perdure.operations.finding import find_exactly, find_unfinished, program_at_hand, program_of
from perdure.ports import Message, Store
from perdure.stores.checks import storable_message
from perdure.views.showing import show


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
    program = await program_of(runtime.store, found.task, way.app, way.changes)
    if found.driver.startswith("agent"):
        from perdure.agent.starting import ready

        program = await ready(runtime.store, found, program, way)
    return await runtime.resume(found.task, program, again=way.again, accept=way.accept, budget=way.budget or None)


async def foresee(runtime: Runtime, name: str, app: str = "") -> tuple[ReportRow, ...]:
    """Return what a resume would find, changing nothing."""
    task = (await runtime.store.find(name)).task
    return await runtime.report(task, await program_of(runtime.store, task, app))


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
    message, summary = _message(message_id, "tell", text), await find_unfinished(runtime.store, name)
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

    message, summary = _message(message_id, "answer", text), await find_unfinished(runtime.store, name)
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


def _message(message_id: str, what: str, text: str) -> Message:
    if not text.strip():
        raise UsageError("say something: the text is empty")
    return storable_message(Message(id=message_id, what=what, text=redact_text(text)))


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
    summary = await find_unfinished(runtime.store, name)
    program = await program_at_hand(runtime.store, summary.task, edit.app)
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
    program = await program_at_hand(runtime.store, summary.task, way.app)
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
