"""Is this call already answered? The rules by which a finished or interrupted action is found again.

Pure: `find` looks at document and ledger, the engine obeys. The rules in words stand in docs/explanation/resume.md.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final, Literal

import msgspec

from perdure.model.document import Document, Kept
from perdure.model.effect import Effect
from perdure.model.ledger import Ledger, OpenAction


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One `act` as far as finding it again goes."""

    tool: str
    effect: Effect
    digest: bytes  # of the canonical arguments
    key: str = ""  # the user's key, or the place in loop `loop`
    loop: str = ""
    takes_loose: bool = True  # False for poll tools and fresh=True
    names: tuple[str, ...] = ()  # the tool's present name and its aliases


class Fresh(msgspec.Struct, frozen=True):
    """Not answered: dispatch it. `effect_key` is that of an equal call that failed, if there was one."""

    effect_key: str = ""


class Answered(msgspec.Struct, frozen=True):
    """A recorded outcome answers it; with `unapplied` only the reducer is still to run."""

    kept: Kept


class Interrupted(msgspec.Struct, frozen=True):
    """It was dispatched by an earlier run and never settled."""

    open: OpenAction


class Clash(msgspec.Struct, frozen=True):
    """The same key or place with other arguments; the earlier one stands at entry `seq`."""

    seq: int


class Unanchored(msgspec.Struct, frozen=True):
    """The outcome of an effect, settled or still in flight, would be lost by this call."""

    kept: Kept | OpenAction


Finding = Fresh | Answered | Interrupted | Clash | Unanchored
_FRESH: Final = Fresh()


def key_of(tool: str, key: str) -> str:
    """Return the name under which an outcome is kept; a tool name has no line break, so it is unambiguous."""
    return f"{tool}\n{key}"


def failed_key_of(tool: str, call: Call | OpenAction) -> str:
    """Return the name under which the effect key of a failed call is kept: only an equal call may send it again."""
    return key_of(tool, f"{call.loop}\n{call.key}\n{call.digest.hex()}")


def find(call: Call, document: Document, ledger: Ledger, claimed: AbstractSet[str]) -> Finding:
    """Return how `call` is to be answered.

    `claimed` holds the ids of actions that this call of the program has made or been handed already.
    """
    unanchored = find_unanchored(document, claimed) or _loose_in_flight(ledger, claimed)
    if unanchored is not None:
        return Unanchored(unanchored)
    names = call.names or (call.tool,)
    if call.key:
        kept = _keyed(call, names, document)
        if kept is not None:
            return Answered(kept) if kept.digest == call.digest else Clash(kept.settled)
    elif call.takes_loose:
        loose = _loose(call, names, document, claimed)
        if loose is not None:
            return Answered(loose)
    return _interrupted(call, names, ledger, claimed)


def find_unanchored(document: Document, claimed: AbstractSet[str]) -> Kept | None:
    """Return the effect's outcome that only this call of the program knows: neither state nor checkpoint holds it."""
    if not document.loose:
        return None
    waiting = (kept for kept in document.loose if not (kept.free or kept.anchored or kept.unapplied))
    return next((kept for kept in waiting if kept.action in claimed), None)


def left_behind(document: Document, ledger: Ledger, claimed: AbstractSet[str]) -> list[str]:
    """Return the actions with effects that the program has not asked for again, as "tool (action id)".

    An edit, a checkpoint or the end of the program may not pass them: they would be forgotten.
    """
    waiting = [kept for kept in document.loose if not (kept.free or kept.anchored)]
    loose = [f"{kept.tool} ({kept.action})" for kept in waiting if kept.action not in claimed]
    open_ = [f"{a.tool} ({a.action})" for a in ledger.open.values() if not a.effect.is_free and a.action not in claimed]
    return loose + open_


def rule_for(action: OpenAction) -> Literal["run", "probe", "doubt"]:
    """Return what is done with an interrupted action: its `retry` decides, nothing else."""
    match action.effect.retry:
        case "free" | "keyed" | "restore":
            return "run"
        case "probe":
            return "probe"
        case "never":
            return "doubt"


def _loose_in_flight(ledger: Ledger, claimed: AbstractSet[str]) -> OpenAction | None:
    """Return the effect in flight whose outcome will be unanchored: a resumed program is refused at the same call."""
    for action in ledger.open.values():
        is_loose = not (action.effect.is_free or action.key or action.reduces or action.in_doubt)
        if is_loose and action.action in claimed:
            return action
    return None


def _keyed(call: Call, names: tuple[str, ...], document: Document) -> Kept | None:
    group = document.places.get(call.loop, {}) if call.loop else document.keyed
    for name in names:
        kept = group.get(key_of(name, call.key))
        if kept is not None:
            return kept
    return None


def _loose(call: Call, names: tuple[str, ...], document: Document, claimed: AbstractSet[str]) -> Kept | None:
    for kept in document.loose:
        is_due = kept.unapplied or kept.action not in claimed
        if is_due and kept.digest == call.digest and kept.tool in names:
            return kept
    return None


def _interrupted(call: Call, names: tuple[str, ...], ledger: Ledger, claimed: AbstractSet[str]) -> Finding:
    for action in ledger.open.values():
        if action.action in claimed and not action.in_doubt:
            continue  # in flight; but one in doubt is never sent anew as if it were another
        if action.tool not in names or action.loop != call.loop or action.key != call.key:
            continue
        if action.digest == call.digest:
            return Interrupted(action)
        if call.key and not action.effect.is_free:
            return Clash(action.intent)
    if not ledger.failed_keys:
        return _FRESH
    failed = (ledger.failed_keys.get(failed_key_of(name, call)) for name in names)
    return Fresh(next((key for key in failed if key), ""))
