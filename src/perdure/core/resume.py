"""Is this call already answered? The rules by which a finished or interrupted action is found again.

Pure: `find` looks at document and ledger, the engine obeys. The rules in words stand in docs/explanation/resume.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, Literal

import msgspec

from perdure.model.document import Document, Kept
from perdure.model.effect import Effect, Standing
from perdure.model.ledger import Ledger, OpenAction


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One `act` as far as finding it again goes."""

    tool: str
    effect: Effect
    digest: bytes  # of the canonical arguments, texts of the workspace by their place in it
    key: str = ""  # the user's key, or the place in loop `loop`
    loop: str = ""
    takes_loose: bool = True  # False for poll tools and fresh=True
    reduces: bool = False  # it has a `then=`: the program asks its state before it makes the call again
    names: tuple[str, ...] = ()  # the tool's present name and its aliases
    content: bytes = b""  # digest of the arguments by content, where that is another one
    is_undo: bool = False  # the engine makes it, in a rollback: no call of the program is its equal


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


class Twin(msgspec.Struct, frozen=True):
    """An effect without a key is on record, and whether this is the same call again cannot be told."""

    kept: Kept


class LeftBehind(msgspec.Struct, frozen=True):
    """An effect of this tool is on record that the program has not asked for again; this call may stand for it."""


class Reused(msgspec.Struct, frozen=True):
    """A branch that was left has put an equal effect into the world, and it is still there: it answers the call."""

    standing: Standing


class UsedUp(msgspec.Struct, frozen=True):
    """All equal effects of branches that were left have answered calls already, and a person is to allow another."""

    standing: Standing  # the newest of them


Finding = Fresh | Answered | Interrupted | Clash | Unanchored | Twin | LeftBehind | Reused | UsedUp
_FRESH: Final = Fresh()


class LooseIndex:
    """Finds a loose outcome without going through all of them; a program that never edits has as many as calls.

    Derived from `Document.loose`, whose list is only ever appended to or put away for another one.
    """

    def __init__(self) -> None:
        self._items: list[Kept] = []
        self._seen = 0
        self._effects: list[Kept] = []
        self._by_digest: dict[bytes, list[Kept]] = {}

    def effects(self, document: Document) -> list[Kept]:
        """Return those that neither state nor checkpoint holds, in journal order."""
        self._follow(document.loose)
        return self._effects

    def equal(self, call: Call, document: Document) -> Sequence[Kept]:
        """Return those with the arguments of `call`, in journal order."""
        self._follow(document.loose)
        return self._by_digest.get(call.digest, ())

    def _follow(self, items: list[Kept]) -> None:
        if items is self._items and len(items) == self._seen:
            return
        if items is not self._items:
            self._items, self._seen, self._effects, self._by_digest = items, 0, [], {}
        for kept in items[self._seen :]:
            self._by_digest.setdefault(kept.digest, []).append(kept)
            if not (kept.free or kept.unapplied or kept.failed):
                self._effects.append(kept)
        self._seen = len(items)


def key_of(tool: str, key: str) -> str:
    """Return the name under which an outcome is kept; a tool name has no line break, so it is unambiguous."""
    return f"{tool}\n{key}"


def again_key(tool: str, digest: bytes) -> str:
    """Return the key of the question whether an effect that is still in the world shall be made once more."""
    return f"again {tool} {digest.hex()}"


def failed_key_of(tool: str, call: Call | OpenAction) -> str:
    """Return the name under which the effect key of a failed call is kept: only an equal call may send it again."""
    return key_of(tool, f"{call.loop}\n{call.key}\n{call.digest.hex()}")


def find(
    call: Call, document: Document, ledger: Ledger, claimed: AbstractSet[str], index: LooseIndex | None = None
) -> Finding:
    """Return how `call` is to be answered.

    `claimed` holds the ids of actions that this call of the program has made or been handed already. `index` saves
    time where the same document is asked again and again, and changes nothing else.
    """
    index = index or LooseIndex()
    unanchored = find_unanchored(document, claimed, index) or _loose_in_flight(ledger, claimed)
    if unanchored is not None:
        return Unanchored(unanchored)
    names = call.names or (call.tool,)
    found = _find_here(call, names, document, ledger, claimed, index)
    if ledger.standing and isinstance(found, Fresh) and not (call.effect.is_free or call.is_undo):
        return _find_standing(call, names, ledger) or found
    return found


