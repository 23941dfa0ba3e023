"""What a journal shows of the promises: each entry is held against those before it. Pure; called by `verifying`.

The numbers are those of the invariants in docs/reference/cli.md. What only a crash, a race or another store can show
is not judged here but tested (`BY_TESTS`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from perdure.codec import leaves
from perdure.core.resume import again_key
from perdure.core.rollback import undo_key
from perdure.model import entry as e
from perdure.model.decision import Decision, RollBack
from perdure.model.entry import Entry, Header
from perdure.views.accounts import Accounts

Report = Callable[[int, str, str], None]  # seq, what, text

INVARIANTS: Final[dict[int, str]] = {
    2: "entries are dense and linked; epochs and branches never fall",
    3: "document, ledger and manifest by snapshot and patches are those folded from entry 1",
    5: "an effect is sent again only where its declaration allows",
    6: "every action is followed by one outcome, and none is open when a task succeeds",
    7: "a rollback that began only goes forward once an undo was sent; each undo is one action",
    8: "no automatic rollback passes an effect that cannot be undone, or what a person has changed",
    9: "the ledger survives every rollback and restart, and no call goes out over the budget",
    12: "branches share nothing after their split",
}
BY_TESTS: Final[dict[int, str]] = {
    1: "what was acknowledged is there after recovery",
    4: "an append with an old epoch is refused whole",
    10: "folding comes to the same on every store and Python",
    11: "recovering twice is recovering once",
}
WHAT: Final[dict[str, int]] = {
    "chain": 2, "order": 2, "unknown": 2, "fold": 3, "snapshot": 3, "files": 3, "action": 5, "outcome": 6,
    "rollback": 7, "passed": 8, "ledger": 9, "budget": 9, "branch": 12,
}  # fmt: skip
_BY_HAND: Final = (e.StateEdited, e.PlanAdopted, e.TaskHandedBack)
_WHILE_ROLLING_BACK: Final = (
    e.ProgramCalled, e.StateEdited, e.PlanAdopted, e.PositionMoved, e.CheckpointMarked, e.RollbackBegan,
    e.TaskSucceeded,
)  # fmt: skip


class _Effect(msgspec.Struct):
    """An action with an effect, for as long as its journal is read: free ones are forgotten with their outcome."""

    intent: e.ActionIntended
    seq: int
    outcome: str = ""  # of the newest settlement


class Judge:
    """Takes the entries of one task in order and reports what contradicts a promise."""

    def __init__(self, report: Report) -> None:
        self.attempts = 0
        self.rollbacks = 0
        self.files_digest = b""  # of the manifest, as last recorded; empty where that was on a branch that was left
        self._report = report
        self._accounts = Accounts()
        self._before: Header | None = None
        self._open: dict[str, e.ActionIntended] = {}  # intents without a final outcome
        self._effects: dict[str, _Effect] = {}  # by action id
        self._keys: dict[str, str] = {}  # effect key -> the action that had it last
        self._rollback: e.RollbackBegan | None = None
        self._is_taken = False  # a person has the task
        self._undos: dict[str, str] = {}  # of the rollback under way: undoing action -> what it takes back
        self._undone: set[str] = set()  # what is taken back by it, or stays by a person's word
        self._reused: dict[str, int] = {}  # effect -> entry that has answered a call by it
        self._said: set[str] = set()  # questions whether to make a call once more that are answered
        self._decided: Decision | None = None  # by recovery, and not followed by a call of the program so far
        self._by_hand: dict[int, str] = {}  # entries by which a person has changed something
        self._own_from = 0  # entry with which a fork begins its own life; its parent may have done so before
        self._lineage: list[tuple[int, int | None]] = [(1, None)]  # entries that the present branch stands on

    def header(self, header: Header, payload: e.Payload | None) -> None:
        """Judge where an entry stands."""
        before, self._before = self._before, header
        if (header.seq == 1) != (e.start_of(payload) is not None) and payload is not None:
            self._report(header.seq, "order", "entry 1, and no other, must be the task's start")
        if isinstance(payload, e.TaskForked):
            self._own_from = payload.at + 1
        if header.seq == self._own_from:
            self._is_taken = False  # a person has the parent, not the fork
        if before is None:
            return
        if header.epoch < before.epoch:
            self._report(header.seq, "order", f"its epoch {header.epoch} is below {before.epoch} before it")
        if header.epoch > before.epoch and payload is not None and not isinstance(payload, e.LeaseClaimed):
            self._report(header.seq, "order", f"epoch {header.epoch} begins without a claim of the lease")
        if header.branch < before.branch:
            self._report(header.seq, "order", f"its branch {header.branch} is below {before.branch} before it")
        begins_fork = isinstance(payload, e.LeaseClaimed) and header.branch == before.branch + 1
        if header.seq == self._own_from and payload is not None and not begins_fork:
            self._report(header.seq, "branch", "the fork does not begin its own life with a claim on the next branch")
        is_jump = isinstance(payload, e.RolledBackEntry) or (begins_fork and header.seq <= self._own_from)
        if payload is not None and before.branch <= header.branch != before.branch + is_jump:
            self._report(header.seq, "branch", f"branch {header.branch} follows {before.branch} without a rollback")

    def take(self, entry: Entry) -> None:
        """Judge one entry."""
        seq, payload = entry.header.seq, entry.payload
        self.header(entry.header, payload)
        self._judge_moment(seq, payload)
        if wrong := self._accounts.take(payload, entry.header.epoch, is_undo=self._rollback is not None):
            self._report(seq, "budget", wrong)
        match payload:
            case e.ActionIntended():
                self._intended(seq, payload)
            case e.ActionSettled():
                self._settled(seq, payload)
            case e.ActionReleased():
                self._open.pop(payload.action, None)
                self._undone.add(self._undos.get(payload.action, payload.action))
            case e.ActionReused():
                self._reuse(seq, payload)
            case e.ProgramCalled():
                if payload.attempt != self.attempts + 1:
                    self._report(seq, "ledger", f"attempt {payload.attempt} follows attempt {self.attempts}")
                self.attempts = payload.attempt
            case e.TaskSucceeded():
                self._succeeded(seq)
            case e.RollbackBegan():
                self._rollback_began(seq, payload)
            case e.RollbackAbandoned():
                self._rollback = None
                if self._undos:
                    self._report(seq, "rollback", "it gives up a rollback whose first undo was sent")
            case e.RolledBackEntry():
                self.files_digest = b""
                self._rolled_back(seq, payload)
            case e.FilesCaptured(digest=digest):
                self.files_digest = digest
            case e.SnapshotTaken():
                self._snapshot(seq, payload)
            case _:
                pass

    def _judge_moment(self, seq: int, payload: e.Payload) -> None:
        if isinstance(payload, e.QuestionAnswered):
            self._said.add(payload.key)
        if isinstance(payload, e.DecisionTaken):
            self._decided = msgspec.json.decode(bytes(payload.decision), type=Decision)
        if isinstance(payload, e.ProgramCalled | e.RolledBackEntry):
            self._decided = None
        if by := getattr(payload, "by", "") if isinstance(payload, _BY_HAND) else "":
            self._by_hand[seq] = by
        if isinstance(payload, e.TaskTakenOver | e.TaskHandedBack):
            self._is_taken = isinstance(payload, e.TaskTakenOver)
        if self._is_taken and isinstance(payload, e.ProgramCalled | e.TaskResumed):
            self._report(seq, "order", f"a person has the task, and here stands {type(payload).__name__}")
        if self._rollback is not None and isinstance(payload, _WHILE_ROLLING_BACK):
            self._report(seq, "rollback", f"in the middle of a rollback stands {type(payload).__name__}")

    def _intended(self, seq: int, intent: e.ActionIntended) -> None:
        name = f"{intent.tool} (action {intent.action})"
        earlier = self._effects.get(intent.action)
        if earlier is not None and (intent.effect.retry == "never" or earlier.outcome in {"succeeded", "failed"}):
            self._report(seq, "action", f"{name} was sent again, and must not be")
        if earlier is not None and earlier.intent.effect_key != intent.effect_key:
            self._report(seq, "action", f"{name} was sent again under another key")
        self._judge_key(seq, intent, name)
        if self._rollback is not None:
            self._judge_undo(seq, self._rollback, intent, name)
        asked = [one for one in self._open.values() if one.parent and self._is_unanswered(one)] if intent.paid else []
        if asked:
            named = ", ".join(one.tool for one in asked)
            self._report(seq, "outcome", f"{name} was asked while calls that a model has asked for are open: {named}")
        self._judge_references(seq, bytes(intent.arguments), name)
        self._open[intent.action] = intent
        if not intent.effect.is_free:
            self._effects[intent.action] = _Effect(intent, seq)

    def _is_unanswered(self, intent: e.ActionIntended) -> bool:
        """Whether it has an effect, and nothing is said of it on this branch: one in doubt the model is told of."""
        effect = self._effects.get(intent.action)
        return effect is not None and not effect.outcome and self._stands_on(effect.seq)

    def _judge_key(self, seq: int, intent: e.ActionIntended, name: str) -> None:
        """A key belongs to one call; an equal call that is made anew after a failure goes out under it again."""
        if not intent.effect_key:
            return
        owner = self._effects.get(self._keys.get(intent.effect_key, ""))
        if owner is not None and owner.intent.action != intent.action:
            if owner.outcome != "failed":
                self._report(seq, "action", f"{name} has the key of action {owner.intent.action}, which has not failed")
            elif owner.intent.digest != intent.digest:
                self._report(
                    seq, "action", f"{name} has the key of action {owner.intent.action}, which was another call"
                )
        self._keys[intent.effect_key] = intent.action

    def _judge_undo(self, seq: int, began: e.RollbackBegan, intent: e.ActionIntended, name: str) -> None:
        """In the middle of a rollback only its undos are made, each once."""
        of = intent.key.removeprefix("undo ")
        if intent.key != undo_key(of) or f"effects undo {of}" not in began.moves:
            self._report(seq, "rollback", f"in the middle of a rollback {name} was sent, which is none of its undos")
        elif of in self._undone:
            self._report(seq, "rollback", f"{name} takes back action {of}, which is taken back already")
        self._undos[intent.action] = of

    def _reuse(self, seq: int, reused: e.ActionReused) -> None:
        """A call is answered by an effect of a branch that was left, once on a branch, unless a person has said so."""
        name = f"a call of {reused.tool} was answered by action {reused.action}"
        effect = self._effects.get(reused.action)
        if effect is None or effect.outcome != "succeeded":
            self._report(seq, "action", f"{name}, which has not succeeded")
        elif self._stands_on(effect.seq):
            self._report(seq, "branch", f"{name}, which is of this branch")
        key = again_key(reused.tool, reused.digest)
        before = self._reused.get(reused.action)
        if before is not None and self._stands_on(before) and key not in self._said:
            self._report(seq, "action", f"{name}, which has answered one already (entry {before})")
        self._said.discard(key)
        self._reused[reused.action] = seq

    def _settled(self, seq: int, settled: e.ActionSettled) -> None:
        intent = self._open.get(settled.action)
        if intent is None and not settled.by:  # a person, a probe or a thread may come late
            self._report(seq, "outcome", f"action {settled.action} is settled without an open intent")
        effect = self._effects.get(settled.action)
        if effect is not None:
            effect.outcome = settled.outcome
        if settled.outcome == "succeeded" and settled.action in self._undos:
            self._undone.add(self._undos[settled.action])
        elif settled.outcome == "failed" and settled.action not in self._undos:
            self._undone.add(settled.action)  # a person has said that it did not happen: nothing to take back
        if settled.outcome != "in_doubt":
            self._open.pop(settled.action, None)

    def _succeeded(self, seq: int) -> None:
        left = [f"{one.tool} (action {one.action})" for one in self._open.values() if not one.effect.is_free]
        if left:
            self._report(seq, "outcome", f"the task succeeded with open or doubtful effects: {', '.join(left)}")

    def _rollback_began(self, seq: int, began: e.RollbackBegan) -> None:
        if not self._stands_on(began.to_seq) or began.to_seq >= seq:
            self._report(seq, "branch", f"it goes back to entry {began.to_seq}, which is not of this branch")
        if began.strategy:
            self._judge_decided(seq, began)
        self._rollback = began
        self._undos, self._undone = {}, set()

    def _judge_decided(self, seq: int, began: e.RollbackBegan) -> None:
        """One that no person has asked for: it is as decided, and passes nothing that it could not take back."""
        decided = self._decided
        is_as_decided = isinstance(decided, RollBack) and (decided.to_seq, decided.strategy) == (
            began.to_seq,
            began.strategy,
        )
        if not is_as_decided:
            self._report(seq, "rollback", f"it goes on with strategy {began.strategy!r}, and was not decided so")
        passed = [
            f"{one.intent.tool} (entry {at})"
            for name, one in self._effects.items()
            for at in {one.seq, self._reused.get(name, one.seq)}
            if self._stays(one, seq) and one.outcome != "failed" and at > began.to_seq and self._stands_on(at)
        ]
        passed += [
            f"what {by} has changed (entry {at})"
            for at, by in self._by_hand.items()
            if at > began.to_seq and self._stands_on(at)
        ]
        if passed:
            self._report(seq, "passed", f"decided without a person, it passes {', '.join(passed)}")

    def _stays(self, one: _Effect, seq: int) -> bool:
        """Whether the rollback at `seq` cannot take an effect back: what a fork has from its parent is the parent's."""
        undo = one.intent.effect.undo
        return undo == "impossible" or (undo == "function" and one.seq < self._own_from <= seq)

    def _snapshot(self, seq: int, taken: e.SnapshotTaken) -> None:
        if taken.at_seq >= seq:
            self._report(seq, "snapshot", f"it names a snapshot of entry {taken.at_seq}, which comes later")

    def _rolled_back(self, seq: int, ended: e.RolledBackEntry) -> None:
        began, self._rollback = self._rollback, None
        self.rollbacks += 1
        if began is None:
            self._report(seq, "rollback", "it ends a rollback that never began")
        elif (began.to_seq, began.checkpoint) != (ended.to_seq, ended.checkpoint):
            self._report(seq, "rollback", f"it began towards entry {began.to_seq} and ended at entry {ended.to_seq}")
        else:
            self._judge_undone(seq, began)
        kept = [(first, last) for first, last in self._lineage if first <= ended.to_seq]
        first, last = kept.pop() if kept else (1, None)
        end = ended.to_seq if last is None else min(last, ended.to_seq)
        self._lineage = [*kept, (first, end), (seq, None)]

    def _judge_undone(self, seq: int, began: e.RollbackBegan) -> None:
        moves = (move.removeprefix("effects undo ") for move in began.moves if move.startswith("effects undo "))
        for action in moves:
            if action not in self._undone:
                self._report(seq, "rollback", f"it ends before action {action} was taken back")
        stand = {one.action for one in began.standing} - self._undone
        behind = [name for name, one in self._effects.items() if one.seq > began.to_seq and name not in stand]
        for name in behind:
            self._open.pop(name, None)  # nobody will settle it any more
        self._undos, self._undone = {}, set()

    def _judge_references(self, seq: int, raw: bytes, name: str) -> None:
        """Arguments that were parts of the state name the entry that made them: it must be of this branch."""
        for made in leaves.states_named(raw, {}):
            if made >= seq or not self._stands_on(made):
                self._report(seq, "branch", f"an argument of {name} is of entry {made}, which is not of its branch")

    def _stands_on(self, seq: int) -> bool:
        return any(first <= seq and (last is None or seq <= last) for first, last in self._lineage)
