"""Bugs to be planted, one at a time, to show that the simulation finds them. Each is what a real mistake would leave.

    with BUGS["no fence"]():
        assert simulate(seed).complaints

Never active outside of such a block. Called by `tests/simulation`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import msgspec

from perdure.core import snapshots, spending
from perdure.core.fold import Fold
from perdure.core.snapshots import Image
from perdure.engine import driving, holding
from perdure.engine.loading import load_fold
from perdure.engine.sequencer import Sequencer
from perdure.engine.session import Session
from perdure.model import entry as e
from perdure.model.ledger import Ledger
from perdure.ports import Append, Store
from perdure.stores.answers import DONE
from perdure.testing.simulation.patching import patched
from perdure.testing.simulation.store import SeededStore


def _intent_after_effect() -> AbstractContextManager[None]:
    """An intent waits for the outcome, whatever its tool does to the world."""
    flush = Sequencer.flush

    def lazy_flush(self: Sequencer, consumed: tuple[str, ...] = ()) -> Awaitable[None]:
        is_intent = self.fold.seq == max((action.intent for action in self.fold.ledger.open.values()), default=0)
        return DONE if is_intent and not consumed else flush(self, consumed)

    return patched(Sequencer, "flush", lazy_flush)


def _no_fence() -> AbstractContextManager[None]:
    """The store takes what an old epoch writes."""
    write_one = SeededStore.write_one

    def write_any(self: SeededStore, task: str, append: Append) -> None:
        write_one(self, task, msgspec.structs.replace(append, epoch=self.epoch_of(task)))

    return patched(SeededStore, "write_one", write_any)


def _aliasing() -> AbstractContextManager[None]:
    """A snapshot is made of the live state, which goes on changing while it is encoded."""

    def take_image(fold: Fold) -> Image:
        return Image(fold, fold.tree.root)

    return patched(snapshots, "take_image", take_image)


def _counters_reset() -> AbstractContextManager[None]:
    """Whoever opens a task again counts from zero."""

    async def load_reset(store: Store, task: str, at: int | None = None) -> Fold:
        fold = await load_fold(store, task, at)
        fold.ledger.actions = fold.ledger.failed_actions = 0
        return fold

    return patched(holding, "load_fold", load_reset)


def _two_appends() -> AbstractContextManager[None]:
    """The patch of `then=` follows its outcome in an append of its own."""
    put = Session.put

    def put_twice(self: Session, payload: e.Payload, **parts: Any) -> int:
        operations = parts.pop("operations", ())
        if not isinstance(payload, e.ActionSettled) or not operations:
            return put(self, payload, operations=operations, **parts)
        seq = put(self, msgspec.structs.replace(payload, patch=e.NOTHING), **parts)
        self.sequencer.flush()
        put(self, e.StateEdited(patch=payload.patch), operations=operations)
        return seq

    return patched(Session, "put", put_twice)


def _batch_fails_as_one() -> AbstractContextManager[None]:
    """A refused append takes the others of its batch with it."""

    def write_all(self: SeededStore, batch: Sequence[tuple[str, Append]]) -> list[Exception | None]:
        refusals: list[Exception | None] = []
        for task, append in batch:
            refusals.append(self.write(task, append))
            if refusals[-1] is not None:
                return [refusals[-1]] * len(batch)
        return refusals

    return patched(SeededStore, "write_all", write_all)


def _decision_forgotten() -> AbstractContextManager[None]:
    """What an earlier process has decided is not obeyed by the next one."""

    async def go_on_without(session: Session, reached: Any) -> None:
        del session, reached

    return patched(driving, "go_on", go_on_without)


def _reserve_given_back() -> AbstractContextManager[None]:
    """A call that was killed and is made again costs nothing but the second time."""

    def forget(ledger: Ledger, intent: e.ActionIntended) -> None:
        del ledger, intent

    return patched(spending, "note_again", forget)


BUGS: Final[Mapping[str, Callable[[], AbstractContextManager[None]]]] = {
    "intent after the effect": _intent_after_effect,
    "no fence": _no_fence,
    "aliasing between live state and snapshot": _aliasing,
    "counters reset on restart": _counters_reset,
    "outcome and patch in two appends": _two_appends,
    "batch refusal fails a neighbour": _batch_fails_as_one,
    "decision forgotten on restart": _decision_forgotten,
    "a killed call gives its money back": _reserve_given_back,
}
