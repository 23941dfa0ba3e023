"""What a task has spent, and whether a call still fits its budget. Pure; the rules of the ledger's costs.

    intended ─▶ reserved ─▶ settled: spent, as it was charged
                  └─ killed ─▶ made again, or given up: spent, as it was reserved

A reservation counts as spent for as long as its action is open, so nothing that a kill leaves behind is ever given
back: neither by a restart nor by a rollback. Time counts while a process works on the task: from the call of its
program to the last entry before it stands, waits for a person, is parked, or its holder dies. It is read off the
entries, so a long call is counted when it has ended. Called by the fold, the engine and the views.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from decimal import Decimal
from typing import Final, Literal

import msgspec

from perdure.core.allowance import budget_text, time_text
from perdure.model import entry as e
from perdure.model import money as coins
from perdure.model.budget import NO_BUDGET, NO_COST, Budget, BudgetState, Cost, Left, Used
from perdure.model.failure import ErrorRecord
from perdure.model.ledger import Ledger, OpenAction

LOW_LEFT: Final = Decimal("0.1")  # of a limit: with less left, a resume is warned
_SECOND: Final = 1_000_000
_REFUSED: Final = frozenset({"throttled", "capacity", "quota", "auth", "request", "context"})
_LOST: Final = frozenset({500, 502, 504})  # somebody may have done the work before the answer went astray
_NOT_REACHED: Final = frozenset({
    "ConnectError", "ConnectTimeout", "PoolTimeout", "ConnectionRefusedError", "gaierror",
})  # fmt: skip


# --- what entries mean ----------------------------------------------------------------------------------------------
def note_budget(ledger: Ledger, told: e.BudgetSet) -> None:
    """From now on this is the budget; one without any limit is none."""
    ledger.budget = told.budget if told.budget != NO_BUDGET else None


def note_again(ledger: Ledger, intent: e.ActionIntended) -> None:
    """A call goes out that was on its way before, and was killed: what it had reserved then is spent."""
    earlier = ledger.open.get(intent.action)
    if earlier is not None:
        _spend(ledger, earlier.reserve)


def note_settled(ledger: Ledger, settled: e.ActionSettled) -> None:
    """A call is settled: what it cost is spent, and takes the place of what was reserved for it."""
    _spend(ledger, Cost(settled.tokens_in, settled.tokens_out, settled.money))


def note_dropped(ledger: Ledger, dropped: Iterable[OpenAction]) -> None:
    """Open calls are forgotten, without anybody knowing what became of them: what they had reserved is spent."""
    for action in dropped:
        _spend(ledger, action.reserve)


def note_status(ledger: Ledger, status: str, at: int) -> None:
    """From `at` on the task is worked on, or stands."""
    (begin_work if status == "running" else end_work)(ledger, at)


def begin_work(ledger: Ledger, at: int) -> None:
    """Somebody works on the task from here on."""
    ledger.working_since = ledger.working_since or at


def end_work(ledger: Ledger, at: int) -> None:
    """Nobody works on the task from here on."""
    if ledger.working_since:
        ledger.worked_us += max(0, at - ledger.working_since)  # clocks are set back now and then
        ledger.working_since = 0


# --- what a call has cost -------------------------------------------------------------------------------------------
def is_unbilled(error: ErrorRecord) -> bool:
    """Whether a call that failed so has certainly cost nothing: it was refused, or nobody was reached.

    A server that breaks off, a lost connection, a time-out, a cancellation: the work may be done and billed.
    """
    if error.is_unknown or error.status in _LOST:
        return False
    names = {error.type.rpartition(".")[2], *(cause.partition(":")[0].rpartition(".")[2] for cause in error.causes)}
    return error.failure_class in _REFUSED or bool(names & _NOT_REACHED)


def cost_of(charged: Cost | None, reserve: Cost, error: ErrorRecord | None) -> Cost:
    """Return what a call that went out and has ended did cost.

    What its tool has charged, if it has charged anything (nothing, too: `charge(Cost())`). Where it said nothing, what
    was reserved: a budget is to be kept, and only who says so has cost less. But a call that was refused, or reached
    nobody (a 429, a wrong key, no network), costs nothing.
    """
    if charged is not None:
        return charged
    return NO_COST if error is not None and is_unbilled(error) else reserve


# --- where a task stands --------------------------------------------------------------------------------------------
def state_of(ledger: Ledger, at: int) -> BudgetState:
    """Return how the task stands to its budget; `at` is when its last entry was written."""
    limit = ledger.budget or NO_BUDGET
    reserved = _reserved(ledger.open.values())
    spent = Used(
        money=dict(ledger.money),
        tokens_in=ledger.tokens_in,
        tokens_out=ledger.tokens_out,
        actions=ledger.calls,
        wall_s=worked_s(ledger, at),
    )
    lines = _lines(limit, spent, reserved)
    left = Left(**{line.what: line.left for line in lines})  # type: ignore[arg-type]  # each as its field
    return BudgetState(
        limit=limit, spent=spent, reserved=reserved, left=left, is_low=any(_is_low(line, limit) for line in lines)
    )


def worked_s(ledger: Ledger, at: int) -> float:
    """Return how long was worked on the task, up to `at`."""
    running = max(0, at - ledger.working_since) if ledger.working_since else 0
    return (ledger.worked_us + running) / _SECOND


def foreign(ledger: Ledger, cost: Cost) -> tuple[str, ...]:
    """Return the currencies of a cost in which the budget is not; none where it is in no currency."""
    own = _currency(ledger.budget)
    return tuple(sorted(name for name in coins.amounts_of(cost.money) if own and name != own))


def foreign_to(ledger: Ledger, budget: Budget) -> tuple[str, ...]:
    """Return the currencies in which something is spent or reserved, and in which `budget` is not."""
    own = _currency(budget)
    reserved = _reserved(ledger.open.values()).money
    return tuple(sorted(name for name in {*ledger.money, *reserved} if own and name != own))


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why a call may not go out."""

    text: str
    raise_to: str  # what `--budget` would let it go out
    may_wait: bool  # it would fit, did the calls under way cost nothing: what they do cost is known when they end


