"""What happens when a program has ended or a failure has left it: `decide`, a pure function with its table.

    row               when                                                decision
    ----------------  --------------------------------------------------  -----------------------------------------
    effects_open      an effect is open or its outcome is in doubt        Ask: settle it (Abandon when unattended)
    finished          the program returned                                Finish
    already_done      a failure, but `reached=` says that the goal is     Finish with what it says
    disk_full         no room on a disk                                   Pause until somebody has made some
    quota             a quota is used up, and comes back                  Park until then
    quota_gone        a quota or credit is used up                        Ask (Abandon when unattended)
    auth              a key or right is missing                           Ask (Abandon when unattended)
    as_told           a passing fault that says when to come back         Retry then, and a little later
    passing           a passing fault of a call, not more than 3 in a row Retry within 0.5 s, 1 s, 2 s (by chance)
    fall_back         the 4th, no effect open, a strategy calls another   ChangeStrategy in place; it counts nothing
    outage            the 4th and later ones, for not more than 6 h       Retry after 15 s to 4 min
    passing_too_long  a passing fault after that, or one too many in all  Ask (Abandon when unattended)
    condense          the context was too long, for the first time        Condense: called anew, told to be brief
    rephrase          a request was refused, for the first time           Reask: called anew, told to say it otherwise
    reask             a bad answer, fewer than failures_max, twice        Reask: called anew, told what was wrong
    nudge             it goes round in circles, for the first time        Nudge: called anew, told so
    same_again        another failure, fewer than failures_max            Retry now: the program is called anew
    roll_back         a dead end, and a checkpoint to go back to          RollBack, with the next strategy and a lesson
    change_in_place   a dead end, and none that may be gone back to       ChangeStrategy, with a lesson
    ask_for_help      a dead end, and the next strategy is to ask         Ask (unattended: the one after it)
    exhausted         a dead end, and each strategy has had two rounds    Ask (Abandon when unattended)
    limit_reached     a dead end, and the program declares no strategies  Ask (Abandon when unattended)

A **dead end** is the failures_max-th counted failure (verified progress takes one away). At once it is a request that
must not be sent again, an answer that is false, the second of two equal errors that come of the same call, and an end
to which an earlier round of the same strategy has come. The first row that fits is taken; at a dead end the first one
fits as well where an effect may have happened and no rollback takes it back, since another strategy might bring it
about once more. The journal decides: `decide` reads document and ledger of this task and nothing else.
"""

from __future__ import annotations

import re
import zlib
from typing import Final

import msgspec

from perdure.core import health, retrying, rollback, strategies
from perdure.core.health import HEALTHY, HealthRules
from perdure.core.retrying import PATIENT, Patience, Seconds
from perdure.limits import LESSON_BYTES_MAX, NUDGES_MAX, REASKS_MAX, ROUNDS_MAX, WAIT_INLINE_S
from perdure.model.checkpoint import Checkpoint
from perdure.model.decision import (
    Abandon,
    Ask,
    AskReason,
    ChangeStrategy,
    Condense,
    Decision,
    Finish,
    Nudge,
    Park,
    Pause,
    Reask,
    Retry,
    RollBack,
)
from perdure.model.document import Document
from perdure.model.entry import FailureObserved
from perdure.model.failure import PASSING, ErrorRecord, Failure, FailureClass
from perdure.model.ids import cut_text
from perdure.model.ledger import Ledger, OpenAction
from perdure.model.strategy import Strategy

