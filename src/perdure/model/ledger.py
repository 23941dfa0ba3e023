"""The ledger: all that only grows, over every rollback and restart. Built by `core/fold.py` only."""

from __future__ import annotations

from typing import Literal

import msgspec

from perdure.model.effect import Effect, Standing
from perdure.model.entry import Driver
from perdure.model.failure import Failure
from perdure.model.ids import Holder
from perdure.model.status import Status
from perdure.model.strategy import Strategy


class OpenAction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):  # part of no cycle
    """An action with an intent and no outcome, or one whose outcome is in doubt."""

    action: str
    tool: str
    effect: Effect
    digest: bytes
    intent: int  # seq
    epoch: int  # under which it was intended
    branch: int
    intended_at: int  # UTC, microseconds
    key: str = ""
    loop: str = ""  # the `each` loop whose body made the call: `key` is the place in it
    effect_key: str = ""
    attempt: int = 1
    timeout_s: float = 0.0
    in_doubt: bool = False
    reduces: bool = False
    paths: tuple[str, ...] = ()  # of the workspace that it may have written


class UndoSent(msgspec.Struct, frozen=True, kw_only=True):
    """An action that takes back another, and has been sent."""

    of: str  # id of the action that is taken back
    tool: str
    intent: int  # seq


class Rollback(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A rollback that has begun and is not yet ended."""

    to_seq: int
    checkpoint: str
    moves: tuple[str, ...]
    standing: tuple[Standing, ...] = ()  # effects behind the checkpoint; those in `undone` are taken back
    undos: dict[str, UndoSent] = {}  # by id of the undoing action, in journal order
    undone: list[str] = []  # ids of the actions that are taken back, or count as such
    kept: list[str] = []  # ids of those of which a person has said that they stay


class Ledger(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What only grows, and what is true of the task whatever the branch."""

    name: str = ""
    goal: str = ""
    driver: Driver | None = None
    workspace: str = ""
    digest_base: str = ""  # the workspace, where texts of it count by their place in it in digests
    strategies: tuple[Strategy, ...] = ()
    failures_max: int = 3
    started_at: int = 0

    status: Status = "running"
    reason: str = ""
    question_action: str = ""
    question_key: str = ""  # of the question of the program for whose answer the task waits
    until: int = 0
    holder: Holder | None = None
    attempt: int = 0
    starts_in_row: int = 0  # starts after a crash, in a row, under whose leases nothing was settled
    settled_under_lease: bool = False
    unmended: bool = False  # files may be lost: after a crash, or in another boot, nobody has gone on with it so far

    open: dict[str, OpenAction] = {}  # by action id, in journal order
    failed_keys: dict[str, str] = {}  # by `core.resume.failed_key_of`: the effect key that an equal call uses again
    actions: int = 0  # settled
    failed_actions: int = 0
    failures: int = 0  # counted, leaky: verified progress takes one away
    failed_call: tuple[str, bytes] = ("", b"")  # action id and digest of the call that failed last
    retried: bytes = b""  # digest of the call for which the retries are counted
    retries: int = 0  # in a row, for passing faults
    last_failure: Failure | None = None
    rollbacks: int = 0
    rollback: Rollback | None = None
    standing: dict[str, Standing] = {}  # effects of branches that were left, by action id, oldest first
    tokens_in: int = 0
    tokens_out: int = 0
    lessons: list[str] = []
    messages: list[str] = []
    asked: Literal["", "pause", "cancel"] = ""  # by a message on record that is still to be obeyed
    facts: list[str] = []
    result_seq: int = 0  # seq of TaskSucceeded
    parent: str = ""  # id of the task that this one is a fork of
    forked_at: int = 0  # entry of the parent at whose end it begins: so many entries are the parent's
    former_bases: tuple[tuple[int, str], ...] = ()  # `digest_base` of the tasks before, each with its last entry

    def digest_base_at(self, seq: int) -> str:
        """Return the `digest_base` under which entry `seq` was made."""
        return next((base for last, base in self.former_bases if seq <= last), self.digest_base)
