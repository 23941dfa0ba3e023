"""Is what came of a story right? Every promise that can be held against the journal and the world outside.

Returns complaints, one line each, and raises nothing of its own. Called by `simulate`. The promises:

    ended       the task has ended, or stands with its question; no life ended for a reason that it did not have
    result      a task that succeeded came to what its program comes to undisturbed, in state and result
    kept        what was acknowledged, by the store or to the program, is in the journal (P1)
    once        no effect happened twice or was forgotten, every one was on record before it was sent (P2)
    fold        live fold = fold from entry 1 = snapshot and entries; verify finds nothing
    again       recovering twice is recovering once
    obeyed      what recovery has decided to change is changed, once, whoever comes to do it
    fenced      nothing that was written under an old epoch is to be seen
    ledger      counters never fall, and count what the journal holds
    paid        what the world has billed is spent or reserved, and no more of it than the budget allows
    inbox       every message was taken in once, or waits
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import msgspec

import perdure
from perdure.core import snapshots
from perdure.core.fold import Fold
from perdure.core.spending import state_of
from perdure.engine.loading import load_fold
from perdure.errors import ActionUnknown
from perdure.model import entry as e
from perdure.model.decision import ChangeStrategy, Decision, RollBack
from perdure.stores.memory import MemoryStore, MemoryWorld
from perdure.testing.simulation.chance import Chance, ChanceIds
from perdure.testing.simulation.lives import (
    RIVALS,
    TASK,
    Audit,
    Ending,
    Story,
    argument_of,
    copy_world,
    counters_of,
    entries_of,
)
from perdure.testing.simulation.outside import LAZY, UNDO, Request
from perdure.testing.simulation.plan import Player
from perdure.testing.simulation.store import BareStore
from perdure.views.verifying import verify

_STORE_FAILURES: Final = frozenset({"StoreBroken", "StoreFull", "StoreBusy", "TaskPaused"})
_ALWAYS: Final = frozenset({"returned", "killed", "NeedsHuman"})


async def judge(story: Story) -> list[str]:
    """Return what is wrong."""
    found = list(_judge_endings(story))
    for task, stored in story.memory.tasks.items():
        if not stored.appends:
            continue
        entries = entries_of(story.memory, task)
        found += _judge_records(story, task, entries)
        found += _judge_effects(story, task, entries)
        found += _judge_obeyed(entries)
        found += await _judge_folds(story, task, entries)
    found += await _judge_recovery(story)
    return found


# --- ended ----------------------------------------------------------------------------------------------------------
def _judge_endings(story: Story) -> Iterator[str]:
    for ending in story.endings:
        if ending.what not in _allowed(story, ending):
            yield f"ended: life {ending.number} ended by {ending.what}: {ending.text}"
        if "diverged" in ending.text:
            yield f"ended: life {ending.number} diverged: {ending.text}"
        kind, _, text = ending.neighbour.partition(":")
        if kind not in {"", *_allowed(story, ending)}:
            yield f"ended: the neighbour of life {ending.number} ended by {kind}: {text}"
        if kind in {"TaskBusy", "Fenced", "Conflict"}:
            yield f"ended: the neighbour of life {ending.number} lost a lease that nobody took: {text}"
    if story.status == "needs_human":
        if not story.is_lazy:
            yield "ended: it still waits for a person after everything was answered"
        if not story.memory.tasks[story.task].summary.reason:
            yield "ended: it waits for a person and asks nothing"
    elif story.status not in {"succeeded", "failed", "cancelled"}:
        yield f"ended: after {len(story.endings)} lives it is {story.status!r}"


def _allowed(story: Story, ending: Ending) -> frozenset[str]:
    """Return how a life may end, given what befell it."""
    disturbance = ending.disturbance
    allowed = set(_ALWAYS)
    if disturbance.fault is not None:
        allowed |= _STORE_FAILURES
        allowed |= {"TaskUnknown"}
    if disturbance.rival:
        allowed |= {"TaskBusy", "TaskUnknown"}  # unknown: the rival has put away a task that had no entry yet
    if ending.number >= RIVALS:
        allowed |= {"TaskBusy", "NameTaken"}
    if disturbance.rival == "takes":
        allowed |= {"TaskFinished"}  # there was nothing to take over any more
        allowed |= {"ActionUnknown"}  # another person has settled it a moment before
    if "stop" in disturbance.says:
        allowed |= {"TaskPaused"}
    if "interrupt" in disturbance.says:
        allowed |= {"CancelledError"}
    if story.said:
        allowed |= {"TaskPaused", "TaskCancelled"}
    if story.is_unattended or any(getattr(step, "fails", False) for step in story.program.steps):
        allowed |= {"TaskFailed"}
    return frozenset(allowed)


# --- kept, fenced, ledger, inbox ------------------------------------------------------------------------------------
def _judge_records(story: Story, task: str, entries: list[e.Entry]) -> Iterator[str]:
    digests = {entry.header.seq: entry.digest for entry in entries}
    for place, seq, digest in story.books.acknowledged:
        if place == task and digests.get(seq) != digest:
            yield f"kept: entry {seq} was acknowledged and is not in the journal"
    settled = {
        (entry.payload.action, entry.header.seq) for entry in entries if isinstance(entry.payload, e.ActionSettled)
    }
    for place, action, seq in story.told:
        if place == task and (action, seq) not in settled:
            yield f"kept: the program was told of action {action} (entry {seq}), which is not in the journal"
    for written in story.books.written:
        if written.task == task and written.epoch != written.lease:
            yield f"fenced: entry {written.last_seq} has epoch {written.epoch}, the lease had {written.lease}"
    epochs = [entry.header.epoch for entry in entries]
    if any(later < earlier for earlier, later in pairwise(epochs)):
        yield "fenced: an epoch is below the one before"
    received = Counter(entry.payload.message for entry in entries if isinstance(entry.payload, e.MessageReceived))
    waiting = {name for name, message in story.memory.tasks[task].messages.items() if message is not None}
    if task == story.task:
        for name in story.said:
            if received[name] + (name in waiting) != 1 and name in story.memory.tasks[task].messages:
                yield f"inbox: {name} was taken in {received[name]} times and waits: {name in waiting}"


# --- once -----------------------------------------------------------------------------------------------------------
class _Action(msgspec.Struct):
    """One action, as the journal and as the world tells it."""

    intents: list[tuple[int, e.ActionIntended]] = []  # with their seq
    outcomes: list[e.ActionSettled] = []
    begun: list[Request] = []
    landed: list[Request] = []
    branch: int = 0

    def __str__(self) -> str:
        if not self.intents:
            return "an action without an intent"
        intent = self.intents[0][1]
        return f"{intent.tool} {argument_of(intent)} (action {intent.action})"


def _judge_effects(story: Story, task: str, entries: list[e.Entry]) -> Iterator[str]:
    actions: dict[str, _Action] = {}
    for entry in entries:
        match entry.payload:
            case e.ActionIntended(action=name) as intent:
                action = actions.setdefault(name, _Action(branch=entry.header.branch))
                action.intents.append((entry.header.seq, intent))
            case e.ActionSettled(action=name) as outcome:
                actions.setdefault(name, _Action()).outcomes.append(outcome)
            case _:
                pass
    for request in story.outside.begun:
        if request.task == task:
            actions.setdefault(request.action, _Action()).begun.append(request)
    for request in story.outside.landed:
        if request.task == task:
            actions.setdefault(request.action, _Action()).landed.append(request)
    for action in actions.values():
        yield from _judge_begun(action)
        yield from _judge_action(action)
    yield from _judge_items(actions)


def _judge_begun(action: _Action) -> Iterator[str]:
    """Every call that is not free, or that costs money, was on record, durably, before it was made."""
    for request in action.begun:
        if request.tool not in LAZY and not any(seq <= request.durable for seq, _ in action.intents):
            yield f"once: {request.tool} {request.item} ({request.action}) was called before its intent was durable"


def _judge_action(action: _Action) -> Iterator[str]:
    retry = action.intents[0][1].effect.retry if action.intents else "free"
    if retry == "free":
        return
    keys = {request.key for request in action.begun}
    done = [outcome for outcome in action.outcomes if outcome.outcome == "succeeded"]
    if len(action.begun) > len(action.intents):
        yield f"once: {action} was called {len(action.begun)} times with {len(action.intents)} intents"
    if retry == "never" and len(action.begun) > 1:
        yield f"once: {action} may never be called again and was called {len(action.begun)} times"
    if retry in {"never", "probe"} and len(action.landed) > 1:
        yield f"once: {action} happened {len(action.landed)} times"
    if retry == "keyed" and len(keys) > 1:
        yield f"once: {action} was sent under {len(keys)} keys"
    if any(outcome.by != "probe" for outcome in done) and not action.landed:  # a probe may mean an earlier branch
        yield f"once: {action} is on record as done and never happened"
    if len(done) > 1:
        yield f"once: {action} was settled as succeeded {len(done)} times"


def _judge_items(actions: dict[str, _Action]) -> Iterator[str]:
    """On one branch an effect happens once, whatever number of actions it took, and each action is taken back once."""
    happened: dict[tuple[int, str, str], set[str]] = {}
    for action in actions.values():
        retry = action.intents[0][1].effect.retry if action.intents else "free"
        if retry in {"free", "restore"}:
            continue
        for place, request in enumerate(action.landed):
            subject = action.intents[0][1].key if request.tool == UNDO else request.item
            seen = happened.setdefault((action.branch, request.tool, subject), set())
            seen.add(request.key or f"{request.action} {place}")
    for (branch, tool, item), times in happened.items():
        if len(times) > 1:
            yield f"once: {tool} {item} happened {len(times)} times on branch {branch}"


# --- obeyed ---------------------------------------------------------------------------------------------------------
def _judge_obeyed(entries: list[e.Entry]) -> Iterator[str]:
    """A strategy is chosen where that was decided, before the program is called; nobody else's doing undecides it."""
    due = ""
    is_under_way = False  # a rollback that has begun is ended, whatever anybody says meanwhile
    for entry in entries:
        seq = entry.header.seq
        match entry.payload:
            case e.RollbackBegan(strategy=strategy):
                due, is_under_way = strategy, True
            case e.RolledBackEntry():
                is_under_way = False
            case e.RollbackAbandoned():
                due, is_under_way = "", False
            case e.DecisionTaken(decision=raw):
                decision = msgspec.json.decode(bytes(raw), type=Decision)
                due = decision.strategy if isinstance(decision, RollBack | ChangeStrategy) else ""
            case e.StrategyChosen(strategy=chosen):
                if chosen.name != due:
                    yield f"obeyed: strategy {chosen.name!r} was chosen (entry {seq}), and decided was {due!r}"
                due = ""
            case e.TaskHandedBack() | e.QuestionAnswered() if not is_under_way:
                due = ""
            case e.ProgramCalled() if due:
                yield f"obeyed: the program was called (entry {seq}) before strategy {due!r} was chosen"
            case _:
                pass


