"""Is a task whole? Everything that its journal can show, all damage reported and none passed over.

Checked: the chain from entry 1 (dense, linked, every digest), epochs and branches that never fall, outcomes that have
intents, nothing sent again that must not be, blobs that are there and match, a fold that succeeds, snapshots that
equal the fold. Not checked: what only a crash can show (tests/crash). Changes nothing. Called by `perdure verify`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

import msgspec

from perdure.codec import leaves, values
from perdure.codec.entries import kind_name
from perdure.core import snapshots
from perdure.core.fold import Fold
from perdure.engine.loading import load_fold
from perdure.errors import CodecError, Damaged, StoreBroken
from perdure.logs.lines import raws_of
from perdure.logs.walking import Step, walk
from perdure.model import entry as e
from perdure.model.entry import Entry, Header
from perdure.ports import SnapshotHead, Store

_BLOBS_AT_ONCE: Final = 32
_PROGRESS_EVERY: Final = 256

Progress = Callable[[int], None]  # entries read so far


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong."""

    seq: int
    what: str  # chain, order, action, blob, fold, snapshot, unknown
    text: str


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What `verify` found out about one task."""

    task: str
    name: str
    entries: int
    blobs: int
    snapshots: int
    findings: tuple[Finding, ...]

    @property
    def is_whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings


async def verify(store: Store, name: str, progress: Progress | None = None) -> Verdict:
    """Read all of the task called `name` and return what is wrong with it. Raises TaskUnknown, TaskAmbiguous."""
    summary = await store.find(name)
    inspector = _Inspector(store, summary.task)
    async for step in walk(store, summary.task):
        await inspector.take(step)
        if progress is not None and inspector.entries % _PROGRESS_EVERY == 0:
            progress(inspector.entries)
    await inspector.check_blobs()
    compared = 0 if inspector.findings else await _compare_snapshots(store, summary.task, inspector.findings)
    return Verdict(
        task=summary.task,
        name=summary.name,
        entries=inspector.entries,
        blobs=inspector.blobs,
        snapshots=compared,
        findings=tuple(inspector.findings),
    )


class _Inspector:
    """Looks at one entry after the other; remembers what later ones are held against."""

    def __init__(self, store: Store, task: str) -> None:
        self.findings: list[Finding] = []
        self.entries = 0
        self.blobs = 0
        self._store = store
        self._task = task
        self._before: Header | None = None
        self._intents: dict[str, e.ActionIntended] = {}  # that have no outcome yet
        self._named: dict[bytes, int] = {}  # blobs still to be looked for -> seq that names them

    async def take(self, step: Step) -> None:
        """Judge one step of the walk."""
        if step.damage:
            self._report(step.seq, "chain", step.damage)
        if step.header is not None:
            self.entries += 1
            self._judge_header(step.header)
        if step.entry is not None:
            self._judge(step.entry)
            if len(self._named) >= _BLOBS_AT_ONCE:
                await self.check_blobs()
        elif step.header is not None and not step.damage:
            kind, version = kind_name(step.header.kind), step.header.version
            self._report(
                step.seq, "unknown", f"kind {kind} version {version} is of a later perdure; upgrade to check it"
            )

    async def check_blobs(self) -> None:
        """Look for the blobs that were named since the last time."""
        for digest, seq in self._named.items():
            self.blobs += 1
            try:
                await self._store.blobs([digest])
            except KeyError:
                self._report(seq, "blob", f"blob {digest.hex()[:16]}… that it names is not there")
            except StoreBroken as error:
                self._report(seq, "blob", f"blob {digest.hex()[:16]}…: {error.reason}")
        self._named.clear()

    def _judge_header(self, header: Header) -> None:
        before, self._before = self._before, header
        if before is None:
            return
        if header.epoch < before.epoch:
            self._report(header.seq, "order", f"its epoch {header.epoch} is below {before.epoch} before it")
        if header.branch < before.branch:
            self._report(header.seq, "order", f"its branch {header.branch} is below {before.branch} before it")

    def _judge(self, entry: Entry) -> None:
        seq, payload = entry.header.seq, entry.payload
        if (seq == 1) != isinstance(payload, e.TaskStarted):
            self._report(seq, "order", "entry 1, and no other, must be the task's start")
        for raw in raws_of(payload):
            self._named.update((digest, seq) for digest in leaves.blob_digests(raw))
        match payload:
            case e.ActionIntended():
                self._judge_intent(seq, payload)
            case e.ActionSettled() if payload.action not in self._intents:
                if not payload.by:  # a person or a probe may come late
                    self._report(seq, "action", f"action {payload.action} is settled without an open intent")
            case e.ActionSettled() if payload.outcome != "in_doubt":
                del self._intents[payload.action]
            case _:
                pass

    def _judge_intent(self, seq: int, intent: e.ActionIntended) -> None:
        earlier = self._intents.get(intent.action)
        if earlier is not None and intent.effect.retry == "never":
            self._report(seq, "action", f"{intent.tool} (action {intent.action}) was sent again, and must not be")
        if earlier is not None and earlier.effect_key != intent.effect_key:
            self._report(seq, "action", f"{intent.tool} (action {intent.action}) was sent again under another key")
        self._intents[intent.action] = intent

    def _report(self, seq: int, what: str, text: str) -> None:
        self.findings.append(Finding(seq=seq, what=what, text=text))


class _FromEntryOne:
    """A store that hides its snapshots, so that a fold must come from the entries."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def snapshots(self, _task: str) -> list[SnapshotHead]:
        """Return none."""
        return []

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


async def _compare_snapshots(store: Store, task: str, findings: list[Finding]) -> int:
    """Fold from entry 1 to the end and to each snapshot; return how many snapshots were compared."""
    bare = cast("Store", _FromEntryOne(store))
    try:
        whole = await load_fold(bare, task)
    except (Damaged, CodecError) as error:
        findings.append(Finding(seq=error.seq if isinstance(error, Damaged) else 0, what="fold", text=str(error)))
        return 0
    heads = await store.snapshots(task)
    for head in heads:
        problem = await _problem_of(store, bare, whole, head)
        if problem:
            findings.append(
                Finding(seq=head.seq, what="snapshot", text=f"{problem}; the journal decides, it is not used")
            )
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
        stored = snapshots.decode_fold(raw, dict(await store.blobs(leaves.blob_digests(raw))))
    except (CodecError, KeyError) as error:
        return f"the snapshot cannot be read: {error}"
    fold = await load_fold(bare, whole.task, head.seq)
    return "" if _same(stored, fold) else "the snapshot differs from the fold of the entries"


def _same(left: Fold, right: Fold) -> bool:
    return (
        (left.seq, left.epoch, left.branch, left.digest) == (right.seq, right.epoch, right.branch, right.digest)
        and left.document == right.document
        and left.ledger == right.ledger
        and values.canonical(left.tree.root) == values.canonical(right.tree.root)
    )