def refusal(ledger: Ledger, at: int, tool: str, asked: Cost, running: Collection[str]) -> Refusal | None:
    """Return why a call that may cost `asked` may not go out; None where it fits the budget.

    `running` are the actions under way beside it. A call for which nothing is reserved goes out as long as something
    of each limit is left, whatever those will cost.
    """
    limit = ledger.budget
    if limit is None:
        return None
    here = [action for name, action in ledger.open.items() if name in running]
    others = [action for name, action in ledger.open.items() if name not in running]
    spent, pending = state_of(ledger, at).spent, _reserved(here)
    lost = _reserved(others)
    wanted = Used(money=coins.amounts_of(asked.money), tokens_in=asked.tokens_in, tokens_out=asked.tokens_out)
    lines = _lines(limit, _sum(spent, lost), pending, wanted)
    over = [line for line in lines if line.is_over]
    if not over:
        return None
    said = "; ".join(line.text for line in over)
    return Refusal(
        text=f"the budget does not allow another call ({tool!r}): {said}",
        raise_to=budget_text(_raised(over)),
        may_wait=bool(pending.money or pending.tokens) and not any(line.is_used_up for line in over),
    )


def lines_of(state: BudgetState) -> list[Line]:
    """Return a line for each limit of a budget."""
    return _lines(state.limit, state.spent, state.reserved)


