"""Replay of rollbacks: undos, effects that stay, and a person's word are told from the record, and nothing is sent."""

import asyncio
from pathlib import Path

import pytest

import perdure
from perdure.engine.replay.playing import play
from perdure.engine.replay.record import load_record
from perdure.model import entry as e
from perdure.model.outcome import Succeeded
from perdure.ports import Message
from tests.worlds import DEAD, Death, Play, World, counted


class Outside:
    """What tools have done in the world, each call noted; `faults` are raised by the undo, one a call."""

    def __init__(self, *faults):
        self.calls = []
        self.faults = list(faults)

        @perdure.tool(effect="idempotent", name="unbook")
        async def unbook(room: str, key: perdure.EffectKey) -> None:
            self.calls.append(("unbook", room))
            if self.faults:
                raise self.faults.pop(0)

        @perdure.tool(effect="pure", name="unlock")
        async def unlock(door: str) -> None:
            self.calls.append(("unlock", door))

        @perdure.tool(effect="compensable", name="book", undo=unbook)
        async def book(room: str) -> str:
            self.calls.append(("book", room))
            return f"receipt {room}"

        @perdure.tool(effect="compensable", name="lock", undo=unlock)
        async def lock(door: str) -> None:
            self.calls.append(("lock", door))

        self.book, self.lock = book, lock
        self.send = counted(self.calls, effect="irreversible", name="send")


@pytest.fixture(params=["strict", "tolerant"])
def replays_equal(request):
    """Tell that the task is replayed equal, in both modes, to its last entry, and no tool is called."""

    def check(world, outside, program):
        async def load():
            store = world.store()
            return await load_record(store, (await store.find("job")).task)

        before = list(outside.calls)
        replayed = play(asyncio.run(load()), program, request.param)
        assert (None, ()) == (replayed.divergence, replayed.remarks)
        assert before == outside.calls
        return replayed

    return check


def act_on(world, what):
    """Let `what(runtime)` be done in a runtime of its own."""

    async def act():
        async with world.runtime() as runtime:
            return await what(runtime)

    return asyncio.run(act())


def went_back(task):
    """Whether the task was rolled back before."""
    return bool(task._session.fold.ledger.rollbacks)


def trip(outside):
    """Return a program that books, locks and goes back once; then it books one of the rooms again."""

    async def program(task):
        await task.checkpoint("home")
        if went_back(task):
            return await task.using(key="b").act(outside.book, "b")
        for room in ("a", "b"):
            await task.using(key=room).act(outside.book, room)
        await task.using(key="door").act(outside.lock, "front")
        return await task.rollback("home", reason="it rains")

    return Play(program)


def test_undos_are_replayed_with_their_tries(replays_equal):
    """Keyed and free ones, one of which has failed in passing; the tool is called again on the new branch only."""
    world, outside = World(), Outside(ConnectionResetError("lost"))
    assert "receipt b" == world.live(trip(outside))
    undone = [("unlock", "front"), ("unbook", "b"), ("unbook", "b"), ("unbook", "a")]
    assert undone == outside.calls[3:-1]
    assert 8 == replays_equal(world, outside, trip(outside)).actions


@pytest.mark.parametrize("number", range(1, 4))
@pytest.mark.parametrize("point", ["during_rollback", "during_undo", "after_intent", "after_effect"])
def test_a_rollback_that_another_process_has_finished_is_replayed(replays_equal, point, number):
    """What the first one did not come to is nobody's doing in the replay of its life."""
    world, outside = World(), Outside()
    at = number + (3 if point.startswith("after") else 0)  # the first three are the calls of the program
    assert DEAD == world.live(trip(outside), death=Death(point, at))
    replays_equal(world, outside, trip(outside))
    assert "receipt b" == world.live(trip(outside))
    replays_equal(world, outside, trip(outside))


def stays(outside, **way):
    """Return a program that sends twice and goes back past that, where equal calls, a third and the facts meet it."""

    async def program(task):
        await task.checkpoint("c")
        for place in range(2):
            await task.using(key=f"{place}").act(outside.send, 1, then=lambda state, got: state["got"].append(got))
        if not went_back(task):
            await task.rollback("c", **way)
        await task.using(key="other").act(outside.send, 2)
        return task.facts, task.state["got"].plain()

    return Play(program, state={"got": []})