_OUTSIDE: Final[frozenset[FailureClass]] = frozenset({"quota", "auth", "storage"})  # nothing that the program did wrong
_AT_ONCE: Final[frozenset[FailureClass]] = frozenset({"request", "suspicious"})
_DETERMINISTIC: Final[frozenset[FailureClass]] = frozenset({"tool", "request", "context"})
# Addresses, UUIDs, ids as services write them (`req_011CcR9mkMvX`), digests, numbers.
_CHANGING: Final = re.compile(
    r"0x[0-9a-fA-F]+|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[A-Za-z]{2,12}_(?=[A-Za-z]*\d)[0-9A-Za-z]{12,}"
    r"|[0-9a-fA-F]{8,}|\d+"
)
_TWICE: Final = 2


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of recovery."""

    patience: Patience = PATIENT
    health: HealthRules = HEALTHY
    wait_inline_s: Seconds = WAIT_INLINE_S  # a longer wait parks the task
    skips_waits: bool = False  # what a task already waits for when it is opened is not waited for
    prior: tuple[tuple[str, int, int], ...] = ()  # (strategy, progress, failures) of earlier tasks, for new ones
    unattended: bool = False  # nobody can be asked: fail with the same package instead
    rolls_back: bool = True  # False: strategies are changed where the task stands
    changes_strategy: bool = True  # False: a rollback goes on with the same one
    nudges: bool = True  # False: a loop is a counted failure at once
    reasks: bool = True  # False: the program is called anew without advice


class Row(msgspec.Struct, frozen=True):
    """One line of the table, as shown by docs and `explain`."""

    name: str
    when: str
    then: str


_PERSON: Final = "Ask (Abandon when unattended)"
TABLE: Final = (
    Row("effects_open", "an effect is open or its outcome is in doubt", "Ask: settle it (Abandon when unattended)"),
    Row("finished", "the program returned", "Finish"),
    Row("already_done", "a failure, but `reached=` says that the goal is", "Finish with what it says"),
    Row("disk_full", "no room on a disk", "Pause until somebody has made some"),
    Row("quota", "a quota is used up, and comes back", "Park until then"),
    Row("quota_gone", "a quota or credit is used up", _PERSON),
    Row("auth", "a key or right is missing", _PERSON),
    Row("as_told", "a passing fault that says when to come back", "Retry then, and a little later"),
    Row("passing", "a passing fault of a call, not more than 3 in a row", "Retry within 0.5 s, 1 s, 2 s (by chance)"),
    Row("fall_back", "the 4th, no effect open, a strategy calls another", "ChangeStrategy in place; it counts nothing"),
    Row("outage", "the 4th and later ones, for not more than 6 h", "Retry after 15 s to 4 min"),
    Row("passing_too_long", "a passing fault after that, or one too many in all", _PERSON),
    Row("condense", "the context was too long, for the first time", "Condense: called anew, told to be brief"),
    Row("rephrase", "a request was refused, for the first time", "Reask: called anew, told to say it otherwise"),
    Row("reask", "a bad answer, fewer than failures_max, twice", "Reask: called anew, told what was wrong"),
    Row("nudge", "it goes round in circles, for the first time", "Nudge: called anew, told so"),
    Row("same_again", "another failure, fewer than failures_max", "Retry now: the program is called anew"),
    Row("roll_back", "a dead end, and a checkpoint to go back to", "RollBack, with the next strategy and a lesson"),
    Row("change_in_place", "a dead end, and none that may be gone back to", "ChangeStrategy, with a lesson"),
    Row("ask_for_help", "a dead end, and the next strategy is to ask", "Ask (unattended: the one after it)"),
    Row("exhausted", "a dead end, and each strategy has had two rounds", _PERSON),
    Row("limit_reached", "a dead end, and the program declares no strategies", _PERSON),
)


# --- what is observed -----------------------------------------------------------------------------------------------
def observe(error: ErrorRecord, ledger: Ledger, *, action: str = "", tool: str = "") -> FailureObserved:
    """Return what is to be recorded of an error that has left the program: its class here, and whether it counts.

    An error that nobody knows passes once; when the same call ends in one again, whatever it says, it is a wrong
    request. A tool that runs out of its time again and again is at fault itself. An effect in doubt whose tool can be
    asked whether it happened passes once, since it is asked when the call is made again.
    """
    failure = Failure(failure_class=error.failure_class, error=error, action=action, tool=tool)
    signature = signature_of(failure, ledger)
    is_same = bool(ledger.signature) and signature == ledger.signature
    if error.is_unknown and ledger.signature.rpartition(" ")[0] == signature.rpartition(" ")[0]:
        failure = msgspec.structs.replace(failure, failure_class="request")
    elif error.failure_class == "timeout" and is_same and ledger.retries >= PATIENT.retries_max:
        failure = msgspec.structs.replace(failure, failure_class="tool")
    elif _will_be_asked(ledger, action) and not is_same:
        failure = msgspec.structs.replace(failure, failure_class="network")
    passes = failure.failure_class in PASSING or failure.failure_class in _OUTSIDE
    return FailureObserved(failure=failure, counted=not passes)


def _will_be_asked(ledger: Ledger, action: str) -> bool:
    doubtful = ledger.open.get(action)
    return doubtful is not None and doubtful.in_doubt and doubtful.effect.retry == "probe"


def signature_of(failure: Failure, ledger: Ledger) -> str:
    """Return by what two failures are the same: tool, arguments, error; numbers in its message may differ."""
    failed, _, digest = ledger.failed_call
    call = digest.hex()[:16] if failed and failed == failure.action else ""
    message = _CHANGING.sub("#", failure.error.message)
    return f"{failure.tool} {call} {failure.error.type} {zlib.crc32(message.encode('utf-8', 'replace')):08x}"


# --- what is decided ------------------------------------------------------------------------------------------------
def decide(
    document: Document,
    ledger: Ledger,
    rules: Rules,
    now: int,
    *,
    has_returned: bool = False,
    is_reached: bool = False,
) -> tuple[Decision, str]:
    """Return (decision, name of the row that fired). `now` is UTC in microseconds since 1970.

    Unless the program `has_returned`, `ledger.last_failure` is the failure that left it. `is_reached`: the program's
    own verifier says that the goal is reached all the same.
    """
    failure = None if has_returned else ledger.last_failure
    doubtful = next((a for a in ledger.open.values() if _is_in_the_way(a, failure, ledger)), None)
    if doubtful is not None:
        return _ask(rules, _settle(doubtful), "in_doubt"), "effects_open"
    if failure is None:
        return Finish(), "finished"
    if is_reached:
        return Finish(), "already_done"
    if failure.failure_class in _OUTSIDE:
        return _wait_for_world(failure, ledger, rules, now)
    if failure.failure_class in PASSING:
        return _let_pass(document, ledger, rules, now)
    return _answer(document, ledger, rules, now) or _leave_dead_end(document, ledger, failure, rules)


def _wait_for_world(failure: Failure, ledger: Ledger, rules: Rules, now: int) -> tuple[Decision, str]:
    error = failure.error
    said = f"{error.type}: {error.message}"
    if failure.failure_class == "storage":
        return Pause(said), "disk_full"
    if failure.failure_class == "auth":
        return _ask(rules, f"a key or a right is missing, or no longer good: {said}", "auth"), "auth"
    until = max(error.until, now + health.told_us(error) if error.wait_s > 0 else 0)
    if until > now and retrying.is_in_budget(ledger, rules.patience):
        return Park(max(until, now + retrying.backoff_us(ledger, rules.patience)), said), "quota"
    return _ask(rules, f"a quota or credit is used up: {said}", "quota"), "quota_gone"


def _let_pass(document: Document, ledger: Ledger, rules: Rules, now: int) -> tuple[Decision, str]:
    """A passing fault: `ledger.retries` of them have come in a row, this one included."""
    failure = _the_last(ledger)
    error, patience = failure.error, rules.patience
    at = now + retrying.pause_us(ledger, error, patience)
    is_in_budget = retrying.is_in_budget(ledger, patience)
    is_quick = is_in_budget and retrying.is_quick(ledger, patience)
    may_wait = is_in_budget and retrying.may_wait(ledger, patience, now)
    if error.wait_s > 0 and (is_quick or may_wait):
        return Retry(at), "as_told"
    if is_quick:
        return Retry(at), "passing"
    other = None
    can_change = rules.changes_strategy and ledger.passing <= patience.passing_max
    if can_change and failure.failure_class in strategies.ELSEWHERE and _doubtful(failure, ledger) is None:
        other = strategies.elsewhere(ledger, document.strategy, failure.failure_class)
    if other is not None:
        return ChangeStrategy(other.name, _lesson(document, ledger, failure, "")), "fall_back"
    if may_wait:
        return Retry(at), "outage"
    times = f"{ledger.retries} times in a row" if is_in_budget else f"as one of {ledger.passing} passing faults"
    question = f"{error.type} {times}: {error.message}"
    return _ask(rules, question, "limit"), "passing_too_long"


def _answer(document: Document, ledger: Ledger, rules: Rules, now: int) -> tuple[Decision, str] | None:
    """Return what may still help before this is a dead end; None where it is one."""
    failure = _the_last(ledger)
    kind, text, advised = failure.failure_class, failure.error.message, ledger.advised
    if strategies.has_ended_so(document, ledger):
        return None  # its last round came to the same end
    if kind == "context" and rules.reasks and not advised.get("condense"):
        return Condense(text), "condense"
    if kind == "refusal" and rules.reasks and not advised.get("rephrase"):
        return Reask(text, rephrase=True), "rephrase"
    if kind == "stuck" and rules.nudges and advised.get("nudge", 0) < NUDGES_MAX:
        return Nudge(text), "nudge"
    can_change = bool(ledger.strategies) and (rules.changes_strategy or rules.rolls_back)
    is_again = ledger.same >= _TWICE and kind in _DETERMINISTIC
    if ledger.failures >= ledger.failures_max or kind == "request" or (can_change and (kind in _AT_ONCE or is_again)):
        return None
    if kind == "stuck" and can_change:
        return None  # a hint has not helped, or is not given
    if kind == "stuck":
        return Nudge(text), "nudge"
    if kind == "output" and rules.reasks and advised.get("reask", 0) < REASKS_MAX:
        return Reask(text), "reask"
    return Retry(now), "same_again"


def _leave_dead_end(document: Document, ledger: Ledger, failure: Failure, rules: Rules) -> tuple[Decision, str]:
    said = f"{failure.error.type}: {failure.error.message}"
    if not ledger.strategies or not (rules.changes_strategy or rules.rolls_back):
        return _ask(rules, f"{ledger.failures} failures, the last: {said}", "limit"), "limit_reached"
    following = _following(document, ledger, failure, rules)
    if following is None:
        names = ", ".join(one.name for one in ledger.strategies)
        false = f", or its source was found false ({', '.join(ledger.quarantined)})" if ledger.quarantined else ""
        question = f"each strategy ({names}) was tried twice without progress{false}; the last failure: {said}"
        return _ask(rules, question, "exhausted"), "exhausted"
    if (doubtful := _doubtful(failure, ledger)) is not None:
        return _ask(rules, _settle(doubtful), "in_doubt"), "effects_open"
    if following.change == "ask":
        return _ask(rules, f"help is needed; the last failure: {said}", "limit"), "ask_for_help"
    target = _target(document, ledger, failure) if rules.rolls_back else None
    if target is None:
        return ChangeStrategy(following.name, _lesson(document, ledger, failure, "")), "change_in_place"
    lesson = _lesson(document, ledger, failure, target.name)
    return RollBack(target.seq, target.name, following.name, lesson), "roll_back"


def _following(document: Document, ledger: Ledger, failure: Failure, rules: Rules) -> Strategy | None:
    if rules.changes_strategy:
        may_ask = not rules.unattended
        return strategies.next_strategy(ledger, document.strategy, failure.failure_class, may_ask=may_ask)
    now = ledger.strategies[document.strategy]
    return now if strategies.rounds_of(ledger, now, now) < ROUNDS_MAX * len(ledger.strategies) else None


def _target(document: Document, ledger: Ledger, failure: Failure) -> Checkpoint | None:
    """Return the checkpoint to go back to: the newest, unless something says that the mistake lies further back.

    After a false answer only those count that were marked before its source was first used. Where every strategy has
    come to the same end, each rollback goes one further. One that was judged and has failed is none, and of several
    that hold the same only one counts.
    """
    marks = [mark for mark in rollback.admissible(document, ledger) if mark.verdict != "failed"]
    if failure.failure_class == "suspicious":
        source = strategies.strategies_of(ledger)[document.strategy].source
        first_use = document.first_uses.get(source, 0)
        marks = [mark for mark in marks if not first_use or mark.seq < first_use] or marks[-1:]
    distinct = list({mark.changed: mark for mark in reversed(marks)}.values())[::-1]
    return distinct[min(strategies.ended_so(ledger), len(distinct) - 1)] if distinct else None


def _lesson(document: Document, ledger: Ledger, failure: Failure, checkpoint: str) -> str:
    now = strategies.strategies_of(ledger)[document.strategy]
    start = f" from checkpoint {checkpoint!r}" if checkpoint else ""
    where = f" in step {document.step!r}" if document.step else ""
    tool = f"{failure.tool}: " if failure.tool else ""
    kind = failure.error.type.rpartition(".")[2]  # it is read by a model: where a class is defined says nothing to it
    why = f"{tool}{kind}: {failure.error.message} ({failure.failure_class})"
    return cut_text(f"tried {now.name!r}{start}{where}, failed because {why}", LESSON_BYTES_MAX)


def _is_in_the_way(action: OpenAction, failure: Failure | None, ledger: Ledger) -> bool:
    """Whether a person must settle `action` first.

    A program that has returned will not ask for it again. One that failed is called anew: then keyed effects are sent
    under the same key and probes are asked, and only an effect of which nobody can know stops it; one of a branch that
    was left only where the call that failed has met it.
    """
    if action.effect.is_free:
        return False
    if failure is not None and action.action in ledger.standing and failure.action != action.action:
        return False
    return failure is None or (action.in_doubt and action.effect.retry == "never")


def _doubtful(failure: Failure, ledger: Ledger) -> OpenAction | None:
    """Return an effect of this branch that may have happened, and that no rollback takes back.

    Another strategy might bring it about once more, in another way: by another tool, or by somebody else.
    """
    here = (a for a in ledger.open.values() if a.action not in ledger.standing or a.action == failure.action)
    return next((a for a in here if not a.effect.is_free and rollback.stays(a.effect.undo, a.intent, ledger)), None)


def _settle(action: OpenAction) -> str:
    return f"did {action.tool!r} (action {action.action}) happen? settle it, then resume"


def _ask(rules: Rules, why: str, reason: AskReason) -> Decision:
    return Abandon(why) if rules.unattended else Ask(why, reason)


def _the_last(ledger: Ledger) -> Failure:
    if ledger.last_failure is None:
        raise ValueError("no failure is on record")
    return ledger.last_failure
