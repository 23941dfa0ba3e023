"""What happens when a program has ended or a failure has left it: `decide`, a pure function with its table.

    row               when                                              decision
    ----------------  ------------------------------------------------  -----------------------------------------
    effects_open      an effect is open or its outcome is in doubt      Ask: settle it (Abandon when unattended)
    finished          the program returned                              Finish
    passing           a passing fault, not more than 3 in a row         Retry after 0.5 s, doubled each time
    passing_too_long  a passing fault for the 4th time in a row         Ask (Abandon when unattended)
    same_again        another failure, fewer than failures_max          Retry now: the program is called anew
    limit_reached     failures_max failures counted                     Ask (Abandon when unattended)

The journal decides: `decide` reads document and ledger of this task and nothing else. Later work adds rows (rollback,
change of strategy, parking); the loop in `engine/programs.py` obeys them with one `match`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from perdure.limits import RETRIES_MAX, RETRY_BASE_S, RETRY_CEILING_S
from perdure.model.decision import Abandon, Ask, Decision, Finish, Retry
from perdure.model.document import Document
from perdure.model.failure import Failure, FailureClass
from perdure.model.ledger import Ledger, OpenAction

PASSING: Final[frozenset[FailureClass]] = frozenset({"network", "capacity", "throttled", "timeout"})


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of recovery."""

    retries_max: int = RETRIES_MAX
    retry_base_s: float = RETRY_BASE_S
    unattended: bool = False  # nobody can be asked: fail with the same package instead


class Row(msgspec.Struct, frozen=True):
    """One line of the table, as shown by docs and `explain`."""

    name: str
    when: str
    then: str


TABLE: Final = (
    Row("effects_open", "an effect is open or its outcome is in doubt", "Ask: settle it (Abandon when unattended)"),
    Row("finished", "the program returned", "Finish"),
    Row("passing", "a passing fault, not more than 3 in a row", "Retry after 0.5 s, doubled each time"),
    Row("passing_too_long", "a passing fault for the 4th time in a row", "Ask (Abandon when unattended)"),
    Row("same_again", "another failure, fewer than failures_max", "Retry now: the program is called anew"),
    Row("limit_reached", "failures_max failures counted", "Ask (Abandon when unattended)"),
)


def decide(
    document: Document, ledger: Ledger, rules: Rules, now: int, *, has_returned: bool = False
) -> tuple[Decision, str]:
    """Return (decision, name of the row that fired). `now` is UTC in microseconds since 1970.

    Unless the program `has_returned`, `ledger.last_failure` is the failure that left it.
    """
    del document  # read by the rows of later work (checkpoints, strategies)
    failure = None if has_returned else ledger.last_failure
    doubtful = next((a for a in ledger.open.values() if _is_in_the_way(a, failure, ledger)), None)
    if doubtful is not None:
        question = f"did {doubtful.tool!r} (action {doubtful.action}) happen? settle it, then resume"
        return _give_up(rules, question), "effects_open"
    if failure is None:
        return Finish(), "finished"
    if failure.failure_class in PASSING:
        if ledger.retries <= rules.retries_max:
            return Retry(now + _wait_us(ledger.retries, rules)), "passing"
        return _give_up(
            rules, f"{failure.error.type} {ledger.retries} times in a row: {failure.error.message}"
        ), "passing_too_long"
    if ledger.failures < ledger.failures_max:
        return Retry(now), "same_again"
    return _give_up(
        rules, f"{ledger.failures} failures, the last: {failure.error.type}: {failure.error.message}"
    ), "limit_reached"


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


def _give_up(rules: Rules, why: str) -> Decision:
    return Abandon(why) if rules.unattended else Ask(why)


def _wait_us(retries: int, rules: Rules) -> int:
    return int(min(rules.retry_base_s * 2 ** max(0, retries - 1), RETRY_CEILING_S) * 1_000_000)
