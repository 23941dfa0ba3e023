"""How a task waits: for the moment that was decided, and before a call for its provider. Both are on record first.

A wait that the process can afford (`wait_inline_s`) is waited here, a longer one parks the task. Whoever opens the task
after a kill waits the rest. A request to stop ends a wait at once, and so does the loss of the lease. Called by
`recovering` and `action`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Final

from perdure.codec.redact import cut_redacted
from perdure.core.breaker import Hold, Turn
from perdure.engine.ending import park
from perdure.engine.outcomes import Work
from perdure.engine.providers import Providers
from perdure.engine.session import Session
from perdure.errors import StopRequested
from perdure.limits import BREAKER_CEILING_S, ERROR_MESSAGE_BYTES_MAX, HOLD_LOOK_S, TICK_S
from perdure.model import entry as e

_LOOK_S: Final = 5 * TICK_S  # how soon a request to stop ends a wait
_SECOND: Final = 1_000_000


async def wait_until(session: Session, at: int, reason: str) -> None:
    """Wait until `at` (UTC, microseconds), which is on record; raises TaskParked where that is too long."""
    clock = session.world.clock
    left_s = (at - clock.now()) / _SECOND
    if left_s > session.world.rules.wait_inline_s:
        await park(session, at, reason)
    if left_s > _LOOK_S:
        session.tell("waiting", until=at, reason=reason)
    over_at = clock.monotonic() + left_s  # should the system's clock be put back meanwhile
    while (left_s := min((at - clock.now()) / _SECOND, over_at - clock.monotonic())) > 0:
        if session.stop is not None:
            raise session.stop
        if session.sequencer.dead is not None:
            raise session.sequencer.dead
        await asyncio.sleep(min(left_s, _LOOK_S))


@contextlib.asynccontextmanager
async def admitted(session: Session, work: Work, providers: Providers) -> AsyncGenerator[None]:
    """Around one call of a provider: wait until it may go out, and hold its place among those that run."""
    provider = work.tool.provider
    _take_over(session, provider, providers)
    work.turn = await _wait_for_turn(session, work, providers)
    try:
        yield
    finally:
        providers.leave(provider, work.turn)


def _take_over(session: Session, provider: str, providers: Providers) -> None:
    """What an earlier process has begun to wait for is waited for to its end, by all tasks of this one."""
    until = session.fold.ledger.waits.get(provider, 0)
    if not until or provider in session.waited_for:
        return
    clock = session.world.clock
    left_s = (until - clock.now()) / _SECOND
    providers.hold(provider, clock.monotonic() + left_s, "as it was before this process")


async def _wait_for_turn(session: Session, work: Work, providers: Providers) -> Turn:
    provider, clock = work.tool.provider, session.world.clock
    written, number = 0, 0
    while isinstance(found := providers.ask(provider, clock.monotonic()), Hold):
        now = clock.now()
        left_s = found.until - clock.monotonic() if found.until else min(HOLD_LOOK_S * 2**number, BREAKER_CEILING_S)
        until = now + int(left_s * _SECOND)
        if until > written + _SECOND if found.until else now >= written:
            written, number = until, number + 1
            await _write_wait(session, work, e.WaitBegan(provider=provider, until=until, reason=found.reason))
        if found.until and left_s > session.world.rules.wait_inline_s:
            session.stop = session.stop or StopRequested(session.task, "park", found.reason, str(until))
        session.gate(f"act {work.call.tool!r}", work.lap)
        await asyncio.sleep(min(left_s, _LOOK_S))
        session.gate(f"act {work.call.tool!r}", work.lap)
    return found


async def _write_wait(session: Session, work: Work, began: e.WaitBegan) -> None:
    reason = cut_redacted(began.reason, ERROR_MESSAGE_BYTES_MAX)
    session.waited_for.add(began.provider)
    session.put(e.WaitBegan(provider=began.provider, until=began.until, reason=reason))
    await session.commit()
    session.tell("waiting", until=began.until, reason=reason, provider=began.provider, tool=work.call.tool)
