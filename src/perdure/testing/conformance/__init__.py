"""Holds a store to every promise of `ports.py`. Runs whole on each store; needs no test framework.

    for check in CHECKS:
        await run(check, open_store)

`open_store` opens a handle on one place that is empty when a check begins; each call opens another handle on the same
place, as another process would.
"""

from __future__ import annotations

from perdure.testing.conformance import catalogue, contents, journal, leases, order
from perdure.testing.conformance.place import Check, OpenStore, PromiseBroken, run

CHECKS: tuple[Check, ...] = (
    *journal.CHECKS,
    *order.CHECKS,
    *leases.CHECKS,
    *catalogue.CHECKS,
    *contents.CHECKS,
)

__all__ = ["CHECKS", "Check", "OpenStore", "PromiseBroken", "run"]
