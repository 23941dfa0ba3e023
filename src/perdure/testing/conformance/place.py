"""What the checks are made of: a place with handles, chains of appends, and comparisons that raise PromiseBroken."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import msgspec

from perdure.errors import Unsupported
from perdure.model.ids import Holder
from perdure.model.status import TaskSummary
from perdure.ports import Append, Store, StoredAppend

E = TypeVar("E", bound=BaseException)
OpenStore = Callable[[], Awaitable[Store]]
GENESIS: Final = bytes(32)


class PromiseBroken(AssertionError):
    """The store does not keep what `ports.py` promises."""


class Place:
    """One place of a store, and the handles that a check opens on it."""

    def __init__(self, open_store: OpenStore) -> None:
        self._open_store = open_store
        self._handles: list[Store] = []

    async def open(self) -> Store:
        """Return another handle."""
        self._handles.append(await self._open_store())
        return self._handles[-1]

    async def close(self) -> None:
        """Close all handles."""
        while self._handles:
            await self._handles.pop().close()


class Check(msgspec.Struct, frozen=True):
    """One promise. `power` is the capability without which the store must refuse the call instead."""

    name: str
    promise: str
    prove: Callable[[Place], Awaitable[None]]
    power: str = ""


class Chain:
    """Makes the appends of one task, each linked to the one before."""

    def __init__(self, task: str, epoch: int = 1) -> None:
        self.task = task
        self.epoch = epoch
        self.seq = 0
        self.digest = GENESIS

    def peek(self, frames: bytes = b"frames", *, entries: int = 1) -> Append:
        """Return what the next append would be."""
        return Append(
            expected_seq=self.seq,
            epoch=self.epoch,
            frames=frames,
            last_seq=self.seq + entries,
            last_digest=hashlib.sha256(self.digest + frames + bytes([entries % 256])).digest(),
            prev_digest=self.digest,
        )

    def next(self, frames: bytes = b"frames", *, entries: int = 1) -> Append:
        """Return the next append, taking for granted that it will be written."""
        append = self.peek(frames, entries=entries)
        self.seq, self.digest = append.last_seq, append.last_digest
        return append

    @property
    def head(self) -> tuple[int, bytes]:
        """What `head` answers when all that was made is written."""
        return self.seq, self.digest


async def run(check: Check, open_store: OpenStore) -> None:
    """Raise PromiseBroken, or whatever the store raises against its promise, where `check` fails."""
    place = Place(open_store)
    try:
        if check.power and check.power not in (await place.open()).capabilities:
            await refused(Unsupported, check.prove(place))
        else:
            await check.prove(place)
    finally:
        await place.close()


def checks(*proofs: Callable[[Place], Awaitable[None]], power: str = "") -> tuple[Check, ...]:
    """Return a Check for each function; its docstring is the promise."""
    return tuple(Check(proof.__name__, (proof.__doc__ or "").strip(), proof, power) for proof in proofs)


def same(expected: object, actual: object, what: str) -> None:
    """Raise PromiseBroken unless both are equal."""
    if expected != actual:
        raise PromiseBroken(f"{what}: expected {expected!r}, got {actual!r}")


async def refused(error: type[E], call: Awaitable[object]) -> E:
    """Return the `error` that `call` raises; raise PromiseBroken when it succeeds."""
    try:
        answer = await call
    except error as refusal:
        return refusal
    raise PromiseBroken(f"expected {error.__name__}, got the answer {answer!r}")


def digest_of(raw: bytes) -> bytes:
    """Return the digest by which a blob is named."""
    return hashlib.sha256(raw).digest()


def task_id(number: int) -> str:
    """Return a task id."""
    return f"{number:032x}"


def holder(number: int) -> Holder:
    """Return a holder; different numbers are different runtimes."""
    return Holder(boot="boot", pid_namespace=7, pid=number, started=number, token=f"token-{number}")


def summary(number: int, name: str = "") -> TaskSummary:
    """Return the summary of a running task."""
    return TaskSummary(task=task_id(number), name=name or f"task-{number}", goal="goal", status="running")


async def begun(store: Store, number: int = 1, name: str = "") -> Chain:
    """Make a task with one entry and return its chain."""
    await store.create(summary(number, name), holder(1))
    chain = Chain(task_id(number))
    await store.append(chain.task, chain.next(b"first"))
    return chain


async def journal_of(store: Store, task: str, after: int = 0) -> list[StoredAppend]:
    """Return the whole journal of `task`."""
    return [append async for append in store.read(task, after)]


def stored(append: Append) -> StoredAppend:
    """Return `append` as it is read back."""
    return StoredAppend(append.expected_seq + 1, append.last_seq, append.frames, append.last_digest)
