"""The seam: every protocol through which the engine meets the outside, with its promises. Nothing here does anything.

A store is the sum of six small rungs (`Store`). `stores/memory.py` is the readable specification of them all, and
`perdure.testing.conformance` holds every store to it. All times here are UTC in microseconds since 1970.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from perdure.limits import LEASE_TTL_S
from perdure.model.budget import Cost
from perdure.model.chat import ModelReply, ModelRequest
from perdure.model.ids import Holder
from perdure.model.move import Move, PolicyView
from perdure.model.status import TaskSummary


# --- store ----------------------------------------------------------------------------------------------------------
class Append(msgspec.Struct, frozen=True, kw_only=True):
    """The one atomic act: entries in a row, the blobs they name, the messages they consume, the summary they change."""

    expected_seq: int  # of the journal's last entry before this append, 0 for the first
    epoch: int
    frames: bytes  # of all entries, one after the other
    last_seq: int
    last_digest: bytes  # digest of the last entry: what lies there with it *is* this append
    prev_digest: bytes  # digest of the entry at expected_seq
    blobs: tuple[tuple[bytes, bytes], ...] = ()  # (sha256 of the bytes, bytes); zstd is the store's business
    consumed: tuple[str, ...] = ()  # inbox message ids removed with it
    summary: TaskSummary | None = None  # replaces the task's summary
    names: tuple[bytes, ...] = ()  # digests of blobs that its entries name and the store has: they are kept for it too
    lease_s: float = 0.0  # renews the lease as well, to stand so long from now on; 0: leaves it as it is


class StoredAppend(msgspec.Struct, frozen=True):
    """An append as read back."""

    first_seq: int
    last_seq: int
    frames: bytes
    last_digest: bytes


class Journal(Protocol):
    """Append-only sequences of entries, one per task."""

    def append(self, task: str, append: Append) -> Awaitable[None]:
        """Write all of `append` right after `expected_seq`, or none of it.

        The call itself (not the await) takes the place in the order: appends of one task are written in the order of
        the calls. The await is the acknowledgement: after it the append survives kill -9 and power loss (where
        `capabilities` says "durable"). Cancelling the await does not take the append back, and it may be awaited again,
        or by several, who are cancelled each for himself.

        Tested in this order: an append whose last_seq already lies there with the same last_digest succeeds (whatever
        the epoch); an epoch other than the lease's raises Fenced; a wrong expected_seq raises Conflict. A refusal
        leaves nothing visible and touches no other task's append. Raises StoreFull (nothing written, may be tried
        again), StoreBroken (closed for good), StoreBusy, TaskUnknown, NameTaken (a summary takes the name of a living
        task), BlobMissing (one of `names` is not there), LimitExceeded (frames over 8 MiB). All of them come from the
        await, none from the call.
        """
        ...

    def read(self, task: str, after: int = 0) -> AsyncIterator[StoredAppend]:
        """Yield the appends that hold entries with seq > `after`, in order, in bounded memory.

        Pages of at most limits.READ_PAGE_ROWS rows; no cursor stays open between pages. The first append yielded may
        begin at or before `after`. Raises TaskUnknown.
        """
        ...

    async def head(self, task: str) -> tuple[int, bytes]:
        """Return (seq, digest) of the last entry, (0, 32 zero bytes) where there is none. Raises TaskUnknown."""
        ...


class SnapshotHead(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a stored snapshot without reading it."""

    seq: int
    branch: int
    fold_version: int
    digest: bytes  # sha256 over all parts
    size: int


class Snapshots(Protocol):
    """Stored copies of a fold. Never a promise: whatever is wrong with one, the journal decides."""

    async def save_snapshot(self, task: str, head: SnapshotHead, parts: Sequence[bytes]) -> None:
        """Store the parts (each at most limits.SNAPSHOT_PART_BYTES) in transactions of few, the head last."""
        ...

    async def snapshots(self, task: str) -> list[SnapshotHead]:
        """Return the whole snapshots of `task`, newest first."""
        ...

    async def load_snapshot(self, task: str, seq: int) -> bytes | None:
        """Return the joined parts of the snapshot at `seq`, None where it is gone."""
        ...

    async def forget_snapshots(self, task: str, keep: Sequence[int]) -> int:
        """Remove all snapshots but those at the seqs in `keep`, and parts without a head; return how many went."""
        ...


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """The exclusive right to write a task, as stored."""

    epoch: int
    holder: Holder | None  # None: released
    beats: int  # how often it was renewed: a challenger watches whether it still grows
    until: int  # by the store's clock: before then nobody needs to look whether a holder seen alive still beats