@pytest.mark.parametrize(("way", "told"), [({"carry": True}, 2), ({"force": True}, 0)])
def test_effects_that_stay_are_replayed_as_they_were_reused(replays_equal, way, told):
    """Each answers its call with the patch of that; carried, the program is told by the same facts."""
    world, outside = World(), Outside()
    facts, got = world.live(stays(outside, **way))
    assert (told, [1, 1], [1, 1, 2]) == (len(facts), got, outside.calls)
    assert 2 == world.kinds().count("ActionReused")
    assert 3 == replays_equal(world, outside, stays(outside, **way)).actions


def test_a_reuse_whose_patch_came_later_is_replayed(replays_equal):
    """The reducer raised at the reuse, and was run alone by the next call of the program."""
    world, outside = World(), Outside()

    async def program(task):
        def reduce(state, result):
            if task.attempt == 2:
                raise ValueError("not yet")
            state["got"] = result

        await task.checkpoint("c")
        if not went_back(task):
            await task.using(key="first").act(outside.send, 1)
            await task.rollback("c", force=True)
        await task.using(key="k").act(outside.send, 1, then=reduce)
        return task.state["got"]

    assert 1 == world.live(Play(program))
    replays_equal(world, outside, Play(program))


@pytest.mark.parametrize("said", ["yes", "no"])
def test_a_persons_word_about_another_call_is_replayed(replays_equal, said):
    """All equal effects had answered calls: it was made once more, or answered by the recorded result."""
    world, outside = World(), Outside()

    async def program(task):
        await task.checkpoint("c")
        if not went_back(task):
            await task.using(key="first").act(outside.send, 1)
            await task.rollback("c", force=True)
        return [await task.using(key=f"{n}").act(outside.send, 1) for n in range(2)]

    with pytest.raises(perdure.NeedsHuman):
        world.live(Play(program))
    replays_equal(world, outside, Play(program))
    message = Message(id="m", what="answer", text=said)
    act_on(world, lambda runtime: runtime.say("job", message))
    assert [1, 1] == world.live(Play(program))
    assert {"yes": 2, "no": 1}[said] == len(outside.calls)
    replays_equal(world, outside, Play(program))


@pytest.mark.parametrize(
    ("word", "unbooked"), [(Succeeded(None), 2), (None, 2), ("resume", 3)], ids=["happened", "keep", "resume"]
)
def test_an_undo_that_failed_and_what_a_person_did_about_it_are_replayed(replays_equal, word, unbooked):
    """The question is asked again; taken back by hand, left in the world, or made by the next process."""
    world, outside = World(), Outside(ValueError("no such room"))
    with pytest.raises(perdure.NeedsHuman, match="no such room"):
        world.live(trip(outside))
    replays_equal(world, outside, trip(outside))
    play_again = trip(outside)
    if word == "resume":
        assert "receipt b" == act_on(world, lambda runtime: runtime.resume("job", play_again))
    else:
        undo = world.fold().ledger.question_action
        act_on(world, lambda runtime: runtime.settle("job", undo, word))
        assert "receipt b" == world.live(play_again)
    assert (word is None) == ("ActionReused" in world.kinds())
    assert unbooked == [what for what, _ in outside.calls].count("unbook")
    replays_equal(world, outside, trip(outside))


@perdure.tool(effect="workspace", name="rolled_write")
def write_line(folder: str, line: str) -> None:
    """Append a line to the one file of the workspace."""
    with Path(folder, "lines.txt").open("a") as file:
        file.write(f"{line}\n")


@perdure.program(strategies=[perdure.Strategy("first"), perdure.Strategy("second")], failures_max=1)
async def keep_lines(task):
    """Go back over a file by itself, then once more by what recovery decides."""
    await task.checkpoint("empty")
    await task.act(write_line, task.workspace, f"{task.strategy.name} {len(task.lessons)}")
    if not task.lessons and not task._session.fold.ledger.rollbacks:
        await task.rollback("empty")
    await task.check("is the second", task.strategy.name == "second")


def test_a_rollback_of_files_is_replayed_without_them(tmp_path):
    """Whether files went back was seen on the disk then; the replay neither looks at them nor misses them."""

    async def live():
        async with perdure.open("memory://") as runtime:
            await runtime.run(keep_lines, "job", workspace=str(tmp_path))
            return await load_record(runtime.store, (await runtime.store.find("job")).task)

    record = asyncio.run(live())
    began = [one.payload.moves for one in record.entries if isinstance(one.payload, e.RollbackBegan)]
    assert began == [("files restore",), ("files restore",)]
    (tmp_path / "lines.txt").unlink()
    for mode in ("strict", "tolerant"):
        replayed = play(record, keep_lines, mode)
        assert (replayed.divergence, replayed.remarks) == (None, ()), mode
        assert replayed.until == len(record.entries)
    assert not list(tmp_path.iterdir())