def _find_here(
    call: Call,
    names: tuple[str, ...],
    document: Document,
    ledger: Ledger,
    claimed: AbstractSet[str],
    index: LooseIndex,
) -> Finding:
    """Return how the present branch answers `call`."""
    if call.key:
        return _find_keyed(call, names, document, ledger, claimed)
    if call.takes_loose and document.loose:
        loose = _loose(index.equal(call, document), names, claimed)
        if loose is not None:
            return Answered(loose)
    if call.effect.is_free:
        return _interrupted(call, names, ledger, claimed)
    if document.anchored and not call.reduces:
        twin = _find_anchored(call, names, document, claimed)
        if twin is not None:
            return twin
    found = _interrupted(call, names, ledger, claimed)
    is_passed = isinstance(found, Fresh) and _passes_one(names, document, ledger, claimed)
    return LeftBehind() if is_passed else found


def find_unanchored(document: Document, claimed: AbstractSet[str], index: LooseIndex | None = None) -> Kept | None:
    """Return the effect's outcome that only this call of the program knows: neither state nor checkpoint holds it."""
    effects = (index or LooseIndex()).effects(document) if document.loose else ()
    return next((kept for kept in effects if kept.action in claimed), None) if effects else None


def actions_in_question(document: Document, ledger: Ledger) -> set[str]:
    """Return the ids of which `find`, `find_unanchored` and `left_behind` may ask whether they are claimed."""
    kept = (*document.loose, *document.anchored.values())
    failed = (one for one in document.keyed.values() if one.failed)
    placed = (one for group in document.places.values() for one in group.values() if not one.free)
    return {one.action for one in (*kept, *failed, *placed)} | ledger.open.keys()


def left_behind(document: Document, ledger: Ledger, claimed: AbstractSet[str], *, at_end: bool = True) -> list[str]:
    """Return the actions with effects that the program has not asked for again, as "tool (action id)".

    An edit, a checkpoint or the end of the program may not pass them: they would be forgotten. One that is open under
    a key or at a place is found by that later as well, and only the end (`at_end`) may not pass it.
    """
    waiting = [kept for kept in document.loose if not (kept.free or kept.failed) and kept.action not in claimed]
    loose = [f"{kept.tool} ({kept.action})" for kept in waiting]
    held = [a for a in _open_here(ledger) if not a.effect.is_free and a.action not in claimed]
    open_ = [f"{a.tool} ({a.action})" for a in held if at_end or not a.key]
    return loose + open_


def rule_for(action: OpenAction) -> Literal["run", "probe", "doubt"]:
    """Return what is done with an interrupted action: its `retry` decides.

    What is called again once its files are back is so only where all that has changed was its doing: where a person
    took the task from a process that lived on, it wrote on beside them, and nobody can tell the two apart.
    """
    match action.effect.retry:
        case "restore":
            return "doubt" if action.is_robbed else "run"
        case "free" | "keyed":
            return "run"
        case "probe":
            return "probe"
        case "never":
            return "doubt"


def _loose_in_flight(ledger: Ledger, claimed: AbstractSet[str]) -> OpenAction | None:
    """Return the effect in flight whose outcome will be unanchored: a resumed program is refused at the same call."""
    for action in _open_here(ledger):
        is_loose = not (action.effect.is_free or action.key or action.reduces or action.in_doubt)
        if is_loose and action.action in claimed:
            return action
    return None


def _open_here(ledger: Ledger) -> Iterable[OpenAction]:
    """Return the actions that are not over, without those of branches that were left."""
    if not ledger.standing:
        return ledger.open.values()
    return [action for action in ledger.open.values() if action.action not in ledger.standing]


def _find_standing(call: Call, names: tuple[str, ...], ledger: Ledger) -> Reused | UsedUp | Interrupted | None:
    """Return the oldest equal effect of a branch that was left which has answered no call of this one yet.

    One in doubt has to be settled first: the call is taken for the same, by the rule of its `retry`. What cannot be
    taken back is not made once more without a person's word.
    """
    content = call.content or call.digest
    equal = [one for one in ledger.standing.values() if one.tool in names and one.digest == content]
    waiting = next((one for one in equal if not one.used), None)
    if waiting is not None and not waiting.settled and waiting.action in ledger.open:
        return Interrupted(ledger.open[waiting.action])
    if waiting is not None:
        return Reused(waiting)
    return UsedUp(equal[-1]) if equal and call.effect.undo == "impossible" else None


