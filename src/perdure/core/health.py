"""How well what is called works: the newest calls of each tool and provider, and when these are too bad. Pure.

| of a call | succeeded | valid |
|---|---|---|
| its result passes `valid=`; of a source without one: it is not empty, and no error page | yes | yes |
| its result does not, or cannot be read or stored: class `output` | yes | no |
| it failed in any other way | no | no |
| it was cancelled, or settled by somebody else | does not count | |

The windows are part of the fold: `note_…` is called by `core/entry_rules.py` and `core/reckoning.py` only. `judge` says
what has changed; `engine/outcomes.py` writes that behind the outcome that changed it. A tool that has a provider is
judged with it. Not the breaker of a provider, which is the process's (`core/breaker.py`).
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from perdure.limits import HEALTH_CALLS_MIN, HEALTH_KEYS_MAX, HEALTH_VALID_MIN, HEALTH_WINDOW, TOLD_WAIT_MAX_S
from perdure.model import entry as e
from perdure.model.failure import PASSING, ErrorRecord, Failure, FailureClass
from perdure.model.ledger import Ledger, OpenAction, Window

CHECKS: Final = "checks"  # all of them together: one that is not met is a failure in its own right
_TOOL: Final = "tool "
_PROVIDER: Final = "provider "
_ALL: Final = (1 << HEALTH_WINDOW) - 1
_OF_THE_CALL: Final = "late"  # who settled it: the thread of the call itself
# Answers of a provider to what was wrongly asked say nothing about the provider.
_OF_THE_CALLER: Final[frozenset[FailureClass]] = frozenset({"request", "context", "refusal", "auth", "quota"})


class HealthRules(msgspec.Struct, frozen=True, kw_only=True):
    """When a tool or a provider is bad: fewer than `valid_min` of at least `calls_min` calls were valid."""

    calls_min: Annotated[int, msgspec.Meta(ge=1, le=HEALTH_WINDOW)] = HEALTH_CALLS_MIN
    valid_min: Annotated[float, msgspec.Meta(ge=0, le=1)] = HEALTH_VALID_MIN


HEALTHY: Final = HealthRules()


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """One window as people see it."""

    of: str
    calls: int
    succeeded: int
    valid: int
    is_bad: bool = False

    def __str__(self) -> str:
        bad = ", bad" if self.is_bad else ""
        return f"{self.of}: {self.succeeded} of {self.calls}, valid {self.valid}{bad}"


# --- the fold's part ------------------------------------------------------------------------------------------------
def note_call(ledger: Ledger, action: OpenAction, settled: e.ActionSettled, at: int) -> None:
    """A call has ended at `at` (UTC, microseconds). A wait that its provider asks for stands from here on."""
    error = settled.error
    ok = valid = 1
    if error is not None:
        if error.failure_class == "cancelled":
            return
        ok, valid = int(error.failure_class == "output"), 0
    elif settled.invalid or settled.hollow:
        valid = 0
    if settled.by and settled.by != _OF_THE_CALL:
        return
    _shift(ledger, _TOOL + action.tool, ok, valid)
    if action.provider and (error is None or error.failure_class not in _OF_THE_CALLER):
        window = _shift(ledger, _PROVIDER + action.provider, ok, valid)
        if error is not None and error.failure_class in PASSING:
            window.faults += 1
            if error.wait_s > 0:
                ledger.waits[action.provider] = at + told_us(error)


def note_check(ledger: Ledger, *, passed: bool) -> None:
    """A check was judged."""
    _shift(ledger, CHECKS, 1, int(passed))


def note_failure(ledger: Ledger, tool: str) -> None:
    """A failure of `tool` has left the program and is counted as such: not by its health once more."""
    window = ledger.health.get(_TOOL + tool)
    if window is not None:
        window.judged = 0


def note_changed(ledger: Ledger, changed: e.HealthChanged) -> None:
    """Something is bad, or no longer: what comes is judged anew. For a bad tool the program is left.

    One without strategies only once for each tool: it may know what it does with calls that fail.
    """
    window = _window(ledger, changed.of)
    ledger.ailing += changed.is_bad - window.is_bad
    window.is_bad, window.judged = changed.is_bad, 0
    if not changed.is_bad or not changed.of.startswith(_TOOL):
        return
    if window.has_alarmed and not ledger.strategies:
        return
    window.has_alarmed = True
    error = ErrorRecord(type="Unhealthy", message=sentence(changed), rule="health")
    ledger.alarm = Failure(failure_class="tool", error=error, tool=changed.of.removeprefix(_TOOL))


def note_wait(ledger: Ledger, began: e.WaitBegan) -> None:
    """A call waits for its provider."""
    ledger.waits[began.provider] = began.until


def note_looked(ledger: Ledger) -> None:
    """A person has looked: the faults of providers begin anew, and a tool that is bad may be told of again."""
    for window in ledger.health.values():
        window.faults, window.has_alarmed = 0, False


# --- what follows ---------------------------------------------------------------------------------------------------
def may_change(ledger: Ledger, settled: e.ActionSettled) -> bool:
    """Whether a call may have changed how something is judged: asked in each action, so as to spare `judge`."""
    return settled.error is not None or settled.invalid or settled.hollow or ledger.ailing > 0


def judge(ledger: Ledger, tool: str, provider: str, rules: HealthRules) -> e.HealthChanged | None:
    """Return what a call of `tool` that has just ended changes for its provider, or for the tool where it has none."""
    key = _PROVIDER + provider if provider else _TOOL + tool
    window = ledger.health.get(key)
    if window is None or (window.valid & 1 and not window.is_bad) or window.judged < rules.calls_min:
        return None
    calls, newest = window.judged, (1 << window.judged) - 1
    valid = (window.valid & newest).bit_count()
    is_bad = valid < rules.valid_min * calls
    if not is_bad and not window.is_bad:
        return None
    succeeded = (window.ok & newest).bit_count()
    return e.HealthChanged(of=key, is_bad=is_bad, calls=calls, succeeded=succeeded, valid=valid)


def told_us(error: ErrorRecord) -> int:
    """Return how long the other side wants to be left alone, in microseconds."""
    return int(min(error.wait_s, TOLD_WAIT_MAX_S) * 1_000_000)


def sentence(changed: e.HealthChanged) -> str:
    """Return what was judged in words."""
    return f"of the last {changed.calls} calls {changed.succeeded} succeeded, and {changed.valid} of these were valid"


def faults_of(ledger: Ledger, provider: str) -> int:
    """Return how many passing faults of `provider` the task has had since a person has looked."""
    window = ledger.health.get(_PROVIDER + provider)
    return window.faults if window is not None else 0


def rates(ledger: Ledger) -> tuple[Rate, ...]:
    """Return all windows that hold something, for people."""
    return tuple(
        Rate(of=key, calls=one.calls, succeeded=one.ok.bit_count(), valid=one.valid.bit_count(), is_bad=one.is_bad)
        for key, one in ledger.health.items()
        if one.calls
    )


def _shift(ledger: Ledger, key: str, ok: int, valid: int) -> Window:
    """Take one call into its window."""
    window = ledger.health.get(key) or _window(ledger, key)
    window.ok = (window.ok << 1 | ok) & _ALL
    window.valid = (window.valid << 1 | valid) & _ALL
    if window.judged < HEALTH_WINDOW:  # it never holds more than are in the window
        window.judged += 1
        if window.calls < HEALTH_WINDOW:
            window.calls += 1
    return window


def _window(ledger: Ledger, key: str) -> Window:
    window = ledger.health.get(key)
    if window is not None:
        return window
    if len(ledger.health) >= HEALTH_KEYS_MAX:
        oldest = next((one for one in ledger.health if one.startswith(_TOOL)), next(iter(ledger.health)))
        ledger.ailing -= ledger.health.pop(oldest).is_bad
    window = ledger.health[key] = Window()
    return window
