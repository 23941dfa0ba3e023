"""Finds the task that a command means, and its program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from perdure.codec import values
from perdure.engine.loading import read_entry
from perdure.engine.programs import load_program
from perdure.errors import ProgramNotImportable, TaskFinished, UsageError
from perdure.model.entry import TaskStarted, start_of
from perdure.model.status import TaskSummary
from perdure.ports import Store

_ID_LETTERS_MIN: Final = 8


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


async def find_unfinished(store: Store, name: str) -> TaskSummary:
    """Return the task of that name or id. Raises TaskUnknown, TaskAmbiguous, TaskFinished."""
    summary = await store.find(name)
    if summary.is_finished:
        raise TaskFinished(summary.name, summary.status)
    return summary


async def program_at_hand(store: Store, task: str, app: str) -> Any:  # noqa: ANN401 - as `program_of`
    """Return the task's program where it has one: its tools take effects back, its types say what a state may hold.

    A program that cannot be imported (or a script) is no reason to refuse what can be done without it: None.
    """
    start = start_of((await read_entry(store, task, 1)).payload)
    if start is None or start.driver.kind != "program":
        return None
    try:
        return program_for(start, app)
    except ProgramNotImportable:
        if app:
            raise
        return None  # a tool that is then missing is refused by name, with the remedy


async def program_of(store: Store, task: str, app: str, changes: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401 - a Program, or what load_agent gives
    """Return the task's program, or `app` in its place. Raises ProgramNotImportable, UsageError."""
    start = start_of((await read_entry(store, task, 1)).payload)
    if start is None:
        raise UsageError(f"entry 1 of task {task!r} is not its start; look with `perdure verify {task}`")
    return program_for(start, app, changes)


def program_for(start: TaskStarted, app: str, changes: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401 - as above
    """Return the program that a task was started with, `changes` made to its settings where it is the agent."""
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