# --- fold -----------------------------------------------------------------------------------------------------------
async def _judge_folds(story: Story, task: str, entries: list[e.Entry]) -> list[str]:
    found: list[str] = []
    whole = await load_fold(BareStore(story.memory, story.clock), task)
    quick = await load_fold(MemoryStore(story.memory, story.clock), task)
    if snapshots.encode_fold(whole) != snapshots.encode_fold(quick):
        found.append("fold: snapshot and entries come to something else than all entries")
    verdict = await verify(MemoryStore(story.memory, story.clock), task)
    found += [f"fold: verify says {finding.what} at {finding.seq}: {finding.text}" for finding in verdict.findings]
    digests = {entry.header.seq: entry.digest for entry in entries}
    for audit in story.audits:
        if audit.task == task:
            found += await _judge_audit(story, audit, whole, digests)
    found += _judge_counters(whole, entries)
    found += _judge_paid(story, task, whole)
    found += _judge_result(story, task, whole)
    return found


async def _judge_audit(story: Story, audit: Audit, whole: Fold, digests: dict[int, bytes]) -> list[str]:
    if digests.get(audit.seq) != audit.digest:
        return []  # it never reached the journal: what was counted there was not acknowledged to anybody
    found: list[str] = []
    now = counters_of(whole)
    if any(before > after for before, after in zip(audit.counters, now, strict=True)):
        found.append(f"ledger: counters fell from {audit.counters} at {audit.seq} to {now}")
    then = await load_fold(BareStore(story.memory, story.clock), audit.task, audit.seq)
    if snapshots.encode_fold(then) != audit.folded:
        found.append(f"fold: the live fold at entry {audit.seq} was not what its journal comes to")
    return found


