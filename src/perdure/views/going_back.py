"""What a rollback would change, and what it could not take back: read from the journal, nothing is done.

Called by `perdure rollback --dry-run`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

import msgspec

from perdure.codec import leaves
from perdure.core.effects_table import FATES
from perdure.core.rollback import Behind
from perdure.engine.files import foresee_files
from perdure.engine.loading import load_fold
from perdure.engine.rollback import look_ahead
from perdure.logs.plain import Plain, to_plain
from perdure.ports import Store

_CHANGES_MAX: Final = 50  # of the state, named one by one


class StateChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One part of the state that would be another one."""

    path: str
    now: Plain = None
    then: Plain = None


class EffectFate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One effect behind the checkpoint, and what would become of it."""

    action: str
    tool: str
    effect: str
    fate: str  # taken back, stays, goes with the files, nothing to take back
    in_doubt: bool = False  # nobody knows whether it happened: it is treated as if it had


class GoingBack(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rollback as it would go; with --json exactly these fields, empty ones left out."""

    task: str
    name: str
    checkpoint: str
    seq: int
    state: tuple[StateChange, ...] = ()
    more_state: int = 0  # parts that would change, and are not named
    effects: tuple[EffectFate, ...] = ()  # in the order in which they would be dealt with: newest first
    files: tuple[str, ...] = ()
    stays: int = 0  # effects that cannot be taken back: --carry or --force must be said


async def foresee_rollback(store: Store, name: str, checkpoint: str) -> GoingBack:
    """Return what a rollback of the task `name` to `checkpoint` would do. Raises TaskUnknown, CheckpointUnknown."""
    summary = await store.find(name)
    fold = await load_fold(store, summary.task)
    ahead = await look_ahead(store, fold, checkpoint)
    earlier = await load_fold(store, summary.task, ahead.to_seq)
    changes = list(_changes(_shown(fold.tree.root), _shown(earlier.tree.root), "state"))
    newest_first = sorted(ahead.behind, key=lambda one: one.at, reverse=True)
    return GoingBack(
        task=summary.task,
        name=fold.ledger.name,
        checkpoint=checkpoint,
        seq=ahead.to_seq,
        state=tuple(changes[:_CHANGES_MAX]),
        more_state=max(0, len(changes) - _CHANGES_MAX),
        effects=tuple(map(_fate, newest_first)),
        files=await foresee_files(store, fold, ahead.to_seq) if fold.ledger.workspace else (),
        stays=len(ahead.impossible),
    )


def _fate(one: Behind) -> EffectFate:
    return EffectFate(
        action=one.action,
        tool=one.tool,
        effect=str(one.effect),
        fate=FATES[one.effect.undo],
        in_doubt=one.is_in_doubt,
    )


def _shown(root: object) -> Plain:
    writer = leaves.LeafWriter()
    return to_plain(leaves.encode(root, writer), writer.blobs)


def _changes(now: Any, then: Any, path: str) -> Iterator[StateChange]:  # noqa: ANN401 - plain JSON
    """Yield the smallest parts in which the two differ; in lists, by index."""
    if now == then:
        return
    if isinstance(now, dict) and isinstance(then, dict):
        both: tuple[dict[str, Any], dict[str, Any]] = (now, then)  # pyright: ignore[reportUnknownVariableType] - plain JSON
        for key in {**both[0], **both[1]}:
            yield from _changes(both[0].get(key), both[1].get(key), f"{path}[{key!r}]")
    elif isinstance(now, list) and isinstance(then, list):
        left, right = cast("list[Any]", now), cast("list[Any]", then)  # type: ignore[redundant-cast]  # pyright needs it
        for index in range(max(len(left), len(right))):
            one, other = (row[index] if index < len(row) else None for row in (left, right))
            yield from _changes(one, other, f"{path}[{index}]")
    else:
        yield StateChange(path=path, now=now, then=then)
