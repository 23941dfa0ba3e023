"""What is kept of actions for the calls to come: open ones, outcomes, and how these are marked, dropped, forgotten.

Part of the meaning of entries: called by `fold.py` only.
"""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from perdure.core import rollback, spending
from perdure.core.resume import failed_key_of, key_of
from perdure.limits import GIST_BYTES
from perdure.model import entry as e
from perdure.model.document import Document, Kept
from perdure.model.entry import Header
from perdure.model.ledger import Ledger, OpenAction

_FAILED_KEYS_MAX: Final = 1024


class Keeper(Protocol):
    """What is needed of the fold."""

    epoch: int
    document: Document
    ledger: Ledger


def open_action(header: Header, payload: e.ActionIntended) -> OpenAction:
    """Return an action that has begun, as it is kept until it is settled."""
    action = OpenAction(
        action=payload.action,
        tool=payload.tool,
        effect=payload.effect,
        digest=payload.digest,
        intent=header.seq,
        epoch=header.epoch,
        branch=header.branch,
        intended_at=header.at,
        key=payload.key,
        loop=payload.loop,
        attempt=payload.attempt,
        timeout_s=payload.timeout_s,
        reduces=payload.reduces,
        gist=bytes(payload.arguments)[:GIST_BYTES],
    )  # no more than 15 names in one call: from there on Python takes twice as long
    if payload.effect_key or payload.paths or payload.provider or payload.source or payload.poll or payload.paid:
        action = msgspec.structs.replace(
            action,
            effect_key=payload.effect_key,
            paths=payload.paths,
            provider=payload.provider,
            is_source=payload.source,
            is_poll=payload.poll,
            is_paid=payload.paid,
            reserve=payload.reserve,
        )
    return action


def has_tried(payload: e.ActionSettled, action: OpenAction) -> bool:
    """Whether an effect was tried and failed by itself: the program may have gone another way since.

    Not where a person says that it did not happen, nor where it was cancelled: those are made again.
    """
    is_own = payload.by in {"", "late"} and payload.error is not None and payload.error.failure_class != "cancelled"
    return is_own and not action.effect.is_free


def keep_outcome(fold: Keeper, seq: int, payload: e.ActionSettled, action: OpenAction, *, is_patched: bool) -> None:
    """Keep the outcome that entry `seq` tells of."""
    failed = payload.outcome == "failed"
    if not failed and rollback.stays(action.effect.undo, action.intent, fold.ledger):
        fold.document.impossible_at = seq
    kept = Kept(
        action=action.action,
        tool=action.tool,
        digest=action.digest,
        intent=action.intent,
        settled=seq,
        key=action.key,
        free=action.effect.is_free,
        failed=failed,
        unapplied=bool(payload.unapplied),
    )
    keep(fold, seq, kept, action.loop, is_patched=is_patched, reduces=action.reduces)


def keep(fold: Keeper, seq: int, kept: Kept, loop: str, *, is_patched: bool, reduces: bool) -> None:
    """Keep an outcome for the call that will ask for it; entry `seq` has put it on this branch."""
    document = fold.document
    if is_patched:
        document.changed = seq
        drop_loose(document, fold.ledger, fold.epoch, keep_effects=True)
    if not kept.free:
        document.kept_at = seq
    if not kept.key and reduces and not (kept.unapplied or kept.failed):
        return  # the program asks its state before it acts again
    if loop:
        document.places.setdefault(loop, {})[key_of(kept.tool, kept.key)] = kept
    elif kept.key:
        document.keyed[key_of(kept.tool, kept.key)] = kept
    else:
        document.loose.append(kept)


def mark_applied(document: Document, action: str) -> None:
    """Note that the patch of an outcome that stood without it has been made."""
    document.loose = [kept for kept in document.loose if kept.action != action]
    for group in (document.keyed, *document.places.values()):
        for key, kept in group.items():
            if kept.action == action:
                group[key] = msgspec.structs.replace(kept, unapplied=False)
                return


def forget_failed(document: Document, action: str) -> None:
    """Forget the failed effect that has left the program: it is made again. The others were dealt with."""
    document.loose = [kept for kept in document.loose if not (kept.failed and action == kept.action)]
    for group in (document.keyed, *document.places.values()):
        for key in [key for key, kept in group.items() if kept.failed and action == kept.action]:
            del group[key]


def keep_effect_key(ledger: Ledger, action: OpenAction) -> None:
    """Keep the key of an effect that has failed: an equal call goes out under it again."""
    if not action.effect_key:
        return
    ledger.failed_keys[failed_key_of(action.tool, action)] = action.effect_key
    if len(ledger.failed_keys) > _FAILED_KEYS_MAX:
        del ledger.failed_keys[next(iter(ledger.failed_keys))]


def drop_loose(document: Document, ledger: Ledger, epoch: int, *, keep_effects: bool = False) -> None:
    """What no call has claimed by now is never handed out.

    A checkpoint anchors an effect's outcome, and keeps what free tools gave before it: a program that is called anew
    comes by the same calls and must find them, since the effect's arguments may be made of their results. The patch of
    another action keeps both as well. After an edit the program can ask its state (the engine refuses it while an
    effect is unclaimed). What waits for its reducer stays. Free intents of earlier runs are forgotten: running those
    again does no harm.
    """
    if document.loose:
        effects = [n for n, kept in enumerate(document.loose) if not kept.free] if keep_effects else []
        last = effects[-1] if effects else -1
        document.loose = [kept for n, kept in enumerate(document.loose) if kept.unapplied or n <= last]
    stale = [a for a in ledger.open.values() if a.effect.is_free and a.epoch < epoch]
    if stale:
        spending.note_dropped(ledger, stale)
        for action in stale:
            del ledger.open[action.action]
