"""From entries to the document and the ledger, entry by entry. What each kind means: `entry_rules.py`.

Used in two ways. Opening a task feeds it a journal, entry by entry; a running task feeds it each entry that it has just
put in order, so that both come to the same by construction. The user's state is a tree beside the document: while a
task runs the views have already written it (`operations=None`), while a journal is read `advance` applies the patch.
"""

from __future__ import annotations

from typing import Final

from perdure.core.entry_rules import RULES
from perdure.core.manifest import Manifest
from perdure.core.touched import Touched
from perdure.core.tracking import StateTree, apply
from perdure.errors import UnknownKind
from perdure.limits import ENTRY_BYTES_COUNTED_MIN
from perdure.model import entry as e
from perdure.model.document import Document
from perdure.model.entry import Entry, Header
from perdure.model.ledger import Ledger
from perdure.model.patch import Op

FOLD_VERSION: Final = 4  # of what a snapshot holds: raise it when the meaning of an entry is refined


class Fold:
    """A task as its journal tells it, up to entry `seq`."""

    def __init__(self, task: str) -> None:
        self.task = task
        self.seq = 0
        self.epoch = 0
        self.branch = 0
        self.digest = bytes(32)
        self.at = 0
        self.document = Document()
        self.ledger = Ledger()
        self.tree = StateTree({})
        self.touched = Touched()
        self.files = Manifest()
        self.bytes_since_snapshot = 0
        self.snapshot_size = 0
        self.last_effect = 0  # seq of the newest intent that is not free, since this fold was loaded
        self.confirmed: set[tuple[int, bytes]] = set()  # snapshots that the journal names: (seq, digest)

    @property
    def is_half_fork(self) -> bool:
        """Whether it is a fork that has not begun its own life yet: entries of its parent may be missing."""
        return 0 < self.seq <= self.ledger.forked_at

    def advance(self, entry: Entry, operations: tuple[Op, ...] = ()) -> None:
        """Take `entry` in. `operations` are those of its patch: they are applied to the state.

        The entry must be the next one (loading checks the link); a rollback goes through `jump` instead.
        """
        if operations:
            apply(self.tree.root, operations)
        self.note(entry.header, entry.payload, operations, digest=entry.digest, size=entry.size)

    def note(self, header: Header, payload: e.Payload, operations: tuple[Op, ...], *, digest: bytes, size: int) -> None:
        """Take an entry in whose patch the views have already written to the state."""
        rule = RULES.get(type(payload))
        if rule is None:
            raise UnknownKind(header.kind, header.version, header.seq)
        if operations:
            self.touched.mark(operations, header.seq)
        self.seq, self.epoch, self.digest = header.seq, header.epoch, digest
        self.bytes_since_snapshot += max(size, ENTRY_BYTES_COUNTED_MIN)
        rule(self, header, payload, bool(operations))
        self.at = header.at  # after the rule: until then it is when the entry before was written

    def jump(self, entry: Entry, earlier: Fold) -> None:
        """Take in the RolledBack `entry`: the document becomes that of `earlier` (folded to its `to_seq`)."""
        self.document, self.tree = earlier.document, earlier.tree
        self.touched, self.files = earlier.touched, earlier.files
        self.branch = entry.header.branch
        self.note(entry.header, entry.payload, (), digest=entry.digest, size=entry.size)
