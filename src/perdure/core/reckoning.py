"""What document and ledger keep for recovery: counts, signatures, advice, strategies, lessons. Part of the fold.

Each function is called by `core/entry_rules.py` for one kind of entry. `core/recovery.py` reads what stands here, and
nothing else; the meaning of the fields is that of `model/ledger.py`.
"""

from __future__ import annotations

import msgspec

from perdure.core import health, rollback, watching
from perdure.core.recovery import signature_of
from perdure.model import entry as e
from perdure.model.advice import Advice
from perdure.model.decision import ChangeStrategy, Condense, Decision, Nudge, Park, Pause, Reask, Retry, RollBack
from perdure.model.document import Document
from perdure.model.failure import ErrorRecord, Failure
from perdure.model.ledger import Ledger, OpenAction, Tried
from perdure.model.strategy import DEFAULT_STRATEGY, Strategy


def start(ledger: Ledger, started: e.TaskStarted) -> None:
    """What earlier tasks have made of the strategies counts as if this one had."""
    ledger.tried = {name: Tried(progress=done, failures=failed) for name, done, failed in started.prior}


def note_failure(document: Document, ledger: Ledger, observed: e.FailureObserved, at: int) -> None:
    """A failure has left the program."""
    failure = observed.failure
    signature = signature_of(failure, ledger)
    ledger.same = ledger.same + 1 if signature == ledger.signature else 1
    ledger.signature = signature
    ledger.last_failure, ledger.alarm, ledger.decided = failure, None, None
    ledger.failed_at, ledger.is_undecided = at, True
    watching.note_failure(document, ledger, failure)
    health.note_failure(ledger, failure.tool)
    failed, tool, digest = ledger.failed_call
    call = (tool, digest) if failed == failure.action else ("", b"")
    if ledger.has_moved_on and (call != ledger.retried or not call[0]):
        ledger.retries = 0  # the run has come further than the row did
    ledger.retried, ledger.has_moved_on = call, False
    if not failure.action:
        ledger.failed_provider = ""
    if not observed.counted:  # nothing has followed from the advice yet
        ledger.retries += 1
        ledger.passing += 1
        if ledger.retries == 1:
            ledger.passing_since = at
        return
    ledger.failures += 1
    ledger.advice = None
    _record(ledger, strategy_of(document, ledger)).failures += 1
    if failure.failure_class == "output":  # what gave the bad output is asked for again
        document.loose = [kept for kept in document.loose if not kept.free]
    source = strategy_of(document, ledger).source
    if failure.failure_class == "suspicious" and source and source not in ledger.quarantined:
        ledger.quarantined.append(source)


def note_success(ledger: Ledger, action: OpenAction, *, is_further: bool) -> None:
    """The call that failed has succeeded, and what fails from here on is another row; or the run has come further.

    That alone ends no row: what a program does anew at each call before it comes to the one that is away, it does then.
    """
    if ledger.retried == (action.tool, action.digest):
        ledger.signature, ledger.same, ledger.retried, ledger.retries = "", 0, ("", b""), 0
    elif is_further:
        ledger.has_moved_on = True


def note_decision(document: Document, ledger: Ledger, taken: e.DecisionTaken) -> None:
    """Something was decided, and is still to be obeyed; advice is there at once.

    A strategy that is left has had a round, also where nobody has chosen it, or before the last progress.
    """
    decision = msgspec.json.decode(bytes(taken.decision), type=Decision)
    ledger.decided, ledger.is_undecided = decision, False
    match decision:
        case Reask(error, rephrase):
            _advise(ledger, Advice("rephrase" if rephrase else "reask", error))
        case Nudge(text):
            _advise(ledger, Advice("nudge", text))
        case Condense(error):
            _advise(ledger, Advice("condense", error))
        case RollBack() | ChangeStrategy():
            left = _record(ledger, strategy_of(document, ledger))
            left.rounds, left.ended = max(1, left.rounds), ledger.signature
        case _:
            pass


def note_call(ledger: Ledger) -> None:
    """The program is called: what was decided is obeyed."""
    ledger.last_failure, ledger.decided, ledger.is_undecided = None, None, False


def is_waiting(ledger: Ledger) -> bool:
    """Whether the task only waits out a time: to be killed there says nothing of its program."""
    return isinstance(ledger.decided, Retry | Park)


def note_claim(ledger: Ledger, claimed: e.LeaseClaimed) -> None:
    """A person who types `resume` knows that a quota is back; `at_once` ends any wait."""
    if (claimed.by_hand or claimed.at_once) and isinstance(ledger.decided, Park):
        ledger.decided = None
    if claimed.at_once:
        ledger.waits = {}
        if isinstance(ledger.decided, Retry):
            ledger.decided = None


