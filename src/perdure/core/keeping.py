"""What outcomes a document keeps for the calls to come, and how they are marked, dropped and forgotten.

Part of the meaning of entries: called by `fold.py` only.
"""

from __future__ import annotations

from typing import Final

import msgspec

from perdure.core.resume import failed_key_of
from perdure.model.document import Document
from perdure.model.ledger import Ledger, OpenAction

_FAILED_KEYS_MAX: Final = 1024


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
    stale = [a.action for a in ledger.open.values() if a.effect.is_free and a.epoch < epoch]
    for action in stale:
        del ledger.open[action]
