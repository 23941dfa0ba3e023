"""Messages to a running task: there within a second, and exactly once, whenever the process that takes them in dies."""

import asyncio
import signal
import time

import pytest

import perdure
from perdure import operations
from perdure.model import entry as e
from perdure.ports import Message
from tests.fire.children import Child, look

TICKING = {"program": "tick", "count": 10_000}


def _post(place, *messages):
    """Leave messages for the task."""

    async def post():
        async with perdure.open(place, log_dir="") as runtime:
            task = (await runtime.store.find("job")).task
            for message in messages:
                await runtime.store.post(task, message)
            return (await runtime.store.messages([task])).get(task, [])

    return asyncio.run(post())


def _received(found):
    return [entry.payload for entry in found.journal if isinstance(entry.payload, e.MessageReceived)]


@pytest.mark.parametrize(("what", "error", "status"), [
    ("pause", "TaskPaused", "paused"),
    ("cancel", "TaskCancelled", "cancelled"),
])  # fmt: skip
def test_pause_and_cancel_are_obeyed_within_a_second(what, error, status, tmp_path):
    """What a person types while the task runs ends its run within a second; the same words twice count once."""
    place, world = tmp_path / "a.db", tmp_path / "world"
    with Child(place, world, **TICKING) as holder:
        holder.hear(lambda heard: len(heard.acks) >= 3)

        async def ask():
            async with perdure.open(place, log_dir="") as runtime:
                return [await operations.stop(runtime, "job", what, "one id") for _ in range(2)]

        assert [False, False] == asyncio.run(ask())
        asked = time.monotonic()
        holder.hear(lambda heard: heard.refusals)
        took = time.monotonic() - asked
        holder.finish()
    found = look(place)
    print(f"messages: 1, obeyed after {took:.3f} s")
    assert [error] == holder.refusals
    assert took < 1
    assert status == found.status
    assert [what] == [one.what for one in _received(found)]


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(("what", "error"), [("pause", "TaskPaused"), ("cancel", "TaskCancelled")])
def test_a_message_survives_the_death_of_who_takes_it_in(moment, what, error, tmp_path):
    """A holder killed before or after the append that takes it in: recorded once, and obeyed by the next run."""
    place, world = tmp_path / "a.db", tmp_path / "world"
    with Child(place, world, die_taking_in=moment, **TICKING) as holder:
        holder.hear(lambda heard: len(heard.acks) >= 2)
        _post(place, Message(id="m", what=what))
        holder.finish()
    assert -signal.SIGKILL == holder.process.returncode
    left = look(place)
    with Child(place, world, **TICKING) as second:
        second.finish()
    found = look(place)
    print("kills: 1")
    assert (0 if moment == "before" else 1) == len(_received(left))
    assert "running" == left.status
    assert [error] == second.refusals
    assert [what] == [one.what for one in _received(found)]
    assert 1 == sum(kind in {"TaskPausedEntry", "TaskCancelledEntry"} for kind in found.kinds)
    assert [] == found.findings


def test_a_resume_by_hand_overtakes_a_pause_and_not_a_cancel(tmp_path):
    """Who types resume after a pause that was never obeyed means it; a task that was to be cancelled is cancelled."""
    for what, last in (("pause", "result 30"), ("cancel", "refused TaskCancelled")):
        place, world = tmp_path / f"{what}.db", tmp_path / "world"
        with Child(place, world, die_taking_in="after", program="tick", count=30) as holder:
            holder.hear(lambda heard: len(heard.acks) >= 2)
            _post(place, Message(id="m", what=what))
            holder.finish()
        with Child(place, world, program="tick", resume=True) as second:
            second.finish()
        assert -signal.SIGKILL == holder.process.returncode
        assert second.lines[-1].startswith(last)


def test_each_word_is_taken_in_once_over_many_deaths(tmp_path):
    """Holders killed at moments of their own while words arrive: each is on record once, in the order of arrival."""
    place, world = tmp_path / "a.db", tmp_path / "world"
    words = []
    for life, delay_s in enumerate((0.0, 0.15, 0.3)):
        with Child(place, world, **TICKING) as holder:
            holder.hear(lambda heard: len(heard.acks) >= 1)
            for number in range(3):
                words.append(f"word {life} {number}")
                _post(place, Message(id=words[-1], what="tell", text=words[-1]))
            time.sleep(delay_s)
            holder.process.kill()
            holder.finish()
    with Child(place, world, **TICKING) as last:
        last.hear(lambda heard: len(heard.acks) >= 12)
        assert [] == _post(place)
    found = look(place)
    print(f"kills: {life + 1}, words: {len(words)}")
    assert words == [one.text for one in _received(found)]
