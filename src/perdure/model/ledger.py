"""The ledger: all that only grows, over every rollback and restart. Built by `core/fold.py` only."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

import msgspec

from perdure.model.advice import Advice
from perdure.model.budget import NO_COST, Budget, Cost
from perdure.model.decision import Decision
from perdure.model.effect import Effect, Standing
from perdure.model.entry import Driver
from perdure.model.failure import Failure
from perdure.model.ids import Holder
from perdure.model.status import Status
from perdure.model.strategy import Strategy
from perdure.model.trace import Firing


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
    is_robbed: bool = False  # a person took the task from its living process while it may have been under way there
    reduces: bool = False
    paths: tuple[str, ...] = ()  # of the workspace that it may have written
    provider: str = ""
    is_source: bool = False
    is_poll: bool = False
    is_paid: bool = False
    reserve: Cost = NO_COST  # counts as spent for as long as the action is here
    gist: bytes = b""  # of the arguments: their first bytes as encoded


class Tried(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What this task has made of one strategy."""

    rounds: int = 0  # since the last verified progress
    progress: int = 0
    failures: int = 0
    actions: int = 0
    ended: str = ""  # signature of the failure with which its last round has ended


class Window(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):  # numbers: part of no cycle
    """The newest calls of one tool, or of one provider: a bit each, the newest lowest."""

    calls: int = 0  # how many the window holds
    ok: int = 0  # those that succeeded
    valid: int = 0  # those that succeeded with something valid
    judged: int = 0  # so many of the newest count for the next judgement
    is_bad: bool = False  # as told by the last HealthChanged
    has_alarmed: bool = False  # the program was left for it, and nobody has looked since
    faults: int = 0  # passing ones since a person has looked


class Takeover(msgspec.Struct, frozen=True, kw_only=True):
    """A person has the task."""

    by: str
    at: int  # since when; UTC, microseconds
    seq: int  # of the entry by which the first person took it: what has changed since then is their doing


class Robbed(msgspec.Struct, frozen=True, kw_only=True):
    """A living holder from whom the task was taken: a call of his may be under way until its time-out."""

    holder: Holder
    epoch: int  # of the lease that was taken over his


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
    strategy: str = ""
    lesson: str = ""
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
    question_keys: tuple[str, ...] = ()  # of the questions of the program for whose answers the task waits
    questions: int = 0  # of the program, ever asked; each has its number
    until: int = 0
    takeover: Takeover | None = None
    robbed: Robbed | None = None
    handed_at: int = 0  # when it was last handed back; UTC, microseconds
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
    failed_call: tuple[str, str, bytes] = ("", "", b"")  # action id, tool and digest of the call that failed last
    failed_provider: str = ""  # whom it called
    retried: tuple[str, bytes] = ("", b"")  # tool and digest of the call with whose failure the program was left
    retries: int = 0  # in a row, for passing faults
    has_moved_on: bool = False  # since the last of them something else has succeeded
    last_failure: Failure | None = None
    failed_at: int = 0  # when that was on record: what is decided about it counts from here
    is_undecided: bool = False  # it has left the program, and what follows is still to be decided
    passing: int = 0  # passing faults since a person has looked, all calls together
    passing_since: int = 0  # when the first fault of the row of `retries` came
    signature: str = ""  # of the last failure, without what changes from time to time
    same: int = 0  # how often it came in a row
    advised: dict[str, int] = {}  # how often each kind of advice was given since the last progress or strategy
    advice: Advice | None = None  # for the program, until something follows from it
    circling: int = 0  # how many actions in a row have closed a circle
    firing: Firing | None = None  # what shows it
    alarm: Failure | None = None  # noticed beside the program, which is still to be left for it
    decided: Decision | None = None  # and not yet obeyed
    tried: dict[str, Tried] = {}  # by strategy
    proven: dict[str, int] = {}  # checks that have passed on any branch: name -> seq
    quarantined: list[str] = []  # sources whose word was found wrong
    health: dict[str, Window] = {}  # by "tool NAME", "provider NAME", and "checks"
    ailing: int = 0  # how many of these are bad
    waits: dict[str, int] = {}  # by provider: until when nobody calls it, as told or as it was written
    rollbacks: int = 0
    rollbacks_in_row: int = 0  # decided here, since the last verified progress
    rollback: Rollback | None = None
    standing: dict[str, Standing] = {}  # effects of branches that were left, by action id, oldest first
    calls: int = 0  # that went out: each attempt of each action
    tokens_in: int = 0  # spent, also by calls that were killed: what they had reserved
    tokens_out: int = 0
    money: dict[str, Decimal] = {}  # spent, by currency
    budget: Budget | None = None
    budget_asked: str = ""  # what `--budget` would let the task go on with, where it stopped at its budget
    worked_us: int = 0  # microseconds it was worked on, up to `working_since`
    working_since: int = 0  # when the present stretch began, 0: nobody works; UTC, microseconds
    counts: dict[str, int] = {}  # of the program, by name
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
