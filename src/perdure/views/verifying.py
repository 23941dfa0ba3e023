"""Is a task whole? Everything that its journal can show, all damage reported and none passed over.

Quick: the chain from entry 1 (dense, linked, every digest) and what `judging` holds each entry against. Full: every
blob too, the fold from entry 1, and each snapshot against it. Changes nothing. Called by `perdure verify`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, cast

import msgspec

from perdure.codec import leaves, values
from perdure.codec.entries import kind_name
from perdure.core import snapshots
from perdure.core.fold import FOLD_VERSION, Fold
from perdure.engine.loading import load_fold
from perdure.errors import CodecError, Damaged, StoreBroken
from perdure.logs.lines import raws_of
from perdure.logs.walking import Step, walk
from perdure.model import entry as e
from perdure.ports import SnapshotHead, Store
from perdure.views.judging import BY_TESTS, INVARIANTS, WHAT, Judge

_REPORT_EVERY: Final = 1_024  # entries between two reports of progress, and two chances for other coroutines
_ONLY_FULL: Final = (0, 3)

Progress = Callable[[int, int], None]  # entries read so far, of how many


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong."""

    seq: int
    what: str  # a key of `judging.WHAT`, or "blob"
    text: str


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """One invariant, and what the journal shows of it."""

    invariant: int  # 0: blobs
    text: str
    verdict: Literal["holds", "broken", "not_checked", "by_tests"]  # not checked: only a full look does


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What `verify` found out about one task."""

    task: str
    name: str
    entries: int
    blobs: int
    snapshots: int
    findings: tuple[Finding, ...]
    is_full: bool = True

    @property
    def is_whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    @property
    def invariants(self) -> tuple[Shown, ...]:
        """Every invariant by number with its verdict, blobs last."""
        broken = {WHAT.get(one.what, 0) for one in self.findings}
        rows = [self._shown(number, text, broken) for number, text in INVARIANTS.items()]
        rows += [Shown(invariant=number, text=text, verdict="by_tests") for number, text in BY_TESTS.items()]
        rows.sort(key=lambda row: row.invariant)
        return (*rows, self._shown(0, "every blob that an entry names is there and matches its digest", broken))

    def _shown(self, number: int, text: str, broken: set[int]) -> Shown:
        is_looked_at = self.is_full or number not in _ONLY_FULL
        verdict = "broken" if number in broken else "holds" if is_looked_at else "not_checked"
        return Shown(invariant=number, text=text, verdict=cast("Literal['holds']", verdict))


async def verify(store: Store, name: str, *, full: bool = True, progress: Progress | None = None) -> Verdict:
    """Read all of the task called `name` and return what is wrong with it. Raises TaskUnknown, TaskAmbiguous."""
    summary = await store.find(name)
    inspector = _Inspector(store, is_full=full)
    total, _ = await store.head(summary.task)
    async for step in walk(store, summary.task):
        if inspector.take(step):
            await inspector.look_for_blobs(step)
        if inspector.entries % _REPORT_EVERY == 0:
            await asyncio.sleep(0)
            if progress is not None:
                progress(inspector.entries, total)
    compared = await _compare(store, summary.task, inspector) if full and not inspector.findings else 0
    return Verdict(
        task=summary.task,
        name=summary.name,
        entries=inspector.entries,
        blobs=len(inspector.looked_for),
        snapshots=compared,
        findings=tuple(inspector.findings),
        is_full=full,
    )


class _Inspector:
    """Looks at one step of the walk after the other."""

    def __init__(self, store: Store, *, is_full: bool) -> None:
        self.findings: list[Finding] = []
        self.entries = 0
        self.looked_for: set[bytes] = set()
        self.judge = Judge(self.report)
        self._store = store
        self._is_full = is_full

    def take(self, step: Step) -> bool:
        """Judge one step; return whether blobs are to be looked for."""
        if step.damage:
            self.report(step.seq, "chain", step.damage)
        if step.header is None:
            return False
        self.entries += 1
        if step.entry is not None:
            self.judge.take(step.entry)
            return self._is_full
        self.judge.header(step.header, None)
        if not step.damage:
            kind, version = kind_name(step.header.kind), step.header.version
            self.report(
                step.seq, "unknown", f"kind {kind} version {version} is of a later perdure; upgrade to check it"
            )
        return False

    async def look_for_blobs(self, step: Step) -> None:
        """Look for the blobs that an entry names, and for those that these name."""
        raws = raws_of(step.entry.payload) if step.entry is not None else []

        async def fetch(digests: list[bytes]) -> Mapping[bytes, bytes]:
            return {digest: raw for digest in digests if (raw := await self._fetch(step.seq, digest)) is not None}

        if any(b'"blob"' in raw for raw in raws):
            await leaves.gather_blobs(raws, fetch)
        if step.entry is not None and isinstance(step.entry.payload, e.FilesCaptured):
            files = {change.node.digest for change in step.entry.payload.changes if change.node is not None}
            await fetch(sorted(files - self.looked_for - {b""}))

    def report(self, seq: int, what: str, text: str) -> None:
        """Note one thing that is wrong."""
        self.findings.append(Finding(seq=seq, what=what, text=text))

    async def _fetch(self, seq: int, digest: bytes) -> bytes | None:
        self.looked_for.add(digest)
        try:
            return (await self._store.blobs([digest]))[digest]
        except KeyError:
            self.report(seq, "blob", f"blob {digest.hex()[:16]}… that it names is not there")
        except StoreBroken as error:
            self.report(seq, "blob", f"blob {digest.hex()[:16]}…: {error.reason}")
        return None


class _FromEntryOne:
    """A store that hides its snapshots, so that a fold must come from the entries."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def snapshots(self, _task: str) -> list[SnapshotHead]:
        """Return none."""
        return []

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