def _keyed(call: Call, names: tuple[str, ...], document: Document) -> Kept | None:
    group = document.places.get(call.loop, {}) if call.loop else document.keyed
    for name in names:
        kept = group.get(key_of(name, call.key))
        if kept is not None:
            return kept
    return None


def _find_keyed(
    call: Call, names: tuple[str, ...], document: Document, ledger: Ledger, claimed: AbstractSet[str]
) -> Finding:
    kept = _keyed(call, names, document)
    if kept is not None and kept.failed and kept.action in claimed:
        kept = None  # this call of the program knows of the failure, and tries again
    if kept is not None and kept.free and kept.digest != call.digest and kept.settled < document.strategy_at:
        kept = None  # another strategy asks otherwise
    if kept is not None:
        return Answered(kept) if kept.digest == call.digest else Clash(kept.settled)
    found = _interrupted(call, names, ledger, claimed)
    if call.effect.is_free or not isinstance(found, Fresh):
        return found
    if call.loop:
        return LeftBehind() if _passes_one_in_body(call, names, document, ledger, claimed) else found
    if document.anchored and not call.is_undo:
        anchored = _anchored(call, names, document)
        if anchored is not None and anchored.action not in claimed:
            return Answered(anchored)  # the program has given its call a key since
    return found


def _find_anchored(
    call: Call, names: tuple[str, ...], document: Document, claimed: AbstractSet[str]
) -> Answered | Twin | None:
    """Return how an effect without a key stands to those that only a checkpoint holds.

    An equal one answers it, once, and only as long as no edit came after. Any other of the same tool that this call of
    the program has not come by is in the way: a model may only have worded its argument differently.
    """
    anchored = _anchored(call, names, document)
    if anchored is not None:
        since = max(anchored.settled, anchored.intent)  # of one that was reused, the intent is the later
        is_told_apart = since > document.edited and anchored.action not in claimed
        return Answered(anchored) if is_told_apart and call.takes_loose else Twin(anchored)
    others = (kept for kept in document.anchored.values() if kept.tool in names and kept.action not in claimed)
    return next((Twin(kept) for kept in others), None)


def _anchored(call: Call, names: tuple[str, ...], document: Document) -> Kept | None:
    found = (document.anchored.get(key_of(name, call.digest.hex())) for name in names)
    return next((kept for kept in found if kept is not None), None)


def _passes_one_in_body(
    call: Call, names: tuple[str, ...], document: Document, ledger: Ledger, claimed: AbstractSet[str]
) -> bool:
    """As `_passes_one`, of the body of a loop from which the call comes."""
    kept = (one for one in document.places.get(call.loop, {}).values() if not (one.free or one.failed))
    if any(one.tool in names and one.action not in claimed for one in kept):
        return True
    open_ = (a for a in _open_here(ledger) if a.loop == call.loop and not a.effect.is_free and a.tool in names)
    return any(a.action not in claimed for a in open_)


def _passes_one(names: tuple[str, ...], document: Document, ledger: Ledger, claimed: AbstractSet[str]) -> bool:
    """Whether an effect of this tool that was not asked for again is loose or open: another might be the same twice."""
    loose = (kept for kept in document.loose if not (kept.free or kept.failed) and kept.tool in names)
    if any(kept.action not in claimed for kept in loose):
        return True
    open_ = (a for a in _open_here(ledger) if not (a.effect.is_free or a.key) and a.tool in names)
    return any(a.action not in claimed for a in open_)


def _loose(equal: Sequence[Kept], names: tuple[str, ...], claimed: AbstractSet[str]) -> Kept | None:
    """Return the one that was intended first: the order in which they ended says nothing about the calls."""
    able = [k for k in equal if k.tool in names and (k.unapplied or k.action not in claimed)]
    return min(able, key=lambda kept: kept.intent, default=None)


def _interrupted(call: Call, names: tuple[str, ...], ledger: Ledger, claimed: AbstractSet[str]) -> Finding:
    for action in _open_here(ledger):
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