class Leases(Protocol):
    """Who may write. Each grant raises the epoch by one; the epoch never falls.

    A store that is shared by processes renews the leases granted through a handle by itself, a few times per time to
    live and ahead of anything queued, whatever the handle's event loop is doing. It ends with the process, with
    `release`, and where the lease is found to be somebody else's. A longer term set by an append is kept till its end.
    """

    async def lease(self, task: str) -> Lease:
        """Return the lease as it stands. Raises TaskUnknown."""
        ...

    async def claim(
        self, task: str, holder: Holder, *, over: int, beats: int | None = None, ttl_s: float = LEASE_TTL_S
    ) -> Lease:
        """Grant the lease to `holder` if its epoch still is `over`; return it with epoch `over + 1`.

        With `beats`, only if it has not been renewed since it had so many. It ends `ttl_s` after its last renewal.
        Whether the present holder may be robbed is the caller's judgement (`engine/leases.py`), also while he lives
        and his lease stands; this compares and swaps. Raises TaskBusy naming the present holder when another was
        faster, TaskUnknown.
        """
        ...

    async def renew(self, task: str, epoch: int, ttl_s: float = LEASE_TTL_S) -> None:
        """Raise the beats of the lease of `epoch`; it ends `ttl_s` from now. Raises Fenced when the epoch is past."""
        ...

    async def release(self, task: str, epoch: int) -> None:
        """Free the lease of `epoch`; does nothing when it is another epoch's by now.

        Whatever comes of it, the store no longer renews the lease by itself.
        """
        ...


class Catalogue(Protocol):
    """The tasks of a store."""

    async def create(
        self, summary: TaskSummary, holder: Holder, ttl_s: float = LEASE_TTL_S, *, epoch: int = 1
    ) -> Lease:
        """Make a task with an empty journal and a lease of `epoch` for `holder`, as `claim` grants it.

        A fork begins with a higher epoch than 1: one more than its parent's, whose entries it takes over.

        Raises NameTaken where an unfinished task has that name. That may be one whose journal stayed empty, its maker
        killed before the first append: it is not listed, and `forget_empty` removes it.
        """
        ...

    async def forget_empty(self, task: str, *, over: int) -> bool:
        """Remove `task` if its journal is empty and its lease's epoch still is `over`; return whether it was removed.

        Whether its holder is dead is the caller's judgement, as with `claim`.
        """
        ...

    async def tasks(self) -> list[TaskSummary]:
        """Return all tasks that have at least one entry, newest first. Reads no journal."""
        ...

    async def find(self, name: str) -> TaskSummary:
        """Return the task with that id, else the newest with that name, else the one whose name or id begins so.

        Raises TaskUnknown, TaskAmbiguous. Tasks with an empty journal are not found.
        """
        ...

    async def delete(self, task: str) -> None:
        """Remove the task, its journal, snapshots, messages and lease; blobs go at the next sweep."""
        ...


