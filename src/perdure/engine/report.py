"""Can it really go on? The rows that are checked before an unfinished task goes on, each ok, warn or stop."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import Any, Final, Literal, Protocol, runtime_checkable

import msgspec

from perdure.core import resume, spending
from perdure.core.fold import Fold
from perdure.engine.driving import Drivable
from perdure.engine.ending import hand_back_line
from perdure.engine.migrations import missing_step
from perdure.logs.plain import moment
from perdure.model.decision import Park, Retry
from perdure.model.ledger import OpenAction
from perdure.workspace.losses import not_as_left

_PATHS_NAMED_MAX: Final = 5
_SECOND_US: Final = 1_000_000
ROWS: Final = ("journal", "last action", "source", "workspace", "state", "secrets")


class ReportRow(msgspec.Struct, frozen=True):
    """One thing checked; `text` of a stop names its remedy."""

    verdict: Literal["ok", "warn", "stop"]
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.verdict:4} {self.name}: {self.text}"


class KeyOfModel(msgspec.Struct, frozen=True, kw_only=True):
    """A key that a model needs: which variable of the environment is to hold it, and where it was found before."""

    model: str
    variables: tuple[str, ...]  # any of them will do
    is_there: bool
    place: str = ""  # where the task found it the last time: a file, or "the environment"

    def __str__(self) -> str:
        names = " or ".join(self.variables)
        if self.is_there:
            return f"{names} is set"
        last = f"; the last time it came from {self.place}" if self.place else ""
        return f"set {names}: {self.model} needs it{last}"


@runtime_checkable
class WantsKeys(Protocol):
    """A program that needs keys of the environment: the ready-made agent."""

    def keys(self, memory: Mapping[Any, Any]) -> tuple[KeyOfModel, ...]:
        """Return the keys that it needs to go on, each once. `memory` is the state of its task."""
        ...


def report(fold: Fold, program: Drivable | None) -> tuple[ReportRow, ...]:
    """Return what an opener of this fold should know; pure but for a look at folder and environment.

    The journal was verified and the snapshot linked to it while the fold was loaded, or there would be no fold.
    """
    return (
        ReportRow("ok", "journal", f"{fold.seq} entries, chain verified from the snapshot on"),
        *_person(fold),
        _last_action(fold),
        _source(fold, program),
        _workspace(fold),
        *_state(fold, program),
        *_secrets(fold, program),
        *_budget(fold),
        *_wait(fold),
    )


def _budget(fold: Fold) -> tuple[ReportRow, ...]:
    """Return a row where there is a budget; a warning where less than a tenth of a limit is left."""
    lines = spending.lines_of(spending.state_of(fold.ledger, fold.at))
    if not lines:
        return ()
    text = "; ".join(f"{line.text}, {line.left_text}" for line in lines)
    return (ReportRow("warn" if any(line.is_nearly_used_up for line in lines) else "ok", "budget", text),)


def _secrets(fold: Fold, program: object) -> tuple[ReportRow, ...]:
    """Return a row where the program needs keys; values of none are looked at but for whether there is one."""
    keys = program.keys(fold.tree.root) if isinstance(program, WantsKeys) else ()
    lacking = [str(key) for key in keys if not key.is_there]
    if not keys:
        return ()
    return (ReportRow("stop" if lacking else "ok", "secrets", "; ".join(lacking or map(str, keys))),)


def _wait(fold: Fold) -> tuple[ReportRow, ...]:
    """Return a row where something is still waited for, and was not over when the journal was last written."""
    decided = fold.ledger.decided
    until = max(fold.ledger.waits.values(), default=0)
    if isinstance(decided, Retry | Park):
        until = decided.at if isinstance(decided, Retry) else decided.until
    if until <= fold.at + _SECOND_US:
        return ()
    return (ReportRow("ok", "wait", f"until {moment(until)}, of which the rest is waited for"),)


def _person(fold: Fold) -> tuple[ReportRow, ...]:
    """Return a row where a person has the task: nothing goes over that."""
    if fold.ledger.takeover is None:
        return ()
    text = f"{fold.ledger.takeover.by} has taken it over; {hand_back_line(fold.ledger.name)}"
    return (ReportRow("stop", "person", text),)


def _state(fold: Fold, program: Drivable | None) -> tuple[ReportRow, ...]:
    """Return a row where the state is not of the program's version: opening the task migrates it, or refuses."""
    found = fold.document.state_version
    if program is None or program.state_version == found:
        return ()
    wanted = program.state_version
    if wrong := missing_step(program, found):
        return (ReportRow("stop", "state", f"version {found}, the program wants {wanted}: {wrong}"),)
    return (ReportRow("ok", "state", f"version {found}, is migrated to {wanted}"),)


def _last_action(fold: Fold) -> ReportRow:
    held = fold.ledger.standing  # of branches that were left: an equal call meets them, or the end of the program
    effects = [one for one in fold.ledger.open.values() if not (one.effect.is_free or one.action in held)]
    if not fold.ledger.open:
        return ReportRow("ok", "last action", f"settled; {fold.ledger.actions} actions are done")
    if not effects:
        names = ", ".join(sorted({action.tool for action in fold.ledger.open.values()}))
        return ReportRow("ok", "last action", f"{names} had not ended; without effects, it is run again")
    worst = next((action for action in effects if resume.rule_for(action) == "doubt"), effects[0])
    return _row_for(fold, worst)


def _row_for(fold: Fold, action: OpenAction) -> ReportRow:
    name = "last action"
    match resume.rule_for(action):
        case "run":
            how = f"under the same key {action.effect_key}" if action.effect_key else "again"
            return ReportRow("ok", name, f"{action.tool} had not ended; it is sent {how}")
        case "probe":
            return ReportRow("ok", name, f"{action.tool} had not ended; its probe asks whether it happened")
        case "doubt":
            settle = f"perdure settle {shlex.quote(fold.ledger.name)} {action.action} --happened | --did-not-happen"
            return ReportRow("stop", name, f"whether {action.tool} happened is not known: {settle}")


def _source(fold: Fold, program: Drivable | None) -> ReportRow:
    recorded = fold.ledger.driver
    if program is None or recorded is None or not recorded.source_digest:
        return ReportRow("ok", "source", "not compared")
    if program.source_digest == recorded.source_digest:
        return ReportRow("ok", "source", "as recorded")
    return ReportRow("warn", "source", "the program's source has changed since the task was started")


def _workspace(fold: Fold) -> ReportRow:
    folder, written = fold.ledger.workspace, fold.files.written
    if not folder:
        return ReportRow("ok", "workspace", "none")
    if not os.path.isdir(folder):
        if not written:
            return ReportRow("warn", "workspace", f"{folder} is not there; it will be made anew")
        remedy = f"perdure resume {shlex.quote(fold.ledger.name)} --accept workspace"
        text = f"{folder} is not there; put it back, or have its {len(written)} path(s) made anew: {remedy}"
        return ReportRow("stop", "workspace", text)
    others = not_as_left(folder, fold.files, written)
    if not others:
        return ReportRow("ok", "workspace", folder)
    some = ", ".join(others[:_PATHS_NAMED_MAX]) + (" …" if len(others) > _PATHS_NAMED_MAX else "")
    text = f"{folder}: {len(others)} path(s) are not as the task left them: {some}; what others changed stays"
    return ReportRow("warn", "workspace", text)
