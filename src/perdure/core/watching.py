"""Shows the stuck detector (`core/stuck.py`) each settled action as the fold has it. Part of the fold.

Here stands what of an action is shown: marks of what it has written, and where in declared batch work it stood. Called
by `core/entry_rules.py` for the kinds of entries that matter.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

from perdure.core import stuck
from perdure.core.stuck import Step
from perdure.limits import STUCK_PATIENCE
from perdure.model import entry as e
from perdure.model.document import Document
from perdure.model.failure import Failure
from perdure.model.ledger import Ledger, OpenAction

_OBSERVATION_BYTES_MAX: Final = 64 * 1024
_MAP: Final = "map "
_WAITED_FOR: Final = frozenset({"network", "capacity", "throttled", "timeout", "quota", "auth", "cancelled"})


def note_settled(
    document: Document, ledger: Ledger, settled: e.ActionSettled, action: OpenAction, at: tuple[int, int]
) -> None:
    """An action has ended with entry `at` = (seq, time): note whether the run goes in circles now."""
    if document.trace.owed and stuck.is_owed(document.trace, action.tool, action.digest):
        return
    is_plain = settled.outcome == "succeeded" and settled.error is None and not (action.is_poll or action.is_paid)
    if is_plain and not document.written:
        call = (action.digest, action.gist)
        if stuck.note_news(document.trace, at[0], action.tool, call, bytes(settled.result)):
            ledger.circling = 0
            return
    error = settled.error
    seen = f"{error.type}: {error.message}".encode() if error is not None else bytes(settled.result)
    if len(seen) > _OBSERVATION_BYTES_MAX:
        seen = seen[:_OBSERVATION_BYTES_MAX] + crc32(seen).to_bytes(4, "big")
    patch = bytes(settled.patch)
    step = Step(
        seq=at[0],
        tool=action.tool,
        arguments=action.gist,
        digest=_asked(action),
        observation=seen,
        failed=settled.outcome == "failed",
        passing=error is not None and error.failure_class in _WAITED_FOR,
        poll=action.is_poll,
        thought=action.is_paid,
        batch=bool(action.loop) or action.key.startswith(_MAP),
        item=action.key.partition("/")[0] if action.loop else action.key,
        changes=((0, crc32(patch, crc32(seen))),) if patch else (),
        files=document.written.pop(action.action, ()) if document.written else (),
        at=at[1],
    )
    firing = stuck.note(document.trace, step)
    if firing is None and (step.thought or step.passing or step.poll):
        return  # it says nothing of whether the circle goes on
    ledger.circling = ledger.circling + 1 if firing is not None else 0
    ledger.firing = firing


def _asked(action: OpenAction) -> bytes:
    """Return by what a call is known as made again.

    In the digest of a keyed call a view of the state counts by its path alone, whatever stands there by now. A model
    that is handed the whole conversation at each turn is asked something else each time: there the key says so.
    """
    return action.digest + action.key.encode() if action.is_paid and action.key else action.digest


def note_files(document: Document, captured: e.FilesCaptured) -> None:
    """Files were changed by an action that is not settled yet."""
    marks = ((0, crc32(repr((change.path, change.node)).encode())) for change in captured.changes[:64])
    document.written[captured.action] = (*document.written.get(captured.action, ()), *marks)


def note_progress(document: Document, ledger: Ledger) -> None:
    """Something was verified: what came before it counts no more."""
    stuck.note_fact(document.trace)
    ledger.circling = 0


def note_failure(document: Document, ledger: Ledger, failure: Failure) -> None:
    """A failure has left the program, which is called anew: recovery counts it, so it is no part of a circle.

    For a circle it was left with a hint. After a bad answer what has led to it is asked for again.
    """
    trace = document.trace
    if failure.failure_class == "stuck" and ledger.firing is not None:
        stuck.note_hint(trace, ledger.firing.period)
    elif failure.action and failure.action == ledger.failed_call[0] and failure.error.failure_class not in _WAITED_FOR:
        del trace.steps[-1:]  # of what is waited for there is none
    if failure.failure_class == "output":
        stuck.note_again(trace, ((kept.tool, kept.digest) for kept in document.loose if kept.free))
    ledger.circling, ledger.firing = 0, None


def note_left(document: Document, ledger: Ledger) -> None:
    """The branch was left, or a person has looked: what comes now is another attempt."""
    stuck.note_reset(document.trace)
    ledger.circling, ledger.firing = 0, None
    document.written.clear()


def is_due(ledger: Ledger) -> bool:
    """Whether a circle is to be noted now: when it is first seen, and when it has been left alone for too long."""
    return ledger.circling in {1, STUCK_PATIENCE}


def is_alarming(ledger: Ledger) -> bool:
    """Whether the program is to be left for it.

    One with strategies at once. One without is no agent that says so: a retry loop of its own is no endless loop, so it
    is left alone for longer.
    """
    return bool(ledger.strategies) or ledger.circling >= STUCK_PATIENCE
