"""Gathers a handover: from the fold what is, from the journal what was tried. Reads the journal once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from perdure.codec import leaves
from perdure.core import awaiting, rollback
from perdure.core.fold import Fold
from perdure.core.manifest import Manifest
from perdure.core.strategies import changes_of
from perdure.engine.loading import entries, load_fold
from perdure.limits import HANDOVER_ITEMS_MAX, HANDOVER_TEXT_BYTES, HANDOVER_VALUE_BYTES
from perdure.logs.plain import Blobs, Plain, fetch_blobs, moment, to_plain
from perdure.model import ledger as kept
from perdure.model.ids import cut_text
from perdure.ports import Store
from perdure.views.handover.package import (
    Evidence,
    Files,
    Handover,
    InWorld,
    Passed,
    Place,
    Step,
    Tried,
)
from perdure.views.handover.trail import Call, Fault, Newest, Trail, error_text
from perdure.views.handover.ways import ways_of
from perdure.views.listing import Row, look_at
from perdure.views.showing import Show, marks_of, show

_NOTHING: Final = kept.Tried()
_PROOFS_MAX: Final = 3  # of one step
T = TypeVar("T")
P = TypeVar("P", bound=msgspec.Struct)


async def handover(store: Store, name: str) -> Handover:
    """Return the task called `name`, packed. Raises TaskUnknown, TaskAmbiguous, Damaged."""
    row = await look_at(store, await store.find(name))
    shown = await show(store, row.summary.task)
    fold = await load_fold(store, row.summary.task)
    trail = Trail()
    async for entry in entries(store, fold.task):
        if entry.header.seq > fold.seq:
            break  # it came while we read
        trail.take(entry)
    in_world = [(action, call) for action, call in trail.effects.items() if _is_in_world(action, call, fold)]
    calls = [fault.call for fault in trail.faults.kept if fault.call is not None] + [call for _, call in in_world]
    blobs = await fetch_blobs(store, [call.arguments for call in calls])
    files = await _files(store, fold)
    return _Packer(row, shown, fold, trail).pack(blobs, in_world, files)


class _Packer:
    """Puts together what was read."""

    def __init__(self, row: Row, shown: Show, fold: Fold, trail: Trail) -> None:
        self._row, self._shown, self._fold, self._trail = row, shown, fold, trail
        self._left_out: dict[str, int] = {}

    def pack(self, blobs: Blobs, in_world: Sequence[tuple[str, Call]], files: Files | None) -> Handover:
        """Return the package."""
        shown, fold, trail = self._shown, self._fold, self._trail
        ledger, document = fold.ledger, fold.document
        places = _places(fold)
        effects = self._newest("effects", [_effect(call, blobs) for _, call in in_world])
        steps = _steps(fold, trail)
        pending = self._newest("pending", shown.pending)
        same = {name: getattr(shown, name) for name in _AS_SHOWN}
        return Handover(
            **same,
            goal=_cut(shown.goal),
            why=_cut(shown.why),
            need=awaiting.need_of(ledger),
            question=_cut(awaiting.question_of(ledger)),
            plan=self._newest("plan", steps),
            checks=self._newest("checks", _other_checks(fold, steps)),
            state=self._state(),
            checkpoints=self._newest("checkpoints", places),
            files=files,
            result=_json(shown.result, HANDOVER_TEXT_BYTES) if shown.result is not None else "",
            strategies=_strategies(fold, trail),
            failures=tuple(_evidence(fault, blobs, fold) for fault in self._kept("failures", trail.faults)),
            failures_counted=ledger.failures,
            decisions=self._texts(self._kept("decisions", trail.decisions)),
            rollbacks=self._texts(self._kept("rollbacks", trail.rollbacks)),
            circles=self._texts(self._kept("circles", trail.circles)),
            lessons=tuple(map(_cut, self._newest("lessons", ledger.lessons))),
            facts=tuple(map(_cut, self._newest("facts", ledger.facts))),
            asked=self._texts(self._kept("asked", trail.asked)),
            messages=tuple(map(_cut, self._newest("messages", ledger.messages))),
            pending=pending,
            effects=effects,
            step=document.step,
            ways=ways_of(self._row, fold, shown.pending, places),
            left_out=self._left_out,
        )

    def _state(self) -> dict[str, str]:
        root: dict[Any, Any] = self._fold.tree.root
        keys = list(root)[:HANDOVER_ITEMS_MAX]
        if len(root) > len(keys):
            self._left_out["state"] = len(root) - len(keys)
        return {_cut(str(key)): _value(root[key]) for key in keys}

    def _newest(self, field: str, items: Sequence[T]) -> tuple[T, ...]:
        if len(items) > HANDOVER_ITEMS_MAX:
            self._left_out[field] = len(items) - HANDOVER_ITEMS_MAX
        return tuple(items[-HANDOVER_ITEMS_MAX:])

    def _kept(self, field: str, newest: Newest[T]) -> tuple[T, ...]:
        if newest.left_out:
            self._left_out[field] = newest.left_out
        return tuple(newest.kept)

    def _texts(self, parts: Iterable[P]) -> tuple[P, ...]:
        return tuple(_with_cut_texts(part) for part in parts)


# Fields that are those of `show`, and short.
_AS_SHOWN: Final = (
    "task", "name", "status", "person", "holder", "until", "driver", "workspace", "attempt", "branch", "entries",
    "started_at", "changed_at", "failures_max", "actions", "failed_actions", "money", "tokens_in", "tokens_out",
    "worked_s", "budget",
)  # fmt: skip


def _is_in_world(action: str, call: Call, fold: Fold) -> bool:
    under_way = fold.ledger.rollback
    if under_way is not None and action in under_way.undone:
        return False
    return not call.is_of_left_branch or action in fold.ledger.standing


def _effect(call: Call, blobs: Blobs) -> InWorld:
    return InWorld(
        entry=call.settled,
        tool=call.tool,
        arguments=_arguments(call, blobs),
        undo=call.undo,
        is_of_left_branch=call.is_of_left_branch,
    )


def _evidence(fault: Fault, blobs: Blobs, fold: Fold) -> Evidence:
    failure, call = fault.observed.failure, fault.call
    first = fold.ledger.strategies[0].name if fold.ledger.strategies else ""
    return Evidence(
        entry=fault.entry,
        at=moment(fault.at),
        failure_class=failure.failure_class,
        error=_cut(error_text(failure.error)),
        is_counted=fault.observed.counted,
        strategy=fault.strategy or first,
        tool=failure.tool,
        action=failure.action,
        arguments=_arguments(call, blobs) if call is not None else "",
        entries=(call.intent, call.settled) if call is not None else (),
    )


def _steps(fold: Fold, trail: Trail) -> list[Step]:
    checks = [
        Passed(check=check, entry=seq, step=trail.steps.get(seq, "")) for check, seq in fold.document.checks.items()
    ]
    return [
        Step(
            name=_cut(step),
            is_done=step in fold.document.checks,
            is_begun=step == fold.document.step,
            proven_by=tuple(one for one in checks if step in {one.check, one.step})[-_PROOFS_MAX:],
        )
        for step in fold.document.plan
    ]


def _other_checks(fold: Fold, steps: Sequence[Step]) -> list[Passed]:
    of_steps = {passed.entry for step in steps for passed in step.proven_by}
    return [Passed(check=_cut(check), entry=seq) for check, seq in fold.document.checks.items() if seq not in of_steps]


def _strategies(fold: Fold, trail: Trail) -> tuple[Tried, ...]:
    declared, tried = fold.ledger.strategies, fold.ledger.tried
    found: list[Tried] = []
    for index, strategy in enumerate(declared[:HANDOVER_ITEMS_MAX]):
        record = tried.get(strategy.name, _NOTHING)
        found.append(
            Tried(
                strategy=strategy.name,
                is_followed=index == fold.document.strategy,
                changes=changes_of(strategy, declared[0]),
                rounds=trail.rounds[strategy.name] + (index == 0),  # nobody chooses the first one to begin with
                progress=record.progress,
                failures=record.failures,
                actions=record.actions,
            )
        )
    return tuple(found)


def _places(fold: Fold) -> tuple[Place, ...]:
    open_ = {mark.seq for mark in rollback.admissible(fold.document, fold.ledger)}
    first = rollback.checkpoints(fold.document)[-1]
    start = Place(name=first.name, entry=1, is_open=first.seq in open_)
    marks = (
        Place(name=one.name, entry=one.seq, is_open=one.seq in open_, verdict=one.verdict) for one in marks_of(fold)
    )
    return (start, *marks)


async def _files(store: Store, fold: Fold) -> Files | None:
    """Return how the workspace differs from what it was at the last checkpoint, as far as it is on record."""
    if not fold.ledger.workspace:
        return None
    last = marks_of(fold)[-1:]
    before = (await load_fold(store, fold.task, last[0].seq)).files if last else Manifest()
    added: list[str] = []
    changed: list[str] = []
    removed: list[str] = []
    for change in before.changes_to(fold.files):
        old = before.get(change.path)
        known = change.node or old
        if known is None or known.kind == "folder":
            continue
        (removed if change.node is None else added if old is None else changed).append(change.path)
    paths = sorted([*added, *changed, *removed])
    return Files(
        since=last[0].name if last else "the start",
        entry=last[0].seq if last else 1,
        added=len(added),
        changed=len(changed),
        removed=len(removed),
        paths=tuple(map(_cut, paths[:HANDOVER_ITEMS_MAX])),
    )


def _arguments(call: Call, blobs: Blobs) -> str:
    return _json(to_plain(call.arguments, blobs), HANDOVER_VALUE_BYTES) if call.arguments else ""


def _value(value: object) -> str:
    writer = leaves.LeafWriter()
    return _json(to_plain(leaves.encode(value, writer), writer.blobs), HANDOVER_VALUE_BYTES)


def _json(plain: Plain, size_max: int) -> str:
    return cut_text(msgspec.json.encode(plain).decode(), size_max)


def _cut(text: str) -> str:
    return cut_text(text, HANDOVER_TEXT_BYTES)


def _with_cut_texts(part: P) -> P:
    texts = {field: getattr(part, field) for field in part.__struct_fields__}
    return msgspec.structs.replace(part, **{name: _cut(text) for name, text in texts.items() if isinstance(text, str)})
