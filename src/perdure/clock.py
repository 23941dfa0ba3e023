"""The real clock: with `ids_source`, the only readers of time and chance. Everything else is given a `ports.Clock`."""

from __future__ import annotations

import time


class SystemClock:
    """`ports.Clock` on the system's clocks."""

    def now(self) -> int:
        """UTC in microseconds since 1970."""
        return time.time_ns() // 1000

    monotonic = staticmethod(time.monotonic)  # seconds that never go back; asked four times in each action
