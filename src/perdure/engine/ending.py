"""How a task stops without a result, and what is written and raised then. `driving` runs it, `recovering` decides.

Each ending is an entry, a status, and an exception with the line to type next.
"""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from typing import Any, Never

from perdure.codec.redact import cut_redacted
from perdure.core import awaiting, questions, resume
from perdure.core.fold import Fold
from perdure.core.recovery import Rules
from perdure.engine.session import Session
from perdure.errors import (
    NeedsHuman,
    PerdureError,
    StopRequested,
    TaskCancelled,
    TaskFailed,
    TaskParked,
    TaskPaused,
)
from perdure.limits import CRASH_LOOP_STARTS_MAX, ERROR_MESSAGE_BYTES_MAX, QUESTION_GIST_BYTES
from perdure.model import entry as e
from perdure.model.status import TaskSummary
from perdure.ports import Clock


async def ask_person(session: Session, question: str, reason: Any, action: str = "", key: str = "") -> None:  # noqa: ANN401 - a member of QuestionAsked.reason
    """Write the question; the task waits for its answer. Where nobody can be asked it fails instead: TaskFailed."""
    text = cut_redacted(question, ERROR_MESSAGE_BYTES_MAX)
    await _ask_or_fail(session, e.QuestionAsked(question=text, reason=reason, action=action, key=key))


async def stop_at_limit(session: Session, text: str, raise_to: str) -> NeedsHuman:
    """The budget is reached: a person raises it, or the task has failed where there is none. Return what is raised."""
    text = cut_redacted(text, ERROR_MESSAGE_BYTES_MAX)
    await _ask_or_fail(session, e.QuestionAsked(question=text, reason="limit", budget=raise_to))
    return needs_human(session)


async def _ask_or_fail(session: Session, asked: e.QuestionAsked) -> None:
    if session.world.rules.unattended:
        nobody = "nobody is there to answer: " if asked.reason == "question" else ""
        await fail(session, nobody + asked.question, asked.budget)
    session.put(asked)
    await session.commit()
    tell_stopped(session)


async def hand_over(session: Session, question: str) -> Never:
    """A stop found before the program was called: the task waits for a person, and nothing of its program has run."""
    ledger = session.fold.ledger
    if ledger.status != "needs_human":
        doubtful = next((a.action for a in ledger.open.values() if a.effect.retry == "never"), "")
        await ask_person(session, question, "in_doubt" if doubtful else "handover", doubtful)
    raise NeedsHuman(session.task, question, show_line(session), ledger.name)


async def refuse_crash_loop(session: Session) -> None:
    """Raise NeedsHuman where start after start has ended in a crash and nothing was settled in between."""
    ledger = session.fold.ledger
    if ledger.starts_in_row < CRASH_LOOP_STARTS_MAX:
        return
    tools = ", ".join(sorted({f"{a.tool} ({a.action})" for a in ledger.open.values()})) or "no action"
    question = f"{ledger.starts_in_row} starts in a row ended in a crash with nothing settled; open was: {tools}"
    await ask_person(session, question, "crash_loop")
    raise NeedsHuman(session.task, question, resume_line(ledger.name), ledger.name)


async def obey_stop(session: Session, stop: StopRequested) -> PerdureError:
    """Write what was asked for; return what `run` raises."""
    name, ledger = session.fold.ledger.name, session.fold.ledger
    match stop.what:
        case "cancel":
            session.put(e.TaskCancelledEntry(by=stop.by))
            error: PerdureError = TaskCancelled(session.task, f"task {name!r} was cancelled by {stop.by}")
        case "fail":
            session.put(e.TaskFailedEntry(reason=stop.by))
            error = TaskFailed(session.task, f"task {name!r} failed: {stop.by}", show_line(session))
        case "park":
            await park(session, int(stop.key), stop.by)
        case "limit":
            return await stop_at_limit(session, stop.by, stop.key)
        case "undo":  # what failed is on record
            ended = ledger.status == "failed"
            return TaskFailed(session.task, ledger.reason, show_line(session)) if ended else needs_human(session)
        case "question":
            if not stop.key or stop.key not in ledger.question_keys:
                await ask_person(session, stop.by, "question", key=stop.key)
            return needs_human(session)
        case _:
            by = "signal" if stop.by == "signal" else "person"
            await pause(session, by, "")
            return TaskPaused(session.task, f"task {name!r} was paused by {stop.by}", next_after_pause(session.fold))
    await session.commit()
    tell_stopped(session)
    return error


async def pause(session: Session, by: Any, reason: str) -> None:  # noqa: ANN401 - a member of TaskPausedEntry.by
    """Nothing runs until somebody resumes."""
    if session.sequencer.dead is None:
        session.put(e.TaskPausedEntry(by=by, reason=reason))
        await session.commit()
        tell_stopped(session)


async def park(session: Session, until: int, reason: str) -> Never:
    """Nothing can be done until `until`: the process need not wait for it."""
    text = cut_redacted(reason, ERROR_MESSAGE_BYTES_MAX)
    session.put(e.TaskParkedEntry(until=until, reason=text))
    await session.commit()
    tell_stopped(session)
    raise _parked(session.task, session.fold.ledger.name, until, text)


