"""What `run` is asked for: which task it is, by which name, and its start."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from perdure.codec import values
from perdure.codec.redact import redact, redact_text
from perdure.engine.loading import read_entry
from perdure.engine.programs import load_program
from perdure.engine.runtime import Runtime
from perdure.errors import UsageError
from perdure.model.budget import Budget
from perdure.model.entry import Driver, start_of
from perdure.model.status import TaskSummary
from perdure.ports import Store
from perdure.views.showing import word_for

if TYPE_CHECKING:
    from perdure.agent import Agent

_SLUG_MAX: Final = 40
_LETTERS: Final = (4, 8)  # of the digest in a derived name
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