What = Literal["money", "tokens", "actions", "wall_s"]


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One limit, and what is used of it."""

    what: What
    limit: Decimal
    spent: Decimal
    reserved: Decimal
    asked: Decimal = Decimal()
    unit: str = ""

    @property
    def left(self) -> Decimal | int | float:
        """What is neither spent nor reserved."""
        left = max(Decimal(), self.limit - self.spent - self.reserved)
        return int(left) if self.what in {"tokens", "actions"} else float(left) if self.what == "wall_s" else left

    @property
    def is_over(self) -> bool:
        """Whether another call that asks for so much does not fit."""
        return self.is_used_up or bool(self.asked and self.spent + self.reserved + self.asked > self.limit)

    @property
    def is_used_up(self) -> bool:
        """Whether it does not fit, whatever the calls under way will cost."""
        return self.spent >= self.limit or bool(self.asked and self.spent + self.asked > self.limit)

    @property
    def is_nearly_used_up(self) -> bool:
        """Whether less than a tenth is left."""
        return self.spent + self.reserved > coins.times(self.limit, 1 - LOW_LEFT)

    @property
    def left_text(self) -> str:
        """What is left, in words."""
        left = Decimal(str(self.left))
        return f"{time_text(float(left)) if self.what == 'wall_s' else self._said(left)} left"

    @property
    def text(self) -> str:
        """What is used, in words."""
        if self.what == "wall_s":
            return f"{time_text(float(self.spent))} of {time_text(float(self.limit))} are worked"
        reserved = f", {self._said(self.reserved)} reserved" if self.reserved else ""
        asked = f", and it may cost {self._said(self.asked)}" if self.asked else ""
        return f"{coins.plain(self.spent)} of {self._said(self.limit)} spent{reserved}{asked}"

    def _said(self, amount: Decimal) -> str:
        return f"{coins.plain(amount)} {self.unit}"


# --- below ----------------------------------------------------------------------------------------------------------
def _spend(ledger: Ledger, cost: Cost) -> None:
    ledger.tokens_in += cost.tokens_in
    ledger.tokens_out += cost.tokens_out
    if cost.money:
        coins.add(ledger.money, coins.recorded_amounts(cost.money))


def _reserved(actions: Iterable[OpenAction]) -> Used:
    money: coins.Amounts = {}
    tokens_in = tokens_out = 0
    for action in actions:
        tokens_in += action.reserve.tokens_in
        tokens_out += action.reserve.tokens_out
        coins.add(money, coins.recorded_amounts(action.reserve.money))
    return Used(money=money, tokens_in=tokens_in, tokens_out=tokens_out)


def _sum(one: Used, other: Used) -> Used:
    money = dict(one.money)
    coins.add(money, other.money)
    tokens_in, tokens_out = one.tokens_in + other.tokens_in, one.tokens_out + other.tokens_out
    return msgspec.structs.replace(one, money=money, tokens_in=tokens_in, tokens_out=tokens_out)


def _currency(budget: Budget | None) -> str:
    return next(iter(coins.amounts_of(budget.money)), "") if budget is not None else ""


def _lines(limit: Budget, spent: Used, reserved: Used, asked: Used | None = None) -> list[Line]:
    asked = asked or Used()
    lines: list[Line] = []
    for currency, amount in coins.amounts_of(limit.money).items():
        used, held, more = (one.money.get(currency, Decimal()) for one in (spent, reserved, asked))
        lines.append(Line(what="money", limit=amount, spent=used, reserved=held, asked=more, unit=currency))
    if limit.tokens:
        used, held, more = (Decimal(one.tokens) for one in (spent, reserved, asked))
        lines.append(
            Line(what="tokens", limit=Decimal(limit.tokens), spent=used, reserved=held, asked=more, unit="tokens")
        )
    if limit.actions:
        calls = Decimal(spent.actions)
        lines.append(
            Line(what="actions", limit=Decimal(limit.actions), spent=calls, reserved=Decimal(), unit="actions")
        )
    if limit.wall_s:
        most, worked = Decimal(str(limit.wall_s)), Decimal(str(spent.wall_s))
        lines.append(Line(what="wall_s", limit=most, spent=worked, reserved=Decimal()))
    return lines


def _is_low(line: Line, limit: Budget) -> bool:
    return line.spent + line.reserved >= coins.times(line.limit, Decimal(str(limit.soft)))


def _raised(over: Iterable[Line]) -> Budget:
    """Return limits with which the call would fit, of those that are over: as many times double as is needed."""
    raised: dict[str, object] = {}
    for line in over:
        most = line.limit
        while line.spent >= most or line.spent + line.reserved + line.asked > most:
            most *= 2
        raised[line.what] = f"{coins.plain(most)} {line.unit}" if line.what == "money" else math.ceil(most)
    return msgspec.structs.replace(NO_BUDGET, **raised)