def _judge_counters(fold: Fold, entries: list[e.Entry]) -> Iterator[str]:
    counted: Counter[str] = Counter()
    by_edits: Counter[str] = Counter()
    open_: set[str] = set()
    for entry in entries:
        match entry.payload:
            case e.ActionIntended(action=action):
                open_.add(action)
            case e.ActionSettled(action=action, outcome=outcome, error=error) if (
                outcome != "in_doubt" and action in open_
            ):
                open_.discard(action)
                counted["actions"] += 1
                was_stopped = error is not None and error.failure_class == "cancelled"
                counted["failed"] += outcome == "failed" and not was_stopped
            case e.StateEdited(counts=counts):
                by_edits.update(counts)
            case e.RolledBackEntry():
                counted["rollbacks"] += 1
            case e.ProgramCalled():
                counted["calls"] += 1
            case _:
                pass
    ledger = fold.ledger
    has = (ledger.actions, ledger.failed_actions, ledger.rollbacks, ledger.attempt)
    should = (counted["actions"], counted["failed"], counted["rollbacks"], counted["calls"])
    if has != should:
        yield f"ledger: (actions, failed, rollbacks, calls) are {has}, the journal holds {should}"
    if ledger.counts != by_edits:
        yield f"ledger: counts are {ledger.counts}, the journal holds {dict(by_edits)}"


