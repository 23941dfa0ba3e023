"""The beat: deadlines, jobs that come round, and that no job's fault ends it."""

import asyncio

import pytest

from perdure.engine.ticker import Ticker
from tests.worlds import StillClock, until


def _beating(body):
    """Run `body(ticker, clock)` beside a beating ticker."""

    async def run():
        clock = StillClock()
        ticker = Ticker(clock)
        ticker.start()
        try:
            await body(ticker, clock)
        finally:
            await ticker.stop()

    asyncio.run(run())


def test_a_deadline_cancels_its_task_when_its_time_has_come():
    """Not before; and the cancellation is told from any other."""

    async def body(ticker, clock):
        deadline = ticker.arm(10.0, asyncio.current_task())
        clock.advance(11.0)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.get_running_loop().create_future()
        assert deadline.caught()
        assert 0 == asyncio.current_task().cancelling()
        ticker.disarm(deadline)

    _beating(body)


def test_a_cancellation_from_outside_is_not_taken_for_a_time_out():
    """Where both come, the outside one wins."""

    async def body(ticker, clock):
        deadline = ticker.arm(10.0, asyncio.current_task())
        asyncio.current_task().cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(0)
        assert not deadline.caught()
        clock.advance(11.0)
        deadline.fire()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(0)
        assert not deadline.caught()
        asyncio.current_task().uncancel()

    _beating(body)


def test_a_swallowed_time_out_is_taken_back():
    """Disarming leaves no cancellation count behind."""

    async def body(ticker, clock):
        deadline = ticker.arm(0.0, asyncio.current_task())
        deadline.fire()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(0)
        ticker.disarm(deadline)
        assert 0 == asyncio.current_task().cancelling()

    _beating(body)


def test_a_disarmed_deadline_never_fires():
    """Its time may come and go."""

    async def body(ticker, clock):
        ticker.disarm(ticker.arm(1.0, asyncio.current_task()))
        beats = []

        async def beat():
            beats.append(1)

        ticker.every(2.0, beat)
        clock.advance(5.0)
        await until(lambda: beats)

    _beating(body)


def test_a_job_that_raises_comes_round_again(caplog):
    """Its error is logged and ends neither the beat nor the job."""

    async def body(ticker, clock):
        calls = []

        async def bad():
            calls.append(1)
            raise ValueError("bad beat")

        ticker.every(1.0, bad)
        for number in (1, 2):
            clock.advance(2.0)
            await until(lambda number=number: len(calls) == number)

    _beating(body)
    assert "bad beat" in caplog.text


def test_a_job_that_hangs_keeps_no_other_waiting():
    """Another job and the deadlines go on beside it."""

    async def body(ticker, clock):
        calls = []

        async def hang():
            await asyncio.get_running_loop().create_future()

        async def beat():
            calls.append(1)

        ticker.every(1.0, hang)
        ticker.every(1.0, beat)
        for number in (1, 2):
            clock.advance(2.0)
            await until(lambda number=number: len(calls) == number)

    _beating(body)
