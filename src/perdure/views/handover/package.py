"""What is in a handover. Values only: with --json exactly these fields, empty ones left out.

Numbers called `entry` are those of the journal (`perdure log TASK --since ENTRY`). Lists are oldest first and hold the
newest; `left_out` says how many are missing, by the name of the field.
"""

from __future__ import annotations

import msgspec

from perdure.views.showing import Limit, Pending


class _Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of the parts."""


class Passed(_Part, frozen=True, kw_only=True):
    """A check that has passed on this branch."""

    check: str
    entry: int
    step: str = ""  # in which it was judged


class Step(_Part, frozen=True, kw_only=True):
    """A step of the plan."""

    name: str
    is_done: bool = False
    is_begun: bool = False  # it is what is worked on
    proven_by: tuple[Passed, ...] = ()  # checks of that name, or judged in it


class Tried(_Part, frozen=True, kw_only=True):
    """What was made of one strategy."""

    strategy: str
    is_followed: bool = False  # now
    changes: tuple[str, ...] = ()  # what it does otherwise than the first
    rounds: int = 0  # in all
    progress: int = 0  # checks that passed for the first time
    failures: int = 0
    actions: int = 0


class Evidence(_Part, frozen=True, kw_only=True):
    """A failure that has left the program, and the call that it comes of."""

    entry: int
    at: str
    failure_class: str
    error: str
    is_counted: bool = False
    strategy: str = ""
    tool: str = ""
    action: str = ""
    arguments: str = ""  # as JSON
    entries: tuple[int, ...] = ()  # intent and outcome of the call


class Decided(_Part, frozen=True, kw_only=True):
    """What recovery has decided, by which row of its table, and when that row fires."""

    entry: int
    at: str
    decision: str
    row: str
    when: str = ""


class WentBack(_Part, frozen=True, kw_only=True):
    """A rollback."""

    entry: int
    at: str
    checkpoint: str
    to_entry: int
    why: str = ""
    strategy: str = ""  # with which it went on
    ended: str = ""  # at entry, "given up", or that it is under way


class Circle(_Part, frozen=True, kw_only=True):
    """The run was noticed to go round in circles."""

    entry: int
    at: str
    rule: str
    text: str = ""
    entries: tuple[int, ...] = ()
    period: int = 0


class Asked(_Part, frozen=True, kw_only=True):
    """What a person was asked before, and what they said."""

    entry: int
    at: str
    need: str
    question: str
    key: str = ""  # of a question of its program
    answer: str = ""


class InWorld(_Part, frozen=True, kw_only=True):
    """An effect that happened and was not taken back."""

    entry: int
    tool: str
    arguments: str = ""
    undo: str = ""
    is_of_left_branch: bool = False  # the program of today has not asked for it


class Files(_Part, frozen=True, kw_only=True):
    """What stands in the workspace otherwise than at the last checkpoint."""

    since: str  # its name, or "the start"
    entry: int
    added: int = 0
    changed: int = 0
    removed: int = 0
    paths: tuple[str, ...] = ()


class Place(_Part, frozen=True, kw_only=True):
    """A checkpoint to which the task can go back."""

    name: str
    entry: int
    is_open: bool = False  # without giving up an effect or a person's change
    verdict: str = ""


class Way(_Part, frozen=True, kw_only=True):
    """A line to type, and what it does."""

    command: str
    does: str


class Handover(_Part, frozen=True, kw_only=True):
    """A task, packed."""

    task: str
    name: str
    status: str
    goal: str = ""
    why: str = ""
    need: str = ""  # why a person is needed: question, in_doubt, limit, exhausted, auth, quota, handover, …
    question: str = ""  # what the person is asked
    person: str = ""  # who has taken it over
    holder: str = ""
    until: str = ""
    driver: str = ""
    workspace: str = ""
    attempt: int = 1
    branch: int = 0
    entries: int = 0
    started_at: str = ""
    changed_at: str = ""

    plan: tuple[Step, ...] = ()
    step: str = ""
    checks: tuple[Passed, ...] = ()  # that belong to no step of the plan
    state: dict[str, str] = {}  # its top keys, each value as JSON
    checkpoints: tuple[Place, ...] = ()
    files: Files | None = None
    result: str = ""  # as JSON

    strategies: tuple[Tried, ...] = ()
    failures: tuple[Evidence, ...] = ()
    failures_counted: int = 0
    failures_max: int = 0
    actions: int = 0
    failed_actions: int = 0
    money: tuple[str, ...] = ()  # spent, one amount per currency
    tokens_in: int = 0
    tokens_out: int = 0
    worked_s: float = 0.0
    budget: tuple[Limit, ...] = ()
    decisions: tuple[Decided, ...] = ()
    rollbacks: tuple[WentBack, ...] = ()
    circles: tuple[Circle, ...] = ()
    lessons: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    asked: tuple[Asked, ...] = ()
    messages: tuple[str, ...] = ()

    pending: tuple[Pending, ...] = ()
    effects: tuple[InWorld, ...] = ()
    ways: tuple[Way, ...] = ()
    left_out: dict[str, int] = {}
