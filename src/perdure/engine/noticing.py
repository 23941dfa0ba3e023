"""Writes what the fold has noticed beside the program, into the append of the outcome that has shown it.

What is written may alarm (`ledger.alarm`): then the program is left at its next act (`Session.gate`), and recovery
decides. Called by `outcomes`, behind each outcome.
"""

from __future__ import annotations

from perdure.core import watching
from perdure.engine.session import Session
from perdure.model import entry as e


def notice_circle(session: Session) -> None:
    """Put that the run goes in circles, when that is first seen and when it was left alone for too long."""
    ledger = session.fold.ledger
    firing = ledger.firing
    if firing is None or not watching.is_due(ledger):
        return
    session.put(e.StuckNoticed(rule=firing.rule, entries=firing.entries, period=firing.period, text=firing.text))
    session.untold.append(("stuck", {"rule": firing.rule, "text": firing.text, "entries": list(firing.entries)}))
