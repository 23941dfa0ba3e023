"""Migrations: plain functions from the state of one version to that of the next, and when they run.

They stand in the module of their program, under any name, and run after every jump of the fold (a task is opened, or
rolled back to where its state was of an earlier version). What they give is recorded in the append that ends the jump,
so that each runs once per jump, and the journal can be read without them. Called by `runtime.py` and `rollback.py`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from perdure.codec import values
from perdure.codec.redact import redact
from perdure.core.views import MapView
from perdure.engine.boundary import Boundary
from perdure.engine.driving import Drivable
from perdure.engine.programs import Program
from perdure.engine.session import Session
from perdure.engine.state_types import fit, view_of
from perdure.errors import StateInvalid, StateVersion, UsageError

State = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Migration:
    """A declared migration: from a state of `from_version` to one of the next. Calling it calls the function."""

    fn: Callable[[State], State]
    from_version: int
    program: str  # name of the one program of the module that it is for; empty: all of them

    def __call__(self, state: State) -> State:
        """Call the function itself."""
        return self.fn(state)


def migration(*, from_version: int, program: str = "") -> Callable[[Callable[[State], State]], Migration]:
    """Declare a migration beside a program: `@perdure.migration(from_version=1)`.

    The function takes the plain state of that version and returns that of the next. `program`: the name of the one
    program of the module that it is for. Raises UsageError.
    """
    if type(from_version) is not int or from_version < 1:
        raise UsageError(f"from_version={from_version!r} is not a whole number from 1 up")

    def declare(fn: Callable[[State], State]) -> Migration:
        return Migration(fn=fn, from_version=from_version, program=program)

    return declare


def prepare(session: Session, program: Drivable) -> None:
    """See to it that the state is, now and after every jump, what `program` wants; once per session.

    Raises StateVersion and StateInvalid; then nothing was put.
    """
    if session.adapt is None and isinstance(program, Program):
        declared = cast("Program[..., Any]", program)
        adapt = functools.partial(_adapt, session, declared)
        adapt()
        session.adapt = adapt


def is_same_start(program: Drivable, recorded: State, version: int) -> bool:
    """Whether a task that began with the state `recorded` would begin with that of `program` today.

    What began with a state of another version is not compared.
    """
    if version != program.state_version:
        return True
    first = recorded
    if isinstance(program, Program) and program.state_type is not None:
        try:
            first = fit(recorded, program.state_type)
        except StateInvalid:
            return False
    return values.canonical(first) == values.canonical(redact(program.state))


def missing_step(program: Drivable, version: int) -> str:
    """Say why no migrations lead from a state of `version` to `program`; empty where they do."""
    wanted = program.state_version
    if version > wanted:
        return "it was written by a later version of the program; take that one"
    there = _migrations_of(cast("Program[..., Any]", program)) if isinstance(program, Program) else {}
    gap = next((step for step in range(version, wanted) if step not in there), None)
    return "" if gap is None else f"write `@perdure.migration(from_version={gap})` in its module"


def _adapt(session: Session, program: Program[..., Any]) -> None:
    """Put a StateMigrated where the state is not what `program` wants, and let views show it by its type."""
    fold, wanted = session.fold, program.state_version
    version, before = fold.document.state_version, fold.tree.root
    state = before
    if version != wanted:
        state = _migrated(session.fold.ledger.name, values.copy(before), version, program)
    if program.state_type is not None:
        state = fit(state, program.state_type)
    if version != wanted or values.canonical(state) != values.canonical(before):
        session.put_state(cast("State", values.copy(state)), version, wanted)
    if program.state_type is not None:
        fold.tree.shown = cast("type[MapView]", view_of(program.state_type, dict))


def _migrated(task: str, state: State, version: int, program: Program[..., Any]) -> State:
    wanted = program.state_version
    if wrong := missing_step(program, version):
        raise StateVersion(task, version, wanted, wrong)
    there = _migrations_of(program)
    for step in range(version, wanted):
        made: Any = None
        with Boundary() as caught:
            made = there[step](state)
        if caught.error is not None:
            wrong = f"the migration from {step} raised {type(caught.error).__name__}: {caught.error}"
            raise StateVersion(task, version, wanted, wrong) from caught.error
        if not isinstance(made, dict):
            wrong = f"the migration from {step} returned a {type(made).__name__} instead of the state"
            raise StateVersion(task, version, wanted, wrong)
        state = cast("State", made)
    return state


def _migrations_of(program: Program[..., Any]) -> dict[int, Migration]:
    """Return the migrations in the module of `program`, by version. Raises UsageError where two have the same."""
    module = sys.modules.get(program.fn.__module__)
    found: dict[int, Migration] = {}
    for one in {id(value): value for value in vars(module).values()}.values() if module else ():
        if not isinstance(one, Migration) or one.program not in {"", program.name}:
            continue
        if one.from_version in found:
            raise UsageError(f"program {program.name!r} has two migrations from version {one.from_version}")
        found[one.from_version] = one
    return found