def refuse_parked(summary: TaskSummary, clock: Clock, rules: Rules) -> None:
    """Raise TaskParked where a task is parked for longer than this process would wait for it."""
    is_far = (summary.until - clock.now()) / 1_000_000 > rules.wait_inline_s
    if summary.status == "parked" and is_far and not rules.skips_waits:
        raise _parked(summary.task, summary.name, summary.until, summary.reason)


async def fail(session: Session, reason: str, budget: str = "") -> Never:
    """The task has failed; its scene is kept. `budget`: what it would have gone on with."""
    session.put(e.TaskFailedEntry(reason=reason, budget=budget))
    await session.commit()
    tell_stopped(session)
    name = session.fold.ledger.name
    line = budget_line(name, budget, again=True) if budget else show_line(session)
    raise TaskFailed(session.task, f"task {name!r} failed: {reason}", line)


def _parked(task: str, name: str, until: int, reason: str) -> TaskParked:
    when = datetime.fromtimestamp(until / 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    said = f"task {name!r} is parked until {when} (--now goes on before that): {reason}"
    return TaskParked(task, until, said, resume_line(name))


def needs_human(session: Session) -> NeedsHuman:
    """Return what `run` raises for a task that waits for a person."""
    ledger = session.fold.ledger
    return NeedsHuman(session.task, ledger.reason, next_line(session.fold), ledger.name)


def tell_stopped(session: Session) -> None:
    """Tell the hooks that the task stands, why, and what to type: some of them reach people far away."""
    ledger = session.fold.ledger
    until = {"until": ledger.until} if ledger.until else {}
    line = next_line(session.fold)
    session.tell("stopped", status=ledger.status, name=ledger.name, reason=ledger.reason, next_command=line, **until)


def in_doubt(fold: Fold) -> str:
    """Return the action of which only a person can say what became of it, "" where there is none."""
    return next((a.action for a in fold.ledger.open.values() if resume.rule_for(a) == "doubt"), "")


def next_line(fold: Fold) -> str:
    """Return the line that a task which has stopped waits for, "" where it is over and done."""
    ledger, name = fold.ledger, shlex.quote(fold.ledger.name)
    match ledger.status:
        case "needs_human":
            return _line_for_person(fold)
        case "failed":
            return f"perdure show {name} --handover"
        case "paused" | "parked":
            return next_after_pause(fold)
        case _:
            return ""


def _line_for_person(fold: Fold) -> str:
    ledger, name = fold.ledger, shlex.quote(fold.ledger.name)
    doubtful, need = ledger.question_action, awaiting.need_of(ledger)
    if ledger.question_keys:
        return answer_line(ledger.name, questions.open_questions(fold.document, ledger))
    if ledger.budget_asked:
        return budget_line(ledger.name, ledger.budget_asked)
    if ledger.rollback is not None and doubtful in ledger.rollback.undos:
        return resume_line(ledger.name)
    if doubtful and need == "diverged":
        return f"perdure settle {name} {doubtful} --keep"
    if doubtful:
        return settle_line(ledger.name, doubtful)
    return f"perdure hand-back {name}" if need == "takeover" else f"perdure show {name} --handover"


def next_after_pause(fold: Fold) -> str:
    """Return the line that a paused task waits for."""
    action = in_doubt(fold)
    return settle_line(fold.ledger.name, action) if action else resume_line(fold.ledger.name)


def answer_line(name: str, asked: tuple[questions.Open, ...]) -> str:
    """Return how the first of these questions is answered: where it is the only one, without saying which."""
    which = f" --question {shlex.quote(asked[0].name)}" if len(asked) > 1 else ""
    return f"perdure answer {shlex.quote(name)} TEXT{which}"


def answer_lines(name: str, asked: tuple[questions.Open, ...]) -> tuple[str, ...]:
    """Return how each of these questions is answered, with its text behind."""
    word = shlex.quote(name)
    texts = (cut_redacted(questions.in_one_line(one.text), QUESTION_GIST_BYTES) for one in asked)
    return tuple(
        f"perdure answer {word} TEXT --question {shlex.quote(one.name)}   # {text}"
        for one, text in zip(asked, texts, strict=True)
    )


def settle_line(name: str, action: str) -> str:
    """Return how a person says what became of an action."""
    return f"perdure settle {shlex.quote(name)} {action} --happened | --did-not-happen"


def resume_line(name: str) -> str:
    """Return how a task is gone on with."""
    return f"perdure resume {shlex.quote(name)}"


def budget_line(name: str, budget: str, *, again: bool = False) -> str:
    """Return how a task is gone on with that has reached its budget."""
    return f"{resume_line(name)}{' --again' if again else ''} --budget {shlex.quote(budget)}"


def hand_back_line(name: str) -> str:
    """Return how a person gives a task back."""
    return f"perdure hand-back {shlex.quote(name)}"


def show_line(session: Session) -> str:
    """Return how a task is looked at."""
    return f"perdure show {shlex.quote(session.fold.ledger.name)}"