def _judge_paid(story: Story, task: str, fold: Fold) -> Iterator[str]:
    state = state_of(fold.ledger, fold.at)
    used, billed = state.spent.tokens + state.reserved.tokens, story.outside.billed(task)
    if used < billed:
        yield f"paid: {billed} tokens are billed, and {used} are spent or reserved"
    if 0 < state.limit.tokens < used:
        yield f"paid: {used} tokens are spent or reserved, and the budget is {state.limit.tokens}"


def _judge_result(story: Story, task: str, fold: Fold) -> Iterator[str]:
    program: Player = story.program if fold.ledger.name == TASK else story.neighbour
    summary = story.memory.tasks[task].summary
    if summary.status != fold.ledger.status:
        yield f"ended: the list says {summary.status}, the journal {fold.ledger.status}"
    if fold.ledger.status != "succeeded":
        return
    if fold.tree.root != program.expected():
        yield f"result: {fold.ledger.name} came to {_difference(fold.tree.root, program.expected())}"
    results = [ending.result for ending in story.endings if ending.what == "returned"]
    if fold.ledger.name == TASK and any(result != program.expected() for result in results):
        yield "result: the program was told another result than it came to"
    if any(not action.effect.is_free for action in fold.ledger.open.values()):
        yield "ended: it succeeded with effects open"


def _difference(has: Any, should: Any) -> str:
    """Return where two states differ first."""
    if type(has) is dict and type(should) is dict:
        both: tuple[dict[Any, Any], dict[Any, Any]] = (has, should)  # pyright: ignore[reportUnknownVariableType] - of the codec's domain
        for key in {**both[0], **both[1]}:
            left, right = (one.get(key) for one in both)
            if left != right:
                return f"[{key!r}]{_difference(left, right)}"
    return f": {has!r:.300} instead of {should!r:.300}"


# --- again ----------------------------------------------------------------------------------------------------------
async def _judge_recovery(story: Story) -> list[str]:
    """Recover twice from what a death left: the second time changes nothing that the first has not."""
    found: list[str] = []
    for memory in story.copies:
        once, twice = memory, copy_world(memory)
        for number, world in enumerate((once, twice, twice)):
            await _recover(story, world, number)
        left, right = [await _state_of(story, world) for world in (once, twice)]
        if left != right:
            found.append("again: recovering twice comes to something else than recovering once")
    return found


async def _recover(story: Story, world: MemoryWorld, number: int) -> None:
    store = MemoryStore(world, story.clock)
    ids = ChanceIds(Chance(story.seed, "recovery", number))
    async with perdure.open(store, clock=story.clock, ids=ids) as runtime:
        for task in [name for name, stored in world.tasks.items() if not stored.summary.is_finished and stored.appends]:
            try:
                await runtime.settle(task, "none of its actions", None)
            except ActionUnknown:
                continue  # the task was claimed, and a rollback that was under way is finished


async def _state_of(story: Story, world: MemoryWorld) -> list[object]:
    found: list[object] = []
    for task, stored in world.tasks.items():
        if not stored.appends:
            continue
        fold = await load_fold(MemoryStore(world, story.clock), task)
        document, ledger = fold.document, fold.ledger
        found.append((document.positions, document.keyed, document.loose, document.checkpoints, document.checks))
        found.append((fold.tree.root, fold.branch, ledger.open, ledger.actions, ledger.rollbacks, ledger.status))
    return found
