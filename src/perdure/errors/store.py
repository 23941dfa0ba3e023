"""What a store refuses or breaks with, and what stored bytes can be wrong with. The tree stands in the package."""

from __future__ import annotations

from perdure.errors.base import PerdureError


class StoreError(PerdureError):
    """The store refused or failed."""


class StoreBusy(StoreError):
    """Another process held the write lock for longer than `waited_s`."""

    def __init__(self, place: str, pid: int | None, waited_s: float) -> None:
        self.place = place
        self.pid = pid
        self.waited_s = waited_s
        holder = f"process {pid}" if pid else "another process"
        super().__init__(
            f"{holder} has kept the write lock of {place!r} for {waited_s:.0f} s; try again when it has ended"
        )


class StoreFull(StoreError):
    """No room left; the append was undone and can be made again when there is room."""

    def __init__(self, place: str) -> None:
        self.place = place
        super().__init__(f"no room left on the device of {place!r}: nothing was written; free some space and resume")


class StoreBroken(StoreError):
    """The store failed in a way that makes further writes unsafe; it is closed for good."""

    def __init__(self, place: str, reason: str) -> None:
        self.place = place
        self.reason = reason
        super().__init__(f"store {place!r} failed: {reason}; it is closed, its files are left as they are")


class StoreTooNew(StoreError):
    """The store was written by a later version."""

    def __init__(self, place: str, found: int, known: int) -> None:
        self.place = place
        self.found = found
        self.known = known
        super().__init__(
            f"store {place!r} has schema {found}, this perdure knows up to {known}: nothing was touched; upgrade"
        )


class StoreUnreadable(StoreError):
    """The file is there, but it is not a perdure store or may not be read."""

    def __init__(self, place: str, reason: str) -> None:
        self.place = place
        self.reason = reason
        super().__init__(f"{place!r} cannot be opened as a store: {reason}; nothing was changed")


class Damaged(StoreError):
    """Stored bytes contradict their digests or their order."""

    def __init__(self, task: str, seq: int, reason: str) -> None:
        self.task = task
        self.seq = seq
        self.reason = reason
        super().__init__(f"journal of task {task!r} is damaged at entry {seq}: {reason}; nothing was changed")


class LogDamaged(StoreError):
    """A file of the log holds something else than lines of the log; the store is not touched by that."""

    def __init__(self, path: str, line: int, offset: int, reason: str) -> None:
        self.path = path
        self.line = line
        self.offset = offset
        self.reason = reason
        super().__init__(
            f"{path!r} is damaged at line {line} (byte {offset}): {reason}; the store has all of it: "
            "leave out --from-files, or make the files anew with --rebuild"
        )


class Conflict(StoreError):
    """An append did not start right after the journal's head."""

    def __init__(self, task: str, expected_seq: int, head_seq: int) -> None:
        self.task = task
        self.expected_seq = expected_seq
        self.head_seq = head_seq
        super().__init__(f"task {task!r}: append expected head {expected_seq}, found {head_seq}; read it again")


class Fenced(StoreError):
    """An append named an old epoch: another process has taken the task over."""

    def __init__(self, task: str, epoch: int, current: int) -> None:
        self.task = task
        self.epoch = epoch
        self.current = current
        super().__init__(f"task {task!r} was taken over (epoch {current}, ours was {epoch}); stop working on it")


class BlobMissing(StoreError):
    """An append names a blob that the store has not, or no longer: nothing of it was written."""

    def __init__(self, task: str, digest: str) -> None:
        self.task = task
        self.digest = digest
        super().__init__(
            f"task {task!r}: blob {digest[:16]}… is not in the store; the task that it was taken from has perhaps been "
            "deleted meanwhile (`perdure list --all`)"
        )


class NameTaken(StoreError):
    """An unfinished task of that name exists."""

    def __init__(self, name: str, task: str) -> None:
        self.name = name
        self.task = task
        super().__init__(
            f"name {name!r} belongs to unfinished task {task!r}; resume or cancel that one, or choose a name"
        )


class TaskUnknown(StoreError):
    """No such task; `place` is the store that was looked at, where that is known; `is_absent`: there is none."""

    def __init__(self, name: str, place: str = "", *, is_absent: bool = False) -> None:
        self.name = name
        where = f" in {place}" if place else ""
        there = f"no task has the name or id {name!r}{where}; `perdure list --all` shows them"
        absent = f"no task {name!r}: there is no store{where}; go to the folder of the task, or say --store PLACE"
        super().__init__(absent if is_absent else there)


class TaskAmbiguous(StoreError):
    """A prefix fits several tasks."""

    def __init__(self, prefix: str, names: tuple[str, ...]) -> None:
        self.prefix = prefix
        self.names = names
        super().__init__(f"{prefix!r} fits {len(names)} tasks ({', '.join(names[:5])}); give more of the name")


class Unsupported(StoreError):
    """The store does not declare this power."""

    def __init__(self, store: str, power: str) -> None:
        self.store = store
        self.power = power
        super().__init__(f"store {store!r} cannot {power}; its `capabilities` say what it can")


class CodecError(PerdureError):
    """Stored bytes are not what the codec writes."""


class UnknownTag(CodecError):
    """A value tag of a later version."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        super().__init__(f"value tag {tag!r} is not known to this version of perdure; upgrade it")


class UnknownKind(CodecError):
    """An entry kind or version of a later release."""

    def __init__(self, kind: int, version: int, seq: int) -> None:
        self.kind = kind
        self.version = version
        self.seq = seq
        super().__init__(f"entry {seq} has kind {kind} version {version}, unknown to this perdure; upgrade it")