async def _compare(store: Store, task: str, inspector: _Inspector) -> int:
    """Fold from entry 1 to the end and to each snapshot; return how many snapshots were compared."""
    bare = cast("Store", _FromEntryOne(store))
    try:
        whole = await load_fold(bare, task)
    except (Damaged, CodecError) as error:
        inspector.report(error.seq if isinstance(error, Damaged) else 0, "fold", str(error))
        return 0
    judge, ledger = inspector.judge, whole.ledger
    if (judge.attempts, judge.rollbacks) != (ledger.attempt, ledger.rollbacks):
        counted = f"{judge.attempts} attempts and {judge.rollbacks} rollbacks"
        inspector.report(whole.seq, "ledger", f"it counts {ledger.attempt} and {ledger.rollbacks}, there are {counted}")
    if inspector.judge.files_digest not in {b"", whole.files.digest()}:
        inspector.report(whole.seq, "files", "the manifest folded from its changes is not the one that was recorded")
    every = await store.snapshots(task)
    heads = [head for head in every if head.fold_version == FOLD_VERSION]  # others are passed over by every reader
    for head in heads:
        problem = await _problem_of(store, bare, whole, head)
        if problem:
            inspector.report(head.seq, "snapshot", f"{problem}; the journal decides, it is not used")
    return len(heads)


async def _problem_of(store: Store, bare: Store, whole: Fold, head: SnapshotHead) -> str:
    raw = await store.load_snapshot(whole.task, head.seq)
    if raw is None:
        return "the snapshot is not there"
    if snapshots.digest_of(raw) != head.digest:
        return "the snapshot does not match its digest"
    named = [digest for seq, digest in whole.confirmed if seq == head.seq]
    if named and head.digest not in named:
        return "the journal names another snapshot at this entry"
    try:
        stored = snapshots.decode_fold(raw, await _blobs_of(store, [raw]))
    except (CodecError, KeyError) as error:
        return f"the snapshot cannot be read: {error}"
    fold = await load_fold(bare, whole.task, head.seq)
    return "" if _same(stored, fold) else "the snapshot differs from the fold of the entries"


async def _blobs_of(store: Store, raws: Iterable[bytes]) -> dict[bytes, bytes]:
    return dict(await leaves.gather_blobs(raws, store.blobs))


def _same(left: Fold, right: Fold) -> bool:
    return (
        (left.seq, left.epoch, left.branch, left.digest) == (right.seq, right.epoch, right.branch, right.digest)
        and left.document == right.document
        and left.ledger == right.ledger
        and left.files == right.files
        and values.canonical(left.tree.root) == values.canonical(right.tree.root)
    )
