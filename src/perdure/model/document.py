"""The document: all that follows the branch. Built by `core/fold.py` only; a rollback puts an earlier one there."""

from __future__ import annotations

import msgspec

from perdure.model.checkpoint import Checkpoint, Position
from perdure.model.files import Uncovered
from perdure.model.trace import Trace


class Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):  # part of no cycle, and many
    """A succeeded outcome that a later call may be answered with."""

    action: str
    tool: str
    digest: bytes  # of the arguments
    intent: int  # seq of the intent
    settled: int  # seq of the outcome
    key: str = ""  # empty: loose
    free: bool = True
    failed: bool = False  # an effect that failed, and its failure has not left the program: handed out as it was
    unapplied: bool = False  # its `then=` is still to be run


class Document(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What follows the branch, apart from the user's state (which is a `core.tracking.StateTree` beside it)."""

    state_version: int = 1
    changed: int = 1  # seq of the last entry that changed the state, a position, the plan or the strategy
    plan: tuple[str, ...] = ()
    plans: int = 0  # how often one was adopted on this branch
    step: str = ""
    steps: int = 0  # how many were begun on this branch
    strategy: int = 0  # index into the task's strategies
    strategy_at: int = 0  # seq of the entry with which it was taken on this branch
    positions: dict[str, Position] = {}
    keyed: dict[str, Kept] = {}  # by tool and key (`core.resume.key_of`)
    places: dict[str, dict[str, Kept]] = {}  # by loop: outcomes of the body that is open, by tool and place
    loose: list[Kept] = []  # in journal order; at most one of them is an effect
    anchored: dict[str, Kept] = {}  # effects without a key that only a checkpoint holds, by tool and digest
    kept_at: int = 0  # seq of the last outcome of an effect on this branch
    impossible_at: int = 0  # seq of the newest outcome on this branch of an effect that cannot be taken back
    after_effect: Checkpoint | None = None  # behind that outcome: there is nothing open; nobody has to mark it
    files_changed: int = 0  # seq of the last entry that changed the manifest
    is_all_captured: bool = False  # whether the manifest is that of the whole workspace, not of some paths
    uncovered: tuple[Uncovered, ...] = ()  # paths of the workspace that no capture holds
    edited: int = 0  # seq of the last edit: what was anchored before it answers no call any more
    human_at: int = 0  # seq of the last change that a person has made by hand
    trace: Trace = msgspec.field(default_factory=Trace)
    written: dict[str, tuple[tuple[int, int], ...]] = {}  # by an action that is not settled yet: marks of files
    first_uses: dict[str, int] = {}  # source of information -> entry that first used it on this branch
    asking: dict[str, str] = {}  # questions of the program that are not answered, by key, oldest first
    answers: dict[str, str] = {}  # to its questions on this branch, by key
    numbers: dict[str, int] = {}  # of its questions on this branch, by key; no other question ever has the same
    checkpoints: list[Checkpoint] = []
    checks: dict[str, int] = {}  # passed on this branch: name -> seq
    failing: dict[str, int] = {}  # checks judged in this step of which none has passed yet: name -> seq
    unproven: dict[str, int] = {}  # files written while one was failing: path -> seq
    milestones: dict[str, int] = {}  # by `core.milestones.key_of`: seq

    @property
    def last_change(self) -> int:
        """Seq of the last change that a checkpoint would hold: of the document, an effect, or the files."""
        return max(self.changed, self.kept_at, self.files_changed)