class Blobs(Protocol):
    """Content-addressed bytes. They are put by `append` only."""

    async def blobs(self, digests: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """Return the bytes of each digest, verified.

        Raises KeyError naming the first that is missing, StoreBroken where bytes do not match.
        """
        ...

    async def sweep(self) -> int:
        """Remove blobs that no append and no snapshot names, inside one write transaction; return how many went."""
        ...


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """Something said to a task by those without its lease."""

    id: str
    what: str  # pause, cancel, tell, answer, budget
    text: str = ""
    key: str = ""  # of an answer: the question that it is to


class Inbox(Protocol):
    """Messages to tasks. The holder removes one in the append that records it."""

    async def post(self, task: str, message: Message) -> None:
        """Leave a message; the same id twice is one message. Raises TaskUnknown."""
        ...

    async def messages(self, tasks: Sequence[str]) -> Mapping[str, list[Message]]:
        """Return the waiting messages of each of `tasks` that has any, oldest first."""
        ...


class Store(Journal, Snapshots, Leases, Catalogue, Blobs, Inbox, Protocol):
    """All rungs together."""

    place: str  # for people: path, or URL without passwords
    folder: (
        str | None
    )  # where files of this machine that belong to the store are kept, None where there is no such place
    capabilities: frozenset[
        str
    ]  # "durable", "processes" (shared by several), "sweep", "delete", "upkeep" (is an `Upkeep` too)

    async def close(self) -> None:
        """Write what is queued, then free everything. Closing twice does nothing."""
        ...


class StoreStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How big a store is. Bytes are those on disk where nothing else is said."""

    schema: int
    size_bytes: int  # with what is free inside
    free_bytes: int  # used again before the store grows
    log_bytes: int  # not yet carried over into the store
    blobs: int
    blob_bytes: int  # before packing
    snapshots: int
    snapshot_bytes: int


Copied = Callable[[int, int], None]  # pages copied, of how many; called on another thread


class Upkeep(Protocol):
    """What the operator asks of a store that declares "upkeep"."""

    async def status(self) -> StoreStatus:
        """Return how big the store is. Reads no journal."""
        ...

    async def backup(self, file: str, copied: Copied | None = None) -> None:
        """Copy the store as it stands now into the new file `file`, beside those who write; it is there whole or not.

        Raises UsageError where `file` exists, StoreFull, StoreUnreadable; the store itself stays as it is.
        """
        ...


# --- time and chance ------------------------------------------------------------------------------------------------
class Clock(Protocol):
    """The only source of time."""

    def now(self) -> int:
        """UTC in microseconds since 1970. Information only: it may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; for durations."""
        ...


class Ids(Protocol):
    """The only source of chance."""

    def task_id(self) -> str:
        """32 hex digits."""
        ...

    def short_id(self) -> str:
        """An id for an action, a key or a message: 22 letters of 128 random bits."""
        ...

    def salt(self) -> bytes:
        """16 random bytes."""
        ...

    def random(self) -> float:
        """A float in [0, 1)."""
        ...


# --- who thinks, and who takes part in a rollback -------------------------------------------------------------------
class Policy(Protocol):
    """What picks the next action. `agent/loop.py` drives it."""

    def next(self, view: PolicyView) -> Move:
        """Return the next move; a pure function of `view`."""
        ...


class Model(Protocol):
    """What answers requests: a provider's model, one on this machine, or a scripted one. One request, no retries."""

    name: str  # as it is chosen: "openai:gpt-5-mini"
    provider: str  # whose health and waits its calls share: "openai"
    context_tokens: int  # the most that request and reply may have together; 0 where it is not known

    async def reply(self, request: ModelRequest, heard: Callable[[str], None]) -> ModelReply:
        """Send `request` and return the whole reply; `heard` is told each piece of text as it comes.

        What was heard counts for nothing until this returns. Raises what the client library raises: the classifier
        reads it. Cancelling ends the request.
        """
        ...

    def estimate(self, request: ModelRequest) -> Cost:
        """Return the most that `request` may cost; called before it is sent. Sends nothing."""
        ...

    async def aclose(self) -> None:
        """Let go of connections and processes; called once, when nothing more is asked."""
        ...


class Participant(Protocol):
    """What takes part in a rollback. The state is the first; workspace and effects join later."""

    name: str

    async def prepare(self, to_seq: int) -> tuple[str, ...]:
        """Return what will be done to go back to the end of entry `to_seq`, one line per move; change nothing."""
        ...

    async def apply(self, move: str) -> None:
        """Do one move. Idempotent: after a kill it is asked for again."""
        ...

    async def done(self, to_seq: int) -> None:
        """All moves of all participants are made and `RolledBack` is written."""
        ...


class Hook(Protocol):
    """Told of what happens, for terminals and logs; it can change nothing and its errors are logged, not raised."""

    def __call__(self, task: str, event: str, fields: Mapping[str, Any]) -> None:
        """Receive one event, e.g. ("action_settled", {"tool": …, "seq": …})."""
        ...


@runtime_checkable
class Delivering(Protocol):
    """A hook that carries on what it is told beside the tasks, such as over a network."""

    async def delivered(self) -> None:
        """Return when all it was told is delivered or given up, within a bounded time; the runtime ends."""
        ...