def note_pause(ledger: Ledger) -> None:
    """The task stands: whoever goes on with it has made room where that was decided on."""
    if isinstance(ledger.decided, Pause):
        ledger.decided = None


def note_answer(document: Document, ledger: Ledger) -> None:
    """A person has looked: the counts begin anew, the journal keeps the old ones."""
    watching.note_left(document, ledger)
    ledger.failures = ledger.retries = ledger.passing = ledger.same = ledger.rollbacks_in_row = 0
    ledger.signature, ledger.advised = "", {}
    ledger.decided, ledger.alarm, ledger.is_undecided = None, None, False
    health.note_looked(ledger)
    if {one.source for one in ledger.strategies} <= set(ledger.quarantined):
        ledger.quarantined = []  # there was nothing left to ask; whoever has looked knows of it
    _begin_rounds_anew(ledger)


def note_word(ledger: Ledger, text: str) -> None:
    """What a person has said to a task that was handed over: the program is told when it is called."""
    ledger.advice = Advice("person", text)


def note_passed(document: Document, ledger: Ledger, check: str, seq: int) -> None:
    """A check has passed for the first time on this branch; for the first time on any, it is progress of the task."""
    watching.note_progress(document, ledger)
    ledger.failures = max(0, ledger.failures - 1)
    ledger.advice = None
    if check in ledger.proven:
        return
    ledger.proven[check] = seq
    _record(ledger, strategy_of(document, ledger)).progress += 1
    ledger.advised, ledger.rollbacks_in_row, ledger.same, ledger.signature = {}, 0, 0, ""
    _begin_rounds_anew(ledger)


def note_strategy(document: Document, ledger: Ledger, strategy: Strategy) -> None:
    """A strategy is taken: its round begins, with a count of its own."""
    _record(ledger, strategy).rounds += 1
    names = [one.name for one in ledger.strategies]
    document.strategy = names.index(strategy.name) if strategy.name in names else 0
    ledger.failures = ledger.retries = ledger.same = 0
    ledger.signature, ledger.advised, ledger.advice, ledger.decided = "", {}, None, None


def note_rolled_back(document: Document, ledger: Ledger) -> None:
    """A branch was left: by recovery, by the program, or by a person; `document` is that of the checkpoint."""
    ledger.rollbacks_in_row += ledger.rollback is not None and bool(ledger.rollback.strategy)
    rollback.end(ledger)
    watching.note_left(document, ledger)
    ledger.alarm, ledger.decided, ledger.is_undecided = None, None, False  # that was about the branch that is left
    ledger.advice = None


def note_stuck(ledger: Ledger, noticed: e.StuckNoticed) -> None:
    """The run goes round in circles: its program may have to be left."""
    if not watching.is_alarming(ledger):
        return
    error = ErrorRecord(type="Stuck", message=noticed.text, failure_class="stuck", rule=noticed.rule)
    ledger.alarm = Failure(failure_class="stuck", error=error)


def note_handed_back(document: Document, ledger: Ledger, back: e.TaskHandedBack, seq: int) -> None:
    """A person has changed something: a rollback does not go past it, and the program looks before it acts."""
    document.human_at = seq
    changes = "; ".join(back.changes) or "nothing"
    word = f" They say: {back.word}" if back.word else ""
    note_answer(document, ledger)
    ledger.advice = Advice("observe", f"A person had the task and has changed: {changes}.{word} Look before you act.")


def note_action(document: Document, ledger: Ledger, action: OpenAction) -> None:
    """An action of a task with strategies is settled: it is what the present one costs."""
    strategy = strategy_of(document, ledger)
    _record(ledger, strategy).actions += 1
    if action.is_source and strategy.source:
        document.first_uses.setdefault(strategy.source, action.intent)


def strategy_of(document: Document, ledger: Ledger) -> Strategy:
    """Return the strategy that is followed now."""
    return ledger.strategies[document.strategy] if ledger.strategies else DEFAULT_STRATEGY


def _record(ledger: Ledger, strategy: Strategy) -> Tried:
    return ledger.tried.setdefault(strategy.name, Tried())


def _begin_rounds_anew(ledger: Ledger) -> None:
    for record in ledger.tried.values():
        record.rounds, record.ended = 0, ""


def _advise(ledger: Ledger, advice: Advice) -> None:
    ledger.advice = advice
    ledger.advised[advice.kind] = ledger.advised.get(advice.kind, 0) + 1
