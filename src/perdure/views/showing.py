"""One task in full: where it stands and why, what is open, and what to type next.

Called by `show`, `state`, `checkpoints`, and by `run` and `resume` for their last line.
"""

from __future__ import annotations

import shlex
from decimal import Decimal

import msgspec

from perdure.codec import leaves
from perdure.config import load_config
from perdure.core import health, rollback, spending
from perdure.core.fold import Fold
from perdure.core.health import Rate
from perdure.core.questions import Open, open_questions
from perdure.core.resume import rule_for
from perdure.core.strategies import all_rounds
from perdure.engine.loading import load_fold, read_entry
from perdure.engine.rollback import find_checkpoint
from perdure.errors import UsageError
from perdure.logs.plain import Plain, fetch_blobs, moment, to_plain
from perdure.model import entry as e
from perdure.model.ledger import Ledger, OpenAction
from perdure.model.money import plain, text_of
from perdure.model.status import TaskSummary
from perdure.ports import Store
from perdure.views.listing import Row, look_at
from perdure.workspace import processes
from perdure.workspace.ignoring import Ignoring


class Pending(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An action that is not over, and the line that ends it."""

    action: str
    tool: str
    effect: str
    since: str
    standing: (
        str  # open, in_doubt, unclaimed (it happened, but the program has not asked for it again), failed (an undo)
    )
    key: str = ""
    attempt: int = 1
    settle: str = ""  # the command, where a person's word is needed: never `--keep` for what is only unclaimed


class Mark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A checkpoint of the present branch."""

    name: str  # as `rollback --to` takes it: NAME#2 is the second of that name
    seq: int
    reason: str  # program, person, milestone
    verdict: str = ""
    verifier: str = ""  # what judged it
    about: str = ""  # of a milestone: the step or the path that it is about


class Limit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One limit of a budget, and how the task stands to it."""

    what: str  # money, tokens, actions, wall_s
    limit: str  # amounts are decimal texts
    spent: str
    left: str
    reserved: str = "0"  # by calls under way
    unit: str = ""  # of money: its currency
    text: str = ""  # all of it, for people


class Living(msgspec.Struct, frozen=True, kw_only=True):
    """A process of the task that runs on this machine."""

    pid: int
    command: str
    action: str  # which call of a tool has started it, or its parent


class Show(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that `show` prints; with --json exactly these fields, empty ones left out."""

    task: str
    name: str
    goal: str
    status: str
    why: str = ""
    person: str = ""  # who has taken it over
    taken_at: str = ""
    holder: str = ""
    until: str = ""
    driver: str = ""
    workspace: str = ""
    files: int = 0  # paths of the workspace that are on record
    uncovered: tuple[str, ...] = ()  # paths that no capture holds, each with why
    left_aside: tuple[str, ...] = ()  # patterns of paths that are neither taken in nor put back
    attempt: int = 1
    branch: int = 0
    entries: int = 0
    started_at: str = ""
    changed_at: str = ""
    plan: tuple[str, ...] = ()
    step: str = ""
    strategy: str = ""
    rounds: dict[str, int] = {}  # by declared strategy, since the last verified progress
    lessons: tuple[str, ...] = ()
    advice: str = ""  # what the program is told when it is called
    alarm: str = ""  # noticed beside the program, which is left for it at its next act
    quarantined: tuple[str, ...] = ()  # sources whose word was found false
    checkpoints: tuple[Mark, ...] = ()
    actions: int = 0
    failed_actions: int = 0
    failures: int = 0
    failures_max: int = 0
    health: tuple[Rate, ...] = ()  # of the newest calls of each tool and provider
    waits: tuple[str, ...] = ()  # providers for which a call waits, each with until when
    rollbacks: int = 0
    tokens_in: int = 0  # spent
    tokens_out: int = 0
    money: tuple[str, ...] = ()  # spent, one amount per currency
    worked_s: float = 0.0  # how long was worked on it, up to its last entry
    budget: tuple[Limit, ...] = ()
    last_error: str = ""
    questions: tuple[Open, ...] = ()  # of its program, not answered yet: those for which it waits, else all
    pending: tuple[Pending, ...] = ()
    processes: tuple[Living, ...] = ()
    result: Plain = None
    next_command: str = ""


async def show(store: Store, name: str) -> Show:
    """Return everything about the task called `name`. Raises TaskUnknown, TaskAmbiguous, Damaged."""
    row = await look_at(store, await store.find(name))
    fold = await load_fold(store, row.summary.task)
    ledger, document, summary = fold.ledger, fold.document, row.summary
    asked = open_questions(document, ledger) if row.is_unfinished else ()
    return Show(
        task=summary.task,
        name=ledger.name,
        goal=ledger.goal,
        status=row.standing,
        why=ledger.reason,
        person=ledger.takeover.by if ledger.takeover is not None else "",
        taken_at=moment(ledger.takeover.at) if ledger.takeover is not None else "",
        holder=row.holder,
        until=moment(ledger.until) if ledger.until else "",
        driver=summary.driver,
        workspace=ledger.workspace,
        files=len(fold.files),
        uncovered=tuple(f"{one.path} ({one.why})" for one in document.uncovered),
        left_aside=Ignoring.from_text(load_config().text("workspace_ignore")).patterns if len(fold.files) else (),
        attempt=max(1, ledger.attempt),
        branch=fold.branch,
        entries=fold.seq,
        started_at=moment(ledger.started_at),
        changed_at=moment(fold.at),
        plan=document.plan,
        step=document.step,
        strategy=ledger.strategies[document.strategy].name if ledger.strategies else "",
        rounds=all_rounds(document, ledger),
        lessons=tuple(ledger.lessons),
        advice=ledger.advice.text if ledger.advice is not None else "",
        alarm=ledger.alarm.error.message if ledger.alarm is not None else "",
        quarantined=tuple(ledger.quarantined),
        checkpoints=marks_of(fold),
        actions=ledger.actions,
        failed_actions=ledger.failed_actions,
        failures=ledger.failures,
        failures_max=ledger.failures_max,
        health=health.rates(ledger),
        waits=tuple(f"{name} until {moment(until)}" for name, until in ledger.waits.items()),
        rollbacks=ledger.rollbacks,
        tokens_in=ledger.tokens_in,
        tokens_out=ledger.tokens_out,
        money=tuple(text_of({currency: amount}) for currency, amount in sorted(ledger.money.items()) if amount),
        worked_s=round(spending.worked_s(ledger, fold.at), 3),
        budget=limits_of(fold),
        last_error=_last_error(ledger),
        questions=asked,
        pending=_pending(fold, row),
        processes=_living(summary.task),
        result=await result_of(store, fold),
        next_command=next_command(row, _pending(fold, row), asked, ledger.budget_asked),
    )


async def state_of(store: Store, task: str, at: str = "") -> Plain:
    """Return the user's state as plain JSON, at the head or at `at`: a seq, or a checkpoint of the present branch.

    Raises CheckpointUnknown, UsageError for a seq that does not exist, Damaged.
    """
    fold = await fold_at(store, task, at)
    writer = leaves.LeafWriter()
    return to_plain(leaves.encode(fold.tree.root, writer), writer.blobs)


async def fold_at(store: Store, task: str, at: str) -> Fold:
    """Return the task as it was at its head, or at `at`: a seq, or a checkpoint of the present branch.

    Raises CheckpointUnknown, UsageError for a seq that does not exist, Damaged.
    """
    fold = await load_fold(store, task)
    if not at:
        return fold
    seq = int(at) if at.isdecimal() else find_checkpoint(fold.document, task, at)
    if not 1 <= seq <= fold.seq:
        raise UsageError(f"task {task!r} has entries 1 to {fold.seq}, none is {seq}")
    return await load_fold(store, task, seq)


def marks_of(fold: Fold) -> tuple[Mark, ...]:
    """Return the checkpoints of the present branch, oldest first; the one behind an effect, which nobody marks, too."""
    times: dict[str, int] = {}
    marks: list[Mark] = []
    for checkpoint in reversed(rollback.checkpoints(fold.document)[:-1]):  # the last one is the start, as ever
        times[checkpoint.name] = number = times.get(checkpoint.name, 0) + 1
        name = checkpoint.name if number == 1 else f"{checkpoint.name}#{number}"
        marks.append(
            Mark(
                name=name,
                seq=checkpoint.seq,
                reason=checkpoint.reason,
                verdict=checkpoint.verdict,
                verifier=checkpoint.verifier,
                about=checkpoint.about,
            )
        )
    return tuple(marks)


async def result_of(store: Store, fold: Fold) -> Plain:
    """Return what a succeeded task has returned, as plain JSON; None for any other."""
    if not fold.ledger.result_seq:
        return None
    payload = (await read_entry(store, fold.task, fold.ledger.result_seq)).payload
    if not isinstance(payload, e.TaskSucceeded) or not bytes(payload.result):
        return None
    raw = bytes(payload.result)
    return to_plain(raw, await fetch_blobs(store, [raw]))


def limits_of(fold: Fold) -> tuple[Limit, ...]:
    """Return the limits of the task's budget, none where it has none."""
    return tuple(
        Limit(
            what=line.what,
            limit=plain(line.limit),
            spent=plain(line.spent),
            left=plain(Decimal(str(line.left))),
            reserved=plain(line.reserved),
            unit=line.unit if line.what == "money" else "",
            text=f"{line.text}, {line.left_text}",
        )
        for line in spending.lines_of(spending.state_of(fold.ledger, fold.at))
    )


def next_command(row: Row, pending: tuple[Pending, ...] = (), asked: tuple[Open, ...] = (), budget: str = "") -> str:
    """Return what to type next, "" where there is nothing to do. `budget`: what it has stopped for the want of."""
    name = word_for(row.summary)
    raising = f" --budget {shlex.quote(budget)}" if budget else ""
    if row.summary.taken_at and row.is_unfinished:
        return f"perdure hand-back {name}"
    settle = next((action.settle for action in pending if action.settle), "")
    if settle and row.is_unfinished and row.standing != "running":
        return settle
    if row.summary.driver == "inline" and row.is_unfinished and row.standing != "running":
        return "run the script that started it again"
    if row.standing == "needs_human" and row.summary.reason.startswith("question: "):
        which = f" --question {shlex.quote(asked[0].name)}" if len(asked) > 1 else ""
        return f"perdure answer {name} TEXT{which}"
    match row.standing:
        case "half fork":
            return f"perdure delete {name}"
        case "running":
            return f"perdure pause {name}"
        case "paused" | "parked" | "interrupted" | "needs_human":
            return f"perdure resume {name}{raising}"
        case "failed":
            return f"perdure resume {name} --again{raising}"
        case _:
            return ""


def going_on(summary: TaskSummary) -> str:
    """Return how an unfinished task that a person has changed goes on: it is handed back first, where they have it."""
    return f"perdure {'hand-back' if summary.taken_at else 'resume'} {word_for(summary)}"


def word_for(summary: TaskSummary) -> str:
    """Return how to name a task in a line to type: by its name, or by its id where that would look like an option."""
    return summary.task if summary.name.startswith("-") else shlex.quote(summary.name)


def _living(task: str) -> tuple[Living, ...]:
    """Return the task's processes on this machine; none where they cannot be known."""
    found = processes.find(task) if processes.is_supported() else ()
    return tuple(Living(pid=each.pid, command=each.command, action=each.action) for each in found)


def _last_error(ledger: Ledger) -> str:
    failure = ledger.last_failure
    if failure is None:
        return ""
    where = f"{failure.tool}: " if failure.tool else ""
    return f"{where}{failure.error.type}: {failure.error.message} ({failure.failure_class})"


def _pending(fold: Fold, row: Row) -> tuple[Pending, ...]:
    open_ = [
        Pending(
            action=action.action,
            tool=action.tool,
            effect=str(action.effect),
            since=moment(action.intended_at),
            standing="in_doubt" if action.in_doubt else "open",
            key=action.key,
            attempt=action.attempt,
            settle=_settle_line(row, action.action, "--happened | --did-not-happen")
            if _needs_word(action, row)
            else "",
        )
        for action in fold.ledger.open.values()
    ]
    has_diverged = fold.ledger.status == "needs_human" and fold.ledger.reason.startswith("diverged:")
    unclaimed = [
        Pending(
            action=kept.action,
            tool=kept.tool,
            effect="",
            since=f"entry {kept.settled}",
            standing="unclaimed",
            settle=_settle_line(row, kept.action, "--keep") if has_diverged else "",
        )
        for kept in fold.document.loose
        if not kept.free and row.is_unfinished  # the last act of a task that is over is claimed by nobody, rightly
    ]
    return (*open_, *unclaimed, *_failed_undos(fold, row))


def _failed_undos(fold: Fold, row: Row) -> list[Pending]:
    """Return the undos of a rollback under way that have failed: a person says what became of them, or resumes."""
    rollback = fold.ledger.rollback
    if rollback is None:
        return []
    over = {*rollback.undone, *rollback.kept}
    last = {sent.of: action for action, sent in rollback.undos.items() if sent.of not in over}
    return [
        Pending(
            action=action,
            tool=rollback.undos[action].tool,
            effect="",
            since=f"entry {rollback.undos[action].intent}",
            standing="failed",
            settle=_settle_line(row, action, "--happened | --keep"),
        )
        for action in last.values()
        if action not in fold.ledger.open
    ]


def _needs_word(action: OpenAction, row: Row) -> bool:
    """Whether only a person can say what became of it."""
    return action.in_doubt or (row.standing != "running" and rule_for(action) == "doubt")


def _settle_line(row: Row, action: str, answer: str) -> str:
    return f"perdure settle {word_for(row.summary)} {action} {answer}"
